#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/process/file.h"
#include "tests/unit/deploy/operator/operator_tool.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

std::unique_ptr<BIO, decltype(&BIO_free)> Open(const std::string& path) {
  return {BIO_new_file(path.c_str(), "r"), BIO_free};
}

Certificate ReadCertificate(const std::string& path) {
  return {PEM_read_bio_X509(Open(path).get(), nullptr, nullptr, nullptr), X509_free};
}

mode_t ModeOf(const std::string& path) {
  struct stat state = {};
  EXPECT_EQ(stat(path.c_str(), &state), 0) << path;
  return state.st_mode & 0777;
}

class CertificatesTest : public ::testing::Test {
 protected:
  std::vector<std::string> Arguments(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"certificates", "--out=" + out_, "--label=label.example",
                                          "--nonlabel=nonlabel.example"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  TempFolder folder_;
  const std::string out_ = folder_.File("new/certs");
};

TEST_F(CertificatesTest, PartiesAreOfTheAuthorityWithTheirNamesAndKeys) {
  ExpectDone(Arguments());
  const Certificate authority = ReadCertificate(out_ + "/authority.pem");
  ASSERT_NE(authority, nullptr);
  for (const auto& [role, name] : {std::pair{"label_party", "label.example"}, {"nonlabel_party", "nonlabel.example"}}) {
    const Certificate party = ReadCertificate(out_ + "/" + role + ".pem");
    ASSERT_NE(party, nullptr);
    EXPECT_EQ(X509_verify(party.get(), X509_get0_pubkey(authority.get())), 1) << role;
    EXPECT_EQ(X509_check_host(party.get(), name, 0, 0, nullptr), 1) << role;
    const Key key(PEM_read_bio_PrivateKey(Open(out_ + "/" + role + ".key").get(), nullptr, nullptr, nullptr),
                  EVP_PKEY_free);
    EXPECT_EQ(X509_check_private_key(party.get(), key.get()), 1) << role;
  }
}

TEST_F(CertificatesTest, OnlyTheOwnerReadsPrivateKeysAndReplacesCertificates) {
  const mode_t before = umask(0);  // Hides nothing.
  ExpectDone(Arguments());
  umask(before);
  for (const char* name : {"authority", "label_party", "nonlabel_party"}) {
    EXPECT_EQ(ModeOf(out_ + "/" + name + ".key"), 0600) << name;
    EXPECT_EQ(ModeOf(out_ + "/" + name + ".pem"), 0644) << name;
  }
  EXPECT_EQ(ModeOf(out_), 0755);
  EXPECT_EQ(ModeOf(folder_.File("new")), 0755);
}

TEST_F(CertificatesTest, ValidityIsInDays) {
  ExpectDone(Arguments({"--days=7"}));
  const Certificate party = ReadCertificate(out_ + "/label_party.pem");
  int days = 0, seconds = 0;
  ASSERT_EQ(ASN1_TIME_diff(&days, &seconds, nullptr, X509_get0_notAfter(party.get())), 1);
  EXPECT_NEAR(days + seconds / 86400.0, 7, 0.1);
}

TEST_F(CertificatesTest, ReplacesNothing) {
  ExpectDone(Arguments());
  const std::string before = ReadFile(out_ + "/authority.key").value();
  EXPECT_THAT(ExpectError(2, Arguments()), HasSubstr("authority.pem: expected a new file"));
  EXPECT_EQ(ReadFile(out_ + "/authority.key").value(), before);
}

TEST_F(CertificatesTest, OneFileInTheWayLeavesNoOther) {
  std::filesystem::create_directories(out_);
  WriteText(out_ + "/nonlabel_party.key", "precious");
  EXPECT_THAT(ExpectError(2, Arguments()), HasSubstr("nonlabel_party.key: expected a new file"));
  EXPECT_EQ(ReadFile(out_ + "/nonlabel_party.key").value(), "precious");
  EXPECT_FALSE(std::filesystem::exists(out_ + "/authority.key"));
  EXPECT_FALSE(std::filesystem::exists(out_ + "/label_party.pem"));
}

TEST_F(CertificatesTest, FailsWhereTheFolderCannotBeMade) {
  WriteText(folder_.File("new"), "a file");
  EXPECT_THAT(ExpectError(2, Arguments()), HasSubstr("new/certs: cannot be made"));
}

TEST_F(CertificatesTest, FailsOnNamesThatAreNotHosts) {
  for (const char* name : {"label party", "*.example", "label_party", "label.example."}) {
    const std::string error =
        ExpectError(2, {"certificates", "--out=" + out_, std::string("--label=") + name, "--nonlabel=b"});
    EXPECT_THAT(error, HasSubstr("command line: --label: "));
    EXPECT_THAT(error, HasSubstr(std::string("found \"") + name + "\""));
  }
  EXPECT_FALSE(std::filesystem::exists(out_));
}

TEST_F(CertificatesTest, FailsOnOneNameForBoth) {
  EXPECT_THAT(ExpectError(2, {"certificates", "--out=" + out_, "--label=same.example", "--nonlabel=SAME.example"}),
              HasSubstr("--label, --nonlabel: both are"));
}

TEST_F(CertificatesTest, FailsOnDaysOutOfRange) {
  for (const char* days : {"0", "-1", "3651", "forever"}) {
    EXPECT_THAT(ExpectError(2, Arguments({std::string("--days=") + days})), HasSubstr("--days: expected an integer"));
  }
}

}  // namespace
}  // namespace splitveil::testing
