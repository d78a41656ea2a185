#include "common/monitoring/certificate_dates.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "common/transport/certificate_facts.h"

namespace splitveil {
namespace {

// The ends of all certificates in `pem`, ascending; empty where it cannot be read.
std::vector<int64_t> Ends(const std::string& pem) {
  std::vector<int64_t> ends;
  if (const absl::StatusOr<std::vector<CertificateFacts>> facts = ReadCertificateFacts(pem); facts.ok()) {
    for (const CertificateFacts& each : *facts) {
      ends.push_back(each.not_after_unix);
    }
  }
  std::sort(ends.begin(), ends.end());
  return ends;
}

void Add(const char* name, int64_t not_after, v1::GetStatusResponse& status) {
  if (not_after > 0) {
    v1::CertificateEnd& end = *status.add_certificates();
    end.set_certificate(name);
    end.set_not_after(not_after);
  }
}

}  // namespace

CertificateDates::CertificateDates(const TlsIdentity& identity, int (*requests)()) : identity_(identity, requests) {}

void CertificateDates::AddTo(v1::GetStatusResponse& status) {
  const absl::MutexLock lock(&mutex_);
  if (const std::optional<TlsIdentity> changed = identity_.Next(); changed.has_value()) {
    const std::vector<int64_t> own = Ends(changed->certificate_pem), trusted = Ends(changed->authority_pem);
    own_ = own.empty() ? 0 : own.front();
    trusted_ = trusted.empty() ? 0 : trusted.back();
  }
  Add("own", own_, status);
  Add("trusted", trusted_, status);
}

}  // namespace splitveil
