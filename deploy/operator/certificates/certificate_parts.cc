#include "deploy/operator/certificates/certificate_parts.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <system_error>

#include "absl/strings/ascii.h"
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

using BigNumber = std::unique_ptr<BIGNUM, CertificateDeleter<BIGNUM, BN_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, CertificateDeleter<X509_EXTENSION, X509_EXTENSION_free>>;

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
    const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, text.nid, text.value.c_str()));
    return extension != nullptr && X509_add_ext(certificate, extension.get(), /*loc=*/-1) == 1;
  });
}

std::string Contents(BIO* bio) {
  char* data = nullptr;
  const auto size = BIO_get_mem_data(bio, &data);
  return std::string(data, static_cast<size_t>(size));
}

}  // namespace

absl::Status OpenSslError(const char* operation) {
  ERR_clear_error();
  return absl::InternalError(absl::StrCat("OpenSSL failed to ", operation));
}

absl::Status InvalidCertificate(absl::string_view what) {
  ERR_clear_error();
  return absl::InvalidArgumentError(what);
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

std::string FirstLabel(const std::string& dns_name) { return dns_name.substr(0, dns_name.find('.')); }

PrivateKey NewKey() { return PrivateKey(EVP_EC_gen("P-256")); }

bool SetCommonName(X509_NAME* subject, absl::string_view common_name) {
  const std::string text(common_name);
  return X509_NAME_add_entry_by_NID(subject, NID_commonName, MBSTRING_ASC,
                                    reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()),
                                    /*loc=*/-1, /*set=*/0) == 1;
}

absl::StatusOr<Certificate> NewUnsigned(absl::string_view common_name, EVP_PKEY* key, int days) {
  Certificate certificate(X509_new());
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
  const Bio bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || PEM_write_bio_X509(bio.get(), certificate) != 1) {
    return OpenSslError("write PEM");
  }
  return Contents(bio.get());
}

absl::StatusOr<std::string> KeyPem(EVP_PKEY* key) {
  const Bio bio(BIO_new(BIO_s_secmem()));  // Wiped when freed.
  if (bio == nullptr || PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return OpenSslError("write PEM");
  }
  return Contents(bio.get());
}

Bio ReadOnly(const std::string& text) { return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

int NoPassword(char* /*buffer*/, int /*size*/, int /*for_writing*/, void* /*data*/) { return -1; }

absl::Status CreateFiles(const std::string& folder, const std::vector<NewFile>& files) {
  if (const std::error_code error = MakeFolders(folder); error) {
    return absl::InvalidArgumentError(absl::StrCat(folder, ": cannot be made: ", error.message()));
  }
  for (size_t i = 0; i < files.size(); ++i) {
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
