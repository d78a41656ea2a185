#include "common/transport/certificate.h"

#include <algorithm>
#include <ctime>
#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/status/status_macros.h"

namespace splitveil {

namespace {

using BioPtr = std::unique_ptr<BIO, OpenSslDeleter<BIO, BIO_vfree>>;

// Without it OpenSSL asks for a passphrase on the terminal.
int NoPassphrase(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*data*/) { return -1; }

// A name comes from a stranger's certificate and goes to a terminal.
std::string Printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return !absl::ascii_isprint(c); }, '?');
  return text;
}

}  // namespace

std::string TakeOpenSslError() {
  const unsigned long code = ERR_get_error();  // NOLINT(google-runtime-int): OpenSSL's type.
  ERR_clear_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "unknown error" : reason;
}

absl::StatusOr<std::vector<X509Ptr>> ParseCertificates(const std::string& pem) {
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  std::vector<X509Ptr> certificates;
  while (X509Ptr certificate{PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, nullptr)}) {
    certificates.push_back(std::move(certificate));
  }
  // The end of the text reads as "no start line"; anything else is a broken certificate.
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  const std::string reason = TakeOpenSslError();
  if (certificates.empty() || !at_end) {
    return absl::InvalidArgumentError(absl::StrCat("expected certificates in PEM, found: ", reason));
  }
  return certificates;
}

absl::StatusOr<PrivateKeyPtr> ParsePrivateKey(const std::string& pem) {
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  PrivateKeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr));
  if (key == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a private key in PEM without passphrase, found: ", TakeOpenSslError()));
  }
  return key;
}

absl::StatusOr<X509StorePtr> TrustStore(const std::vector<X509Ptr>& authorities) {
  X509StorePtr store(X509_STORE_new());
  for (const X509Ptr& authority : authorities) {
    if (store == nullptr || X509_STORE_add_cert(store.get(), authority.get()) != 1) {
      return absl::InternalError(absl::StrCat("OpenSSL cannot hold an authority: ", TakeOpenSslError()));
    }
  }
  return store;
}

std::string DnsNames(X509* certificate) {
  std::string text;
  auto* names =
      certificate == nullptr
          ? nullptr
          : static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(names); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names, i);
    if (name->type == GEN_DNS) {
      const ASN1_IA5STRING* dns = name->d.dNSName;
      absl::StrAppend(&text, text.empty() ? "" : ", ",
                      absl::string_view(reinterpret_cast<const char*>(ASN1_STRING_get0_data(dns)),
                                        static_cast<size_t>(ASN1_STRING_length(dns))));
    }
  }
  GENERAL_NAMES_free(names);
  return text.empty() ? "none" : Printable(std::move(text));
}

bool CarriesDnsName(X509* certificate, const std::string& name) {
  // A party is one name. A wildcard would let any host of a domain be the peer.
  constexpr unsigned kFlags = X509_CHECK_FLAG_NO_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT;
  return X509_check_host(certificate, name.data(), name.size(), kFlags, nullptr) == 1;
}

namespace {

std::string NameText(const X509_NAME* name) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  char* data = nullptr;
  if (bio == nullptr || X509_NAME_print_ex(bio.get(), name, 0, XN_FLAG_RFC2253) < 0) {
    return "unreadable";
  }
  const auto size = BIO_get_mem_data(bio.get(), &data);
  return Printable(std::string(data, static_cast<size_t>(size)));
}

std::string DateText(const ASN1_TIME* time) {
  std::tm parts = {};
  return ASN1_TIME_to_tm(time, &parts) == 1
             ? absl::StrFormat("%04d-%02d-%02d", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday)
             : "unreadable";
}

int64_t UnixTime(const ASN1_TIME* time) {
  std::tm parts = {};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? static_cast<int64_t>(timegm(&parts)) : 0;
}

CertificateFacts FactsOf(X509* certificate) {
  CertificateFacts facts;
  facts.subject = NameText(X509_get_subject_name(certificate));
  facts.issuer = NameText(X509_get_issuer_name(certificate));
  facts.dns_names = DnsNames(certificate);
  facts.not_before = DateText(X509_get0_notBefore(certificate));
  facts.not_after = DateText(X509_get0_notAfter(certificate));
  facts.not_after_unix = UnixTime(X509_get0_notAfter(certificate));
  // Dates that cannot be read count as those of a certificate that does not hold: compared, they give 0.
  facts.begun = X509_cmp_current_time(X509_get0_notBefore(certificate)) < 0;
  facts.expired = X509_cmp_current_time(X509_get0_notAfter(certificate)) <= 0;
  int days = 0, seconds = 0;
  if (ASN1_TIME_diff(&days, &seconds, nullptr, X509_get0_notAfter(certificate)) == 1) {
    // A certificate that ends within the day has 0 days left, one that ended has -1.
    facts.days_left = days - (seconds < 0 ? 1 : 0);
  }
  facts.is_authority = X509_check_ca(certificate) != 0;
  facts.self_signed = X509_self_signed(certificate, /*verify_signature=*/1) == 1;
  unsigned int size = 0;
  X509_digest(certificate, EVP_sha256(), facts.sha256.data(), &size);
  // gRPC reads the same queue, and would take our leftovers for its own failure.
  ERR_clear_error();
  return facts;
}

}  // namespace

absl::StatusOr<std::vector<CertificateFacts>> ReadCertificateFacts(const std::string& pem) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<X509Ptr> certificates, ParseCertificates(pem));
  std::vector<CertificateFacts> facts;
  facts.reserve(certificates.size());
  for (const X509Ptr& certificate : certificates) {
    facts.push_back(FactsOf(certificate.get()));
  }
  return facts;
}

}  // namespace splitveil
