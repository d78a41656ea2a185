#include "deploy/operator/certificates/certificate_authority.h"

#include <memory>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

// An authority's certificate and its private key.
struct KeyPair {
  Certificate certificate;
  PrivateKey key;
};

absl::StatusOr<CertifiedKey> ToPem(X509* certificate, EVP_PKEY* key) {
  CertifiedKey pem;
  SPLITVEIL_ASSIGN_OR_RETURN(pem.certificate_pem, CertificatePem(certificate));
  SPLITVEIL_ASSIGN_OR_RETURN(pem.private_key_pem, KeyPem(key));
  return pem;
}

absl::StatusOr<KeyPair> ReadAuthority(const CertifiedKey& pem) {
  const Bio certificate_bio = ReadOnly(pem.certificate_pem);
  const Bio key_bio = ReadOnly(pem.private_key_pem);
  if (certificate_bio == nullptr || key_bio == nullptr) {
    return OpenSslError("allocate");
  }
  KeyPair authority{Certificate(PEM_read_bio_X509(certificate_bio.get(), nullptr, NoPassword, nullptr)),
                    PrivateKey(PEM_read_bio_PrivateKey(key_bio.get(), nullptr, NoPassword, nullptr))};
  X509* certificate = authority.certificate.get();
  if (certificate == nullptr) {
    return InvalidCertificate("authority: the certificate is not X.509 in PEM");
  }
  if (authority.key == nullptr) {
    return InvalidCertificate("authority: the private key is not an unencrypted key in PEM");
  }
  // A key of another authority would sign certificates that no peer accepts.
  if (X509_check_private_key(certificate, authority.key.get()) != 1) {
    return InvalidCertificate("authority: the private key is not the certificate's");
  }
  if (X509_check_ca(certificate) != 1 || (X509_get_key_usage(certificate) & KU_KEY_CERT_SIGN) == 0) {
    return InvalidCertificate("authority: the certificate may not sign certificates");
  }
  if (X509_cmp_current_time(X509_get0_notBefore(certificate)) >= 0 ||
      X509_cmp_current_time(X509_get0_notAfter(certificate)) <= 0) {
    return InvalidCertificate("authority: the certificate is not valid today");
  }
  return authority;
}

// A party that outlived its authority would fail at its peer, at a time that its own certificate does not tell.
bool EndWithAuthorityAtTheLatest(X509* certificate, const X509* authority) {
  const ASN1_TIME* authority_end = X509_get0_notAfter(authority);
  return ASN1_TIME_compare(X509_get0_notAfter(certificate), authority_end) <= 0 ||
         X509_set1_notAfter(certificate, authority_end) == 1;
}

// A certificate of `public_key`.
absl::StatusOr<Certificate> SignFor(const KeyPair& issuer, EVP_PKEY* public_key, const std::string& dns_name,
                                    int days) {
  SPLITVEIL_ASSIGN_OR_RETURN(Certificate certificate, NewUnsigned(FirstLabel(dns_name), public_key, days));
  if (!EndWithAuthorityAtTheLatest(certificate.get(), issuer.certificate.get())) {
    return OpenSslError("set the end of a certificate");
  }
  SPLITVEIL_RETURN_IF_ERROR(
      Sign(certificate.get(), issuer.certificate.get(), issuer.key.get(), PartyExtensions(dns_name)));
  return certificate;
}

}  // namespace

absl::StatusOr<CertifiedKey> CreateAuthority(const std::string& common_name, int days) {
  if (!IsCommonName(common_name)) {
    return absl::InvalidArgumentError("authority name: expected 1 to 64 printable ASCII characters");
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckDays(days));
  const PrivateKey key = NewKey();
  SPLITVEIL_ASSIGN_OR_RETURN(const Certificate certificate, NewUnsigned(common_name, key.get(), days));
  // The subject's key identifier comes first: the authority's is copied from it.
  SPLITVEIL_RETURN_IF_ERROR(Sign(certificate.get(), certificate.get(), key.get(),
                                 {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                                  {NID_key_usage, "critical,keyCertSign,cRLSign"},
                                  {NID_subject_key_identifier, "hash"},
                                  {NID_authority_key_identifier, "keyid:always"}}));
  return ToPem(certificate.get(), key.get());
}

absl::StatusOr<CertifiedKey> IssueCertificate(const CertifiedKey& authority, const std::string& dns_name, int days) {
  SPLITVEIL_RETURN_IF_ERROR(CheckDnsName(dns_name));
  SPLITVEIL_RETURN_IF_ERROR(CheckDays(days));
  SPLITVEIL_ASSIGN_OR_RETURN(const KeyPair issuer, ReadAuthority(authority));
  // The party gets a key of its own, which the authority does not keep.
  const PrivateKey key = NewKey();
  SPLITVEIL_ASSIGN_OR_RETURN(const Certificate certificate, SignFor(issuer, key.get(), dns_name, days));
  return ToPem(certificate.get(), key.get());
}

absl::StatusOr<std::string> SignRequest(const CertifiedKey& authority, const std::string& request_pem,
                                        const std::string& dns_name, int days) {
  SPLITVEIL_RETURN_IF_ERROR(CheckDnsName(dns_name));
  SPLITVEIL_RETURN_IF_ERROR(CheckDays(days));
  // The signer says whom it vouches for: the request proves the key alone.
  SPLITVEIL_ASSIGN_OR_RETURN(const PrivateKey public_key, KeyOfRequest(request_pem, dns_name));
  SPLITVEIL_ASSIGN_OR_RETURN(const KeyPair issuer, ReadAuthority(authority));
  SPLITVEIL_ASSIGN_OR_RETURN(const Certificate certificate, SignFor(issuer, public_key.get(), dns_name, days));
  return CertificatePem(certificate.get());
}

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
  // An IP address or e-mail address would be an identity that no party checks.
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
