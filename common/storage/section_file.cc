#include "common/storage/section_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/crypto/sha256.h"
#include "common/status/status_macros.h"
#include "common/storage/file_system.h"

namespace splitveil {
namespace {

constexpr absl::string_view kMagic = "SVSECT01";
constexpr size_t kAlignment = 64;
constexpr size_t kTrailerBytes = sizeof(uint64_t) + sizeof(Digest);
constexpr size_t kCopyBytes = size_t{1} << 20;
constexpr size_t kHashedBytes = size_t{1} << 18;  // And then written from the processor's cache.

template <typename Number>
std::string LittleEndian(Number value) {
  std::string bytes(sizeof(value), '\0');
  for (char& byte : bytes) {
    byte = static_cast<char>(value & 0xff);
    value >>= 8;
  }
  return bytes;
}

template <typename Number>
Number ReadLittleEndian(absl::string_view bytes) {
  Number value = 0;
  for (size_t i = sizeof(value); i-- > 0;) {
    value = static_cast<Number>(value << 8) | static_cast<uint8_t>(bytes[i]);
  }
  return value;
}

// Takes the first `size` bytes off `bytes`; false where it has fewer.
bool Take(size_t size, absl::string_view& bytes, absl::string_view& taken) {
  if (bytes.size() < size) {
    return false;
  }
  taken = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return true;
}

// The file's format, section by section, every byte hashed as it is appended.
class SectionOutput {
 public:
  explicit SectionOutput(PendingFile* file) : file_(file) { status_ = Write(kMagic); }

  void Begin(const std::string& name) {
    Align();
    entries_.push_back({name, size_, 0});
  }
  // To the section begun last.
  absl::Status Append(absl::string_view bytes) {
    entries_.back().size += bytes.size();
    status_.Update(Write(bytes));
    return status_;
  }
  // Directory and trailer; the digest. Errors: that of the first call which failed.
  absl::StatusOr<Digest> Finish() {
    Align();
    const uint64_t directory_offset = size_;
    std::string directory;
    for (const Entry& entry : entries_) {
      absl::StrAppend(&directory, LittleEndian<uint32_t>(entry.name.size()), entry.name,
                      LittleEndian<uint64_t>(entry.offset), LittleEndian<uint64_t>(entry.size));
    }
    status_.Update(Write(directory));
    status_.Update(Write(LittleEndian<uint64_t>(directory_offset)));
    const Digest digest = hasher_.Finish();
    status_.Update(file_->Append(AsBytes(digest)));
    return status_.ok() ? absl::StatusOr<Digest>(digest) : status_;
  }

 private:
  struct Entry {
    std::string name;
    uint64_t offset, size;
  };

  absl::Status Write(absl::string_view bytes) {
    size_ += bytes.size();
    for (size_t done = 0; done < bytes.size(); done += kHashedBytes) {
      const absl::string_view piece = bytes.substr(done, kHashedBytes);
      // Hashed and written in pieces that stay in the processor's cache: the bytes come from memory once.
      hasher_.Update(piece);
      SPLITVEIL_RETURN_IF_ERROR(file_->Append(piece));
    }
    return absl::OkStatus();
  }
  void Align() { status_.Update(Write(std::string((kAlignment - size_ % kAlignment) % kAlignment, '\0'))); }

  PendingFile* file_;  // Not owned.
  Sha256Hasher hasher_;
  uint64_t size_ = 0;
  std::vector<Entry> entries_;
  absl::Status status_;
};

absl::Status Damaged(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": expected a complete file of `splitveil`, found ", what));
}

// A file for a section's bytes that vanishes with its descriptor. -1 with errno.
int OpenSpool(const std::string& path) {
  int descriptor = OpenUnnamed(path, O_RDWR, kOwnerOnly);
  if (descriptor < 0) {  // Maybe the file system knows no files without a name: this one has it for a moment.
    std::string pattern = absl::StrCat(path, ".XXXXXX");
    descriptor = mkstemp(pattern.data());
    if (descriptor >= 0) {
      unlink(pattern.c_str());
    }
  }
  return descriptor;
}

// Closes a descriptor at the end of the scope.
struct OpenFile {
  ~OpenFile() {
    if (descriptor >= 0) {
      close(descriptor);
    }
  }
  int descriptor;
};

}  // namespace

// One section on its way: an unnamed file that vanishes with its descriptor.
struct SectionFileWriter::Section {
  ~Section() {
    if (spool != nullptr) {
      std::fclose(spool);
    }
  }
  std::string name;
  std::FILE* spool = nullptr;
  uint64_t size = 0;
};

absl::StatusOr<std::unique_ptr<SectionFileWriter>> SectionFileWriter::Create(std::string path,
                                                                             std::vector<std::string> sections,
                                                                             mode_t mode) {
  std::vector<std::unique_ptr<Section>> spools;
  // One temporary file per section: sections grow side by side, and their sizes are known only at the end.
  for (std::string& name : sections) {
    auto section = std::make_unique<Section>();
    const int descriptor = OpenSpool(path);
    section->spool = descriptor < 0 ? nullptr : fdopen(descriptor, "w+b");
    if (section->spool == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be created: ", std::strerror(errno)));
    }
    section->name = std::move(name);
    spools.push_back(std::move(section));
  }
  return std::unique_ptr<SectionFileWriter>(new SectionFileWriter(std::move(path), mode, std::move(spools)));
}

SectionFileWriter::SectionFileWriter(std::string path, mode_t mode, std::vector<std::unique_ptr<Section>> sections)
    : path_(std::move(path)), mode_(mode), sections_(std::move(sections)) {}
SectionFileWriter::~SectionFileWriter() = default;

absl::Status SectionFileWriter::Append(size_t section, absl::string_view bytes) {
  Section& target = *sections_[section];
  // fwrite takes no null, which is what empty bytes may point to.
  if (!bytes.empty() && std::fwrite(bytes.data(), 1, bytes.size(), target.spool) != bytes.size()) {
    return absl::InternalError(absl::StrCat(path_, ": cannot be written: ", std::strerror(errno)));
  }
  target.size += bytes.size();
  return absl::OkStatus();
}

absl::StatusOr<Digest> SectionFileWriter::Publish() {
  Digest digest;
  const absl::StatusOr<std::unique_ptr<PendingFile>> file = Join(digest);
  const absl::Status status = file.ok() ? PendingFile::Publish({file->get()}) : file.status();
  return status.ok() ? absl::StatusOr<Digest>(digest) : status;
}

absl::Status SectionFileWriter::PublishAll(absl::Span<SectionFileWriter* const> writers, Replaces replaces) {
  std::vector<std::unique_ptr<PendingFile>> files;
  std::vector<PendingFile*> borrowed;
  for (SectionFileWriter* writer : writers) {
    Digest digest;
    SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<PendingFile> file, writer->Join(digest));
    SPLITVEIL_RETURN_IF_ERROR(replaces == Replaces::kAnything ? absl::OkStatus() : writer->CheckSame(digest));
    files.push_back(std::move(file));
    borrowed.push_back(files.back().get());
  }
  return PendingFile::Publish(borrowed);
}

absl::Status SectionFileWriter::CheckSame(const Digest& digest) const {
  std::error_code error;
  if (std::filesystem::status(path_, error).type() == std::filesystem::file_type::not_found) {
    return absl::OkStatus();
  }
  // What its trailer says is enough: a file that says so and is not the same is a damaged one.
  const absl::StatusOr<std::unique_ptr<SectionFile>> found = SectionFile::Open(path_, SectionFile::Check::kStructure);
  return found.ok() && (*found)->digest() == digest
             ? absl::OkStatus()
             : absl::AlreadyExistsError(absl::StrCat(
                   path_, ": expected no file of this name, or one of the same bytes, found a different one"));
}

absl::StatusOr<std::unique_ptr<PendingFile>> SectionFileWriter::Join(Digest& digest) {
  absl::StatusOr<std::unique_ptr<PendingFile>> file = PendingFile::Create(path_, mode_);
  if (!file.ok()) {
    return file.status();
  }
  SectionOutput output(file->get());
  std::vector<char> buffer(kCopyBytes);
  for (const std::unique_ptr<Section>& section : sections_) {
    output.Begin(section->name);
    std::rewind(section->spool);
    for (uint64_t copied = 0; copied < section->size;) {
      const size_t got = std::fread(buffer.data(), 1, buffer.size(), section->spool);
      SPLITVEIL_RETURN_IF_ERROR(got > 0
                                    ? output.Append({buffer.data(), got})
                                    : absl::InternalError(absl::StrCat(path_, ": its temporary file cannot be read")));
      copied += got;
    }
    std::fclose(std::exchange(section->spool, nullptr));  // Frees its place on the disk.
  }
  SPLITVEIL_ASSIGN_OR_RETURN(digest, output.Finish());
  return file;
}

absl::Status WriteSectionFile(const std::string& path, const std::vector<NamedSection>& sections) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<PendingFile> file, PendingFile::Create(path, kOwnerOnly));
  SectionOutput output(file.get());
  for (const auto& [name, bytes] : sections) {
    output.Begin(name);
    SPLITVEIL_RETURN_IF_ERROR(output.Append(bytes));
  }
  SPLITVEIL_RETURN_IF_ERROR(output.Finish().status());
  return PendingFile::Publish({file.get()});
}

absl::StatusOr<std::unique_ptr<SectionFile>> SectionFile::Open(const std::string& path, Check check) {
  OpenFile file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  struct stat facts = {};
  if (file.descriptor < 0 || fstat(file.descriptor, &facts) != 0) {
    const std::string message = absl::StrCat(path, ": cannot be opened: ", std::strerror(errno));
    return errno == ENOENT ? absl::NotFoundError(message) : absl::InvalidArgumentError(message);
  }
  const auto size = static_cast<size_t>(facts.st_size);
  if (!S_ISREG(facts.st_mode) || size < kMagic.size() + kTrailerBytes) {
    return Damaged(path, "another file");
  }
  void* mapped = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.descriptor, 0);
  if (mapped == MAP_FAILED) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be mapped: ", std::strerror(errno)));
  }
  // Rows are read in random order: reading ahead would only fill the memory.
  madvise(mapped, size, MADV_RANDOM);
  std::unique_ptr<SectionFile> opened(
      new SectionFile(path, std::exchange(file.descriptor, -1), {static_cast<const char*>(mapped), size}));
  NoteMappedFile(opened->bytes_, path);
  SPLITVEIL_RETURN_IF_ERROR(opened->ReadDirectory());
  // The digest finds damage by disks; who can change the file can also change its digest.
  if (check == Check::kDigest) {
    SPLITVEIL_RETURN_IF_ERROR(opened->CheckDigest(kCopyBytes, [](absl::string_view) {}));
  }
  return opened;
}

absl::Status SectionFile::CheckDigest(size_t piece_bytes, absl::FunctionRef<void(absl::string_view)> on_piece) const {
  Sha256Hasher hasher;
  // Read and not mapped, so that the pages do not count as this process's.
  std::vector<char> buffer(std::min(piece_bytes, bytes_.size()));
  const size_t hashed = bytes_.size() - sizeof(Digest);
  for (size_t done = 0; done < bytes_.size();) {
    const size_t size = std::min(buffer.size(), bytes_.size() - done);
    for (size_t got = 0; got < size;) {
      const ssize_t more = pread(descriptor_, buffer.data() + got, size - got, static_cast<off_t>(done + got));
      if (more == 0 || (more < 0 && errno != EINTR)) {
        return absl::InvalidArgumentError(absl::StrCat(
            path_, ": cannot be read: ", more < 0 ? std::strerror(errno) : "it is shorter than when it was opened"));
      }
      got += static_cast<size_t>(std::max<ssize_t>(more, 0));
    }
    on_piece({buffer.data(), size});
    hasher.Update({buffer.data(), std::min(size, hashed - std::min(hashed, done))});
    done += size;
  }
  return hasher.Finish() == digest_ ? absl::OkStatus()
                                    : Damaged(path_, "one whose SHA-256 differs: damaged or changed");
}

SectionFile::~SectionFile() {
  ForgetMappedFile(bytes_);
  munmap(const_cast<char*>(bytes_.data()), bytes_.size());
  close(descriptor_);
}

absl::Status SectionFile::ReadDirectory() {
  if (bytes_.substr(0, kMagic.size()) != kMagic) {
    return Damaged(path_, "another file");
  }
  const size_t trailer = bytes_.size() - kTrailerBytes;
  std::memcpy(digest_.data(), bytes_.data() + trailer + sizeof(uint64_t), sizeof(Digest));
  const auto directory_offset = ReadLittleEndian<uint64_t>(bytes_.substr(trailer));
  if (directory_offset > trailer) {
    return Damaged(path_, "one cut short");
  }
  absl::string_view directory = bytes_.substr(directory_offset, trailer - directory_offset);
  while (!directory.empty()) {
    absl::string_view length, name, place;
    if (!Take(sizeof(uint32_t), directory, length) || !Take(ReadLittleEndian<uint32_t>(length), directory, name) ||
        !Take(2 * sizeof(uint64_t), directory, place)) {
      return Damaged(path_, "a damaged directory");
    }
    const auto offset = ReadLittleEndian<uint64_t>(place);
    const auto size = ReadLittleEndian<uint64_t>(place.substr(sizeof(uint64_t)));
    // Written so that no sum can overflow: the file may have been made to.
    if (offset % kAlignment != 0 || offset > directory_offset || size > directory_offset - offset ||
        !sections_.emplace(name, bytes_.substr(offset, size)).second) {
      return Damaged(path_, "a damaged directory");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::string_view> SectionFile::section(absl::string_view name) const {
  const auto found = sections_.find(name);
  if (found == sections_.end()) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": expected a section \"", name, "\", found none"));
  }
  return found->second;
}

void SectionFile::WillNeed(absl::string_view bytes) const {
  static const auto kPage = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t before = reinterpret_cast<uintptr_t>(bytes.data()) % kPage;  // madvise starts at a page.
  madvise(const_cast<char*>(bytes.data()) - before, bytes.size() + before, MADV_WILLNEED);
}

void SectionFile::Read(absl::string_view bytes, void* out) const {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = pread(descriptor_, static_cast<char*>(out) + done, bytes.size() - done,
                              static_cast<off_t>(bytes.data() - bytes_.data() + done));
    // Read errors are rare, and every caller would have to handle them; the mapping's handler does. The end of the file
    // sets no errno.
    if (got == 0 || (got < 0 && errno != EINTR)) {
      // The mapping answers as it does for a disk that cannot be read: it ends the process.
      std::memcpy(static_cast<char*>(out) + done, bytes.data() + done, bytes.size() - done);
      return;
    }
    done += static_cast<size_t>(std::max<ssize_t>(got, 0));
  }
}

void SectionFile::ReleaseMemory() const { madvise(const_cast<char*>(bytes_.data()), bytes_.size(), MADV_DONTNEED); }

}  // namespace splitveil
