#include "common/transport/certificate_facts.h"

#include <algorithm>
#include <ctime>
#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"

#include "common/status/status_macros.h"
#include "common/transport/x509.h"

namespace splitveil {
namespace {

using BioPtr = std::unique_ptr<BIO, OpenSslDeleter<BIO, BIO_vfree>>;

std::string NameText(const X509_NAME* name) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  char* data = nullptr;
  if (bio == nullptr || X509_NAME_print_ex(bio.get(), name, 0, XN_FLAG_RFC2253) < 0) {
    return "unreadable";
  }
  const auto size = BIO_get_mem_data(bio.get(), &data);
  std::string text(data, static_cast<size_t>(size));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return !absl::ascii_isprint(c); }, '?');
  return text;
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
    facts.days_left = days - (seconds < 0 ? 1 : 0);
  }
  facts.is_authority = X509_check_ca(certificate) != 0;
  facts.self_signed = X509_self_signed(certificate, /*verify_signature=*/1) == 1;
  unsigned int size = 0;
  X509_digest(certificate, EVP_sha256(), facts.sha256.data(), &size);
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
