// How the ledger, its events and the RESULT line write what the release gate decided.
#ifndef SPLITVEIL_COMMON_LEDGER_GATE_ACTION_H_
#define SPLITVEIL_COMMON_LEDGER_GATE_ACTION_H_

#include <string>

#include "absl/strings/string_view.h"

#include "splitveil/v1/protection.pb.h"

namespace splitveil {

// The enum's name in small letters: "release", "raise_noise". "unknown" for what is none of its values.
std::string GateActionName(v1::GateAction action);

// The action of that name; GATE_ACTION_UNSPECIFIED where there is none, as in the ledger of a later version.
v1::GateAction GateActionOf(absl::string_view name);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEDGER_GATE_ACTION_H_
