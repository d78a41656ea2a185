// Folders that nobody but their owner may put files into.
#ifndef SPLITVEIL_COMMON_STORAGE_MAKE_FOLDERS_H_
#define SPLITVEIL_COMMON_STORAGE_MAKE_FOLDERS_H_

#include <filesystem>
#include <system_error>

namespace splitveil {

// Makes `path` and the folders above it that are missing, with mode 0755 less the umask: whoever may write to a folder
// may replace a key or a trust anchor in it. As std::filesystem::create_directories otherwise: what is there stays as
// it is.
std::error_code MakeFolders(const std::filesystem::path& path);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_STORAGE_MAKE_FOLDERS_H_
