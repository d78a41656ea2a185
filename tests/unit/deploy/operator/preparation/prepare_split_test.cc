// Splits by group and by time, from the table to the prepared data of both parties.
#include <cmath>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "deploy/operator/preparation/prepare.h"

#include "common/dataset/dataset.h"
#include "common/schedule/train_test_split.h"
#include "tests/testing/scratch_folder.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;

std::string Schema(const std::string& kind) {
  return absl::StrCat(R"(columns { name: "id" kind: ID } columns { name: "n" kind: NUMERIC holder: BOTH }
    columns { name: "y" kind: LABEL } columns { name: "of" kind: )",
                      kind, " }");
}

// Row i has id "i", of its group of eight or its day of June 2024.
std::string Table(bool days, int rows = 800) {
  std::string text = "id,n,y,of\n";
  for (int i = 0; i < rows; ++i) {
    const int of = days ? 1 + i % 30 : i / 8;
    absl::StrAppend(&text, i, ",", i, ",", i % 3 == 0 ? 1 : 0, ",",
                    days ? absl::StrCat("2024-06-", of < 10 ? "0" : "", of) : absl::StrCat("patient ", of), "\n");
  }
  return text;
}

PrepareOptions OptionsFor(const ScratchFolder& folder, const std::string& schema, const std::string& table) {
  PrepareOptions options;
  options.rows.input_paths = {folder.Write("table", table)};
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(schema, &options.rows.schema));
  options.out_dir = folder.Path("out");
  options.test_fraction = 0.25;
  options.validation_fraction = 0.25;
  options.only_label_fraction = options.only_nonlabel_fraction = 0;
  return options;
}

std::shared_ptr<const Dataset> Open(const ScratchFolder& folder, const std::string& party) {
  return *Dataset::Open(folder.Path(absl::StrCat("out/", party, ".data")));
}

// Of each row by its id, a number.
std::map<int, SplitPart> PartsById(const Dataset& data) {
  const SplitRule rule("", 0.25, 0, 0.25);
  std::map<int, SplitPart> parts;
  for (uint32_t row = 0; row < data.rows(); ++row) {
    parts[std::stoi(std::string(data.ids()[row]))] = rule.PartOf(data, row);
  }
  return parts;
}

void ExpectRefused(const PrepareOptions& options, const std::string& phrase) {
  const absl::Status status = Prepare(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(phrase));
}

TEST(PrepareSplitTest, AGroupIsOnOneSideAtBothParties) {
  const ScratchFolder folder;
  const absl::StatusOr<PrepareResult> result = Prepare(OptionsFor(folder, Schema("GROUP"), Table(false)));
  ASSERT_TRUE(result.ok()) << result.status();
  const auto label = Open(folder, "label_party"), nonlabel = Open(folder, "nonlabel_party");
  EXPECT_TRUE(label->preprocessing().split_by_group());
  const std::map<int, SplitPart> parts = PartsById(*label);
  EXPECT_EQ(parts, PartsById(*nonlabel));
  const SplitRule by_text("", 0.25, 0, 0.25);
  std::map<SplitPart, int64_t> rows;
  for (const auto& [id, part] : parts) {
    EXPECT_EQ(part, by_text.PartOf(absl::StrCat("patient ", id / 8))) << id;
    ++rows[part];
  }
  EXPECT_EQ(rows.size(), 3);
  EXPECT_EQ(label->preprocessing().training_rows(), rows[SplitPart::kTraining]);
  EXPECT_EQ(result->parties[0].test_rows, rows[SplitPart::kTest]);
  EXPECT_EQ(result->parties[1].validation_rows, rows[SplitPart::kValidation]);
}

TEST(PrepareSplitTest, RowsAtOrAfterATimeAreForTesting) {
  const ScratchFolder folder;
  PrepareOptions options = OptionsFor(folder, Schema("TIME"), Table(true));
  options.test_after = "2024-06-21";
  ASSERT_TRUE(Prepare(options).ok());
  const auto label = Open(folder, "label_party");
  EXPECT_EQ(label->preprocessing().test_after(), "2024-06-21");
  const SplitRule of_others("", 0, 0, 0.25);
  for (const auto& [id, part] : PartsById(*label)) {
    EXPECT_EQ(part, id % 30 >= 20 ? SplitPart::kTest : of_others.PartOf(std::to_string(id))) << id;
  }
  EXPECT_EQ(PartsById(*label), PartsById(*Open(folder, "nonlabel_party")));
  // Fitted on the rows before.
  EXPECT_LT(label->preprocessing().training_rows(), 540);
}

TEST(PrepareSplitTest, AnIdTellsWhereNoColumnDoesAndNothingIsKept) {
  const ScratchFolder folder;
  ASSERT_TRUE(Prepare(OptionsFor(folder, Schema("IGNORE"), Table(false))).ok());
  EXPECT_TRUE(Open(folder, "label_party")->parts().empty());
}

TEST(PrepareSplitTest, FailsWhereTimeAndTestAfterDoNotFit) {
  const ScratchFolder folder;
  PrepareOptions options = OptionsFor(folder, Schema("TIME"), Table(true));
  ExpectRefused(options, "test_after: expected a time, from which on rows are for testing, as the schema has a column");
  options.test_after = "June";
  ExpectRefused(options,
                "test_after: expected a number or a date such as 2024-06-01 or 2024-06-01T12:30:00Z, found "
                "\"June\"");
  options.test_after = "20240621";
  ExpectRefused(options, "test_after: expected a date, as the column of kind TIME has, found \"20240621\"");
  options.test_after = "2030-01-01";
  ExpectRefused(options,
                "expected labels that differ among the test rows, found 0, which test_after 2030-01-01 keeps "
                "for testing; use a larger table or another time");
  options = OptionsFor(folder, Schema("IGNORE"), Table(true));
  options.test_after = "2024-06-21";
  ExpectRefused(options, "test_after: needs a column of kind TIME, and the schema has none");
}

// A party whose clock shows another zone would hold out other rows, which only the start of the run would show.
TEST(PrepareSplitTest, ATimeOfDayNeedsItsOffsetOrItsZone) {
  const ScratchFolder folder;
  const std::string local =
      "id,n,y,of\na,1,0,2024-06-20 23:30\nb,1,1,2024-06-20 20:30\nc,1,0,2024-06-20 21:30\n"
      "d,1,1,2024-06-20 19:00\ne,1,1,2024-06-20 18:00\nf,1,0,2024-06-20 17:00\n";
  PrepareOptions options = OptionsFor(folder, Schema("TIME"), local);
  options.test_after = "2024-06-21";
  options.validation_fraction = 0;
  ExpectRefused(options,
                "table:2:4: of: expected a time of day with its offset from UTC, such as 12:30:00Z or "
                "12:30:00+02:00, found one without");
  v1::TableSchema::Column& time = *options.rows.schema.mutable_columns(options.rows.schema.columns_size() - 1);
  ASSERT_EQ(time.kind(), v1::TableSchema::TIME);
  time.set_time_zone("America/New_York");  // From 20:00 on it is the next day in UTC.
  const absl::StatusOr<PrepareResult> prepared = Prepare(options);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_EQ(prepared->parties.front().test_rows, 3);
  time.set_time_zone("Mars/Olympus");
  ExpectRefused(options, "of: time_zone: expected a zone that this machine knows");
  time.set_kind(v1::TableSchema::GROUP);
  ExpectRefused(options, "of: time_zone: only a TIME has it");
}

TEST(PrepareSplitTest, FailsAtRowsWithoutAGroupOrATime) {
  const ScratchFolder folder;
  ExpectRefused(OptionsFor(folder, Schema("GROUP"), "id,n,y,of\na,1,0,x\nb,1,1,\n"),
                "table:3:4: of: expected a group, found none");
  PrepareOptions options = OptionsFor(folder, Schema("TIME"), "id,n,y,of\na,1,0,2024-06-01\nb,1,1,06/01/24\n");
  options.test_after = "2024-06-21";
  ExpectRefused(options,
                "table:3:4: of: expected a number or a date such as 2024-06-01 or 2024-06-01T12:30:00Z, found "
                "another text");
}

// As agreements have it: data that no agreement takes would be prepared for nothing.
TEST(PrepareSplitTest, FailsOnFractionsThatNoAgreementTakes) {
  const ScratchFolder folder;
  PrepareOptions options = OptionsFor(folder, Schema("IGNORE"), Table(false));
  options.test_fraction = 0.25;
  options.validation_fraction = 0.75;
  ExpectRefused(options,
                "test_fraction, auxiliary_fraction, validation_fraction: expected at most 0.95 together, found 0.25, 0 "
                "and 0.75");
  for (const double share : {-0.1, 0.91, 1.0, std::nan("")}) {
    options.validation_fraction = share;
    ExpectRefused(options, "validation_fraction: expected a number from 0 to 0.9, found");
  }
}

TEST(PrepareSplitTest, FailsOnLabelsThatAreAllAlikeInTheValidationPart) {
  const ScratchFolder folder;
  PrepareOptions options = OptionsFor(folder, Schema("IGNORE"), Table(false, 300));
  options.validation_fraction = 1e-6;
  ExpectRefused(options,
                "expected labels that differ among the validation rows, found 0, which validation_fraction "
                "1e-06 keeps for validation; use a larger table, a larger validation_fraction or "
                "validation_fraction 0");
}

}  // namespace
}  // namespace splitveil
