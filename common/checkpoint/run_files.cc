#include "common/checkpoint/run_files.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "common/crypto/sha256.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "big-endian hosts need byte swaps in run_files.cc");

constexpr size_t kRunDigits = 16;  // Of the digest of a run's id.
constexpr char kRowsSection[] = "rows";

absl::string_view BytesOf(absl::Span<const uint32_t> rows) {
  return {reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(rows[0])};
}

}  // namespace

std::string RunFilePath(absl::string_view checkpoint_path, absl::string_view kind, absl::string_view run_id) {
  return absl::StrCat(checkpoint_path, ".", kind, ".",
                      absl::BytesToHexString(AsBytes(Sha256(run_id))).substr(0, kRunDigits));
}

absl::StatusOr<std::vector<std::string>> RunFiles(const std::string& checkpoint_path, absl::string_view kind) {
  // By pattern and not from a list: a file must be found even if everything else about its run was lost.
  const std::filesystem::path path = checkpoint_path;
  const std::string prefix = absl::StrCat(path.filename().string(), ".", kind, ".");
  std::error_code error;
  std::filesystem::directory_iterator files(path.has_parent_path() ? path.parent_path() : ".", error);
  std::vector<std::string> found;
  for (; !error && files != std::filesystem::directory_iterator(); files.increment(error)) {
    const std::string name = files->path().filename().string();
    if (absl::StartsWith(name, prefix) && name.size() == prefix.size() + kRunDigits) {
      found.push_back(path.parent_path() / name);
    }
  }
  return error ? absl::StatusOr<std::vector<std::string>>(absl::InternalError(
                     absl::StrCat(checkpoint_path, ": its folder cannot be read: ", error.message())))
               : found;
}

void RemoveOtherRunFiles(const std::string& checkpoint_path, absl::string_view kind,
                         const std::vector<std::string>& run_ids) {
  for (const std::string& file : RunFiles(checkpoint_path, kind).value_or(std::vector<std::string>())) {
    const bool kept = std::any_of(run_ids.begin(), run_ids.end(), [&](const std::string& run_id) {
      return RunFilePath(checkpoint_path, kind, run_id) == file;
    });
    std::error_code error;
    if (!kept) {
      std::filesystem::remove(file, error);
    }
  }
}

Digest RowsSha256(absl::Span<const uint32_t> rows) { return Sha256(BytesOf(rows)); }

absl::Status WriteAlignedRows(const std::string& path, absl::Span<const uint32_t> rows) {
  return WriteSectionFile(path, {RowsSection(rows)});
}

absl::StatusOr<std::vector<uint32_t>> ReadAlignedRows(const std::string& path, absl::string_view sha256) {
  // The checkpoint's digest of the rows finds damage, too: one pass over the file is enough.
  const absl::StatusOr<std::unique_ptr<SectionFile>> file = SectionFile::Open(path, SectionFile::Check::kStructure);
  absl::StatusOr<std::vector<uint32_t>> rows =
      file.ok() ? RowsOf(**file) : absl::StatusOr<std::vector<uint32_t>>(file.status());
  if (!rows.ok() || AsBytes(RowsSha256(*rows)) != sha256) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected the aligned rows of the interrupted run, found ",
                                                   rows.ok()                         ? "others"
                                                   : absl::IsNotFound(rows.status()) ? "no file"
                                                                                     : rows.status().message(),
                                                   ": restore the file from beside its checkpoint, or set restart"));
  }
  return rows;
}

NamedSection RowsSection(absl::Span<const uint32_t> rows) { return {kRowsSection, BytesOf(rows)}; }

absl::StatusOr<std::vector<uint32_t>> RowsOf(const SectionFile& file) {
  SPLITVEIL_ASSIGN_OR_RETURN(const absl::string_view bytes, file.section(kRowsSection));
  if (bytes.size() % sizeof(uint32_t) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(file.path(), ": its rows are cut short"));
  }
  std::vector<uint32_t> rows(bytes.size() / sizeof(uint32_t));
  if (!rows.empty()) {  // Else there is no memory to point to.
    std::memcpy(rows.data(), bytes.data(), bytes.size());
  }
  return rows;
}

}  // namespace splitveil
