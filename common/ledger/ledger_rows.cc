#include "common/ledger/ledger_rows.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"

namespace splitveil {

bool HasEvent(absl::Span<const EventRow> events, absl::string_view kind, absl::string_view detail) {
  return absl::c_any_of(
      events, [&](const EventRow& row) { return row.kind == kind && (detail.empty() || row.detail == detail); });
}

int64_t CountUnprovedAnswers(absl::Span<const EventRow> events) {
  int64_t all = 0;
  for (const EventRow& event : events) {
    if (event.kind == kUnprovedAnswers) {
      // An event is of one answer at least, whatever wrote its text.
      int64_t answers = 1;
      (void)absl::SimpleAtoi(absl::string_view(event.detail).substr(0, event.detail.find(' ')), &answers);
      all += std::max<int64_t>(answers, 1);
    }
  }
  return all;
}

std::string GateActionName(v1::GateAction action) {
  if (action == v1::GATE_ACTION_UNSPECIFIED || !v1::GateAction_IsValid(action)) {
    return "unknown";
  }
  return absl::AsciiStrToLower(v1::GateAction_Name(action));
}

v1::GateAction GateActionOf(absl::string_view name) {
  // A later version may know further actions; its rows still read.
  v1::GateAction action = v1::GATE_ACTION_UNSPECIFIED;
  return v1::GateAction_Parse(absl::AsciiStrToUpper(name), &action) ? action : v1::GATE_ACTION_UNSPECIFIED;
}

}  // namespace splitveil
