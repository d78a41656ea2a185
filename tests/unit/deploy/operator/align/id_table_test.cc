#include "deploy/operator/align/id_table.h"

#include <malloc.h>

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/testing/hex.h"
#include "tests/testing/process/temp_folder.h"

namespace splitveil {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class IdTableTest : public ::testing::Test {
 protected:
  // The table `text`, read.
  absl::StatusOr<IdTable> Read(const std::string& text, std::vector<std::string> key = {"id"}) {
    options_.path = folder_.path() + "/table.csv";
    std::ofstream(options_.path) << text;
    options_.key = std::move(key);
    options_.forms =
        column_forms_.empty() ? std::vector<std::set<v1::IdForm>>(options_.key.size(), forms_) : column_forms_;
    options_.spill_path = folder_.path() + "/own.spill";
    absl::StatusOr<IdTable> table = IdTable::Read(options_);
    // Neither a table nor a refusal leaves anything behind.
    const std::filesystem::directory_iterator names(folder_.path());
    EXPECT_EQ(std::distance(begin(names), end(names)), 1);
    return table;
  }

  std::vector<std::string> Ids(const absl::StatusOr<IdTable>& table) {
    EXPECT_TRUE(table.ok()) << table.status();
    std::vector<std::string> ids;
    for (size_t i = 0; table.ok() && i < table->ids().size(); ++i) {
      ids.emplace_back(table->ids()[i]);
    }
    return ids;
  }

  void ExpectRefused(const absl::StatusOr<IdTable>& table, const std::string& text) {
    EXPECT_TRUE(absl::IsInvalidArgument(table.status())) << table.status();
    EXPECT_THAT(std::string(table.status().message()), AllOf(HasSubstr(text), Not(HasSubstr("planted"))));
  }

  const testing::TempFolder folder_;
  std::set<v1::IdForm> forms_;  // Of each column of the key, or else:
  std::vector<std::set<v1::IdForm>> column_forms_;
  IdTable::Options options_;
};

TEST_F(IdTableTest, ReadsAColumnWhateverPartsTheCells) {
  for (const char separator : {',', '\t', ';'}) {
    const std::string s(1, separator);
    EXPECT_THAT(Ids(Read("x" + s + "id" + s + "y\n1" + s + " b " + s + "2\n3" + s + "\"a\"" + s + "4\n")),
                ElementsAre("b", "a"));
  }
  EXPECT_THAT(Ids(Read("id\nb\r\na")), ElementsAre("b", "a"));
}

TEST_F(IdTableTest, ReadsAPackedTable) {
  EXPECT_THAT(Ids(Read(BytesFromHex("1f8b0800000000000203cb4cd1a9e04ad231e44ad431e20200ab395df10d000000"))),
              ElementsAre("b", "a"));
}

TEST_F(IdTableTest, LinesWithoutACellAreNoRows) {
  const absl::StatusOr<IdTable> table = Read("id,x\n\nb,1\n,\na,2\n");
  EXPECT_THAT(Ids(table), ElementsAre("b", "a"));
  EXPECT_EQ(table->row_number(1), 1);
}

TEST_F(IdTableTest, AKeyOfSeveralColumnsKeepsThemApart) {
  const std::string text = "a,b,c\n1,23,x\n12,3,y\n1,2:3,z\n";
  EXPECT_THAT(Ids(Read(text, {"a", "b"})), ElementsAre("1:12:23", "2:121:3", "1:13:2:3"));
  EXPECT_THAT(Ids(Read(text, {"b", "a"})), ElementsAre("2:231:1", "1:32:12", "3:2:31:1"));
}

TEST_F(IdTableTest, GivesEachCellOfTheKeyTheAgreedForms) {
  forms_ = {v1::CASE_FOLD};
  EXPECT_THAT(Ids(Read("id,b\nAnn,X\n", {"id", "b"})), ElementsAre("3:ann1:x"));
  ExpectRefused(Read("id\nann\n\xff\xfeplanted\n"),
                "1 row with a key that is not UTF-8, which the agreed id_form needs (line 3)");
  forms_ = {};
  ExpectRefused(Read("id\n7\n8.0\n"), "column \"id\"");  // Written in two ways.
  forms_ = {v1::INTEGER};
  EXPECT_THAT(Ids(Read("id\n7\n8.0\n")), ElementsAre("7", "8"));
}

TEST_F(IdTableTest, GivesEachColumnOfTheKeyItsOwnForms) {
  const std::string text = "branch,account\nKöln,007\nBONN,8.0\n";
  column_forms_ = {{v1::CASE_FOLD}, {v1::INTEGER}};
  EXPECT_THAT(Ids(Read(text, {"branch", "account"})), ElementsAre("5:köln1:7", "4:bonn1:8"));
  column_forms_ = {{}, {v1::DIGITS}};
  EXPECT_THAT(Ids(Read("a,b\nX 1,+49 (1)\n", {"a", "b"})), ElementsAre("3:X 13:491"));
  // What one column is allowed is not allowed the next.
  column_forms_ = {{v1::INTEGER}, {}};
  ExpectRefused(Read(text, {"branch", "account"}), "column \"account\"");
  column_forms_ = {{v1::INTEGER}};
  ExpectRefused(Read(text, {"branch", "account"}),
                "--key: expected as many columns as the agreement's alignment.key_column describes, 1, found 2");
}

TEST_F(IdTableTest, CountsRowsThatThePatternsDoNotDescribe) {
  options_.patterns = {"[a-z]+[0-9]"};
  forms_ = {v1::CASE_FOLD};
  EXPECT_THAT(Ids(Read("id\nAB1\nc2\n")), ElementsAre("ab1", "c2"));  // Of the forms, not of the cells.
  ExpectRefused(Read("id\nab1\nplanted\nc2\nplanted22\n"),
                "2 rows with an id that the agreed id_pattern \"[a-z]+[0-9]\" does not describe: correct or remove "
                "them (line 3, 5)");
  ExpectRefused(Read("id\nab1x\n"), "1 row with an id");  // The whole of it.
  ExpectRefused(Read("id,b\nab1,2\n", {"id", "b"}),
                "expected as many columns as the agreement's "
                "alignment.id_pattern describes, 1, found 2");
  options_.patterns = {"[a-z]+[0-9]", "2"};
  EXPECT_THAT(Ids(Read("id,b\nab1,2\n", {"id", "b"})), ElementsAre("3:ab11:2"));
  ExpectRefused(Read("id,b\nab1,2\nab1,3\n", {"id", "b"}), "id_pattern \"2\" does not describe");
}

TEST_F(IdTableTest, RefusesRepeatedKeysWithACountUnlessToldWhichToKeep) {
  const std::string text = "id,x\nplanted,1\nb,2\nplanted,3\nc,4\nplanted,5\n";
  ExpectRefused(Read(text),
                "2 rows with a key that an earlier row has: remove them, or choose with --repeated (line 4, 6)");
  options_.repeated = RepeatedKeys::kFirst;
  absl::StatusOr<IdTable> table = Read(text);
  EXPECT_THAT(Ids(table), ElementsAre("planted", "b", "c"));
  EXPECT_EQ(table->left_out(), 2);
  EXPECT_THAT((std::vector<uint32_t>{table->row_number(0), table->row_number(1), table->row_number(2)}),
              ElementsAre(0, 1, 3));
  options_.repeated = RepeatedKeys::kLast;
  table = Read(text);
  EXPECT_THAT(Ids(table), ElementsAre("b", "c", "planted"));
  EXPECT_EQ(table->left_out(), 2);
  EXPECT_THAT((std::vector<uint32_t>{table->row_number(0), table->row_number(1), table->row_number(2)}),
              ElementsAre(1, 3, 4));
}

TEST_F(IdTableTest, NamesTheLinesOfRepeatedKeysAfterBlankLines) {
  ExpectRefused(Read("id,x\n\nplanted,1\nb,2\n\n,\nplanted,3\nc,4\n\nplanted,5\nb,6\n"),
                "3 rows with a key that an earlier row has: remove them, or choose with --repeated (line 7, 10, 11)");
}

TEST_F(IdTableTest, CountsRowsWithoutAKey) {
  ExpectRefused(Read("id,x\n,1\nplanted,2\n,3\n"), "2 rows without a key (line 2, 4)");
  ExpectRefused(Read("id,x\n,1\n,1\n,1\n,1\n,1\n,1\n"), "6 rows without a key (line 2, 3, 4, 5, 6, ...)");
  ExpectRefused(Read("a,b\nplanted,\n", {"a", "b"}), "1 row without a key (line 2)");
}

TEST_F(IdTableTest, RefusesTablesOfAnotherShape) {
  ExpectRefused(Read(""), "found an empty file");
  ExpectRefused(Read("planted,x\n1,2\n"), ":1: expected a header line that names each key column once (id)");
  ExpectRefused(Read("id,id\n1,2\n"), "names each key column once");
  ExpectRefused(Read("id,b\n1,2\n", {"id", "c"}), "names each key column once (id, c)");
  ExpectRefused(Read("id,b\nplanted\n"), "table.csv:2:1: expected 2 cells, as the header line has, found 1");
  ExpectRefused(Read("id,b\nplanted,2,3\n"), "found 3");
  EXPECT_TRUE(absl::IsNotFound(IdTable::Read({folder_.path() + "/none", {"id"}, {{}}}).status()));
}

// Of bytes that malloc manages, those in use.
size_t BytesInUse() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST_F(IdTableTest, KeepsIdsOnTheDiskForTheirOwnerAlone) {
  std::string text = "id\n";
  for (int i = 0; i < 200'000; ++i) {
    text += absl::StrCat("someone-", i, "\n");
  }
  const size_t before = BytesInUse();
  const absl::StatusOr<IdTable> table = Read(text);
  EXPECT_LT(BytesInUse(), before + 200'000);  // A byte an id.
  ASSERT_EQ(table->ids().size(), 200'000);
  EXPECT_EQ(table->ids()[199'999], "someone-199999");
  options_.spill_path = folder_.path() + "/none/own.spill";
  EXPECT_TRUE(absl::IsInvalidArgument(IdTable::Read(options_).status()));
}

}  // namespace
}  // namespace splitveil
