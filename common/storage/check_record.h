// What a check of a whole section file found, kept beside it: the next one reads a sample.
#ifndef SPLITVEIL_COMMON_STORAGE_CHECK_RECORD_H_
#define SPLITVEIL_COMMON_STORAGE_CHECK_RECORD_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "common/storage/section_file.h"

namespace splitveil {

// FILE.checked: a section file with FILE's digest, with what the system said of it when all of it had been read and
// found valid (device, inode, size, times of change to the nanosecond), and with SHA-256 of each 256 KiB, 16 bytes
// each.
//
// A record counts where all of that is as it was, and 64 random blocks still have their digests, the first and the last
// among them. Every write, copy or restored backup moves the time of change (ctime), whatever it does to the time of
// modification; the blocks are there for disks that fail and clocks that are set. What that leaves is damage that the
// system does not know of, in blocks that are not in the sample: each start draws another one, and a whole check finds
// it at once. Someone who may write to the folder can replace file and record, as before the file and its digest: a
// record that is not this user's own is passed over. Not thread-safe.
class CheckRecord {
 public:
  static constexpr size_t kBlockBytes = size_t{1} << 18;

  // `file`: not owned; must outlive this. `checks`: names what was found valid, so that a record of other checks does
  // not count.
  CheckRecord(const SectionFile* file, absl::string_view checks);

  // Whether there is a record that counts.
  bool Matches() const;
  // Reads the whole file and compares its digest. Errors: as SectionFile::Open.
  absl::Status CheckWhole();
  // Keeps the record of CheckWhole, once the caller has found the contents valid too. None is kept without one, of a
  // file that may have changed meanwhile, or where none can be written: the next start checks all of it again.
  void Keep() const;

 private:
  // As the system describes the file, in the order in which it is kept; empty where it cannot be asked.
  std::string Facts() const;

  const SectionFile& file_;
  const std::string path_, checks_;
  std::string facts_, blocks_;  // Of CheckWhole.
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_STORAGE_CHECK_RECORD_H_
