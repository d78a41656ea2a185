#include "common/operations/untold_end.h"

#include <cstdio>
#include <iostream>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "common/config/agreement.h"
#include "common/process/file.h"
#include "common/telemetry/log.h"

namespace splitveil {
namespace {

std::string PathOf(const std::string& ledger_path) { return ledger_path + ".ended"; }

}  // namespace

absl::Status KeepUntoldEnd(const std::string& ledger_path, const v1::RunAgreement& agreement, const UntoldEnd& end) {
  return WriteFile(PathOf(ledger_path),
                   absl::StrCat(AgreementFingerprint(agreement), "\n", end.run_id, "\n", end.result, "\n"));
}

std::optional<UntoldEnd> FindUntoldEnd(const std::string& ledger_path, const v1::RunAgreement& agreement) {
  const absl::StatusOr<std::string> file = ReadFile(PathOf(ledger_path));
  const std::vector<std::string> lines = absl::StrSplit(file.ok() ? *file : "", '\n');
  constexpr size_t kLines = 4;  // The last one is empty.
  if (lines.size() != kLines || lines[0] != AgreementFingerprint(agreement)) {
    return std::nullopt;
  }
  return UntoldEnd{lines[1], lines[2]};
}

void ForgetUntoldEnd(const std::string& ledger_path) { std::remove(PathOf(ledger_path).c_str()); }

void TellOf(const UntoldEnd& end, const std::string& ledger_path) {
  LogInfo(
      "run ", end.run_id,
      " was complete before this party was ended from outside: this is its end. Started once more, a new run begins");
  if (!end.result.empty()) {
    std::cout << end.result << std::endl;
  }
  ForgetUntoldEnd(ledger_path);
}

}  // namespace splitveil
