// Files put into the binary at build time (common/page/embed.cmake): what a page with its data in it needs.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PAGE_EMBEDDED_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PAGE_EMBEDDED_H_

#include "absl/strings/string_view.h"

namespace splitveil {

absl::string_view EmbeddedPageHtml();  // The document around a page's body.
absl::string_view EmbeddedPageDataJs();

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PAGE_EMBEDDED_H_
