#include "deploy/operator/init/table_profile.h"

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "tests/testing/process/temp_folder.h"

namespace splitveil {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class TableProfileTest : public ::testing::Test {
 protected:
  absl::StatusOr<ProfiledTable> Of(const std::string& text, const LayoutFlags& flags = {}) const {
    std::ofstream(path_, std::ios::binary) << text;
    return ProfileTable({path_}, flags);
  }
  // A header and `rows` rows.
  static std::string Table(int64_t rows, const std::string& tail = "") {
    std::string text = "id,age\n";
    for (int64_t row = 0; row < rows; ++row) {
      text += "r" + std::to_string(row) + ",4" + tail + "\n";
    }
    return text;
  }

  const testing::TempFolder folder_;
  const std::string path_ = folder_.File("t.csv");
};

TEST_F(TableProfileTest, CountsEveryRowOfASmallFile) {
  const auto table = Of("\xef\xbb\xbfid;age\r\na;3\r\n\r\nb;NA\r\nc;");  // A byte order mark, CR LF, no last line end.
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->rows, 3);
  EXPECT_EQ(table->profile.columns[0].name(), "id");
  EXPECT_TRUE(table->profile.columns[0].names_rows());
  EXPECT_EQ(table->profile.columns[1].numbers(), 1);
  EXPECT_EQ(table->profile.columns[1].marked(), 1);
  EXPECT_EQ(table->profile.columns[1].empty(), 1);
  EXPECT_THAT(ProfileHead("t.csv", *table), HasSubstr("t.csv: 3 rows; separator semicolon"));
}

// Once the first 100,000 rows or 16 MiB decided.
TEST_F(TableProfileTest, ReadsEveryRowOfALongTable) {
  const auto table = Of(Table(150'000) + "last,x\n");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->rows, 150'001);
  EXPECT_EQ(table->profile.columns[1].form(CellForm::kText).first_line, 150'002);
  EXPECT_EQ(table->profile.columns[1].distinct(), 2);
  const auto wide = Of(Table(400, std::string(1 << 16, '4')));
  ASSERT_TRUE(wide.ok()) << wide.status();
  EXPECT_EQ(wide->rows, 400);
}

TEST_F(TableProfileTest, AnOddLineIsAnErrorThatSaysWhereUnlessItIsToBeSkipped) {
  const std::string text = Table(300) + "secret,5,6\n" + "last,7\n";
  const auto odd = Of(text);
  EXPECT_EQ(odd.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(odd.status().message()),
              AllOf(HasSubstr("t.csv:302:1: expected 2 cells"), Not(HasSubstr("secret"))));
  LayoutFlags flags;
  flags.skip_bad_rows = true;
  const auto skipped = Of(text, flags);
  EXPECT_EQ(skipped->rows, 301);
  EXPECT_EQ(skipped->odd_lines, 1);
}

TEST_F(TableProfileTest, CountsLinesAsTheFileDoes) {
  const auto table = Of("\nid,won\n\na,yes\nb,no\n\nc,no\nd,yes\ne,no\n");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->profile.columns[1].counts().at("yes").first_line, 4);
  EXPECT_EQ(table->profile.columns[1].counts().at("no").first_line, 5);
}

TEST_F(TableProfileTest, FailsForFilesWithoutRows) {
  EXPECT_THAT(std::string(Of("").status().message()), HasSubstr("found an empty file"));
  LayoutFlags flags;
  flags.header = "yes";
  EXPECT_THAT(std::string(Of("id,age\n", flags).status().message()), HasSubstr("expected rows below the header"));
  EXPECT_EQ(ProfileTable({folder_.File("none.csv")}, {}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(Of("\xff\xfei").status().message()), HasSubstr("UTF-16"));
  EXPECT_THAT(std::string(Of(std::string("i\0d\0\n\0", 6)).status().message()), HasSubstr("`iconv -f UTF-16LE"));
}

TEST_F(TableProfileTest, LinesOfEmptyCellsHoldNoRow) {
  const auto table = Of("\n" + Table(20) + ",\n\n, \n");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->rows, 20);
  EXPECT_TRUE(table->profile.columns[0].names_rows());
}

TEST_F(TableProfileTest, PartsAreOneTable) {
  std::ofstream(folder_.File("part-0.csv")) << "id,age\na,3\nb,4\n";
  std::ofstream(folder_.File("part-1.csv")) << "\nid,age\nc,5\n";
  const auto table = ProfileTable({folder_.File("part-*.csv")}, {});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->rows, 3);
  EXPECT_EQ(table->profile.columns[1].numbers(), 3);
  EXPECT_THAT(ProfileHead("part-*.csv", *table), HasSubstr(": 3 rows in 2 files; "));
  std::ofstream(folder_.File("part-.csv")) << "id,age\n";  // Without rows, and first by name.
  EXPECT_EQ(ProfileTable({folder_.File("part-*.csv")}, {})->rows, 3);
  std::ofstream(folder_.File("part-2.csv")) << "d,6\ne,7\n";
  EXPECT_THAT(std::string(ProfileTable({folder_.File("part-*.csv")}, {}).status().message()),
              AllOf(HasSubstr("part-2.csv:1:1: expected the same header line as in "), HasSubstr("part-0.csv")));
}

}  // namespace
}  // namespace splitveil
