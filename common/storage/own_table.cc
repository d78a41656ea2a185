#include "common/storage/own_table.h"

#include <filesystem>
#include <fstream>
#include <ios>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace splitveil {
namespace {

namespace fs = std::filesystem;

bool BeginsWith(const std::string& path, absl::string_view header) {
  std::ifstream file(path, std::ios::binary);
  std::string begin(header.size(), '\0');
  return file.read(begin.data(), static_cast<std::streamsize>(begin.size())).good() && begin == header;
}

// Without links and dots, as far as the path exists.
fs::path Resolved(const std::string& path) {
  std::error_code error;
  const fs::path resolved = fs::weakly_canonical(fs::absolute(path), error);
  return error ? fs::path(path).lexically_normal() : resolved;
}

}  // namespace

absl::Status CheckOwnTable(const std::string& path, absl::string_view header) {
  std::error_code error;
  const fs::file_status found = fs::status(path, error);
  if (found.type() == fs::file_type::not_found || (fs::is_regular_file(found) && BeginsWith(path, header))) {
    return absl::OkStatus();
  }
  return absl::AlreadyExistsError(absl::StrCat(path,
                                               ": expected no file of this name, or an earlier table with the same "
                                               "first line, found a different file; it stays"));
}

bool NameSameFile(const std::string& path, const std::string& other) {
  std::error_code ignored;
  return Resolved(path) == Resolved(other) || fs::equivalent(path, other, ignored);
}

}  // namespace splitveil
