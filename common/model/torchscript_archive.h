// Whether a TorchScript file still is what was written: LibTorch's own reader does not look at the checksums in it,
// takes a damaged weight for the weight, and ends the process on other damage.
#ifndef SPLITVEIL_COMMON_MODEL_TORCHSCRIPT_ARCHIVE_H_
#define SPLITVEIL_COMMON_MODEL_TORCHSCRIPT_ARCHIVE_H_

#include <string>

#include "absl/status/status.h"

namespace splitveil {

// Reads the ZIP archive at `path` once from end to end. It finds damage, not intent: a checksum is no signature. Error:
// InvalidArgument where it is no such archive, or what it holds is not what its CRC-32 says.
absl::Status CheckTorchScriptArchive(const std::string& path);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MODEL_TORCHSCRIPT_ARCHIVE_H_
