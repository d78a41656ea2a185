// Sensitive attributes from the table to the prepared data.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/operator/preparation/prepare.h"

#include "common/dataset/dataset.h"
#include "common/dataset/features.h"
#include "common/schedule/train_test_split.h"
#include "tests/testing/scratch_folder.h"

namespace splitveil {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kSchema[] = R"(
  columns { name: "id" kind: ID } columns { name: "y" kind: LABEL }
  columns { name: "n" kind: NUMERIC holder: NONLABEL_PARTY }
  columns { name: "sex" kind: ATTRIBUTE values: ["Female", "Male"] }
  columns { name: "rel" kind: ATTRIBUTE values: ["Wife", "Husband", "Own"] also_feature: true }
  missing: "?")";

constexpr char kTable[] = "id,y,n,sex,rel\na,1,1,Male,Own\nb,0,2,?,Wife\nc,0,3,Female,\n";

PrepareOptions OptionsFor(const ScratchFolder& folder, const std::string& text, const std::string& schema = kSchema) {
  PrepareOptions options;
  options.rows.input_paths = {folder.Write("table", text)};
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(schema, &options.rows.schema));
  options.out_dir = folder.Path("out");
  options.test_fraction = options.validation_fraction = options.only_label_fraction = options.only_nonlabel_fraction =
      0;
  options.shuffle_buffer_rows = 1;
  return options;
}

std::shared_ptr<const Dataset> Open(const ScratchFolder& folder, const std::string& party) {
  absl::StatusOr<std::shared_ptr<const Dataset>> data =
      Dataset::Open(folder.Path(absl::StrCat("out/", party, ".data")));
  EXPECT_TRUE(data.ok()) << data.status();
  return *std::move(data);
}

FeatureBatch AllRows(const Dataset& data) {
  std::vector<uint32_t> rows(static_cast<size_t>(data.rows()));
  std::iota(rows.begin(), rows.end(), 0U);
  return data.Gather(rows);
}

// Refused with this message, which does not show what stands in the table.
void ExpectRefused(const PrepareOptions& options, const std::string& message) {
  const absl::Status status = Prepare(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(message), Not(HasSubstr("PLANTED"))));
}

TEST(PrepareAttributesTest, GivesAttributesOfASplitTableToTheNonLabelPartyAlone) {
  const ScratchFolder folder;
  const absl::StatusOr<PrepareResult> result = Prepare(OptionsFor(folder, kTable));
  ASSERT_TRUE(result.ok()) << result.status();
  const auto nonlabel = Open(folder, "nonlabel_party");
  EXPECT_THAT(AllRows(*nonlabel).attributes, ElementsAre(1, 2, kUnknownAttribute, 0, 0, kUnknownAttribute));
  const v1::Preprocessing& kept = nonlabel->preprocessing();
  ASSERT_EQ(kept.attributes_size(), 2);
  EXPECT_EQ(kept.attributes(0).name(), "sex");
  EXPECT_THAT(kept.attributes(0).values(), ElementsAre("Female", "Male"));
  EXPECT_EQ(kept.attributes(0).missing(), 1);
  EXPECT_EQ(kept.attributes(1).missing(), 1);
  EXPECT_EQ(result->parties[1].preprocessing.SerializeAsString(), kept.SerializeAsString());
  const auto label = Open(folder, "label_party");
  EXPECT_TRUE(label->attributes().empty());
  EXPECT_EQ(label->preprocessing().attributes_size(), 0);
  EXPECT_EQ(label->features().categorical, 0);
}

TEST(PrepareAttributesTest, AnAttributeIsAFeatureWhereTheSchemaSaysSoOnly) {
  const ScratchFolder folder;
  ASSERT_TRUE(Prepare(OptionsFor(folder, kTable)).ok());
  const auto data = Open(folder, "nonlabel_party");
  ASSERT_EQ(data->preprocessing().categorical_size(), 1);
  EXPECT_EQ(data->preprocessing().categorical(0).name(), "rel");
  EXPECT_EQ(data->features().numeric, 1);
  EXPECT_THAT(AllRows(*data).categories, ElementsAre(1, 2, 3));  // The missing one is a category of its own.
}

TEST(PrepareAttributesTest, RefusesToGiveAnAttributeOfASplitTableToTheLabelParty) {
  const ScratchFolder folder;
  for (const v1::TableSchema::Holder holder : {v1::TableSchema::LABEL_PARTY, v1::TableSchema::BOTH}) {
    PrepareOptions options = OptionsFor(folder, kTable);
    options.rows.schema.mutable_columns(3)->set_holder(holder);
    ExpectRefused(options, absl::StrCat("sex: holder: expected NONLABEL_PARTY or none, as an ATTRIBUTE of a table that "
                                        "is split is the non-label party's, found ",
                                        v1::TableSchema::Holder_Name(holder)));
  }
}

TEST(PrepareAttributesTest, PreparesWhatALabelPartyKnowsWithoutLabelsAndWithoutFeatures) {
  const ScratchFolder folder;
  PrepareOptions options = OptionsFor(folder, "id,sex\na,Male\nb,Female\n", R"(
      columns { name: "id" kind: ID } columns { name: "sex" kind: ATTRIBUTE values: ["Female", "Male"] })");
  options.parties = v1::TableSchema::NONLABEL_PARTY;
  ASSERT_TRUE(Prepare(options).ok()) << Prepare(options).status();
  const auto data = Open(folder, "nonlabel_party");
  EXPECT_THAT(AllRows(*data).attributes, ElementsAre(1, 0));
  EXPECT_FALSE(data->has_labels());
  EXPECT_EQ(data->features().numeric + data->features().categorical, 0);
}

TEST(PrepareAttributesTest, NamesLineAndColumnOfAnUnlistedValueButNotTheValue) {
  const ScratchFolder folder;
  PrepareOptions options = OptionsFor(folder, absl::StrCat(kTable, "d,1,1,PLANTED,Own\n"));
  ExpectRefused(
      options,
      "table:5:4: sex: expected one of \"Female\", \"Male\", as the schema says, or nothing, found a different "
      "text");
  options.rows.skip_bad_rows = true;
  options.min_usable_share = 0.5;
  const absl::StatusOr<PrepareResult> result = Prepare(options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->rows, 3);
  EXPECT_EQ(result->skipped[static_cast<size_t>(RowFault::kAttribute)], 1);
}

TEST(PrepareAttributesTest, ExtendsDataOfTheSameValuesInTheSameOrderOnly) {
  const ScratchFolder folder;
  PrepareOptions options = OptionsFor(folder, kTable);
  ASSERT_TRUE(Prepare(options).ok());
  options.extend_dir = options.out_dir;
  options.out_dir = folder.Path("later");
  EXPECT_TRUE(Prepare(options).ok()) << Prepare(options).status();
  options.rows.schema.mutable_columns(3)->mutable_values()->SwapElements(0, 1);
  ExpectRefused(options, "the attributes or their values differ from those of the data to extend");
  options.rows.schema.mutable_columns(3)->set_kind(v1::TableSchema::IGNORE);
  options.rows.schema.mutable_columns(3)->clear_values();
  ExpectRefused(options, "the attributes or their values differ");
}

TEST(PrepareAttributesTest, FitsNothingOnAuxiliaryRows) {
  const ScratchFolder folder;
  std::string text = "id,y,n,sex,rel\n";
  for (int i = 0; i < 400; ++i) {
    absl::StrAppend(&text, "id", i, ",", i % 2, ",1,Male,Own\n");
  }
  PrepareOptions options = OptionsFor(folder, text);
  options.test_fraction = 0.25;
  options.auxiliary_fraction = 0.25;
  ASSERT_TRUE(Prepare(options).ok()) << Prepare(options).status();
  const auto data = Open(folder, "nonlabel_party");
  EXPECT_EQ(data->preprocessing().auxiliary_fraction(), 0.25);
  const SplitRule rule("", 0.25, 0.25);
  int64_t training = 0;
  for (size_t row = 0; row < data->ids().size(); ++row) {
    training += rule.PartOf(data->ids()[row]) == SplitPart::kTraining ? 1 : 0;
  }
  EXPECT_EQ(data->preprocessing().training_rows(), training);
  EXPECT_LT(training, 250);
  options.auxiliary_fraction = 0.75;
  ExpectRefused(options, "expected at most 0.95 together, found 0.25, 0.75 and 0");
}

}  // namespace
}  // namespace splitveil
