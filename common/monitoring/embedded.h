// Files put into the binary at build time (common/page/embed.cmake).
#ifndef SPLITVEIL_COMMON_MONITORING_EMBEDDED_H_
#define SPLITVEIL_COMMON_MONITORING_EMBEDDED_H_

#include "absl/strings/string_view.h"

namespace splitveil {

absl::string_view EmbeddedConsoleHtml();
absl::string_view EmbeddedConsoleCss();  // On top of every page's.
absl::string_view EmbeddedConsoleJs();

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MONITORING_EMBEDDED_H_
