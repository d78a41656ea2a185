#include "deploy/operator/preparation/table_files.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "deploy/operator/preparation/byte_source.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

absl::StatusOr<std::vector<std::string>> FilesOfFolder(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    // Marks of the programs that write parts, such as _SUCCESS and .part-0.crc.
    const char first = entry->path().filename().native().front();
    std::error_code ignored;
    if (first != '.' && first != '_' && entry->is_regular_file(ignored)) {
      files.push_back(entry->path().string());
    }
  }
  if (error || files.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(folder, ": expected a folder with the files of a table, found ",
                                                   error ? error.message() : "none"));
  }
  std::sort(files.begin(), files.end());
  return files;
}

absl::StatusOr<std::vector<std::string>> FilesLike(const std::string& pattern) {
  glob_t found = {};
  const int code = glob(pattern.c_str(), GLOB_BRACE, nullptr, &found);
  std::vector<std::string> files(found.gl_pathv, found.gl_pathv + (code == 0 ? found.gl_pathc : 0));
  globfree(&found);
  return files.empty() ? absl::StatusOr<std::vector<std::string>>(absl::NotFoundError(
                             absl::StrCat(pattern, ": expected a file, or files that match this pattern, found none")))
                       : files;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> TableFiles(const std::vector<std::string>& inputs) {
  std::vector<std::string> files;
  for (const std::string& input : inputs) {
    std::error_code ignored;
    std::vector<std::string> more = {input};
    if (std::filesystem::is_directory(input, ignored)) {
      SPLITVEIL_ASSIGN_OR_RETURN(more, FilesOfFolder(input));
    } else if (input.find_first_of("*?[{") != std::string::npos && !std::filesystem::exists(input, ignored)) {
      SPLITVEIL_ASSIGN_OR_RETURN(more, FilesLike(input));
    }
    files.insert(files.end(), more.begin(), more.end());
  }
  if (std::count(files.begin(), files.end(), kStandardInput) > 1) {
    return absl::InvalidArgumentError("input: expected standard input (-) once, found it twice");
  }
  return files;
}

}  // namespace splitveil
