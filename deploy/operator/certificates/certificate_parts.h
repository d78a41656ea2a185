// Owned OpenSSL objects and the steps by which certificates and requests are made of them. Internal to this folder.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_CERTIFICATES_CERTIFICATE_PARTS_H_
#define SPLITVEIL_DEPLOY_OPERATOR_CERTIFICATES_CERTIFICATE_PARTS_H_

#include <sys/types.h>

#include <memory>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/storage/file_system.h"

namespace splitveil {

// Both PEM. The key is PKCS #8 and not encrypted: write it to a file that only its owner can read.
struct CertifiedKey {
  std::string certificate_pem;
  std::string private_key_pem;
};

// The most days a certificate may be valid: ten years.
inline constexpr int kMaxCertificateDays = 3650;

template <typename T, void (*FreeFunction)(T*)>
struct CertificateDeleter {
  void operator()(T* object) const { FreeFunction(object); }
};
using Bio = std::unique_ptr<BIO, CertificateDeleter<BIO, BIO_free_all>>;
using Certificate = std::unique_ptr<X509, CertificateDeleter<X509, X509_free>>;
using Request = std::unique_ptr<X509_REQ, CertificateDeleter<X509_REQ, X509_REQ_free>>;
using PrivateKey = std::unique_ptr<EVP_PKEY, CertificateDeleter<EVP_PKEY, EVP_PKEY_free>>;

struct ExtensionText {
  int nid;
  std::string value;  // OpenSSL's little language, in which commas separate: validate what is put into it.
};

// OpenSSL's error queue is a thread's, and gRPC reads it too: what is left there would be taken for a failure of TLS.
// Both empty it. Internal "OpenSSL failed to OPERATION"; InvalidArgument.
absl::Status OpenSslError(const char* operation);
absl::Status InvalidCertificate(absl::string_view what);

// 1 to 64 printable ASCII characters.
bool IsCommonName(const std::string& name);
// A host name of RFC 1123: at most 253 characters, labels of 1 to 63 letters, digits and inner hyphens; no wildcard, no
// final dot, no IP address. InvalidArgument otherwise.
absl::Status CheckDnsName(const std::string& name);
// InvalidArgument unless 1 to kMaxCertificateDays.
absl::Status CheckDays(int days);
// "label-party" of "label-party.example.com": shown as a party's common name, which identifies nobody.
std::string FirstLabel(const std::string& dns_name);

// A new key on P-256; null if OpenSSL fails.
PrivateKey NewKey();
bool SetCommonName(X509_NAME* subject, absl::string_view common_name);
// Everything but issuer, extensions and signature: of `key`, valid `days` from an hour ago.
absl::StatusOr<Certificate> NewUnsigned(absl::string_view common_name, EVP_PKEY* key, int days);
// Signs in the issuer's name, which may be the certificate itself.
absl::Status Sign(X509* certificate, X509* issuer, EVP_PKEY* issuer_key, const std::vector<ExtensionText>& extensions);
// What a party's certificate may do, whatever authority signs it: be either end of TLS under `dns_name`, and sign
// nothing.
std::vector<ExtensionText> PartyExtensions(const std::string& dns_name);

// PEM; the key as PKCS #8, unencrypted.
absl::StatusOr<std::string> CertificatePem(X509* certificate);
absl::StatusOr<std::string> KeyPem(EVP_PKEY* key);
// A PEM text for OpenSSL's readers; borrows it. Null if OpenSSL fails.
Bio ReadOnly(const std::string& text);
// For OpenSSL's readers: without it OpenSSL asks the terminal for the password of an encrypted key.
int NoPassword(char* buffer, int size, int for_writing, void* data);

struct NewFile {
  std::string path;
  std::string contents;
  mode_t mode = kOwnerOnly;
};

// Makes `folder` if it does not exist, then writes all of `files` or none. Errors:
// AlreadyExists if one is there; InvalidArgument if the folder or a file cannot be made; else as CreateFile.
absl::Status CreateFiles(const std::string& folder, const std::vector<NewFile>& files);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_CERTIFICATES_CERTIFICATE_PARTS_H_
