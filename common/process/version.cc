#include "common/process/version.h"

namespace splitveil {

const char* Version() { return SPLITVEIL_VERSION; }

}  // namespace splitveil
