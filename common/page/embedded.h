// Files put into the binary at build time by embed.cmake: what every page shares.
#ifndef SPLITVEIL_COMMON_PAGE_EMBEDDED_H_
#define SPLITVEIL_COMMON_PAGE_EMBEDDED_H_

#include "absl/strings/string_view.h"

namespace splitveil {

absl::string_view EmbeddedPageCss();
absl::string_view EmbeddedPageJs();   // elements.js and charts.js.
absl::string_view EmbeddedChartJs();  // Chart.js.

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_PAGE_EMBEDDED_H_
