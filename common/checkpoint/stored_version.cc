#include "common/checkpoint/stored_version.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "common/crypto/digest.h"
#include "common/status/status_macros.h"
#include "common/storage/file_system.h"

namespace splitveil {
namespace {

constexpr char kActivations[] = "activations", kScores[] = "scores", kCheckpoint[] = ".checkpoint", kData[] = ".data";
constexpr char kPartial[] = ".partial";  // The folder of a version that is being written.

template <typename T>
absl::string_view BytesOf(absl::Span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

absl::Status CannotMake(const std::string& path, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("versions_path: ", path, ": cannot be made: ", why));
}

// For folders on different file systems, where a link cannot be made.
absl::Status Copy(const std::string& from, const std::string& to) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<PendingFile> file, PendingFile::Create(to));
  std::ifstream source(from, std::ios::binary);
  std::array<char, 1 << 16> block;
  while (source.read(block.data(), block.size()) || source.gcount() > 0) {
    SPLITVEIL_RETURN_IF_ERROR(file->Append({block.data(), static_cast<size_t>(source.gcount())}));
  }
  if (!source.eof()) {
    return absl::InvalidArgumentError(absl::StrCat(from, ": cannot be read"));
  }
  PendingFile* const all[] = {file.get()};
  return PendingFile::Publish(all);
}

// Our files are replaced and never changed, so that a link keeps what the run has read.
absl::Status LinkOrCopy(const std::string& from, const std::string& to) {
  return link(from.c_str(), to.c_str()) == 0 ? absl::OkStatus() : Copy(from, to);
}

absl::StatusOr<std::string> DigestOf(const std::string& path) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<SectionFile> file,
                             SectionFile::Open(path, SectionFile::Check::kStructure));
  return std::string(AsBytes(file->digest()));
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> ListVersions(const std::string& folder) {
  std::vector<int64_t> numbers;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (const std::filesystem::directory_iterator end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    int64_t number = 0;
    // "007" would be another folder than "7".
    if (absl::SimpleAtoi(name, &number) && number > 0 && absl::StrCat(number) == name) {
      numbers.push_back(number);
    }
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return absl::InternalError(absl::StrCat("versions_path: ", folder, ": cannot be read: ", error.message()));
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// By inode and time, without reading: a server asks again and again whether anything has changed.
std::string VersionStamp(const std::string& folder, int64_t number) {
  std::string stamp;
  for (const std::string& name :
       {std::string(kActivations), absl::StrCat("label_party", kCheckpoint), absl::StrCat("label_party", kData),
        absl::StrCat("nonlabel_party", kCheckpoint), absl::StrCat("nonlabel_party", kData)}) {
    absl::StrAppend(&stamp, FileStamp(absl::StrCat(folder, "/", number, "/", name)), " ");
  }
  return stamp;
}

std::string FileStamp(const std::string& path) {
  struct stat file = {};
  return stat(path.c_str(), &file) == 0 ? absl::StrCat(file.st_dev, " ", file.st_ino, " ", file.st_size, " ",
                                                       file.st_mtim.tv_sec, ".", file.st_mtim.tv_nsec)
                                        : "none";
}

absl::StatusOr<StoredVersion> OpenVersion(const std::string& folder, int64_t number, const std::string& role) {
  const std::string path = absl::StrCat(folder, "/", number, "/");
  StoredVersion version;
  version.number = number;
  version.checkpoint_path = absl::StrCat(path, role, kCheckpoint);
  struct stat file = {};
  version.stored_seconds = stat((path + kActivations).c_str(), &file) == 0 ? file.st_mtim.tv_sec : 0;
  SPLITVEIL_ASSIGN_OR_RETURN(version.file, SectionFile::Open(path + kActivations, SectionFile::Check::kDigest));
  SPLITVEIL_ASSIGN_OR_RETURN(version.data, Dataset::Open(absl::StrCat(path, role, kData)));
  SPLITVEIL_ASSIGN_OR_RETURN(const absl::string_view header, version.file->section("header"));
  SPLITVEIL_ASSIGN_OR_RETURN(const absl::string_view rows, version.file->section("rows"));
  SPLITVEIL_ASSIGN_OR_RETURN(const absl::string_view activations, version.file->section(kActivations));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::string checkpoint_sha256, DigestOf(version.checkpoint_path));
  // A version of an older program has no scores.
  const absl::string_view scores = version.file->section(kScores).value_or("");
  const bool parsed = version.header.ParseFromString(std::string(header)) &&
                      version.scores.ParseFromString(std::string(scores)) &&
                      version.scores.counts_size() == version.scores.edges_size() + (scores.empty() ? 0 : 1);
  const int64_t n = version.header.rows(), width = version.header.cut_width();
  const bool has_activations = version.header.role() == "label_party";
  // The file may be damaged or made by hand, and is mapped: every size and row is checked before it is used as an
  // index.
  version.rows = {reinterpret_cast<const uint32_t*>(rows.data()), rows.size() / sizeof(uint32_t)};
  if (!parsed || version.header.role() != role || n < 0 || has_activations != (width > 0) ||
      rows.size() != static_cast<size_t>(n) * sizeof(uint32_t) ||
      (has_activations ? activations.size() / sizeof(float) / static_cast<size_t>(width) != static_cast<size_t>(n) ||
                             activations.size() % (sizeof(float) * static_cast<size_t>(width)) != 0
                       : !activations.empty()) ||
      std::any_of(version.rows.begin(), version.rows.end(),
                  [&](uint32_t row) { return row >= version.data->rows(); })) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, kActivations, ": is damaged, or was changed: store a version again"));
  }
  if (version.header.dataset_sha256() != AsBytes(version.data->digest()) ||
      version.header.checkpoint_sha256() != checkpoint_sha256) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": was stored with a different checkpoint or different data: store a version of these"));
  }
  version.activations = {reinterpret_cast<const float*>(activations.data()), has_activations ? n : 0, width};
  version.file->ReleaseMemory();  // The digest has read all of it.
  return version;
}

absl::StatusOr<std::unique_ptr<VersionWriter>> VersionWriter::Create(const std::string& folder,
                                                                     v1::VersionHeader header,
                                                                     const std::string& checkpoint_path,
                                                                     const Dataset& data,
                                                                     absl::Span<const uint32_t> rows) {
  if (const std::error_code error = MakeFolders(folder); error) {
    return CannotMake(folder, error.message());
  }
  const int lock = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock < 0) {
    return CannotMake(folder, std::strerror(errno));
  }
  std::unique_ptr<VersionWriter> writer(new VersionWriter(folder, lock));
  // The lock ends with the process: what is there without one was left by a killed process.
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("versions_path: ", folder, ": another process writes a version there: wait until it has ended"));
  }
  SPLITVEIL_RETURN_IF_ERROR(writer->Begin(std::move(header), checkpoint_path, data, rows));
  return writer;
}

absl::Status VersionWriter::Begin(v1::VersionHeader header, const std::string& checkpoint_path, const Dataset& data,
                                  absl::Span<const uint32_t> rows) {
  // Written aside and renamed when complete: a server never sees half a version.
  const std::string partial = absl::StrCat(folder_, "/", kPartial, "/");
  std::error_code error;
  std::filesystem::remove_all(partial, error);
  if (mkdir(partial.c_str(), S_IRWXU) != 0) {
    return CannotMake(partial, std::strerror(errno));
  }
  const std::string checkpoint = absl::StrCat(partial, header.role(), kCheckpoint),
                    copied_data = absl::StrCat(partial, header.role(), kData);
  SPLITVEIL_RETURN_IF_ERROR(LinkOrCopy(checkpoint_path, checkpoint));
  SPLITVEIL_RETURN_IF_ERROR(LinkOrCopy(data.path(), copied_data));
  SPLITVEIL_ASSIGN_OR_RETURN(*header.mutable_checkpoint_sha256(), DigestOf(checkpoint));
  SPLITVEIL_ASSIGN_OR_RETURN(*header.mutable_dataset_sha256(), DigestOf(copied_data));
  if (header.dataset_sha256() != AsBytes(data.digest())) {
    return absl::InvalidArgumentError(absl::StrCat(data.path(), ": was replaced during the run: start the run again"));
  }
  header.set_rows(static_cast<int64_t>(rows.size()));
  expected_rows_ = header.cut_width() > 0 ? header.rows() : 0;
  SPLITVEIL_ASSIGN_OR_RETURN(
      file_, SectionFileWriter::Create(partial + kActivations, {"header", "rows", kActivations, kScores}));
  checkpoint_sha256_ = header.checkpoint_sha256();
  SPLITVEIL_RETURN_IF_ERROR(file_->Append(0, header.SerializeAsString()));
  return file_->Append(1, BytesOf(rows));
}

VersionWriter::~VersionWriter() {
  if (file_ != nullptr) {
    file_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(absl::StrCat(folder_, "/", kPartial), ignored);
  }
  close(lock_);
}

absl::Status VersionWriter::Append(ConstMatrixView activations) {
  rows_ += activations.rows();
  return file_->Append(2, BytesOf(activations.values()));
}

std::string VersionWriter::EarlierScores() const {
  const std::vector<int64_t> numbers = ListVersions(folder_).value_or(std::vector<int64_t>());
  for (auto number = numbers.rbegin(); number != numbers.rend(); ++number) {
    const absl::StatusOr<std::unique_ptr<SectionFile>> file =
        SectionFile::Open(absl::StrCat(folder_, "/", *number, "/", kActivations), SectionFile::Check::kStructure);
    v1::VersionHeader header;
    if (file.ok() && header.ParseFromString(std::string((*file)->section("header").value_or(""))) &&
        header.checkpoint_sha256() == checkpoint_sha256_) {
      return std::string((*file)->section(kScores).value_or(""));
    }
  }
  return "";
}

absl::StatusOr<int64_t> VersionWriter::Publish(const v1::ScoreCounts& scores) {
  // A version that lacks rows would answer for shared ids as if they were not shared.
  if (rows_ != expected_rows_) {
    return absl::InternalError(absl::StrCat("version: expected ", expected_rows_, " rows, found ", rows_));
  }
  SPLITVEIL_RETURN_IF_ERROR(file_->Append(3, scores.counts().empty() ? EarlierScores() : scores.SerializeAsString()));
  SPLITVEIL_RETURN_IF_ERROR(file_->Publish().status());  // Its folder is synced, too, with all names in it.
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<int64_t> numbers, ListVersions(folder_));
  const int64_t number = numbers.empty() ? 1 : numbers.back() + 1;
  const std::string partial = absl::StrCat(folder_, "/", kPartial), path = absl::StrCat(folder_, "/", number);
  if (std::rename(partial.c_str(), path.c_str()) != 0) {
    return absl::InternalError(absl::StrCat(path, ": cannot be made: ", std::strerror(errno)));
  }
  file_.reset();
  SPLITVEIL_RETURN_IF_ERROR(SyncFolderOf(path));
  return number;
}

}  // namespace splitveil
