// Files put into the binary at build time (common/page/embed.cmake).
#ifndef SPLITVEIL_DEPLOY_OPERATOR_SWEEP_EMBEDDED_H_
#define SPLITVEIL_DEPLOY_OPERATOR_SWEEP_EMBEDDED_H_

#include "absl/strings/string_view.h"

namespace splitveil {

absl::string_view EmbeddedTradeoffHtml();
absl::string_view EmbeddedTradeoffCss();  // On top of every page's.
absl::string_view EmbeddedTradeoffJs();

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_SWEEP_EMBEDDED_H_
