// The page around the report's data: template, style, script and Chart.js, all embedded in the binary.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_REPORT_PAGE_H_
#define SPLITVEIL_DEPLOY_OPERATOR_REPORT_PAGE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace splitveil {

// What a page is made of: a document with the places {{policy}}, {{style}}, {{chart}}, {{data}} and {{script}}.
struct PageParts {
  absl::string_view html, style, script;
};

// The whole HTML document around `json`, which must be safe inside a <script> element. Its content security policy lets
// only the embedded scripts run and loads nothing.
std::string RenderPage(const PageParts& parts, absl::string_view json);
// The report's.
std::string RenderPage(absl::string_view json);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_REPORT_PAGE_H_
