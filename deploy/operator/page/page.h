// The page around some data: template, style, scripts and Chart.js, all embedded in the binary.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PAGE_PAGE_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PAGE_PAGE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "common/figures/json_number.h"

namespace splitveil {

// What a page adds to what all share (page.html, page.css, elements.js, charts.js): its body, in which {{title}} stands
// for the title; its style; its script, which runs after the shared one and finds the data in `page`.
struct PageParts {
  absl::string_view body, title, style, script;
};

// The whole HTML document around `json`. Its content security policy lets only the embedded scripts run and loads
// nothing. Text that is not UTF-8 is replaced; nothing in `json` can leave the <script> element it stands in. The title
// is plain text.
std::string RenderPage(const PageParts& parts, const Json& json);

// That nothing has the name `path`, or a page that RenderPage made. Error: AlreadyExists.
absl::Status CheckOwnPage(const std::string& path);

// `json` as text that is safe inside a <script> element: '<', '>' and '&' are escaped, text that is not UTF-8 replaced.
std::string ScriptSafe(const Json& json);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PAGE_PAGE_H_
