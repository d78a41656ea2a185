#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <openssl/pem.h>
#include <string>

#include "absl/strings/str_format.h"
#include "deploy/operator/certificates/certificate_authority.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/transport/certificate.h"
#include "tests/unit/common/transport/tls_fixture.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;

class TlsIdentityTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = (std::filesystem::temp_directory_path() / "splitveil_identity_XXXXXX").string();
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    authority_ = NewAuthority();
    own_ = NewCertificate(authority_, kLabelName);
    Write("certificate.pem", own_.certificate_pem);
    Write("key.pem", own_.private_key_pem);
    Write("authority.pem", authority_.certificate_pem);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name, const std::string& contents) const {
    std::ofstream(folder_ / name, std::ios::binary) << contents;
    std::filesystem::permissions(folder_ / name, std::filesystem::perms(0600));
  }
  absl::StatusOr<TlsIdentity> Load(const std::string& own_name = kLabelName,
                                   const std::string& peer_name = kNonLabelName) const {
    return LoadTlsIdentity(own_name, peer_name, (folder_ / "certificate.pem").string(), (folder_ / "key.pem").string(),
                           (folder_ / "authority.pem").string());
  }
  void ExpectInvalid(const std::string& file, const std::string& cause) const {
    const absl::Status status = Load().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(file + ": "));
    EXPECT_THAT(std::string(status.message()), HasSubstr(cause));
  }

  std::filesystem::path folder_;
  CertifiedKey authority_;
  CertifiedKey own_;
};

TEST_F(TlsIdentityTest, LoadsFilesThatFitTogether) {
  const auto identity = Load();
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_EQ(identity->own_name, kLabelName);
  EXPECT_EQ(identity->peer_name, kNonLabelName);
  EXPECT_EQ(identity->certificate_pem, own_.certificate_pem);
  EXPECT_EQ(identity->private_key_pem, own_.private_key_pem);
  EXPECT_EQ(identity->authority_pem, authority_.certificate_pem);
}

TEST_F(TlsIdentityTest, FailsWhereOthersMayReadTheKey) {
  for (const int mode : {0604, 0640, 0644, 0602, 0666}) {
    std::filesystem::permissions(folder_ / "key.pem", std::filesystem::perms(mode));
    ExpectInvalid("key.pem", absl::StrFormat("(mode %04o): chmod 600", mode));
  }
  std::filesystem::permissions(folder_ / "key.pem", std::filesystem::perms(0400));
  EXPECT_TRUE(Load().ok());
}

TEST_F(TlsIdentityTest, AcceptsSeveralAuthorities) {
  Write("authority.pem", NewAuthority().certificate_pem + authority_.certificate_pem);
  EXPECT_TRUE(Load().ok());
}

TEST_F(TlsIdentityTest, FailsWhereAFileIsMissing) {
  for (const std::string file : {"certificate.pem", "key.pem", "authority.pem"}) {
    std::filesystem::rename(folder_ / file, folder_ / "away");
    const absl::Status status = Load().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(std::string(status.message()), HasSubstr(file));
    std::filesystem::rename(folder_ / "away", folder_ / file);
  }
}

TEST_F(TlsIdentityTest, FailsWhereAFileIsNotPem) {
  Write("authority.pem", "no certificate");
  ExpectInvalid("authority.pem", "certificates in PEM");
  Write("key.pem", "no key");
  ExpectInvalid("key.pem", "private key in PEM");
  Write("certificate.pem", "");
  ExpectInvalid("certificate.pem", "empty");
}

TEST_F(TlsIdentityTest, FailsForATruncatedCertificate) {
  Write("certificate.pem", own_.certificate_pem.substr(0, own_.certificate_pem.size() / 2));
  ExpectInvalid("certificate.pem", "certificates in PEM");
}

TEST_F(TlsIdentityTest, FailsForTheKeyOfAnotherCertificate) {
  Write("key.pem", NewCertificate(authority_, kLabelName).private_key_pem);
  ExpectInvalid("key.pem", "found the key of a different certificate");
}

TEST_F(TlsIdentityTest, FailsForAKeyWithPassphraseWithoutAskingForIt) {
  const auto key = ParsePrivateKey(own_.private_key_pem);
  const std::unique_ptr<BIO, OpenSslDeleter<BIO, BIO_vfree>> bio(BIO_new(BIO_s_mem()));
  ASSERT_EQ(PEM_write_bio_PKCS8PrivateKey(bio.get(), key->get(), EVP_aes_128_cbc(), "secret", 6, nullptr, nullptr), 1);
  char* text = nullptr;
  const auto size = BIO_get_mem_data(bio.get(), &text);
  Write("key.pem", std::string(text, static_cast<size_t>(size)));
  ExpectInvalid("key.pem", "without passphrase");
}

TEST_F(TlsIdentityTest, FailsForACertificateOfAnotherName) {
  const absl::Status status = Load("else.test").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the DNS name else.test, found label.test"));
}

TEST_F(TlsIdentityTest, FailsForACertificateOfAnotherAuthority) {
  Write("authority.pem", NewAuthority().certificate_pem);
  ExpectInvalid("certificate.pem", "a valid certificate of the authority");
}

TEST_F(TlsIdentityTest, FailsForAnExpiredCertificate) {
  const CertifiedKey expired = ExpiredCertificate(authority_, kLabelName);
  Write("certificate.pem", expired.certificate_pem);
  Write("key.pem", expired.private_key_pem);
  ExpectInvalid("certificate.pem", "certificate has expired");
}

// Either party's own certificate, signed by itself, and the peer's in place of an authority.
class PinnedIdentityTest : public TlsIdentityTest {
 protected:
  void SetUp() override {
    TlsIdentityTest::SetUp();
    pinned_own_ = *CreateSelfSigned(kLabelName, 30);
    pinned_peer_ = *CreateSelfSigned(kNonLabelName, 30);
    Write("certificate.pem", pinned_own_.certificate_pem);
    Write("key.pem", pinned_own_.private_key_pem);
    Write("authority.pem", pinned_peer_.certificate_pem);
  }

  CertifiedKey pinned_own_, pinned_peer_;
};

TEST_F(PinnedIdentityTest, LoadsThePeersOwnCertificateInPlaceOfAnAuthority) {
  EXPECT_EQ(Load().status(), absl::OkStatus());
  // The one in use and the next.
  Write("authority.pem", pinned_peer_.certificate_pem + CreateSelfSigned(kNonLabelName, 30)->certificate_pem);
  EXPECT_EQ(Load().status(), absl::OkStatus());
  // Who has signed this party's own is the peer's business.
  Write("certificate.pem", own_.certificate_pem);
  Write("key.pem", own_.private_key_pem);
  EXPECT_EQ(Load().status(), absl::OkStatus());
}

TEST_F(PinnedIdentityTest, FailsForAPinnedCertificateOfAnotherName) {
  Write("authority.pem", CreateSelfSigned("stranger.test", 30)->certificate_pem);
  ExpectInvalid("authority.pem", "with the DNS name nonlabel.test, found stranger.test");
  Write("authority.pem", pinned_own_.certificate_pem);  // One's own, by mistake.
  ExpectInvalid("authority.pem", "found label.test");
  Write("authority.pem", pinned_peer_.certificate_pem + CreateSelfSigned("stranger.test", 30)->certificate_pem);
  ExpectInvalid("authority.pem", "found stranger.test");
}

TEST_F(PinnedIdentityTest, FailsForAPinnedCertificateThatOthersHaveSigned) {
  Write("authority.pem", NewCertificate(authority_, kNonLabelName).certificate_pem);
  ExpectInvalid("authority.pem", "found one that another has signed");
}

TEST_F(PinnedIdentityTest, FailsForAnAuthorityBesideAPinnedCertificate) {
  for (const std::string& both : {pinned_peer_.certificate_pem + authority_.certificate_pem,
                                  authority_.certificate_pem + pinned_peer_.certificate_pem}) {
    Write("authority.pem", both);
    ExpectInvalid("authority.pem", "found both");
  }
}

TEST_F(PinnedIdentityTest, FailsForAnExpiredCertificateOfItsOwn) {
  const CertifiedKey expired = ExpiredCertificate(authority_, kLabelName);
  Write("certificate.pem", expired.certificate_pem);
  Write("key.pem", expired.private_key_pem);
  ExpectInvalid("certificate.pem", "certificate has expired");
}

TEST_F(TlsIdentityTest, FailsWhereBothPartiesHaveOneName) {
  for (const std::string peer_name : {"", "label.test", "LABEL.test"}) {
    EXPECT_EQ(Load(kLabelName, peer_name).status().code(), absl::StatusCode::kInvalidArgument) << peer_name;
  }
}

}  // namespace
}  // namespace splitveil
