#include "deploy/operator/certificates/certificate_request.h"

#include <memory>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr int kLeastSecurityBits = 112;  // NIST SP 800-57: RSA of 2048 bits.

void FreeNames(GENERAL_NAMES* names) { GENERAL_NAMES_free(names); }
void FreeExtensions(STACK_OF(X509_EXTENSION) * extensions) {
  sk_X509_EXTENSION_pop_free(extensions, X509_EXTENSION_free);
}

using Names = std::unique_ptr<GENERAL_NAMES, CertificateDeleter<GENERAL_NAMES, FreeNames>>;
using Extensions =
    std::unique_ptr<STACK_OF(X509_EXTENSION), CertificateDeleter<STACK_OF(X509_EXTENSION), FreeExtensions>>;

bool AddName(X509_REQ* request, const std::string& dns_name) {
  X509V3_CTX context = {};
  X509V3_set_ctx(&context, nullptr, nullptr, request, nullptr, 0);
  const std::string value = absl::StrCat("DNS:", dns_name);
  const Extensions extensions(sk_X509_EXTENSION_new_null());
  X509_EXTENSION* const name = X509V3_EXT_conf_nid(nullptr, &context, NID_subject_alt_name, value.c_str());
  if (extensions == nullptr || name == nullptr || sk_X509_EXTENSION_push(extensions.get(), name) == 0) {
    X509_EXTENSION_free(name);
    return false;
  }
  return X509_REQ_add_extensions(request, extensions.get()) == 1;
}

// Whether the only name that is asked for is this one.
bool AsksFor(X509_REQ* request, const std::string& dns_name) {
  const Extensions extensions(X509_REQ_get_extensions(request));
  const Names names(
      static_cast<GENERAL_NAMES*>(X509V3_get_d2i(extensions.get(), NID_subject_alt_name, nullptr, nullptr)));
  if (names == nullptr || sk_GENERAL_NAME_num(names.get()) != 1) {
    return false;
  }
  const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), 0);
  if (name->type != GEN_DNS) {
    return false;
  }
  const absl::string_view found(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName)),
                                static_cast<size_t>(ASN1_STRING_length(name->d.dNSName)));
  return absl::EqualsIgnoreCase(found, dns_name);
}

absl::StatusOr<std::string> RequestPem(X509_REQ* request) {
  const Bio bio(BIO_new(BIO_s_mem()));
  char* data = nullptr;
  if (bio == nullptr || PEM_write_bio_X509_REQ(bio.get(), request) != 1) {
    return OpenSslError("write PEM");
  }
  const auto size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

}  // namespace

absl::StatusOr<RequestAndKey> CreateRequest(const std::string& dns_name) {
  SPLITVEIL_RETURN_IF_ERROR(CheckDnsName(dns_name));
  const PrivateKey key = NewKey();
  const Request request(X509_REQ_new());
  if (key == nullptr || request == nullptr ||
      !SetCommonName(X509_REQ_get_subject_name(request.get()), FirstLabel(dns_name)) ||
      X509_REQ_set_pubkey(request.get(), key.get()) != 1 || !AddName(request.get(), dns_name) ||
      X509_REQ_sign(request.get(), key.get(), EVP_sha256()) == 0) {
    return OpenSslError("make a certificate request");
  }
  RequestAndKey made;
  SPLITVEIL_ASSIGN_OR_RETURN(made.request_pem, RequestPem(request.get()));
  SPLITVEIL_ASSIGN_OR_RETURN(made.private_key_pem, KeyPem(key.get()));
  return made;
}

absl::StatusOr<PrivateKey> KeyOfRequest(const std::string& request_pem, const std::string& dns_name) {
  const Bio bio = ReadOnly(request_pem);
  const Request request(bio == nullptr ? nullptr : PEM_read_bio_X509_REQ(bio.get(), nullptr, NoPassword, nullptr));
  if (request == nullptr) {
    return InvalidCertificate("expected a certificate request (PKCS #10) in PEM, found none");
  }
  PrivateKey key(X509_REQ_get_pubkey(request.get()));
  if (key == nullptr || X509_REQ_verify(request.get(), key.get()) != 1) {
    return InvalidCertificate("expected a request that its own key has signed, found a signature that does not hold");
  }
  if (EVP_PKEY_get_security_bits(key.get()) < kLeastSecurityBits) {
    return InvalidCertificate(absl::StrCat("expected a key of at least ", kLeastSecurityBits,
                                           " bits of security, found ", EVP_PKEY_get_security_bits(key.get())));
  }
  if (!AsksFor(request.get(), dns_name)) {
    return InvalidCertificate(
        absl::StrCat("expected a request for the one name ", dns_name, ", found one for another, or for several"));
  }
  ERR_clear_error();
  return key;
}

absl::StatusOr<CertifiedKey> CreateSelfSigned(const std::string& dns_name, int days) {
  SPLITVEIL_RETURN_IF_ERROR(CheckDnsName(dns_name));
  SPLITVEIL_RETURN_IF_ERROR(CheckDays(days));
  const PrivateKey key = NewKey();
  SPLITVEIL_ASSIGN_OR_RETURN(const Certificate certificate, NewUnsigned(FirstLabel(dns_name), key.get(), days));
  SPLITVEIL_RETURN_IF_ERROR(Sign(certificate.get(), certificate.get(), key.get(), PartyExtensions(dns_name)));
  CertifiedKey made;
  SPLITVEIL_ASSIGN_OR_RETURN(made.certificate_pem, CertificatePem(certificate.get()));
  SPLITVEIL_ASSIGN_OR_RETURN(made.private_key_pem, KeyPem(key.get()));
  return made;
}

}  // namespace splitveil
