#include "common/storage/check_record.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"

#include "tests/testing/scratch_folder.h"

namespace splitveil {
namespace {

constexpr size_t kBlock = CheckRecord::kBlockBytes;

// What this process has asked the system to read so far, in bytes.
int64_t BytesRead() {
  std::ifstream counters("/proc/self/io");
  std::string name;
  int64_t bytes = 0;
  counters >> name >> bytes;
  EXPECT_EQ(name, "rchar:");
  return bytes;
}

class CheckRecordTest : public ::testing::Test {
 protected:
  // One section of so many blocks, and a checked record of it.
  void Write(size_t blocks, const std::string& name = "data") {
    std::string bytes(blocks * kBlock, 'x');
    for (size_t i = 0; i < blocks; ++i) {
      bytes[i * kBlock] = static_cast<char>('a' + i % 26);
    }
    ASSERT_TRUE(WriteSectionFile(folder_.Path(name), {{"bytes", bytes}}).ok());
    // A file of this very moment is not recorded: its next change might show no other time.
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    file_ = Open(name);
    CheckRecord record(file_.get(), "checks");
    ASSERT_TRUE(record.CheckWhole().ok());
    record.Keep();
  }
  std::unique_ptr<SectionFile> Open(const std::string& name = "data") const {
    return *SectionFile::Open(folder_.Path(name), SectionFile::Check::kStructure);
  }
  bool Matches(const std::string& checks = "checks") const {
    const std::unique_ptr<SectionFile> file = Open();
    return CheckRecord(file.get(), checks).Matches();
  }
  // Whether the file matches a record of its facts as they are now, with these blocks.
  bool Keeps(const std::string& digest, const std::string& blocks) const {
    struct stat now = {};
    EXPECT_EQ(stat(folder_.Path("data").c_str(), &now), 0);
    const auto nanoseconds = [](const timespec& time) { return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec; };
    const std::string facts = absl::StrCat(now.st_dev, " ", now.st_ino, " ", now.st_size, " ", nanoseconds(now.st_mtim),
                                           " ", nanoseconds(now.st_ctim));
    EXPECT_TRUE(WriteSectionFile(folder_.Path("data.checked"),
                                 {{"facts", facts}, {"checks", "checks"}, {"digest", digest}, {"blocks", blocks}})
                    .ok());
    return Matches();
  }
  void Overwrite(size_t at, char byte) const {
    std::fstream file(folder_.Path("data"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
  }

  const ScratchFolder folder_;
  std::unique_ptr<SectionFile> file_;
};

TEST_F(CheckRecordTest, SaysThatAFileIsAsItWasAndReadsASampleForIt) {
  EXPECT_FALSE(std::filesystem::exists(folder_.Path("data.checked")));
  Write(400);
  const int64_t before = BytesRead();
  EXPECT_TRUE(Matches());
  EXPECT_LT(BytesRead() - before, 400 * kBlock / 5);
  EXPECT_FALSE(Matches("other checks"));
  EXPECT_EQ(std::filesystem::status(folder_.Path("data.checked")).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

// A file that is rewritten in place by a tool that gives it back its time of modification.
TEST_F(CheckRecordTest, FindsAChangeWhoseTimeOfModificationWasSetBack) {
  Write(3);
  struct stat facts = {};
  ASSERT_EQ(stat(folder_.Path("data").c_str(), &facts), 0);
  Overwrite(kBlock + 5, '?');
  const timespec times[2] = {facts.st_atim, facts.st_mtim};
  ASSERT_EQ(utimensat(AT_FDCWD, folder_.Path("data").c_str(), times, 0), 0);
  EXPECT_FALSE(Matches());
}

TEST_F(CheckRecordTest, FindsAnotherFileInItsPlace) {
  Write(3, "other");
  Write(3);
  EXPECT_TRUE(Matches());
  std::filesystem::rename(folder_.Path("other"), folder_.Path("data"));
  EXPECT_FALSE(Matches());
}

// Damage that the system does not know of: the record has its facts, and blocks that are no longer there.
TEST_F(CheckRecordTest, FindsABlockThatIsNotAsItWas) {
  Write(3);
  const auto record = *SectionFile::Open(folder_.Path("data.checked"), SectionFile::Check::kDigest);
  const std::string blocks(*record->section("blocks")), digest(*record->section("digest"));
  for (const size_t at : {kBlock + 100, 2 * kBlock + 7}) {
    const char before = folder_.Read("data")[at];
    Overwrite(at, '?');
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    EXPECT_FALSE(Keeps(digest, blocks)) << at;
    Overwrite(at, before);
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    EXPECT_TRUE(Keeps(digest, blocks)) << "as it was";
  }
}

TEST_F(CheckRecordTest, KeepsNoneOfAFileThatChangesWhileItIsChecked) {
  Write(3);
  std::filesystem::remove(folder_.Path("data.checked"));
  CheckRecord record(file_.get(), "checks");
  ASSERT_TRUE(record.CheckWhole().ok());
  Overwrite(5000, '?');
  record.Keep();
  EXPECT_FALSE(std::filesystem::exists(folder_.Path("data.checked")));
}

TEST_F(CheckRecordTest, PassesOverOneThatOthersMayWriteAndOneThatIsDamaged) {
  Write(3);
  const std::string path = folder_.Path("data.checked"), bytes = folder_.Read("data.checked");
  ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  EXPECT_FALSE(Matches());
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_TRUE(Matches());
  folder_.Write("data.checked", bytes.substr(0, bytes.size() - 1));
  EXPECT_FALSE(Matches());
  std::filesystem::rename(folder_.Path("data.checked"), folder_.Path("aside"));
  folder_.Write("aside", bytes);
  std::filesystem::create_symlink(folder_.Path("aside"), path);
  EXPECT_FALSE(Matches());
}

}  // namespace
}  // namespace splitveil
