#include "deploy/operator/certificates/certificate_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>
#include <string>

#include "deploy/operator/certificates/certificate_authority.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;

constexpr char kName[] = "bank.example";

// What OpenSSL's own path validation says of `leaf` under what `root` has as the only thing that is trusted.
int Verify(const std::string& root_pem, const std::string& leaf_pem, const std::string& host, int purpose) {
  const Bio root_bio = ReadOnly(root_pem), leaf_bio = ReadOnly(leaf_pem);
  const Certificate root(PEM_read_bio_X509(root_bio.get(), nullptr, nullptr, nullptr));
  const Certificate leaf(PEM_read_bio_X509(leaf_bio.get(), nullptr, nullptr, nullptr));
  const std::unique_ptr<X509_STORE, CertificateDeleter<X509_STORE, X509_STORE_free>> store(X509_STORE_new());
  X509_STORE_add_cert(store.get(), root.get());
  const std::unique_ptr<X509_STORE_CTX, CertificateDeleter<X509_STORE_CTX, X509_STORE_CTX_free>> context(
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
  const Certificate parsed(PEM_read_bio_X509(certificate_bio.get(), nullptr, nullptr, nullptr));
  const PrivateKey key(PEM_read_bio_PrivateKey(key_bio.get(), nullptr, nullptr, nullptr));
  EXPECT_EQ(X509_check_private_key(parsed.get(), key.get()), 1);
}

TEST_F(CertificateRequestTest, NothingButNameAndKeyIsTakenFromARequest) {
  const PrivateKey key = NewKey();
  const std::string certificate = *SignRequest(authority_, RequestOf("DNS:bank.example", key.get()), kName, 30);
  const Bio bio = ReadOnly(certificate);
  const Certificate parsed(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  EXPECT_EQ(X509_check_ca(parsed.get()), 0) << "it asked to be an authority";
}

TEST_F(CertificateRequestTest, FailsForAnotherNameThanTheAuthoritySaysOrSeveral) {
  const PrivateKey key = NewKey();
  for (const char* names : {"DNS:shop.example", "DNS:bank.example,DNS:shop.example", "IP:10.0.0.1", "DNS:*.example",
                            "DNS:bank.example,IP:10.0.0.1", ""}) {
    const absl::Status refusal = Refusal(RequestOf(names, key.get()));
    EXPECT_EQ(refusal.code(), absl::StatusCode::kInvalidArgument) << names;
    EXPECT_THAT(std::string(refusal.message()), HasSubstr("for the one name bank.example")) << names;
  }
}

TEST_F(CertificateRequestTest, FailsForARequestThatItsKeyHasNotSigned) {
  const PrivateKey key = NewKey();
  std::string request = RequestOf("DNS:bank.example", key.get());
  const size_t at = request.size() / 2;
  request[at] = request[at] == 'A' ? 'B' : 'A';
  EXPECT_EQ(Refusal(request).code(), absl::StatusCode::kInvalidArgument);
  for (const std::string& other : {std::string(), std::string("rubbish"), authority_.certificate_pem}) {
    EXPECT_THAT(std::string(Refusal(other).message()), HasSubstr("expected a certificate request"));
  }
}

TEST_F(CertificateRequestTest, FailsForAWeakKey) {
  const PrivateKey weak(EVP_RSA_gen(1024)), strong(EVP_RSA_gen(2048));
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
