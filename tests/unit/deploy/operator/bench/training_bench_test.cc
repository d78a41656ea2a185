#include "deploy/operator/bench/training_bench.h"

#include <algorithm>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "deploy/operator/bench/bench_data.h"
#include "deploy/operator/bench/bench_folder.h"

#include "common/process/file.h"
#include "tests/testing/process/temp_folder.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TrainingBenchTest : public ::testing::Test {
 protected:
  TrainingBenchTest() {
    options_.folder = files_.File("bench");
    options_.programs = files_.File("programs");  // None there.
    options_.stop_requested = [] { return false; };
  }

  void ExpectRefused(absl::StatusCode code, const std::string& text) {
    const absl::Status status = RunTrainingBench(options_);
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_FALSE(std::filesystem::exists(options_.folder));
  }

  const testing::TempFolder files_;
  TrainingBenchOptions options_;
};

TEST_F(TrainingBenchTest, HasACheckForEachRowOfItsTable) {
  EXPECT_THAT(TrainingCheckNames(), ElementsAre("centralized_baseline", "large_batch", "isic", "vocabulary", "bytes",
                                                "shares", "gaussian_label_dp", "memory"));
}

TEST_F(TrainingBenchTest, RefusesACheckThatItDoesNotHave) {
  options_.checks = {"bytes", "speed"};
  ExpectRefused(absl::StatusCode::kInvalidArgument, "found \"speed\"");
}

TEST_F(TrainingBenchTest, RefusesMoreCoresThanThereAre) {
  options_.cores = 1024;
  ExpectRefused(absl::StatusCode::kInvalidArgument, "cores");
}

TEST_F(TrainingBenchTest, ProgramsThatAreNotThereAreAnErrorAndNothingIsLeft) {
  options_.cores = 1;
  ExpectRefused(absl::StatusCode::kInternal, "splitveil");
}

TEST_F(TrainingBenchTest, NeverUsesAFolderThatIsThere) {
  options_.cores = 1;
  const std::string kept = files_.File("kept");
  ASSERT_TRUE(std::filesystem::create_directory(kept));
  options_.folder = kept;
  EXPECT_EQ(RunTrainingBench(options_).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(std::filesystem::exists(kept));
}

TEST_F(TrainingBenchTest, AProgramThatFailsIsNamedWithItsLastWords) {
  const absl::Status status = RunProgram("/bin/sh", {"-c", "echo first >&2; echo last words >&2; exit 3"},
                                         files_.File("log"), [] { return false; });
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("exit code 3: last words"));
}

TEST_F(TrainingBenchTest, AProgramIsStoppedOnRequest) {
  EXPECT_TRUE(absl::IsCancelled(RunProgram("/bin/sleep", {"600"}, files_.File("log"), [] { return true; })));
}

TEST_F(TrainingBenchTest, RandomClicksHaveTheColumnsOfCriteo) {
  ASSERT_TRUE(WriteRandomClicks(files_.File("clicks"), 3).ok());
  const absl::StatusOr<std::string> table = ReadFile(files_.File("clicks"));
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(std::count(table->begin(), table->end(), '\n'), 3);
  EXPECT_EQ(std::count(table->begin(), table->end(), '\t'), 3 * 39);
}

TEST_F(TrainingBenchTest, RandomImagesFillTheirArray) {
  ASSERT_TRUE(WriteRandomImages(files_.path(), 5, 7).ok());
  const absl::StatusOr<std::string> pixels = ReadFile(files_.File("table.images"));
  ASSERT_TRUE(pixels.ok());
  EXPECT_EQ(pixels->size(), 5u * 7 * 7 * 3);
  EXPECT_FALSE(WriteRandomImages(files_.File("no folder"), 5, 7).ok());
}

}  // namespace
}  // namespace splitveil
