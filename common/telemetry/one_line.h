// Text that may hold a peer's words, made safe for a terminal and a log.
#ifndef SPLITVEIL_COMMON_TELEMETRY_ONE_LINE_H_
#define SPLITVEIL_COMMON_TELEMETRY_ONE_LINE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace splitveil {

// `text` with every control character (C0 and DEL, and C1 as UTF-8 writes it) replaced by a space, so that it stays one
// line and cannot steer the terminal it is shown on; trailing spaces are cut. Everything else is kept byte for byte.
std::string OneLine(absl::string_view text);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_TELEMETRY_ONE_LINE_H_
