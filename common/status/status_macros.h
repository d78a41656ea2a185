// Early returns of absl::Status and absl::StatusOr: the one way to hand an error to the caller as it is.
#ifndef SPLITVEIL_COMMON_STATUS_STATUS_MACROS_H_
#define SPLITVEIL_COMMON_STATUS_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// SPLITVEIL_RETURN_IF_ERROR(expression): evaluates an absl::Status once and returns it unless it is OK.
#define SPLITVEIL_RETURN_IF_ERROR(...)                                           \
  do {                                                                           \
    if (absl::Status splitveil_status = (__VA_ARGS__); !splitveil_status.ok()) { \
      return splitveil_status;                                                   \
    }                                                                            \
  } while (false)

// SPLITVEIL_ASSIGN_OR_RETURN(target, expression): evaluates an absl::StatusOr once, returns its status unless it is OK,
// and else moves its value into `target`: a declaration (`const Digest digest`; no comma outside parentheses) or what
// stands before a `=`. No statement of its own under an `if` without braces.
#define SPLITVEIL_ASSIGN_OR_RETURN(target, ...) \
  SPLITVEIL_ASSIGN_OR_RETURN_AS(SPLITVEIL_STATUS_OR_NAME(__LINE__), target, __VA_ARGS__)

#define SPLITVEIL_ASSIGN_OR_RETURN_AS(result, target, ...) \
  auto result = (__VA_ARGS__);                             \
  if (!result.ok()) {                                      \
    return std::move(result).status();                     \
  }                                                        \
  target = *std::move(result)

#define SPLITVEIL_STATUS_OR_NAME(line) SPLITVEIL_STATUS_OR_JOIN(splitveil_status_or_, line)
#define SPLITVEIL_STATUS_OR_JOIN(prefix, line) prefix##line

#endif  // SPLITVEIL_COMMON_STATUS_STATUS_MACROS_H_
