// Files put into the binary at build time (common/page/embed.cmake).
#ifndef SPLITVEIL_DEPLOY_OPERATOR_REPORT_EMBEDDED_H_
#define SPLITVEIL_DEPLOY_OPERATOR_REPORT_EMBEDDED_H_

#include "absl/strings/string_view.h"

namespace splitveil {

absl::string_view EmbeddedReportHtml();
absl::string_view EmbeddedReportCss();  // On top of every page's.
absl::string_view EmbeddedReportJs();

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_REPORT_EMBEDDED_H_
