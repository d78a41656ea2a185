// A file system of a few KiB, full or read-only when a test says so.
#ifndef SPLITVEIL_TESTS_TESTING_PROCESS_SMALL_DISK_H_
#define SPLITVEIL_TESTS_TESTING_PROCESS_SMALL_DISK_H_

#include <sys/mount.h>

#include <fstream>
#include <gtest/gtest.h>
#include <string>

#include "absl/strings/str_cat.h"

#include "tests/testing/process/temp_folder.h"

namespace splitveil::testing {

// In memory (tmpfs), unmounted by the destructor. Only a process that may mount has it.
class SmallDisk {
 public:
  explicit SmallDisk(int kib)
      : options_(absl::StrCat("size=", kib, "k,mode=0700")),
        mounted_(mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, options_.c_str()) == 0) {}
  ~SmallDisk() {
    if (mounted_) {
      umount2(folder_.path().c_str(), MNT_DETACH);
    }
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool mounted() const { return mounted_; }
  std::string File(const std::string& name) const { return folder_.File(name); }

  // Takes all space that is left.
  void Fill() const {
    std::ofstream file(File("filler"), std::ios::binary);
    const std::string block(1024, 'x');
    while (file.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
  }
  void MakeReadOnly() const {
    EXPECT_EQ(mount("tmpfs", folder_.path().c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, options_.c_str()), 0);
  }

 private:
  const TempFolder folder_;
  const std::string options_;
  const bool mounted_;
};

}  // namespace splitveil::testing

#endif  // SPLITVEIL_TESTS_TESTING_PROCESS_SMALL_DISK_H_
