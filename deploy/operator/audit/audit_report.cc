#include "deploy/operator/audit/audit_report.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "common/crypto/sha256.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

absl::StatusOr<AuditedFile> Describe(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    return absl::NotFoundError(absl::StrCat(path, ": cannot be opened"));
  }
  Sha256Hasher hasher;
  std::vector<char> buffer(1 << 20);
  while (stream.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || stream.gcount() > 0) {
    hasher.Update({buffer.data(), static_cast<size_t>(stream.gcount())});
  }
  if (stream.bad()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read"));
  }
  return AuditedFile{std::filesystem::path(path).filename().string(), absl::BytesToHexString(AsBytes(hasher.Finish()))};
}

}  // namespace

absl::StatusOr<AuditSubject> DescribeAuditSubject(const std::string& policy_path,
                                                  const std::vector<std::string>& ledger_paths, absl::Time now) {
  AuditSubject subject;
  SPLITVEIL_ASSIGN_OR_RETURN(subject.policy, Describe(policy_path));
  for (const std::string& path : ledger_paths) {
    SPLITVEIL_ASSIGN_OR_RETURN(AuditedFile ledger, Describe(path));
    subject.ledgers.push_back(std::move(ledger));
  }
  subject.judged_at = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", now, absl::UTCTimeZone());
  return subject;
}

}  // namespace splitveil
