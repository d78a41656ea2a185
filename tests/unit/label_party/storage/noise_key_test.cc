#include "label_party/storage/noise_key.h"

#include <sys/stat.h>

#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/process/file.h"
#include "tests/testing/process/temp_folder.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;

class NoiseKeyTest : public ::testing::Test {
 protected:
  const testing::TempFolder files_;
  const std::string path_ = NoiseKeyPath(files_.File("label.checkpoint"));
};

TEST_F(NoiseKeyTest, IsMadeOnceForItsOwnerAlone) {
  EXPECT_EQ(path_, files_.File("label.checkpoint.noise_key"));
  ASSERT_TRUE(CheckNoiseKey(path_).ok());
  EXPECT_FALSE(std::filesystem::exists(path_));
  const mode_t before = umask(0);
  const absl::StatusOr<SecretKey> made = OpenNoiseKey(path_, false);
  umask(before);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(std::filesystem::status(path_).permissions(), std::filesystem::perms(0600));
  const absl::StatusOr<SecretKey> again = OpenNoiseKey(path_, false);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->bytes(), made->bytes());
  EXPECT_TRUE(CheckNoiseKey(path_).ok());
  EXPECT_NE(OpenNoiseKey(files_.File("another.noise_key"), false)->bytes(), made->bytes());
}

TEST_F(NoiseKeyTest, ThatABrokenRunShouldHaveLeftIsMissed) {
  const absl::Status missed = OpenNoiseKey(path_, true).status();
  EXPECT_EQ(missed.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(missed.message()), HasSubstr(path_ + ": the noise key of the run"));
  EXPECT_FALSE(std::filesystem::exists(path_));
  const absl::StatusOr<SecretKey> made = OpenNoiseKey(path_, false);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(OpenNoiseKey(path_, true)->bytes(), made->bytes());
}

// However many find none at the same time: no reader meets a key half made.
TEST_F(NoiseKeyTest, OfOnePathIsOneKey) {
  for (int round = 0; round < 50; ++round) {
    const std::string path = files_.File(absl::StrCat(round));
    std::vector<absl::StatusOr<SecretKey>> keys;
    keys.reserve(4);
    for (int i = 0; i < 4; ++i) {
      keys.emplace_back(absl::UnknownError("not asked yet"));
    }
    std::vector<std::thread> threads;
    threads.reserve(keys.size());
    for (absl::StatusOr<SecretKey>& key : keys) {
      threads.emplace_back([&] { key = OpenNoiseKey(path, false); });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    const absl::StatusOr<SecretKey> kept = OpenNoiseKey(path, false);
    ASSERT_TRUE(kept.ok()) << kept.status();
    for (const absl::StatusOr<SecretKey>& key : keys) {
      ASSERT_TRUE(key.ok()) << key.status();
      EXPECT_EQ(key->bytes(), kept->bytes());
    }
  }
}

TEST_F(NoiseKeyTest, ThatOthersMayReadIsRefused) {
  ASSERT_TRUE(OpenNoiseKey(path_, false).ok());
  ASSERT_EQ(chmod(path_.c_str(), 0640), 0);
  for (const absl::Status& status : {OpenNoiseKey(path_, false).status(), CheckNoiseKey(path_)}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("users other than its owner may read this key (mode 640)"));
  }
}

// Never replaced: a run goes on with the noise it began with, or not at all.
TEST_F(NoiseKeyTest, OfAnotherSizeIsRefusedAndStays) {
  for (const std::string& contents : {std::string(), std::string(31, 'k'), std::string(33, 'k')}) {
    ASSERT_TRUE(WriteFile(path_, contents).ok());
    for (const absl::Status& status : {OpenNoiseKey(path_, false).status(), CheckNoiseKey(path_)}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(status.message()), HasSubstr("expected a noise key of 32 bytes, found"));
    }
    EXPECT_EQ(*ReadFile(path_), contents);
  }
}

TEST_F(NoiseKeyTest, InAFolderThatIsNotThereIsRefused) {
  EXPECT_EQ(OpenNoiseKey(files_.File("no/key"), false).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(NoiseKeyTest, IsNoneWithoutACheckpoint) {
  EXPECT_EQ(NoiseKeyPath(""), "");
  EXPECT_TRUE(CheckNoiseKey("").ok());
}

}  // namespace
}  // namespace splitveil
