#include "deploy/operator/preparation/table_reader.h"

#include <cmath>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

#include "deploy/operator/preparation/row_source.h"
#include "deploy/operator/preparation/table_schema.h"

#include "tests/testing/scratch_folder.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

v1::TableSchema Schema(const std::string& text) {
  v1::TableSchema schema;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &schema)) << text;
  return schema;
}

constexpr char kColumns[] = R"(
  columns { name: "id" kind: ID } columns { name: "y" kind: LABEL }
  columns { name: "a" kind: NUMERIC } columns { name: "c" kind: CATEGORICAL })";

// "id y a c" of every row, or what is wrong with it.
std::vector<std::string> Read(const std::string& schema, const std::string& text) {
  const ScratchFolder folder;
  RowSource::Options options;
  options.input_paths = {folder.Write("table", text)};
  options.schema = Schema(schema);
  std::vector<std::string> rows;
  auto reader = TableReader::Open(options.input_paths, options.schema);
  if (!reader.ok()) {
    return {std::string(reader.status().message())};
  }
  TableRow row;
  while (*(*reader)->Next(row)) {
    if (row.fault != RowFault::kNone) {
      const std::string message(row.error.message());
      rows.push_back(message.substr(message.rfind("table:")));
      continue;
    }
    rows.push_back(std::string(row.id) + "|" + std::to_string(row.label) + "|" +
                   (std::isnan(row.numeric[0]) ? "-" : std::to_string(static_cast<int>(row.numeric[0]))) + "|" +
                   std::string(row.categories[0]));
  }
  return rows;
}

TEST(TableReaderTest, FindsColumnsByTheHeaderInAnyOrder) {
  EXPECT_THAT(Read(kColumns, "c,a,y,id\nred,5,1,k\n,,0,l\n"), ElementsAre("k|1|5|red", "l|0|-|"));
}

TEST(TableReaderTest, GoesByTheOrderOfTheSchemaWithoutAHeader) {
  EXPECT_THAT(Read(std::string(kColumns) + " header: false separator: ';'", "k;1;5;red\n"), ElementsAre("k|1|5|red"));
}

TEST(TableReaderTest, UnderstandsQuotes) {
  EXPECT_THAT(Read(kColumns, "\"id\",y,a,c\n\"k,1\",1,\"5\",\"say \"\"hi\"\"\"\n"), ElementsAre("k,1|1|5|say \"hi\""));
  EXPECT_THAT(Read(std::string(kColumns) + " quotes: false", "id,y,a,c\nk,1,5,\"red\n"), ElementsAre("k|1|5|\"red"));
}

TEST(TableReaderTest, RefusesAQuotedLineBreakAndTextBehindAQuote) {
  EXPECT_THAT(Read(kColumns, "id,y,a,c\nk,1,5,\"re\nd\"\nl,0,6,\"x\"y\n"),
              ElementsAre(HasSubstr("table:2:4: expected a quoted cell to end"), HasSubstr("table:3:1: expected 4"),
                          HasSubstr("table:4:4: expected a quoted cell to end")));
}

TEST(TableReaderTest, ReadsNumbersAsTheirColumnSays) {
  const std::string german = R"(columns { name: "id" kind: ID } columns { name: "y" kind: LABEL }
      columns { name: "a" kind: NUMERIC decimal: COMMA thousands: "." strip: "EUR" missing: ["-9999", "offen"] }
      columns { name: "c" kind: CATEGORICAL missing: "offen" } separator: ";")";
  EXPECT_THAT(Read(german,
                   "id;y;a;c\nk;1;1.234,9 EUR;x\nl;0;\xe2\x88\x92"
                   "5;offen\nm;0;offen;-9999\nn;1;-9.999,00 EUR;\no;1;+7;x\n"),
              ElementsAre("k|1|1234|x", "l|0|-5|", "m|0|-|-9999", "n|1|-|", "o|1|7|x"));
}

TEST(TableReaderTest, ANumberInAnotherFormIsAnErrorThatNamesTheLineOfTheSchemaWhichReadsIt) {
  for (const auto& [cell, hint] :
       {std::pair("\"52,31\"", "decimal: COMMA in the schema reads it"),
        {"\"1,234\"", "thousands: \",\" in the schema reads it as 1234, decimal: COMMA as 1.234"},
        {"\"1,234.50\"", "thousands and decimal in the schema"},
        {"12 EUR", "strip in the schema drops it"},
        {"12%", "strip in the schema drops it"},
        {"2024-01-01", "found a date"},
        {"0x1F", "digits that are no number"},
        {"SECRET", "missing in the schema lists texts"}}) {
    EXPECT_THAT(Read(kColumns, std::string("id,y,a,c\nk,1,") + cell + ",x\n"),
                ElementsAre(::testing::AllOf(HasSubstr("table:2:3: a: expected a finite number or nothing, found"),
                                             HasSubstr(hint), Not(HasSubstr("SECRET")), Not(HasSubstr("52")))))
        << cell;
  }
}

// Columns are in another order than those of the schema, and in each file another.
TEST(TableReaderTest, PutsEveryRowIntoTheProfileOfTheSchemasColumns) {
  const ScratchFolder folder;
  const v1::TableSchema schema = Schema(std::string(kColumns) + " missing: '?'");
  TableProfile profile = EmptyProfile(schema);
  auto reader = TableReader::Open({folder.Write("one", "c,a,y,id\nred,5,1,k\n,?,0,l\n"),
                                   folder.Write("two", "id,y,a,c\nm,0,6.5,blue\nn,0,bad,blue\no,1\n")},
                                  schema);
  ASSERT_TRUE(reader.ok()) << reader.status();
  (*reader)->set_profile(&profile);
  TableRow row;
  while (*(*reader)->Next(row)) {
  }
  EXPECT_EQ(profile.columns[2].name(), "a");
  EXPECT_EQ(profile.columns[2].rows(), 4) << "a row with too few cells has no column";
  EXPECT_EQ(profile.columns[2].marked(), 1);
  EXPECT_EQ(profile.columns[2].numbers(), 2);
  EXPECT_EQ(profile.columns[2].form(CellForm::kText).first_line, 3);
  EXPECT_EQ(profile.columns[3].empty(), 1);
  EXPECT_EQ(profile.columns[3].distinct(), 2);
}

TEST(TableReaderTest, TrimsBlanksAndKnowsMissingMarkersAndLabels) {
  EXPECT_THAT(Read(std::string(kColumns) + R"(trim: true missing: "?" positive: [">50K", ">50K."] negative: "<=50K")",
                   "id, y, a, c\nk, >50K., ?, ?\nl, <=50K, 7, a b \n"),
              ElementsAre("k|1|-|", "l|0|7|a b"));
}

TEST(TableReaderTest, NamesLineAndColumnOfWhatCannotBeUsedAndGoesOn) {
  EXPECT_THAT(Read(kColumns, "id,y,a,c\nk,2,5,x\n,1,5,x\nk,1,five,x\nk,1,5\nk,1,5,x,y\nk,1,5,x\n"),
              ElementsAre(HasSubstr("table:2:2: y: expected \"1\" (positive) or \"0\" (negative)"),
                          HasSubstr("table:3:1: id: expected"), HasSubstr("table:4:3: a: expected a finite number"),
                          HasSubstr("table:5:3: expected 4 columns"),
                          HasSubstr("table:6:5: expected 4 columns, found 5"), "k|1|5|x"));
}

TEST(TableReaderTest, NamesTheLabelsOfTheSchemaAndNotThoseOfTheTable) {
  EXPECT_THAT(
      Read(std::string(kColumns) + R"(positive: ["yes", "y"] negative: "no")", "id,y,a,c\nk,SECRET,5,x\n"),
      ElementsAre("table:2:2: y: expected \"yes\" or \"y\" (positive) or \"no\" (negative), as the schema says, "
                  "found a different text; its `positive` and `negative` name others"));
  EXPECT_THAT(Read(kColumns, "id,y,a,c\nk,,5,x\n"),
              ElementsAre(HasSubstr("as the schema says, found none; --skip_bad_rows leaves such rows out")));
}

TEST(TableReaderTest, NamesTheSeparatorThatWouldDo) {
  EXPECT_THAT(
      Read(kColumns, "id,y,a,c\nk;1;5;x\nl;1;5\n"),
      ElementsAre(
          "table:2:1: expected 4 columns, found 1; its separator seems to be \";\", the schema says \",\": with "
          "separator: \";\" in the schema it has 4 columns",
          "table:3:1: expected 4 columns, found 1"));
}

TEST(TableReaderTest, NumbersClassesInTheOrderOfTheSchema) {
  const std::string schema = R"(
      columns { name: "id" kind: ID } columns { name: "y" kind: CLASS_LABEL }
      columns { name: "a" kind: NUMERIC } columns { name: "c" kind: CATEGORICAL }
      classes: ["low", "1", "high"])";
  EXPECT_THAT(Read(schema, "id,y,a,c\nk,high,5,x\nl,low,6,x\nm,1,7,x\n"), ElementsAre("k|2|5|x", "l|0|6|x", "m|1|7|x"));
  EXPECT_THAT(
      Read(schema, "id,y,a,c\nk,SECRET,5,x\nl,,5,x\nm,Low,5,x\n"),
      ElementsAre("table:2:2: y: expected one of \"low\", \"1\", \"high\", as the schema says, found a different text",
                  HasSubstr("table:3:2: y: expected one of \"low\", \"1\", \"high\", as the schema says, found none"),
                  HasSubstr("table:4:2: y: expected one of")));
}

TEST(TableReaderTest, NamesTwentyOfManyClasses) {
  std::string schema = std::string(R"(columns { name: "y" kind: CLASS_LABEL } columns { name: "a" kind: NUMERIC })");
  for (int i = 0; i < 256; ++i) {
    schema += " classes: 'c" + std::to_string(i) + "'";
  }
  const std::vector<std::string> found = Read(schema, "y,a\nSECRET,5\n");
  ASSERT_EQ(found.size(), 1);
  EXPECT_THAT(found[0], HasSubstr("\"c18\", \"c19\" and 236 more, as the schema says"));
}

TEST(TableReaderTest, ReadsTargetsAsTheyAre) {
  const ScratchFolder folder;
  v1::TableSchema schema =
      Schema(R"(columns { name: "y" kind: TARGET } target_minimum: 0 target_maximum: 10 missing: "?")");
  auto reader = *TableReader::Open({folder.Write("table", "y\n2.5\n-1e3\n11\n?\nSECRET\nnan\n1e999\n")}, schema);
  ASSERT_TRUE(reader->columns().label.has_value());
  EXPECT_EQ(reader->columns().label->task.kind, Task::Kind::kRegression);
  EXPECT_EQ(reader->columns().label->maximum, 10);
  TableRow row;
  for (const double target : {2.5, -1000.0, 11.0}) {
    ASSERT_TRUE(*reader->Next(row));
    EXPECT_EQ(row.fault, RowFault::kNone);
    EXPECT_EQ(row.target, target);
  }
  for (int line = 5; line < 9; ++line) {
    ASSERT_TRUE(*reader->Next(row));
    EXPECT_EQ(row.fault, RowFault::kTarget);
    EXPECT_THAT(
        std::string(row.error.message()),
        HasSubstr("table:" + std::to_string(line) + ":1: y: expected a finite number, found nothing or another text"));
    EXPECT_THAT(std::string(row.error.message()), Not(HasSubstr("SECRET")));
  }
}

TEST(TableReaderTest, NamesAColumnThatTheSchemaDoesNot) {
  EXPECT_THAT(
      Read(kColumns, "id,y,amount,c\nk,1,5,x\n"),
      ElementsAre(HasSubstr("table:1:3: expected a column of the schema (\"a\" not found), found \"amount\"; a column "
                            "to leave out has kind: IGNORE")));
  EXPECT_THAT(Read(kColumns, "id,y,a,c,more\nk,1,5,x,z\n"),
              ElementsAre(HasSubstr("table:1:5: expected a column of the schema, found \"more\"")));
}

TEST(TableReaderTest, RefusesAHeaderThatDoesNotFitAndShowsNoData) {
  for (const auto& [header, message] :
       std::vector<std::pair<std::string, std::string>>{{"id,y,a\n", "expected a column \"c\""},
                                                        {"SECRET,1,a,red\n", "found one without \"id\", \"y\", \"c\""},
                                                        {"id,y,a,c,a\n", "found \"a\" again"},
                                                        {"\"id,y\n", "quoted cell"},
                                                        {"", "expected a header line, found an empty file"}}) {
    const std::vector<std::string> found = Read(kColumns, header);
    ASSERT_EQ(found.size(), 1);
    EXPECT_THAT(found[0], HasSubstr(message));
    EXPECT_THAT(found[0], Not(HasSubstr("SECRET")));
  }
}

TEST(TableReaderTest, RefusesSchemasThatContradictThemselves) {
  const std::string column = R"(columns { name: "x" kind: NUMERIC })";
  for (const auto& [schema, message] : std::vector<std::pair<std::string, std::string>>{
           {column + column, "found x twice"},
           {column + " separator: ';;'", "separator: expected one byte"},
           {column + " separator: '\"'", "separator: expected one byte"},
           {column + R"(columns { name: "p" kind: IMAGE_FILE })", "IMAGE_FILE"},
           {R"(columns { name: "p" kind: ID } columns { name: "q" kind: ID })", "at most one ID"},
           {column + R"(positive: "a" negative: "a")", "found one in both"},
           {R"(header: false columns { name: "x" kind: NUMERIC optional: true })", "optional"}}) {
    EXPECT_THAT(Read(schema, "x\n1\n"), ElementsAre(HasSubstr(message)));
  }
}

TEST(TableReaderTest, RefusesALaterFileWithOtherColumns) {
  const ScratchFolder folder;
  v1::TableSchema schema = Schema(kColumns);
  schema.mutable_columns(3)->set_optional(true);
  auto reader =
      *TableReader::Open({folder.Write("a", "id,y,a,c\nk,1,5,x\n"), folder.Write("b", "id,y,a\nl,1,5\n")}, schema);
  TableRow row;
  EXPECT_TRUE(*reader->Next(row));
  EXPECT_THAT(std::string(reader->Next(row).status().message()),
              HasSubstr("b:1:1: its columns differ from those of the first file"));
}

TEST(TableReaderTest, ReadsBothFormsOfAvazu) {
  const ScratchFolder folder;
  const std::string rest =
      "C1,banner_pos,site_id,site_domain,site_category,app_id,app_domain,app_category,device_id,"
      "device_model,device_type,device_conn_type,C14,C15,C16,C17,C18,C19,C20,C21\n";
  const std::string cells = "1,2,3,4,5,6,7,8,9,10,11,12,14,15,16,17,18,19,20,21\n";
  TableRow row;
  auto raw = *TableReader::Open({folder.Write("raw", "id,click,hour,device_ip," + rest + "77,1,14102123,ip," + cells)},
                                AvazuSchema());
  EXPECT_TRUE(*raw->Next(row));
  EXPECT_EQ(row.id, "77");
  EXPECT_EQ(row.categories[0], "23");
  EXPECT_EQ(row.categories.size(), 22);
  auto reduced = *TableReader::Open({folder.Write("reduced", "click,hour," + rest + "0,07," + cells)}, AvazuSchema());
  EXPECT_FALSE(reduced->columns().has_id);
  EXPECT_TRUE(*reduced->Next(row));
  EXPECT_EQ(row.categories[0], "07");
  EXPECT_EQ(row.categories.size(), 21);
}

TEST(RowSourceTest, RefusesAnIdThatRepeatsOrLeavesItOut) {
  const ScratchFolder folder;
  RowSource::Options options;
  options.input_paths = {folder.Write("table", "id,y,a,c\nk,1,5,x\nl,1,5,x\nk,0,6,y\n")};
  options.schema = Schema(kColumns);
  TableRow row;
  auto strict = *RowSource::Open(options);
  EXPECT_TRUE(*strict->Next(row) && *strict->Next(row));
  EXPECT_THAT(std::string(strict->Next(row).status().message()), HasSubstr("table:4:1: expected distinct ids"));
  options.skip_bad_rows = true;
  auto lenient = *RowSource::Open(options);
  EXPECT_TRUE(*lenient->Next(row) && *lenient->Next(row) && !*lenient->Next(row));
  EXPECT_EQ(lenient->skipped()[static_cast<size_t>(RowFault::kRepeatedId)], 1);
}

TEST(TableReaderTest, LinesOfEmptyCellsHoldNoRow) {
  EXPECT_THAT(Read(kColumns, "\nid,y,a,c\nk,1,5,red\n,,,\n \n\"\",\"\",,\nl,0,,\n,,,\n"),
              ElementsAre("k|1|5|red", "l|0|-|"));
  EXPECT_THAT(Read(kColumns, ",,,\nid,y,a,c\nk,1,5,red\n"), ElementsAre("k|1|5|red"));
  // A cell that is not empty makes it a row.
  EXPECT_THAT(Read(kColumns, "id,y,a,c\n,,,blue\n"), ElementsAre(HasSubstr("table:2:1: id: expected an id")));
}

}  // namespace
}  // namespace splitveil
