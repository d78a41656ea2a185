// Files put into the binary at build time (common/page/embed.cmake).
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PLAN_EMBEDDED_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PLAN_EMBEDDED_H_

#include "absl/strings/string_view.h"

namespace splitveil {

absl::string_view EmbeddedLossCurves();

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PLAN_EMBEDDED_H_
