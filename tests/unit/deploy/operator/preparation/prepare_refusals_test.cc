// What is not prepared, with the place in the input; nothing is left of it, and what was there stays.
#include <signal.h>
#include <sys/resource.h>

#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "deploy/operator/preparation/prepare.h"

#include "tests/testing/scratch_folder.h"
#include "tests/unit/deploy/operator/preparation/gzip_bytes.h"
#include "tests/unit/deploy/operator/preparation/small_criteo.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

// Nothing but the input is left and the message shows no planted value.
void ExpectRefused(const std::string& text, const std::string& message) {
  const ScratchFolder folder;
  const absl::Status status = Prepare(OptionsFor(folder, text)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("PLANTED")));
  EXPECT_FALSE(std::filesystem::exists(folder.Path("out")));
}

TEST(PrepareRefusalsTest, FailsOnARowThatCannotBeUsedAndLeavesNothing) {
  ExpectRefused(Rows(2) + "0\t1\n" + Rows(1), "criteo:3:2: expected 40 columns, found 2");
  ExpectRefused(absl::StrCat(absl::StrJoin(Cells(0), "\t"), "\tPLANTED\n"),
                "criteo:1:41: expected 40 columns, found 41");
  for (const char* label : {"", "2", "-1", "0.0", "PLANTED"}) {
    ExpectRefused(WithCell(1, label), "criteo:2:1: label: expected \"1\" (positive) or \"0\" (negative)");
  }
  for (const char* number : {"1e999", "+-1", "1,5", "1 5", "-", "--1", "nan", "inf", "0x10", "PLANTED"}) {
    ExpectRefused(WithCell(3, number), "criteo:2:3: I2: expected a finite number or nothing");
  }
}

TEST(PrepareRefusalsTest, FailsOnAFileWithoutRowsAndLeavesNothing) {
  ExpectRefused("", "criteo: expected usable rows, found none");
  ExpectRefused("\n\n", "criteo: expected usable rows, found none");
}

TEST(PrepareRefusalsTest, FailsOnLabelsThatAreAllAlikeAndLeavesNothing) {
  std::string text = Rows(8);
  text[0] = '0';  // The positives are rows 0 and 4.
  text[Rows(4).size()] = '0';
  ExpectRefused(text, "criteo: expected labels that differ among the training rows, found ");
}

TEST(PrepareRefusalsTest, FailsOnFewerRowsThanTheTableHas) {
  const ScratchFolder folder;
  PrepareOptions options = OptionsFor(folder, Rows(100));
  options.expected_rows = 106;
  EXPECT_THAT(std::string(Prepare(options).status().message()),
              HasSubstr("criteo: expected at least 95% of the 106 rows to be usable, found 100; --min_usable_share"));
  options.expected_rows = 105;
  EXPECT_TRUE(Prepare(options).ok());
}

TEST(PrepareRefusalsTest, FailsOnATruncatedGzipFileAndLeavesNothing) {
  const std::string bytes = GzipBytes(Rows(50));
  ExpectRefused(bytes.substr(0, bytes.size() / 2), "the gzip stream is cut short");
}

TEST(PrepareRefusalsTest, KeepsOlderFilesWhenTheInputIsMalformed) {
  const ScratchFolder folder;
  PrepareOptions options = OptionsFor(folder, Rows(10));
  ASSERT_TRUE(Prepare(options).ok());
  const std::string before = folder.Read("out/label_party.data");
  folder.Write("criteo", WithCell(1, "2"));
  EXPECT_FALSE(Prepare(options).ok());
  EXPECT_EQ(folder.Read("out/label_party.data"), before);
}

TEST(PrepareRefusalsTest, FailsOnAFullDiskAndLeavesNothing) {
  const ScratchFolder folder;
  const PrepareOptions options = OptionsFor(folder, Rows(2000));
  // A limit on the size of files stands for a full disk.
  struct rlimit previous;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &previous), 0);
  const auto previous_handler = signal(SIGXFSZ, SIG_IGN);
  const struct rlimit limit = {64 * 1024, previous.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const absl::Status status = Prepare(options).status();
  setrlimit(RLIMIT_FSIZE, &previous);
  signal(SIGXFSZ, previous_handler);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
  EXPECT_TRUE(std::filesystem::is_empty(folder.Path("out")));
}

TEST(PrepareRefusalsTest, FailsWhereTheInputDoesNotExist) {
  const ScratchFolder folder;
  PrepareOptions options = OptionsFor(folder, "");
  options.rows.input_paths = {folder.Path("absent")};
  EXPECT_EQ(Prepare(options).status().code(), absl::StatusCode::kNotFound);
  options.rows.input_paths = {};
  EXPECT_EQ(Prepare(options).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(PrepareRefusalsTest, FailsWhereTheOutputFolderIsAFile) {
  const ScratchFolder folder;
  PrepareOptions options = OptionsFor(folder, Rows(3));
  options.out_dir = folder.Path("criteo");
  EXPECT_EQ(Prepare(options).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(PrepareRefusalsTest, FailsOnOptionsOutOfRange) {
  const ScratchFolder folder;
  const PrepareOptions valid = OptionsFor(folder, Rows(3));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [label, nonlabel] :
       std::vector<std::pair<double, double>>{{-0.1, 0}, {0, -0.1}, {1, 0}, {0, 1}, {0.5, 0.5}, {nan, 0}, {0, nan}}) {
    PrepareOptions options = valid;
    options.only_label_fraction = label;
    options.only_nonlabel_fraction = nonlabel;
    EXPECT_EQ(Prepare(options).status().code(), absl::StatusCode::kInvalidArgument);
  }
  for (const double fraction : {-0.1, 1.0, nan}) {
    PrepareOptions options = valid;
    options.test_fraction = fraction;
    EXPECT_EQ(Prepare(options).status().code(), absl::StatusCode::kInvalidArgument);
  }
  for (const double share : {-0.1, 1.1, nan}) {
    PrepareOptions options = valid;
    options.min_usable_share = share;
    EXPECT_EQ(Prepare(options).status().code(), absl::StatusCode::kInvalidArgument);
  }
  PrepareOptions options = valid;
  options.shuffle_buffer_rows = 0;
  EXPECT_EQ(Prepare(options).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(folder.Names(), UnorderedElementsAre("criteo"));
}

}  // namespace
}  // namespace splitveil
