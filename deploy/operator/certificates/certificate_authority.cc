#include "deploy/operator/certificates/certificate_authority.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <utility>

#include "absl/status/status.h"
#include "deploy/operator/certificates/certificate_parts.h"
#include "deploy/operator/certificates/certificate_request.h"

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
  const PrivateKey key = NewKey();
  SPLITVEIL_ASSIGN_OR_RETURN(const Certificate certificate, SignFor(issuer, key.get(), dns_name, days));
  return ToPem(certificate.get(), key.get());
}

absl::StatusOr<std::string> SignRequest(const CertifiedKey& authority, const std::string& request_pem,
                                        const std::string& dns_name, int days) {
  SPLITVEIL_RETURN_IF_ERROR(CheckDnsName(dns_name));
  SPLITVEIL_RETURN_IF_ERROR(CheckDays(days));
  SPLITVEIL_ASSIGN_OR_RETURN(const PrivateKey public_key, KeyOfRequest(request_pem, dns_name));
  SPLITVEIL_ASSIGN_OR_RETURN(const KeyPair issuer, ReadAuthority(authority));
  SPLITVEIL_ASSIGN_OR_RETURN(const Certificate certificate, SignFor(issuer, public_key.get(), dns_name, days));
  return CertificatePem(certificate.get());
}

}  // namespace splitveil
