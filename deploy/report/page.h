// The page around the report's data: template, style, script and Chart.js, all embedded in the binary.
#ifndef SPLITVEIL_DEPLOY_REPORT_PAGE_H_
#define SPLITVEIL_DEPLOY_REPORT_PAGE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace splitveil {

// The whole HTML document around `json`, which must be safe inside a <script> element.
std::string RenderPage(absl::string_view json);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_REPORT_PAGE_H_
