#include "common/ledger/ledger_rows.h"

#include "absl/strings/ascii.h"

namespace splitveil {

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
