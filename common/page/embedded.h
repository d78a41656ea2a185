// Files put into the binary at build time: `embed(NAME FILE...)` of common/page/CMakeLists.txt in a folder's
// CMakeLists.txt, SPLITVEIL_EMBEDDED(NAME) in the source that uses them.
#ifndef SPLITVEIL_COMMON_PAGE_EMBEDDED_H_
#define SPLITVEIL_COMMON_PAGE_EMBEDDED_H_

#include "absl/strings/string_view.h"

// Declares Embedded<NAME>(), the bytes of the files, in namespace splitveil.
#define SPLITVEIL_EMBEDDED(name) absl::string_view Embedded##name()

#endif  // SPLITVEIL_COMMON_PAGE_EMBEDDED_H_
