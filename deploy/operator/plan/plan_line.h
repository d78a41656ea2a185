// How every figure of a plan is printed.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PLAN_PLAN_LINE_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PLAN_PLAN_LINE_H_

#include <string>

#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace splitveil {

// Appends one line to `text`: what it is, and the figure with its unit.
inline void Line(absl::string_view name, const std::string& figure, std::string& text) {
  absl::StrAppendFormat(&text, "  %-34s %s\n", name, figure);
}

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PLAN_PLAN_LINE_H_
