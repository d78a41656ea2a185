#include "deploy/operator/certificates/certificate_authority.h"

#include <algorithm>
#include <array>
#include <memory>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "common/crypto/secure_random.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr long kX509Version3 = 2;         // NOLINT(google-runtime-int): OpenSSL's type. The encoding counts from zero.
constexpr long kClockSkewSeconds = 3600;  // NOLINT(google-runtime-int)
constexpr size_t kMaxCommonNameChars = 64;  // RFC 5280, ub-common-name.
constexpr size_t kMaxDnsNameChars = 253;
constexpr size_t kMaxDnsLabelChars = 63;

template <typename T, void (*FreeFunction)(T*)>
struct Deleter {
  void operator()(T* object) const { FreeFunction(object); }
};
void FreeBio(BIO* bio) { BIO_free_all(bio); }

using Bio = std::unique_ptr<BIO, Deleter<BIO, FreeBio>>;
using BigNumber = std::unique_ptr<BIGNUM, Deleter<BIGNUM, BN_free>>;
using Certificate = std::unique_ptr<X509, Deleter<X509, X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Deleter<X509_EXTENSION, X509_EXTENSION_free>>;
using PrivateKey = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY, EVP_PKEY_free>>;

// A certificate and its private key, an authority's or a party's.
struct KeyPair {
  Certificate certificate;
  PrivateKey key;
};

struct ExtensionText {
  int nid;
  std::string value;
};

// OpenSSL's error queue is a thread's, and gRPC reads it too: what is left there would be taken for a failure of TLS.
absl::Status OpenSslError(const char* operation) {
  ERR_clear_error();
  return absl::InternalError(absl::StrCat("OpenSSL failed to ", operation));
}

absl::Status Invalid(const char* what) {
  ERR_clear_error();
  return absl::InvalidArgumentError(what);
}

bool IsCommonName(const std::string& name) {
  return !name.empty() && name.size() <= kMaxCommonNameChars &&
         std::all_of(name.begin(), name.end(), absl::ascii_isprint);
}

bool IsDnsLabel(absl::string_view label) {
  return !label.empty() && label.size() <= kMaxDnsLabelChars && label.front() != '-' && label.back() != '-' &&
         std::all_of(label.begin(), label.end(), [](char c) { return absl::ascii_isalnum(c) || c == '-'; });
}

// The last label has a letter, or 10.0.0.1 would be a name (RFC 1123, section 2.1).
bool IsDnsName(const std::string& name) {
  const std::vector<absl::string_view> labels = absl::StrSplit(name, '.');
  return name.size() <= kMaxDnsNameChars && std::all_of(labels.begin(), labels.end(), IsDnsLabel) &&
         std::any_of(labels.back().begin(), labels.back().end(), absl::ascii_isalpha);
}

absl::Status CheckDays(int days) {
  if (days < 1 || days > kMaxCertificateDays) {
    return absl::InvalidArgumentError(
        absl::StrCat("certificate validity: expected 1 to ", kMaxCertificateDays, " days, found ", days));
  }
  return absl::OkStatus();
}

bool SetRandomSerial(X509* certificate) {
  std::array<uint8_t, 16> bytes;
  FillSecureRandom(absl::MakeSpan(bytes));
  const BigNumber serial(BN_bin2bn(bytes.data(), bytes.size(), nullptr));
  return serial != nullptr && BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool SetValidity(X509* certificate, int days) {
  return X509_gmtime_adj(X509_getm_notBefore(certificate), -kClockSkewSeconds) != nullptr &&
         X509_time_adj_ex(X509_getm_notAfter(certificate), days, -kClockSkewSeconds, nullptr) != nullptr;
}

bool SetCommonName(X509* certificate, absl::string_view common_name) {
  const std::string text(common_name);
  return X509_NAME_add_entry_by_NID(X509_get_subject_name(certificate), NID_commonName, MBSTRING_ASC,
                                    reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()),
                                    /*loc=*/-1, /*set=*/0) == 1;
}

// The values are OpenSSL's little language, in which commas separate: whatever is put into it was validated before.
bool AddExtensions(X509* certificate, X509* issuer, const std::vector<ExtensionText>& extensions) {
  X509V3_CTX context = {};
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  return std::all_of(extensions.begin(), extensions.end(), [&](const ExtensionText& text) {
    const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, text.nid, text.value.c_str()));
    return extension != nullptr && X509_add_ext(certificate, extension.get(), /*loc=*/-1) == 1;
  });
}

// Everything but issuer, extensions and signature.
absl::StatusOr<KeyPair> NewUnsigned(absl::string_view common_name, int days) {
  KeyPair unsigned_pair{Certificate(X509_new()), PrivateKey(EVP_EC_gen("P-256"))};
  X509* certificate = unsigned_pair.certificate.get();
  if (certificate == nullptr || unsigned_pair.key == nullptr || X509_set_version(certificate, kX509Version3) != 1 ||
      !SetRandomSerial(certificate) || !SetValidity(certificate, days) || !SetCommonName(certificate, common_name) ||
      X509_set_pubkey(certificate, unsigned_pair.key.get()) != 1) {
    return OpenSslError("prepare a certificate");
  }
  return unsigned_pair;
}

absl::Status Sign(X509* certificate, X509* issuer, EVP_PKEY* issuer_key, const std::vector<ExtensionText>& extensions) {
  if (X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) != 1 ||
      !AddExtensions(certificate, issuer, extensions) || X509_sign(certificate, issuer_key, EVP_sha256()) == 0) {
    return OpenSslError("sign a certificate");
  }
  return absl::OkStatus();
}

std::string Contents(BIO* bio) {
  char* data = nullptr;
  const auto size = BIO_get_mem_data(bio, &data);
  return std::string(data, static_cast<size_t>(size));
}

absl::StatusOr<CertifiedKey> ToPem(X509* certificate, EVP_PKEY* key) {
  const Bio certificate_bio(BIO_new(BIO_s_mem()));
  const Bio key_bio(BIO_new(BIO_s_secmem()));  // Wiped when freed.
  if (certificate_bio == nullptr || key_bio == nullptr || PEM_write_bio_X509(certificate_bio.get(), certificate) != 1 ||
      PEM_write_bio_PKCS8PrivateKey(key_bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return OpenSslError("write PEM");
  }
  return CertifiedKey{Contents(certificate_bio.get()), Contents(key_bio.get())};
}

// Without it OpenSSL asks the terminal for the password of an encrypted key.
int NoPassword(char* /*buffer*/, int /*size*/, int /*for_writing*/, void* /*data*/) { return -1; }

Bio ReadOnly(const std::string& text) { return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

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
    return Invalid("authority: the certificate is not X.509 in PEM");
  }
  if (authority.key == nullptr) {
    return Invalid("authority: the private key is not an unencrypted key in PEM");
  }
  if (X509_check_private_key(certificate, authority.key.get()) != 1) {
    return Invalid("authority: the private key is not the certificate's");
  }
  if (X509_check_ca(certificate) != 1 || (X509_get_key_usage(certificate) & KU_KEY_CERT_SIGN) == 0) {
    return Invalid("authority: the certificate may not sign certificates");
  }
  if (X509_cmp_current_time(X509_get0_notBefore(certificate)) >= 0 ||
      X509_cmp_current_time(X509_get0_notAfter(certificate)) <= 0) {
    return Invalid("authority: the certificate is not valid today");
  }
  return authority;
}

// A party that outlived its authority would fail at its peer, at a time that its own certificate does not tell.
bool EndWithAuthorityAtTheLatest(X509* certificate, const X509* authority) {
  const ASN1_TIME* authority_end = X509_get0_notAfter(authority);
  return ASN1_TIME_compare(X509_get0_notAfter(certificate), authority_end) <= 0 ||
         X509_set1_notAfter(certificate, authority_end) == 1;
}

}  // namespace

absl::StatusOr<CertifiedKey> CreateAuthority(const std::string& common_name, int days) {
  if (!IsCommonName(common_name)) {
    return absl::InvalidArgumentError("authority name: expected 1 to 64 printable ASCII characters");
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckDays(days));
  SPLITVEIL_ASSIGN_OR_RETURN(KeyPair authority, NewUnsigned(common_name, days));
  X509* certificate = authority.certificate.get();
  // The subject's key identifier comes first: the authority's is copied from it.
  SPLITVEIL_RETURN_IF_ERROR(Sign(certificate, certificate, authority.key.get(),
                                 {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                                  {NID_key_usage, "critical,keyCertSign,cRLSign"},
                                  {NID_subject_key_identifier, "hash"},
                                  {NID_authority_key_identifier, "keyid:always"}}));
  return ToPem(certificate, authority.key.get());
}

absl::StatusOr<CertifiedKey> IssueCertificate(const CertifiedKey& authority, const std::string& dns_name, int days) {
  if (!IsDnsName(dns_name)) {
    return absl::InvalidArgumentError("certificate name: expected a DNS host name such as label-party.example.com");
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckDays(days));
  SPLITVEIL_ASSIGN_OR_RETURN(const KeyPair issuer, ReadAuthority(authority));
  const std::string first_label = dns_name.substr(0, dns_name.find('.'));
  SPLITVEIL_ASSIGN_OR_RETURN(const KeyPair party, NewUnsigned(first_label, days));
  X509* certificate = party.certificate.get();
  if (!EndWithAuthorityAtTheLatest(certificate, issuer.certificate.get())) {
    return OpenSslError("set the end of a certificate");
  }
  SPLITVEIL_RETURN_IF_ERROR(Sign(certificate, issuer.certificate.get(), issuer.key.get(),
                                 {{NID_basic_constraints, "critical,CA:FALSE"},
                                  {NID_key_usage, "critical,digitalSignature"},
                                  {NID_ext_key_usage, "serverAuth,clientAuth"},
                                  {NID_subject_alt_name, absl::StrCat("DNS:", dns_name)},
                                  {NID_subject_key_identifier, "hash"},
                                  {NID_authority_key_identifier, "keyid:always"}}));
  return ToPem(certificate, party.key.get());
}

}  // namespace splitveil
