#include "deploy/operator/preparation/table_files.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "deploy/operator/preparation/byte_source.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

// That nothing of the folder is left out unsaid.
absl::Status CheckPart(const std::filesystem::directory_entry& entry, bool is_folder) {
  std::error_code ignored;
  const std::string name = entry.path().filename().string();
  if (is_folder && absl::StrContains(name, '=')) {
    return absl::InvalidArgumentError(absl::StrCat(
        entry.path().string(), ": the rows' \"", name.substr(0, name.find('=')),
        "\" is only in the name of this folder, which is not read: write the column into the files, or name these by a "
        "pattern (",
        (entry.path().parent_path() / name.substr(0, name.find('=') + 1)).string(), "*/*) to go without it"));
  }
  return is_folder || entry.is_regular_file(ignored)
             ? absl::OkStatus()
             : absl::InvalidArgumentError(
                   absl::StrCat(entry.path().string(), ": expected a file or a folder, found neither: remove it"));
}

absl::StatusOr<std::vector<std::string>> FilesOfFolder(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, fs::directory_options::follow_directory_symlink, error), end;
       !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    const bool is_folder = entry->is_directory(ignored);
    // Marks of the programs that write parts, such as _SUCCESS, .part-0.crc and _temporary/.
    if (const char first = entry->path().filename().native().front(); first == '.' || first == '_') {
      if (is_folder) {
        entry.disable_recursion_pending();
      }
      continue;
    }
    SPLITVEIL_RETURN_IF_ERROR(CheckPart(*entry, is_folder));
    if (!is_folder) {
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
  if (absl::StrContains(pattern, "**")) {
    return absl::InvalidArgumentError(absl::StrCat(
        pattern,
        ": expected one * for each folder's name, found **: name the folder, which stands for all files in it and "
        "in the folders below, or use */*.csv"));
  }
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
