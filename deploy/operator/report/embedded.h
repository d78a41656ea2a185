// Files put into the binary at build time by embed.cmake.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_REPORT_EMBEDDED_H_
#define SPLITVEIL_DEPLOY_OPERATOR_REPORT_EMBEDDED_H_

#include "absl/strings/string_view.h"

namespace splitveil {

absl::string_view EmbeddedReportHtml();
absl::string_view EmbeddedReportCss();
absl::string_view EmbeddedReportJs();
absl::string_view EmbeddedChartJs();

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_REPORT_EMBEDDED_H_
