#include "common/dataset/prepare_criteo.h"

#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "tests/unit/common/dataset/gzip_bytes.h"
#include "tests/unit/common/dataset/scratch_folder.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

// Row i holds i in I1 and in C1, and every seventh row an empty I3.
std::vector<std::string> Cells(int i) {
  std::vector<std::string> cells(kCriteoColumns, "deadbeef");
  cells[0] = i % 4 == 0 ? "1" : "0";
  for (int n = 1; n <= kCriteoNumeric; ++n) {
    cells[n] = std::to_string(n == 2 ? -i : i);
  }
  cells[3] = i % 7 == 0 ? "" : "5";
  cells[kCriteoNumeric + 1] = absl::StrCat(10000000 + i);
  return cells;
}

std::string Rows(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    absl::StrAppend(&text, absl::StrJoin(Cells(i), "\t"), "\n");
  }
  return text;
}

PrepareCriteoOptions OptionsFor(const ScratchFolder& folder, const std::string& text) {
  PrepareCriteoOptions options;
  options.input_path = folder.Write("criteo", text);
  options.out_dir = folder.Path("out");
  return options;
}

// Lines of a file below its header, in order.
std::vector<std::string> Body(const ScratchFolder& folder, const std::string& name) {
  std::vector<std::string> lines = absl::StrSplit(folder.Read(name), '\n');
  lines.pop_back();
  lines.erase(lines.begin());
  return lines;
}

// The row's id and what stands behind it.
std::map<std::string, std::string> ById(const std::vector<std::string>& lines) {
  std::map<std::string, std::string> rows;
  for (const std::string& line : lines) {
    const size_t tab = line.find('\t');
    rows[line.substr(0, tab)] = line.substr(tab + 1);
  }
  return rows;
}

// Nothing but the input is left and the message shows no planted value.
void ExpectRefused(const std::string& text, const std::string& message) {
  const ScratchFolder folder;
  const absl::Status status = PrepareCriteo(OptionsFor(folder, text)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("PLANTED")));
  EXPECT_TRUE(std::filesystem::is_empty(folder.Path("out")));
}

// The second of three rows has `value` in `column`, from 1.
std::string WithCell(int column, const std::string& value) {
  std::vector<std::string> cells = Cells(1);
  cells[column - 1] = value;
  return absl::StrCat(Rows(1), absl::StrJoin(cells, "\t"), "\n", Rows(1));
}

TEST(PrepareCriteoTest, CopiesEveryRowToThePartiesThatHoldIt) {
  const ScratchFolder folder;
  PrepareCriteoOptions options = OptionsFor(folder, Rows(2000));
  options.only_label_fraction = 0.1;
  options.only_nonlabel_fraction = 0.2;
  options.shuffle_buffer_rows = 64;
  const absl::StatusOr<PrepareCriteoResult> result = PrepareCriteo(options);
  ASSERT_TRUE(result.ok()) << result.status();
  const auto label = ById(Body(folder, "out/label_party.tsv"));
  const auto nonlabel = ById(Body(folder, "out/nonlabel_party.tsv"));
  std::set<std::string> seen;
  int64_t common = 0;
  for (const auto& [id, row] : label) {
    seen.insert(row);
    const auto other = nonlabel.find(id);
    if (other != nonlabel.end()) {
      ++common;
      EXPECT_EQ(row.substr(2), other->second);  // Behind the label.
    }
  }
  EXPECT_EQ(result->rows, 2000);
  EXPECT_EQ(result->positives, 500);
  EXPECT_EQ(result->label_rows, label.size());
  EXPECT_EQ(result->nonlabel_rows, nonlabel.size());
  EXPECT_EQ(result->common_rows, common);
  EXPECT_EQ(result->label_rows + result->nonlabel_rows - common, 2000);
  EXPECT_NEAR(result->label_rows, 1600, 100);    // 5.6 standard deviations.
  EXPECT_NEAR(result->nonlabel_rows, 1800, 75);  // 5.6 standard deviations.
  EXPECT_NEAR(result->missing_rates[2], 1.0 / 7, 1e-3);
  EXPECT_EQ(result->missing_rates[0], 0);
  const std::vector<std::string> input = absl::StrSplit(Rows(2000), '\n');
  for (const std::string& row : seen) {
    EXPECT_TRUE(std::find(input.begin(), input.end(), row) != input.end());
  }
}

TEST(PrepareCriteoTest, GivesIdsOf32HexadecimalDigitsAllDistinct) {
  const ScratchFolder folder;
  PrepareCriteoOptions options = OptionsFor(folder, Rows(300));
  options.only_label_fraction = options.only_nonlabel_fraction = 0;
  ASSERT_TRUE(PrepareCriteo(options).ok());
  const auto rows = ById(Body(folder, "out/label_party.tsv"));
  EXPECT_EQ(rows.size(), 300);
  for (const auto& [id, row] : rows) {
    EXPECT_EQ(id.size(), 32);
    EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos);
  }
}

TEST(PrepareCriteoTest, IdsDoNotDependOnTheRow) {
  const ScratchFolder first;
  const ScratchFolder second;
  std::string other = Rows(50);
  std::replace(other.begin(), other.end(), '5', '6');
  ASSERT_TRUE(PrepareCriteo(OptionsFor(first, Rows(50))).ok());
  ASSERT_TRUE(PrepareCriteo(OptionsFor(second, other)).ok());
  const auto ids = [](const ScratchFolder& folder) {
    std::vector<std::string> all;
    for (const auto& [id, row] : ById(Body(folder, "out/label_party.tsv"))) {
      all.push_back(id);
    }
    return all;
  };
  EXPECT_EQ(ids(first), ids(second));
}

TEST(PrepareCriteoTest, PutsThePartiesRowsInDifferentOrders) {
  const ScratchFolder folder;
  PrepareCriteoOptions options = OptionsFor(folder, Rows(300));
  options.only_label_fraction = options.only_nonlabel_fraction = 0;
  ASSERT_TRUE(PrepareCriteo(options).ok());
  std::vector<std::string> label = Body(folder, "out/label_party.tsv");
  std::vector<std::string> nonlabel = Body(folder, "out/nonlabel_party.tsv");
  int same_place = 0;
  for (size_t i = 0; i < label.size(); ++i) {
    same_place += label[i].substr(0, 32) == nonlabel[i].substr(0, 32) ? 1 : 0;
  }
  EXPECT_LT(same_place, 10);  // Expected 1, Poisson.
}

TEST(PrepareCriteoTest, TheSameSeedGivesTheSameFilesAndAnotherDoesNot) {
  const ScratchFolder folder;
  PrepareCriteoOptions options = OptionsFor(folder, GzipBytes(Rows(300)));
  ASSERT_TRUE(PrepareCriteo(options).ok());
  const std::string label = folder.Read("out/label_party.tsv");
  const std::string nonlabel = folder.Read("out/nonlabel_party.tsv");
  ASSERT_TRUE(PrepareCriteo(options).ok());
  EXPECT_EQ(folder.Read("out/label_party.tsv"), label);
  EXPECT_EQ(folder.Read("out/nonlabel_party.tsv"), nonlabel);
  options.seed = 2;
  ASSERT_TRUE(PrepareCriteo(options).ok());
  EXPECT_NE(folder.Read("out/label_party.tsv"), label);
}

TEST(PrepareCriteoTest, FailsOnAWrongNumberOfColumnsAndLeavesNothing) {
  ExpectRefused(Rows(2) + "0\t1\n" + Rows(1), "criteo:3:2: expected 40 columns, found 2");
  ExpectRefused(absl::StrCat(absl::StrJoin(Cells(0), "\t"), "\tPLANTED\n"),
                "criteo:1:41: expected 40 columns, found 41");
}

TEST(PrepareCriteoTest, FailsOnAnotherLabelAndLeavesNothing) {
  for (const char* label : {"", "2", "-1", "0.0", "PLANTED"}) {
    ExpectRefused(WithCell(1, label), "criteo:2:1: label: expected 0 or 1");
  }
}

TEST(PrepareCriteoTest, FailsOnANumberThatIsNoIntegerAndLeavesNothing) {
  for (const char* number : {"1.5", "1e3", "+1", " 1", "1 ", "-", "--1", "99999999999999999999", "PLANTED"}) {
    ExpectRefused(WithCell(3, number), "criteo:2:3: I2: expected an integer or nothing");
  }
}

TEST(PrepareCriteoTest, FailsOnACategoryThatIsNotEightDigitsAndLeavesNothing) {
  for (const char* category : {"deadbee", "deadbeef0", "deadbeeg", " eadbeef", "PLANTED"}) {
    ExpectRefused(WithCell(40, category), "criteo:2:40: C26: expected 8 hexadecimal digits or nothing");
  }
}

TEST(PrepareCriteoTest, FailsOnAnEmptyFileAndLeavesNothing) { ExpectRefused("", "expected rows, found an empty file"); }

TEST(PrepareCriteoTest, FailsOnATruncatedGzipFileAndLeavesNothing) {
  const std::string bytes = GzipBytes(Rows(50));
  ExpectRefused(bytes.substr(0, bytes.size() / 2), "the gzip stream is cut short");
}

TEST(PrepareCriteoTest, KeepsOlderFilesWhenTheInputIsMalformed) {
  const ScratchFolder folder;
  PrepareCriteoOptions options = OptionsFor(folder, Rows(10));
  ASSERT_TRUE(PrepareCriteo(options).ok());
  const std::string before = folder.Read("out/label_party.tsv");
  folder.Write("criteo", WithCell(1, "2"));
  EXPECT_FALSE(PrepareCriteo(options).ok());
  EXPECT_EQ(folder.Read("out/label_party.tsv"), before);
}

TEST(PrepareCriteoTest, FailsOnAFullDiskAndLeavesNothing) {
  const ScratchFolder folder;
  const PrepareCriteoOptions options = OptionsFor(folder, Rows(2000));
  // A limit on the size of files stands for a full disk.
  struct rlimit previous;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &previous), 0);
  const auto previous_handler = signal(SIGXFSZ, SIG_IGN);
  const struct rlimit limit = {64 * 1024, previous.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const absl::Status status = PrepareCriteo(options).status();
  setrlimit(RLIMIT_FSIZE, &previous);
  signal(SIGXFSZ, previous_handler);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
  EXPECT_TRUE(std::filesystem::is_empty(folder.Path("out")));
}

TEST(PrepareCriteoTest, FailsWhereTheInputDoesNotExist) {
  const ScratchFolder folder;
  PrepareCriteoOptions options;
  options.input_path = folder.Path("absent");
  options.out_dir = folder.Path("out");
  EXPECT_EQ(PrepareCriteo(options).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(folder.Names(), IsEmpty());
}

TEST(PrepareCriteoTest, FailsWhereTheOutputFolderIsAFile) {
  const ScratchFolder folder;
  PrepareCriteoOptions options = OptionsFor(folder, Rows(3));
  options.out_dir = folder.Path("criteo");
  EXPECT_EQ(PrepareCriteo(options).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(PrepareCriteoTest, FailsOnOptionsOutOfRange) {
  const ScratchFolder folder;
  const PrepareCriteoOptions valid = OptionsFor(folder, Rows(3));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [label, nonlabel] :
       std::vector<std::pair<double, double>>{{-0.1, 0}, {0, -0.1}, {1, 0}, {0, 1}, {0.5, 0.5}, {nan, 0}, {0, nan}}) {
    PrepareCriteoOptions options = valid;
    options.only_label_fraction = label;
    options.only_nonlabel_fraction = nonlabel;
    EXPECT_EQ(PrepareCriteo(options).status().code(), absl::StatusCode::kInvalidArgument);
  }
  PrepareCriteoOptions options = valid;
  options.shuffle_buffer_rows = 0;
  EXPECT_EQ(PrepareCriteo(options).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(folder.Names(), UnorderedElementsAre("criteo"));
}

}  // namespace
}  // namespace splitveil
