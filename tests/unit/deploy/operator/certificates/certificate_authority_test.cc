#include "deploy/operator/certificates/certificate_authority.h"

#include <ctime>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>
#include <string>

#include "absl/strings/match.h"

namespace splitveil {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kDays = 30;
constexpr std::time_t kDaySeconds = 86400;

struct FreeX509 {
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(X509_STORE* store) const { X509_STORE_free(store); }
  void operator()(X509_STORE_CTX* context) const { X509_STORE_CTX_free(context); }
  void operator()(BIO* bio) const { BIO_free_all(bio); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using X509Pointer = std::unique_ptr<X509, FreeX509>;
using Bio = std::unique_ptr<BIO, FreeX509>;
using Request = std::unique_ptr<X509_REQ, OpenSslDeleter<X509_REQ, X509_REQ_free>>;

Bio ReadOnly(const std::string& text) { return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

X509Pointer Parse(const std::string& pem) {
  const Bio bio = ReadOnly(pem);
  return X509Pointer(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
}

struct Verification {
  int purpose = X509_PURPOSE_SSL_SERVER;
  std::string host = "label-party";
  std::time_t at = std::time(nullptr);
};

// What OpenSSL's own path validation says: X509_V_OK or an error code.
int Verify(const CertifiedKey& authority, const CertifiedKey& party, const Verification& verification = {}) {
  const X509Pointer root = Parse(authority.certificate_pem);
  const X509Pointer leaf = Parse(party.certificate_pem);
  const std::unique_ptr<X509_STORE, FreeX509> store(X509_STORE_new());
  X509_STORE_add_cert(store.get(), root.get());
  const std::unique_ptr<X509_STORE_CTX, FreeX509> context(X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), store.get(), leaf.get(), nullptr);
  X509_STORE_CTX_set_purpose(context.get(), verification.purpose);
  X509_STORE_CTX_set_flags(context.get(), X509_V_FLAG_X509_STRICT);
  X509_STORE_CTX_set_time(context.get(), 0, verification.at);
  X509_VERIFY_PARAM_set1_host(X509_STORE_CTX_get0_param(context.get()), verification.host.c_str(), 0);
  X509_verify_cert(context.get());
  const int result = X509_STORE_CTX_get_error(context.get());
  ERR_clear_error();
  return result;
}

std::string Printed(const CertifiedKey& certified) {
  const std::unique_ptr<BIO, FreeX509> bio(BIO_new(BIO_s_mem()));
  X509_print(bio.get(), Parse(certified.certificate_pem).get());
  char* data = nullptr;
  const auto size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, size);
}

class CertificatesTest : public ::testing::Test {
 protected:
  // Every path leaves OpenSSL's error queue as it was: gRPC reads it on the same thread.
  void TearDown() override { EXPECT_EQ(ERR_peek_error(), 0); }

  absl::StatusCode IssueCode(const CertifiedKey& authority, const std::string& name = "label-party", int days = kDays) {
    return IssueCertificate(authority, name, days).status().code();
  }

  const CertifiedKey authority_ = *CreateAuthority("Splitveil run", kDays);
  const CertifiedKey party_ = *IssueCertificate(authority_, "label-party", kDays);
};

TEST_F(CertificatesTest, OpenSslAcceptsAPartyAsServerAndAsClient) {
  EXPECT_EQ(Verify(authority_, party_, {X509_PURPOSE_SSL_SERVER}), X509_V_OK);
  EXPECT_EQ(Verify(authority_, party_, {X509_PURPOSE_SSL_CLIENT}), X509_V_OK);
}

TEST_F(CertificatesTest, CarriesTheExtensionsOfRfc5280) {
  const std::string authority = Printed(authority_);
  EXPECT_THAT(authority, HasSubstr("Version: 3 (0x2)"));
  EXPECT_THAT(authority, ContainsRegex("Subject: CN ?= ?Splitveil run"));
  EXPECT_THAT(authority, HasSubstr("CA:TRUE, pathlen:0"));
  EXPECT_THAT(authority, HasSubstr("Certificate Sign, CRL Sign"));
  const std::string party = Printed(party_);
  EXPECT_THAT(party, HasSubstr("X509v3 Basic Constraints: critical"));
  EXPECT_THAT(party, HasSubstr("CA:FALSE"));
  EXPECT_THAT(party, HasSubstr("TLS Web Server Authentication, TLS Web Client Authentication"));
  EXPECT_THAT(party, HasSubstr("DNS:label-party"));
  EXPECT_THAT(party, HasSubstr("NIST CURVE: P-256"));
  EXPECT_THAT(party, HasSubstr("X509v3 Subject Key Identifier"));
  EXPECT_THAT(party, HasSubstr("X509v3 Authority Key Identifier"));
}

TEST_F(CertificatesTest, TheKeyIsTheCertificates) {
  const std::unique_ptr<BIO, FreeX509> bio(BIO_new_mem_buf(party_.private_key_pem.data(), -1));
  const std::unique_ptr<EVP_PKEY, FreeX509> key(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
  EXPECT_EQ(X509_check_private_key(Parse(party_.certificate_pem).get(), key.get()), 1);
  EXPECT_TRUE(absl::StartsWith(party_.private_key_pem, "-----BEGIN PRIVATE KEY-----"));
}

TEST_F(CertificatesTest, NeverRepeatsASerialOrAKey) {
  const CertifiedKey again = *IssueCertificate(authority_, "label-party", kDays);
  EXPECT_NE(ASN1_INTEGER_cmp(X509_get0_serialNumber(Parse(party_.certificate_pem).get()),
                             X509_get0_serialNumber(Parse(again.certificate_pem).get())),
            0);
  EXPECT_NE(again.private_key_pem, party_.private_key_pem);
}

TEST_F(CertificatesTest, EndsWithTheAuthorityAtTheLatest) {
  const CertifiedKey longer = *IssueCertificate(authority_, "label-party", 10 * kDays);
  EXPECT_EQ(ASN1_TIME_compare(X509_get0_notAfter(Parse(longer.certificate_pem).get()),
                              X509_get0_notAfter(Parse(authority_.certificate_pem).get())),
            0);
}

TEST_F(CertificatesTest, TakesTheLongestNames) {
  const std::string label(63, 'a');
  const std::string name = label + "." + label + "." + label + "." + std::string(61, 'b');
  ASSERT_EQ(name.size(), 253);
  const CertifiedKey party = *IssueCertificate(authority_, name, kDays);
  EXPECT_EQ(Verify(authority_, party, {X509_PURPOSE_SSL_SERVER, name}), X509_V_OK);
  EXPECT_TRUE(CreateAuthority(std::string(64, 'c'), 1).ok());
}

TEST_F(CertificatesTest, OpenSslRefusesAnotherAuthority) {
  const CertifiedKey other = *CreateAuthority("Another run", kDays);
  EXPECT_EQ(Verify(other, party_), X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY);
}

TEST_F(CertificatesTest, OpenSslRefusesAnAuthorityOfTheSameName) {
  const CertifiedKey impostor = *CreateAuthority("Splitveil run", kDays);
  EXPECT_NE(Verify(impostor, party_), X509_V_OK);
}

TEST_F(CertificatesTest, OpenSslRefusesAnotherName) {
  EXPECT_EQ(Verify(authority_, party_, {X509_PURPOSE_SSL_SERVER, "nonlabel-party"}), X509_V_ERR_HOSTNAME_MISMATCH);
}

TEST_F(CertificatesTest, OpenSslRefusesItAfterItsEnd) {
  const std::time_t after = std::time(nullptr) + (kDays + 1) * kDaySeconds;
  EXPECT_EQ(Verify(authority_, party_, {X509_PURPOSE_SSL_SERVER, "label-party", after}), X509_V_ERR_CERT_HAS_EXPIRED);
}

TEST_F(CertificatesTest, OpenSslRefusesItBeforeItsBeginning) {
  const std::time_t before = std::time(nullptr) - kDaySeconds;
  EXPECT_EQ(Verify(authority_, party_, {X509_PURPOSE_SSL_SERVER, "label-party", before}),
            X509_V_ERR_CERT_NOT_YET_VALID);
}

TEST_F(CertificatesTest, OpenSslRefusesOtherPurposes) {
  EXPECT_NE(Verify(authority_, party_, {X509_PURPOSE_SMIME_SIGN}), X509_V_OK);
}

TEST_F(CertificatesTest, CreateAuthorityFailsForABadName) {
  for (const std::string& name :
       {std::string(), std::string(65, 'a'), std::string("a\nb"), std::string("a\0b", 3), std::string("caf\xc3\xa9")}) {
    EXPECT_EQ(CreateAuthority(name, kDays).status().code(), absl::StatusCode::kInvalidArgument) << name;
  }
}

TEST_F(CertificatesTest, FailsForDaysOutOfRange) {
  for (int days : {-1, 0, kMaxCertificateDays + 1}) {
    EXPECT_EQ(CreateAuthority("Splitveil run", days).status().code(), absl::StatusCode::kInvalidArgument) << days;
    EXPECT_EQ(IssueCode(authority_, "label-party", days), absl::StatusCode::kInvalidArgument) << days;
  }
}

TEST_F(CertificatesTest, IssueCertificateFailsForABadName) {
  for (const std::string& name :
       {std::string(), std::string("-a"), std::string("a-"), std::string("a..b"), std::string(".a"), std::string("a."),
        std::string("a_b"), std::string("*.example.com"), std::string("a b"), std::string("10.0.0.1"),
        std::string("a,DNS:b"), std::string("a\0b", 3), std::string(64, 'a'), std::string("label-party,IP:10.0.0.1")}) {
    EXPECT_EQ(IssueCode(authority_, name), absl::StatusCode::kInvalidArgument) << name;
  }
  EXPECT_EQ(IssueCode(authority_, std::string(127, 'a').replace(63, 1, ".") + "." + std::string(63, 'a') + "." +
                                      std::string(62, 'a')),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(CertificatesTest, IssueCertificateFailsForAnAuthorityThatIsNotPem) {
  EXPECT_EQ(IssueCode({"", ""}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(IssueCode({authority_.certificate_pem, "rubbish"}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(IssueCode({authority_.certificate_pem.substr(0, 200), authority_.private_key_pem}),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(CertificatesTest, IssueCertificateFailsForAnotherAuthoritysKey) {
  const CertifiedKey other = *CreateAuthority("Another run", kDays);
  EXPECT_EQ(IssueCode({authority_.certificate_pem, other.private_key_pem}), absl::StatusCode::kInvalidArgument);
}

TEST_F(CertificatesTest, IssueCertificateFailsForAPartyThatPosesAsAnAuthority) {
  EXPECT_EQ(IssueCode(party_), absl::StatusCode::kInvalidArgument);
}

TEST_F(CertificatesTest, IssueCertificateFailsForAnEncryptedKeyWithoutAskingForAPassword) {
  const std::unique_ptr<BIO, FreeX509> plain(BIO_new_mem_buf(authority_.private_key_pem.data(), -1));
  const std::unique_ptr<EVP_PKEY, FreeX509> key(PEM_read_bio_PrivateKey(plain.get(), nullptr, nullptr, nullptr));
  const std::unique_ptr<BIO, FreeX509> encrypted(BIO_new(BIO_s_mem()));
  std::string password = "planted-password";
  PEM_write_bio_PKCS8PrivateKey(encrypted.get(), key.get(), EVP_aes_256_cbc(), password.data(),
                                static_cast<int>(password.size()), nullptr, nullptr);
  char* data = nullptr;
  const auto size = BIO_get_mem_data(encrypted.get(), &data);
  EXPECT_EQ(IssueCode({authority_.certificate_pem, std::string(data, size)}), absl::StatusCode::kInvalidArgument);
}

TEST_F(CertificatesTest, ErrorsNeverQuoteTheKey) {
  const absl::StatusOr<CertifiedKey> party = IssueCertificate({"rubbish", "planted-key"}, "label-party", kDays);
  EXPECT_THAT(std::string(party.status().message()), Not(HasSubstr("planted-key")));
}

using ::testing::HasSubstr;

constexpr char kName[] = "bank.example";

// What OpenSSL's own path validation says of `leaf` under what `root` has as the only thing that is trusted.
int Verify(const std::string& root_pem, const std::string& leaf_pem, const std::string& host, int purpose) {
  const Bio root_bio = ReadOnly(root_pem), leaf_bio = ReadOnly(leaf_pem);
  const X509Ptr root(PEM_read_bio_X509(root_bio.get(), nullptr, nullptr, nullptr));
  const X509Ptr leaf(PEM_read_bio_X509(leaf_bio.get(), nullptr, nullptr, nullptr));
  const std::unique_ptr<X509_STORE, OpenSslDeleter<X509_STORE, X509_STORE_free>> store(X509_STORE_new());
  X509_STORE_add_cert(store.get(), root.get());
  const std::unique_ptr<X509_STORE_CTX, OpenSslDeleter<X509_STORE_CTX, X509_STORE_CTX_free>> context(
      X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), store.get(), leaf.get(), nullptr);
  X509_STORE_CTX_set_purpose(context.get(), purpose);
  X509_VERIFY_PARAM_set1_host(X509_STORE_CTX_get0_param(context.get()), host.c_str(), 0);
  X509_verify_cert(context.get());
  const int result = X509_STORE_CTX_get_error(context.get());
  ERR_clear_error();
  return result;
}

// A request as another tool makes it, with these alternative names and this key.
std::string RequestOf(const std::string& names, EVP_PKEY* key) {
  const Request request(X509_REQ_new());
  X509_REQ_set_pubkey(request.get(), key);
  if (!names.empty()) {
    X509V3_CTX context = {};
    X509V3_set_ctx(&context, nullptr, nullptr, request.get(), nullptr, 0);
    STACK_OF(X509_EXTENSION)* extensions = sk_X509_EXTENSION_new_null();
    sk_X509_EXTENSION_push(extensions, X509V3_EXT_conf_nid(nullptr, &context, NID_subject_alt_name, names.c_str()));
    // It would like to be an authority, too.
    sk_X509_EXTENSION_push(extensions,
                           X509V3_EXT_conf_nid(nullptr, &context, NID_basic_constraints, "critical,CA:TRUE"));
    X509_REQ_add_extensions(request.get(), extensions);
    sk_X509_EXTENSION_pop_free(extensions, X509_EXTENSION_free);
  }
  X509_REQ_sign(request.get(), key, EVP_sha256());
  const Bio bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509_REQ(bio.get(), request.get());
  char* data = nullptr;
  const auto size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

class CertificateRequestTest : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(ERR_peek_error(), 0); }

  absl::Status Refusal(const std::string& request, const std::string& name = kName) const {
    return SignRequest(authority_, request, name, 30).status();
  }

  const CertifiedKey authority_ = *CreateAuthority("test authority", 30);
};

TEST_F(CertificateRequestTest, TheSignedRequestIsACertificateOfTheRequestersKey) {
  const RequestAndKey made = *CreateRequest(kName);
  const std::string certificate = *SignRequest(authority_, made.request_pem, kName, 30);
  for (const int purpose : {X509_PURPOSE_SSL_SERVER, X509_PURPOSE_SSL_CLIENT}) {
    EXPECT_EQ(Verify(authority_.certificate_pem, certificate, kName, purpose), X509_V_OK);
  }
  EXPECT_EQ(Verify(authority_.certificate_pem, certificate, "shop.example", X509_PURPOSE_SSL_SERVER),
            X509_V_ERR_HOSTNAME_MISMATCH);
  const Bio certificate_bio = ReadOnly(certificate), key_bio = ReadOnly(made.private_key_pem);
  const X509Ptr parsed(PEM_read_bio_X509(certificate_bio.get(), nullptr, nullptr, nullptr));
  const PrivateKeyPtr key(PEM_read_bio_PrivateKey(key_bio.get(), nullptr, nullptr, nullptr));
  EXPECT_EQ(X509_check_private_key(parsed.get(), key.get()), 1);
}

TEST_F(CertificateRequestTest, NothingButNameAndKeyIsTakenFromARequest) {
  const PrivateKeyPtr key = NewKey();
  const std::string certificate = *SignRequest(authority_, RequestOf("DNS:bank.example", key.get()), kName, 30);
  const Bio bio = ReadOnly(certificate);
  const X509Ptr parsed(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  EXPECT_EQ(X509_check_ca(parsed.get()), 0) << "it asked to be an authority";
}

TEST_F(CertificateRequestTest, FailsForAnotherNameThanTheAuthoritySaysOrSeveral) {
  const PrivateKeyPtr key = NewKey();
  for (const char* names : {"DNS:shop.example", "DNS:bank.example,DNS:shop.example", "IP:10.0.0.1", "DNS:*.example",
                            "DNS:bank.example,IP:10.0.0.1", ""}) {
    const absl::Status refusal = Refusal(RequestOf(names, key.get()));
    EXPECT_EQ(refusal.code(), absl::StatusCode::kInvalidArgument) << names;
    EXPECT_THAT(std::string(refusal.message()), HasSubstr("for the one name bank.example")) << names;
  }
}

TEST_F(CertificateRequestTest, FailsForARequestThatItsKeyHasNotSigned) {
  const PrivateKeyPtr key = NewKey();
  std::string request = RequestOf("DNS:bank.example", key.get());
  const size_t at = request.size() / 2;
  request[at] = request[at] == 'A' ? 'B' : 'A';
  EXPECT_EQ(Refusal(request).code(), absl::StatusCode::kInvalidArgument);
  for (const std::string& other : {std::string(), std::string("rubbish"), authority_.certificate_pem}) {
    EXPECT_THAT(std::string(Refusal(other).message()), HasSubstr("expected a certificate request"));
  }
}

TEST_F(CertificateRequestTest, FailsForAWeakKey) {
  const PrivateKeyPtr weak(EVP_RSA_gen(1024)), strong(EVP_RSA_gen(2048));
  EXPECT_THAT(std::string(Refusal(RequestOf("DNS:bank.example", weak.get())).message()),
              HasSubstr("expected a key of at least 112 bits of security, found 80"));
  EXPECT_EQ(Refusal(RequestOf("DNS:bank.example", strong.get())), absl::OkStatus());
}

TEST_F(CertificateRequestTest, FailsForNamesThatAreNoHosts) {
  for (const char* name : {"", "*.example", "10.0.0.1", "bank.example,DNS:shop.example"}) {
    EXPECT_EQ(CreateRequest(name).status().code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(CreateSelfSigned(name, 30).status().code(), absl::StatusCode::kInvalidArgument) << name;
  }
  EXPECT_EQ(CreateSelfSigned(kName, 0).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CertificateRequestTest, ASelfSignedCertificateIsTrustedForItselfAlone) {
  const CertifiedKey own = *CreateSelfSigned(kName, 30);
  for (const int purpose : {X509_PURPOSE_SSL_SERVER, X509_PURPOSE_SSL_CLIENT}) {
    EXPECT_EQ(Verify(own.certificate_pem, own.certificate_pem, kName, purpose), X509_V_OK);
  }
  EXPECT_NE(Verify(own.certificate_pem, CreateSelfSigned(kName, 30)->certificate_pem, kName, X509_PURPOSE_SSL_SERVER),
            X509_V_OK);
  EXPECT_THAT(std::string(SignRequest(own, CreateRequest(kName)->request_pem, kName, 30).status().message()),
              HasSubstr("may not sign certificates"));
}

}  // namespace

}  // namespace splitveil
