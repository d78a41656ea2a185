#include "label_party/session/refusal_log.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "common/status/status_macros.h"
#include "common/telemetry/log.h"

namespace splitveil {

bool IsRefusal(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
      return true;
    default:
      return false;
  }
}

bool IsOfLedger(const absl::Status& status) { return absl::IsInternal(status) || absl::IsDataLoss(status); }

absl::Status RefusalLog::Note(absl::string_view call, const absl::Status& status, Ledger& ledger) {
  if (!IsRefusal(status)) {
    return absl::OkStatus();
  }
  if (!noted_.has_value()) {
    SPLITVEIL_ASSIGN_OR_RETURN(noted_, ledger.CountEventsOfRun("refused"));
  }
  if (*noted_ >= kMaxNoted) {
    return absl::OkStatus();
  }
  ++*noted_;
  const bool says_where = absl::StartsWith(status.message(), absl::StrCat(call, ":"));
  const std::string what = OneLine(absl::StrCat(says_where ? "" : absl::StrCat(call, ": "), status.message()));
  LogWarning("refused a message of the non-label party: ", what);
  return ledger.RecordEvent("refused", what);
}

}  // namespace splitveil
