#include "common/process/local_paths.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <set>
#include <system_error>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace splitveil {
namespace {

struct NotedPaths {
  absl::Mutex mutex;
  std::set<std::string> paths ABSL_GUARDED_BY(mutex);
};

// Never destroyed: a thread may still send an error while the process ends.
NotedPaths& Noted() {
  static NotedPaths& noted = *new NotedPaths;
  return noted;
}

constexpr char kMarks[] = ",;:()[]\"'";

// How far the absolute path goes with which `text` begins. A space ends it, unless a slash follows before the next
// mark: names of folders may have spaces.
size_t AbsoluteSize(absl::string_view text) {
  const absl::string_view until_mark = text.substr(0, text.find_first_of(kMarks));
  return std::min(until_mark.find(' ', until_mark.rfind('/')), until_mark.size());
}

// The noted path with which `text` begins, and what was appended to its name ("half.db-wal"); 0: none.
size_t NotedSize(absl::string_view text) {
  NotedPaths& noted = Noted();
  const absl::MutexLock lock(&noted.mutex);
  size_t size = 0;
  for (const std::string& path : noted.paths) {
    size = absl::StartsWith(text, path) ? std::max(size, path.size()) : size;
  }
  return size == 0 ? 0 : std::min(text.find_first_of(absl::StrCat(kMarks, " "), size), text.size());
}

}  // namespace

void NoteLocalPath(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty() || folder == "/" || folder == ".") {
    return;
  }
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  NotedPaths& noted = Noted();
  const absl::MutexLock lock(&noted.mutex);
  for (const std::filesystem::path& form : {std::filesystem::path(path), absolute, absolute.lexically_normal()}) {
    if (form.parent_path().has_relative_path()) {
      noted.paths.insert(form.string());
      noted.paths.insert(form.parent_path() / "");  // Of files beside it.
    }
  }
}

std::string WithoutLocalPaths(absl::string_view message) {
  std::string said;
  while (!message.empty()) {
    size_t size = 0;
    // Within a word no path begins.
    if (said.empty() || absl::StrContains(" \t\n([{<\"'=:,;", said.back())) {
      // Two slashes are of an address.
      const bool is_absolute = message[0] == '/' && !absl::StartsWith(message, "//");
      size = std::max(NotedSize(message), is_absolute ? AbsoluteSize(message) : 0);
    }
    absl::StrAppend(&said, size > 1 ? "a file" : message.substr(0, 1));
    message.remove_prefix(std::max<size_t>(size, 1));
  }
  return said;
}

}  // namespace splitveil
