#include "common/model/torchscript_archive.h"

#include <zip.h>

#include <array>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace splitveil {
namespace {

constexpr int kReadBytes = 1 << 18;

absl::Status Damaged(const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat("expected a TorchScript file, found a damaged one (", why, "): copy or export it again"));
}

std::string OpenError(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  return text;
}

// Of a folder LibTorch reads no bytes, and takes what lies in memory for a tensor's.
bool IsFolder(zip_t* archive, const zip_stat_t& entry) {
  constexpr zip_uint32_t kFolderOfDos = 0x10;
  zip_uint8_t system = 0;
  zip_uint32_t attributes = 0;
  zip_file_get_external_attributes(archive, entry.index, 0, &system, &attributes);
  return (attributes & kFolderOfDos) != 0 || absl::EndsWith(entry.name, "/");
}

// libzip compares the checksum once the last byte is read; LibTorch takes the length for true.
absl::Status ReadEntry(zip_t* archive, zip_uint64_t index, std::array<char, kReadBytes>& buffer) {
  zip_stat_t stat;
  const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> entry(zip_fopen_index(archive, index, 0), zip_fclose);
  if (entry == nullptr || zip_stat_index(archive, index, 0, &stat) != 0) {
    return Damaged(zip_strerror(archive));
  }
  if (stat.size > 0 && IsFolder(archive, stat)) {
    return Damaged("a part is marked as a folder");
  }
  zip_uint64_t length = 0;
  zip_int64_t read = 0;
  while ((read = zip_fread(entry.get(), buffer.data(), buffer.size())) > 0) {
    length += static_cast<zip_uint64_t>(read);
  }
  if (read < 0) {
    return Damaged(zip_file_strerror(entry.get()));
  }
  return length == stat.size ? absl::OkStatus()
                             : Damaged(absl::StrCat("a part has ", length, " bytes and says ", stat.size));
}

}  // namespace

absl::Status CheckTorchScriptArchive(const std::string& path) {
  int code = 0;
  const std::unique_ptr<zip_t, void (*)(zip_t*)> archive(zip_open(path.c_str(), ZIP_RDONLY | ZIP_CHECKCONS, &code),
                                                         zip_discard);
  if (archive == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a TorchScript file, found something else or a damaged one: ", OpenError(code)));
  }
  const auto buffer = std::make_unique<std::array<char, kReadBytes>>();
  const zip_int64_t entries = zip_get_num_entries(archive.get(), 0);
  for (zip_int64_t index = 0; index < entries; ++index) {
    if (absl::Status status = ReadEntry(archive.get(), static_cast<zip_uint64_t>(index), *buffer); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace splitveil
