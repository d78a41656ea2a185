#include "deploy/operator/certificates/certificate_authority.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "common/crypto/secure_random.h"
#include "common/process/file.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr long kX509Version3 = 2;         // NOLINT(google-runtime-int): OpenSSL's type. The encoding counts from zero.
constexpr long kClockSkewSeconds = 3600;  // NOLINT(google-runtime-int)
constexpr size_t kMaxCommonNameChars = 64;  // RFC 5280, ub-common-name.
constexpr size_t kMaxDnsNameChars = 253;
constexpr size_t kMaxDnsLabelChars = 63;

constexpr int kLeastSecurityBits = 112;  // NIST SP 800-57: RSA of 2048 bits.

using BioPtr = std::unique_ptr<BIO, OpenSslDeleter<BIO, BIO_free_all>>;
using RequestPtr = std::unique_ptr<X509_REQ, OpenSslDeleter<X509_REQ, X509_REQ_free>>;
using BigNumber = std::unique_ptr<BIGNUM, OpenSslDeleter<BIGNUM, BN_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, OpenSslDeleter<X509_EXTENSION, X509_EXTENSION_free>>;

// OpenSSL's error queue is a thread's, and gRPC reads it too: what is left there would be taken for a failure of TLS.
// Both empty it.
absl::Status OpenSslError(const char* operation) {
  ERR_clear_error();
  return absl::InternalError(absl::StrCat("OpenSSL failed to ", operation));
}

absl::Status InvalidCertificate(absl::string_view what) {
  ERR_clear_error();
  return absl::InvalidArgumentError(what);
}

bool IsDnsLabel(absl::string_view label) {
  return !label.empty() && label.size() <= kMaxDnsLabelChars && label.front() != '-' && label.back() != '-' &&
         std::all_of(label.begin(), label.end(), [](char c) { return absl::ascii_isalnum(c) || c == '-'; });
}

// The last label has a letter, or 10.0.0.1 would be a name (RFC 1123, section 2.1).
bool IsDnsName(const std::string& name) {
  const std::vector<absl::string_view> labels = absl::StrSplit(name, '.');
  // No wildcards: one certificate would stand for any host of a domain.
  return name.size() <= kMaxDnsNameChars && std::all_of(labels.begin(), labels.end(), IsDnsLabel) &&
         std::any_of(labels.back().begin(), labels.back().end(), absl::ascii_isalpha);
}

bool SetRandomSerial(X509* certificate) {
  std::array<uint8_t, 16> bytes;
  // 128 random bits: no two certificates of an authority share a serial, and nobody can predict one.
  FillSecureRandom(absl::MakeSpan(bytes));
  const BigNumber serial(BN_bin2bn(bytes.data(), bytes.size(), nullptr));
  return serial != nullptr && BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool SetValidity(X509* certificate, int days) {
  // The peer's clock may be behind: the certificate is valid from an hour ago.
  return X509_gmtime_adj(X509_getm_notBefore(certificate), -kClockSkewSeconds) != nullptr &&
         X509_time_adj_ex(X509_getm_notAfter(certificate), days, -kClockSkewSeconds, nullptr) != nullptr;
}

bool AddExtensions(X509* certificate, X509* issuer, const std::vector<ExtensionText>& extensions) {
  X509V3_CTX context = {};
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  return std::all_of(extensions.begin(), extensions.end(), [&](const ExtensionText& text) {
    const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, text.first, text.second.c_str()));
    return extension != nullptr && X509_add_ext(certificate, extension.get(), /*loc=*/-1) == 1;
  });
}

bool IsCommonName(const std::string& name) {
  return !name.empty() && name.size() <= kMaxCommonNameChars &&
         std::all_of(name.begin(), name.end(), absl::ascii_isprint);
}

absl::Status CheckDnsName(const std::string& name) {
  return IsDnsName(name)
             ? absl::OkStatus()
             : absl::InvalidArgumentError("certificate name: expected a DNS host name such as label-party.example.com");
}

absl::Status CheckDays(int days) {
  if (days < 1 || days > kMaxCertificateDays) {
    return absl::InvalidArgumentError(
        absl::StrCat("certificate validity: expected 1 to ", kMaxCertificateDays, " days, found ", days));
  }
  return absl::OkStatus();
}

bool SetCommonName(X509_NAME* subject, absl::string_view common_name) {
  const std::string text(common_name);
  return X509_NAME_add_entry_by_NID(subject, NID_commonName, MBSTRING_ASC,
                                    reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()),
                                    /*loc=*/-1, /*set=*/0) == 1;
}

// Without it OpenSSL asks the terminal for the password of an encrypted text.
int NoPassword(char* /*buffer*/, int /*size*/, int /*for_writing*/, void* /*data*/) { return -1; }

// What `write` writes into memory of this kind.
template <typename Write>
absl::StatusOr<std::string> Pem(const BIO_METHOD* memory, Write write) {
  const BioPtr bio(BIO_new(memory));
  char* data = nullptr;
  if (bio == nullptr || write(bio.get()) != 1) {
    return OpenSslError("write PEM");
  }
  const auto size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

}  // namespace

std::string FirstLabel(const std::string& dns_name) { return dns_name.substr(0, dns_name.find('.')); }

// P-256: every TLS library accepts it, and its keys and signatures are short.
PrivateKeyPtr NewKey() { return PrivateKeyPtr(EVP_EC_gen("P-256")); }

absl::StatusOr<X509Ptr> NewUnsigned(absl::string_view common_name, EVP_PKEY* key, int days) {
  X509Ptr certificate(X509_new());
  if (certificate == nullptr || key == nullptr || X509_set_version(certificate.get(), kX509Version3) != 1 ||
      !SetRandomSerial(certificate.get()) || !SetValidity(certificate.get(), days) ||
      !SetCommonName(X509_get_subject_name(certificate.get()), common_name) ||
      X509_set_pubkey(certificate.get(), key) != 1) {
    return OpenSslError("prepare a certificate");
  }
  return certificate;
}

absl::Status Sign(X509* certificate, X509* issuer, EVP_PKEY* issuer_key, const std::vector<ExtensionText>& extensions) {
  if (X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) != 1 ||
      !AddExtensions(certificate, issuer, extensions) || X509_sign(certificate, issuer_key, EVP_sha256()) == 0) {
    return OpenSslError("sign a certificate");
  }
  return absl::OkStatus();
}

std::vector<ExtensionText> PartyExtensions(const std::string& dns_name) {
  // The subject's key identifier comes first: where a certificate signs itself, the authority's is copied from it.
  return {{NID_basic_constraints, "critical,CA:FALSE"}, {NID_key_usage, "critical,digitalSignature"},
          {NID_ext_key_usage, "serverAuth,clientAuth"}, {NID_subject_alt_name, absl::StrCat("DNS:", dns_name)},
          {NID_subject_key_identifier, "hash"},         {NID_authority_key_identifier, "keyid:always"}};
}

absl::StatusOr<std::string> CertificatePem(X509* certificate) {
  return Pem(BIO_s_mem(), [&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

absl::StatusOr<std::string> KeyPem(EVP_PKEY* key) {
  return Pem(BIO_s_secmem(), [&](BIO* bio) {  // Wiped when freed.
    return PEM_write_bio_PKCS8PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
}

namespace {

// An authority's certificate and its private key.
struct KeyPair {
  X509Ptr certificate;
  PrivateKeyPtr key;
};

absl::StatusOr<CertifiedKey> ToPem(X509* certificate, EVP_PKEY* key) {
  CertifiedKey pem;
  SPLITVEIL_ASSIGN_OR_RETURN(pem.certificate_pem, CertificatePem(certificate));
  SPLITVEIL_ASSIGN_OR_RETURN(pem.private_key_pem, KeyPem(key));
  return pem;
}

absl::StatusOr<KeyPair> ReadAuthority(const CertifiedKey& pem) {
  absl::StatusOr<std::vector<X509Ptr>> certificates = ParseCertificates(pem.certificate_pem);
  if (!certificates.ok()) {
    return InvalidCertificate("authority: the certificate is not X.509 in PEM");
  }
  absl::StatusOr<PrivateKeyPtr> key = ParsePrivateKey(pem.private_key_pem);
  if (!key.ok()) {
    return InvalidCertificate("authority: the private key is not an unencrypted key in PEM");
  }
  KeyPair authority{std::move(certificates->front()), *std::move(key)};
  X509* certificate = authority.certificate.get();
  // A key of another authority would sign certificates that no peer accepts.
  if (X509_check_private_key(certificate, authority.key.get()) != 1) {
    return InvalidCertificate("authority: the private key is not the certificate's");
  }
  // A party's own certificate, given here by mistake, would make a chain that no peer verifies.
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
absl::StatusOr<X509Ptr> SignFor(const KeyPair& issuer, EVP_PKEY* public_key, const std::string& dns_name, int days) {
  SPLITVEIL_ASSIGN_OR_RETURN(X509Ptr certificate, NewUnsigned(FirstLabel(dns_name), public_key, days));
  if (!EndWithAuthorityAtTheLatest(certificate.get(), issuer.certificate.get())) {
    return OpenSslError("set the end of a certificate");
  }
  SPLITVEIL_RETURN_IF_ERROR(
      Sign(certificate.get(), issuer.certificate.get(), issuer.key.get(), PartyExtensions(dns_name)));
  return certificate;
}

void FreeNames(GENERAL_NAMES* names) { GENERAL_NAMES_free(names); }
void FreeExtensions(STACK_OF(X509_EXTENSION) * extensions) {
  sk_X509_EXTENSION_pop_free(extensions, X509_EXTENSION_free);
}

using Names = std::unique_ptr<GENERAL_NAMES, OpenSslDeleter<GENERAL_NAMES, FreeNames>>;
using Extensions = std::unique_ptr<STACK_OF(X509_EXTENSION), OpenSslDeleter<STACK_OF(X509_EXTENSION), FreeExtensions>>;

bool AddName(X509_REQ* request, const std::string& dns_name) {
  X509V3_CTX context = {};
  X509V3_set_ctx(&context, nullptr, nullptr, request, nullptr, 0);
  const std::string value = absl::StrCat("DNS:", dns_name);
  const Extensions extensions(sk_X509_EXTENSION_new_null());
  X509_EXTENSION* const name = X509V3_EXT_conf_nid(nullptr, &context, NID_subject_alt_name, value.c_str());
  if (extensions == nullptr || name == nullptr || sk_X509_EXTENSION_push(extensions.get(), name) == 0) {
    // Not pushed, so nobody else frees it.
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
  // A second name, unseen by the person who signs, would be a second identity.
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
  // DNS names are equal whatever their case (RFC 4343).
  return absl::EqualsIgnoreCase(found, dns_name);
}

}  // namespace

absl::StatusOr<CertifiedKey> CreateAuthority(const std::string& common_name, int days) {
  if (!IsCommonName(common_name)) {
    return absl::InvalidArgumentError("authority name: expected 1 to 64 printable ASCII characters");
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckDays(days));
  const PrivateKeyPtr key = NewKey();
  SPLITVEIL_ASSIGN_OR_RETURN(const X509Ptr certificate, NewUnsigned(common_name, key.get(), days));
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
  const PrivateKeyPtr key = NewKey();
  SPLITVEIL_ASSIGN_OR_RETURN(const X509Ptr certificate, SignFor(issuer, key.get(), dns_name, days));
  return ToPem(certificate.get(), key.get());
}

absl::StatusOr<std::string> SignRequest(const CertifiedKey& authority, const std::string& request_pem,
                                        const std::string& dns_name, int days) {
  SPLITVEIL_RETURN_IF_ERROR(CheckDnsName(dns_name));
  SPLITVEIL_RETURN_IF_ERROR(CheckDays(days));
  // The signer says whom it vouches for: the request proves the key alone.
  SPLITVEIL_ASSIGN_OR_RETURN(const PrivateKeyPtr public_key, KeyOfRequest(request_pem, dns_name));
  SPLITVEIL_ASSIGN_OR_RETURN(const KeyPair issuer, ReadAuthority(authority));
  SPLITVEIL_ASSIGN_OR_RETURN(const X509Ptr certificate, SignFor(issuer, public_key.get(), dns_name, days));
  return CertificatePem(certificate.get());
}

absl::StatusOr<RequestAndKey> CreateRequest(const std::string& dns_name) {
  SPLITVEIL_RETURN_IF_ERROR(CheckDnsName(dns_name));
  const PrivateKeyPtr key = NewKey();
  const RequestPtr request(X509_REQ_new());
  if (key == nullptr || request == nullptr ||
      !SetCommonName(X509_REQ_get_subject_name(request.get()), FirstLabel(dns_name)) ||
      X509_REQ_set_pubkey(request.get(), key.get()) != 1 || !AddName(request.get(), dns_name) ||
      X509_REQ_sign(request.get(), key.get(), EVP_sha256()) == 0) {
    return OpenSslError("make a certificate request");
  }
  RequestAndKey made;
  SPLITVEIL_ASSIGN_OR_RETURN(made.request_pem,
                             Pem(BIO_s_mem(), [&](BIO* bio) { return PEM_write_bio_X509_REQ(bio, request.get()); }));
  SPLITVEIL_ASSIGN_OR_RETURN(made.private_key_pem, KeyPem(key.get()));
  return made;
}

absl::StatusOr<PrivateKeyPtr> KeyOfRequest(const std::string& request_pem, const std::string& dns_name) {
  const BioPtr bio(BIO_new_mem_buf(request_pem.data(), static_cast<int>(request_pem.size())));
  const RequestPtr request(bio == nullptr ? nullptr : PEM_read_bio_X509_REQ(bio.get(), nullptr, NoPassword, nullptr));
  if (request == nullptr) {
    return InvalidCertificate("expected a certificate request (PKCS #10) in PEM, found none");
  }
  PrivateKeyPtr key(X509_REQ_get_pubkey(request.get()));
  // Proof of possession: a copied public key would bind this name to somebody else's key.
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
  const PrivateKeyPtr key = NewKey();
  SPLITVEIL_ASSIGN_OR_RETURN(const X509Ptr certificate, NewUnsigned(FirstLabel(dns_name), key.get(), days));
  // No authority is needed: the peer pins this very certificate.
  SPLITVEIL_RETURN_IF_ERROR(Sign(certificate.get(), certificate.get(), key.get(), PartyExtensions(dns_name)));
  return ToPem(certificate.get(), key.get());
}

absl::Status CreateFiles(const std::string& folder, const std::vector<NewFile>& files) {
  if (const std::error_code error = MakeFolders(folder); error) {
    return absl::InvalidArgumentError(absl::StrCat(folder, ": cannot be made: ", error.message()));
  }
  for (size_t i = 0; i < files.size(); ++i) {
    // Never over an existing file: a key that is overwritten is lost.
    absl::Status created = CreateFile(files[i].path, files[i].contents, files[i].mode);
    if (!created.ok()) {
      for (size_t earlier = 0; earlier < i; ++earlier) {
        // A key without its certificate would block the next try and serve nobody.
        unlink(files[earlier].path.c_str());
      }
      return created;
    }
  }
  return absl::OkStatus();
}

}  // namespace splitveil
