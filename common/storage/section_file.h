// Files of named sections of bytes: the container of prepared data and of checkpoints.
//
//   "SVSECT01" | sections, each starting at a multiple of 64 | directory | trailer
//
// directory: for each section u32 length of the name, name, u64 offset, u64 length; all numbers little-endian.
// trailer: u64 offset of the directory, SHA-256 of every byte before the digest.
#ifndef SPLITVEIL_COMMON_STORAGE_SECTION_FILE_H_
#define SPLITVEIL_COMMON_STORAGE_SECTION_FILE_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/crypto/digest.h"
#include "common/storage/file_system.h"

namespace splitveil {

// What a new file may take the name of.
enum class Replaces {
  kAnything,
  kSameBytes,  // A file of this kind with the same digest, or nothing.
};

// Writes one file in constant memory. Bytes may be appended to the sections in turns: each waits in a temporary file of
// its own beside the final one until Publish. Not thread-safe.
class SectionFileWriter {
 public:
  // InvalidArgument where the temporaries cannot be made. Section names: distinct, not empty. `mode`: permissions of
  // the file, less the umask; by default the owner's alone.
  static absl::StatusOr<std::unique_ptr<SectionFileWriter>> Create(std::string path, std::vector<std::string> sections,
                                                                   mode_t mode = kOwnerOnly);
  ~SectionFileWriter();

  // Appends to section number `section` of those given. Internal where the bytes cannot be written.
  absl::Status Append(size_t section, absl::string_view bytes);

  // Joins the sections, makes the file durable and gives it its name, replacing what had it; its digest. Before, and
  // where anything fails, no trace is left. Once.
  absl::StatusOr<Digest> Publish();
  // The same for several files: all get their names, or none. AlreadyExists where one has a name that it may not take.
  static absl::Status PublishAll(absl::Span<SectionFileWriter* const> writers, Replaces replaces = Replaces::kAnything);

 private:
  struct Section;
  SectionFileWriter(std::string path, mode_t mode, std::vector<std::unique_ptr<Section>> sections);
  // That nothing, or a file of this digest, has the name.
  absl::Status CheckSame(const Digest& digest) const;
  // Writes the whole file under its temporary name.
  absl::StatusOr<std::unique_ptr<PendingFile>> Join(Digest& digest);

  std::string path_;
  mode_t mode_;
  std::vector<std::unique_ptr<Section>> sections_;
};

// Name and bytes, borrowed.
using NamedSection = std::pair<std::string, absl::string_view>;

// Writes a file whose sections are at hand, without temporaries, and makes it durable: whole or not at all, for its
// owner alone. Names: distinct, not empty. Errors: InvalidArgument where the file cannot be made; Internal where it
// cannot be written.
absl::Status WriteSectionFile(const std::string& path, const std::vector<NamedSection>& sections);

// A file mapped into memory, read only. It must not change meanwhile: one that is cut short ends the process, with its
// name (file_system.h). Thread-safe.
class SectionFile {
 public:
  enum class Check {
    kDigest,     // Reads the whole file once and compares its SHA-256.
    kStructure,  // Sizes and offsets only: for a file that this process has checked before.
  };
  // NotFound; InvalidArgument where the file cannot be read, is none of this kind, cut short, or damaged.
  static absl::StatusOr<std::unique_ptr<SectionFile>> Open(const std::string& path, Check check);
  ~SectionFile();
  SectionFile(const SectionFile&) = delete;
  SectionFile& operator=(const SectionFile&) = delete;

  const std::string& path() const { return path_; }
  const Digest& digest() const { return digest_; }
  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }  // Of the file, in bytes.
  absl::string_view bytes() const { return bytes_; }                    // Of the whole file, mapped.
  int descriptor() const { return descriptor_; }                        // Stays this object's.
  // What Check::kDigest does. Reads the file in pieces of `piece_bytes`, the last one shorter, and calls `on_piece`
  // with each. InvalidArgument where it cannot be read or is damaged.
  absl::Status CheckDigest(size_t piece_bytes, absl::FunctionRef<void(absl::string_view)> on_piece) const;
  bool has_section(absl::string_view name) const { return sections_.contains(name); }
  // Its bytes, aligned to 64 and valid as long as the object. InvalidArgument where there is no such section.
  absl::StatusOr<absl::string_view> section(absl::string_view name) const;

  // Asks the system to read these bytes of a section ahead of their use.
  void WillNeed(absl::string_view bytes) const;
  // Copies `bytes` of a section, from the system's page cache or the disk: a system call, but no memory of this
  // process, and less time than the page fault of a mapped row that is rarely read.
  void Read(absl::string_view bytes, void* out) const;
  // Takes the pages that were touched so far out of this process's memory; they stay in the system's page cache while
  // there is room. Keeps a process small that reads a large file at random.
  void ReleaseMemory() const;

 private:
  SectionFile(std::string path, int descriptor, absl::string_view bytes)
      : path_(std::move(path)), descriptor_(descriptor), bytes_(bytes) {}
  absl::Status ReadDirectory();

  std::string path_;
  int descriptor_;
  absl::string_view bytes_;
  Digest digest_{};
  absl::flat_hash_map<std::string, absl::string_view> sections_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_STORAGE_SECTION_FILE_H_
