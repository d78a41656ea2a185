#include "deploy/operator/preparation/prepare.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/dataset/dataset.h"
#include "common/dataset/features.h"
#include "common/schedule/train_test_split.h"
#include "tests/testing/scratch_folder.h"
#include "tests/unit/deploy/operator/preparation/gzip_bytes.h"
#include "tests/unit/deploy/operator/preparation/small_criteo.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::shared_ptr<const Dataset> Open(const ScratchFolder& folder, const std::string& party) {
  absl::StatusOr<std::shared_ptr<const Dataset>> dataset = Dataset::Open(folder.Path("out/" + party + ".data"));
  EXPECT_TRUE(dataset.ok()) << dataset.status();
  return *std::move(dataset);
}

FeatureBatch AllRows(const Dataset& dataset) {
  std::vector<uint32_t> rows(static_cast<size_t>(dataset.rows()));
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = static_cast<uint32_t>(i);
  }
  return dataset.Gather(rows);
}

std::vector<std::string> IdsOf(const Dataset& dataset) {
  std::vector<std::string> ids;
  for (size_t row = 0; row < dataset.ids().size(); ++row) {
    ids.emplace_back(dataset.ids()[row]);
  }
  return ids;
}

// By id: the input's row, told by I1, which was scaled from [0, rows - 1]; needs test_fraction 0 and no row apart.
std::map<std::string, int> RowById(const Dataset& dataset, int rows) {
  std::map<std::string, int> numbers;
  const FeatureBatch batch = AllRows(dataset);
  for (int64_t row = 0; row < dataset.rows(); ++row) {
    numbers[std::string(dataset.ids()[row])] = static_cast<int>(std::lround(batch.numeric.row(row)[0] * (rows - 1)));
  }
  return numbers;
}

TEST(PrepareTest, GivesEveryRowToThePartiesThatHoldIt) {
  const ScratchFolder folder;
  PrepareOptions options = OptionsFor(folder, Rows(2000));
  options.only_label_fraction = 0.1;
  options.only_nonlabel_fraction = 0.2;
  options.shuffle_buffer_rows = 64;
  const absl::StatusOr<PrepareResult> result = Prepare(options);
  ASSERT_TRUE(result.ok()) << result.status();
  const auto label = Open(folder, "label_party");
  const auto nonlabel = Open(folder, "nonlabel_party");
  const std::vector<std::string> nonlabel_ids = IdsOf(*nonlabel);
  int64_t common = 0;
  for (const std::string& id : IdsOf(*label)) {
    common += std::count(nonlabel_ids.begin(), nonlabel_ids.end(), id);
  }
  EXPECT_EQ(result->rows, 2000);
  EXPECT_EQ(result->positives, 500);
  EXPECT_EQ(result->common_rows, common);
  EXPECT_EQ(label->rows() + nonlabel->rows() - common, 2000);
  EXPECT_NEAR(label->rows(), 1600, 100);    // 5.6 standard deviations.
  EXPECT_NEAR(nonlabel->rows(), 1800, 75);  // 5.6 standard deviations.
  EXPECT_TRUE(label->has_labels());
  EXPECT_FALSE(nonlabel->has_labels());
  EXPECT_EQ(result->parties[0].preprocessing.SerializeAsString(), label->preprocessing().SerializeAsString());
  const double missing = static_cast<double>(label->preprocessing().numeric(2).missing());
  EXPECT_NEAR(missing / static_cast<double>(label->rows()), 1.0 / 7, 0.02);
}

TEST(PrepareTest, EncodesTheRowsOfBothPartiesAlike) {
  const ScratchFolder folder;
  PrepareOptions options = OptionsFor(folder, Rows(300));
  options.only_label_fraction = options.only_nonlabel_fraction = 0;
  ASSERT_TRUE(Prepare(options).ok());
  const auto label = Open(folder, "label_party");
  const auto nonlabel = Open(folder, "nonlabel_party");
  const auto rows = RowById(*label, 300);
  EXPECT_EQ(rows, RowById(*nonlabel, 300));
  EXPECT_EQ(rows.size(), 300);
  const FeatureBatch batch = AllRows(*label);
  for (int64_t position = 0; position < label->rows(); ++position) {
    const int i = rows.at(std::string(label->ids()[position]));
    EXPECT_EQ(label->labels()[position], i % 4 == 0 ? 1 : 0);
    EXPECT_NEAR(batch.numeric.row(position)[1], 1 - i / 299.0, 1e-6);
    EXPECT_EQ(batch.numeric.row(position)[2], i % 7 == 0 ? 0.0F : 1.0F);
    EXPECT_EQ(batch.categories[position * kCriteoCategorical], 1 + i);  // The vocabulary is in the order of the table.
    EXPECT_EQ(batch.categories[position * kCriteoCategorical + 1], 302);
  }
}

TEST(PrepareTest, FitsOnTheTrainingPartOnly) {
  const ScratchFolder folder;
  PrepareOptions options = OptionsFor(folder, Rows(400));
  options.test_fraction = 0.25;
  options.split_salt = "salt";
  ASSERT_TRUE(Prepare(options).ok());
  const auto label = Open(folder, "label_party");
  const SplitRule rule("salt", 0.25);
  int64_t training = 0;
  const FeatureBatch batch = AllRows(*label);
  for (int64_t row = 0; row < label->rows(); ++row) {
    const bool is_test = rule.IsTest(label->ids()[row]);
    training += is_test ? 0 : 1;
    // C1 is distinct in every row: unseen in exactly the test rows.
    EXPECT_EQ(batch.categories[row * kCriteoCategorical] == 0, is_test);
  }
  EXPECT_EQ(label->preprocessing().training_rows(), training);
  EXPECT_LT(training, label->rows());
  EXPECT_EQ(label->preprocessing().categorical(0).blocks(0).rows(), 1 + training);
  EXPECT_EQ(label->preprocessing().test_fraction(), 0.25);
  EXPECT_EQ(label->preprocessing().split_salt(), "salt");
}

TEST(PrepareTest, MadeIdsAre32HexadecimalDigitsThatHoldNothingOfTheRow) {
  const ScratchFolder first;
  const ScratchFolder second;
  std::string other = Rows(50);
  std::replace(other.begin(), other.end(), '5', '6');
  ASSERT_TRUE(Prepare(OptionsFor(first, Rows(50))).ok());
  ASSERT_TRUE(Prepare(OptionsFor(second, other)).ok());
  const std::vector<std::string> ids = IdsOf(*Open(first, "label_party"));
  EXPECT_EQ(ids, IdsOf(*Open(second, "label_party")));
  for (const std::string& id : ids) {
    EXPECT_EQ(id.size(), 32);
    EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos);
  }
}

TEST(PrepareTest, PutsThePartiesRowsInDifferentOrders) {
  const ScratchFolder folder;
  PrepareOptions options = OptionsFor(folder, Rows(300));
  options.only_label_fraction = options.only_nonlabel_fraction = 0;
  ASSERT_TRUE(Prepare(options).ok());
  const std::vector<std::string> label = IdsOf(*Open(folder, "label_party"));
  const std::vector<std::string> nonlabel = IdsOf(*Open(folder, "nonlabel_party"));
  int same_place = 0;
  for (size_t i = 0; i < label.size(); ++i) {
    same_place += label[i] == nonlabel[i] ? 1 : 0;
  }
  EXPECT_LT(same_place, 10);  // Expected 1, Poisson.
}

TEST(PrepareTest, TheSameSeedGivesTheSameFilesAndAnotherDoesNot) {
  const ScratchFolder folder;
  PrepareOptions options = OptionsFor(folder, GzipBytes(Rows(300)));
  ASSERT_TRUE(Prepare(options).ok());
  const std::string label = folder.Read("out/label_party.data");
  const std::string nonlabel = folder.Read("out/nonlabel_party.data");
  ASSERT_TRUE(Prepare(options).ok());
  EXPECT_EQ(folder.Read("out/label_party.data"), label);
  EXPECT_EQ(folder.Read("out/nonlabel_party.data"), nonlabel);
  options.rows.seed = 2;
  ASSERT_TRUE(Prepare(options).ok());
  EXPECT_NE(folder.Read("out/label_party.data"), label);
}

TEST(PrepareTest, ReplacesNoneButTheSameDataWhereOthersAreKept) {
  const ScratchFolder folder;
  PrepareOptions options = OptionsFor(folder, Rows(300));
  options.keeps_other_data = true;
  ASSERT_TRUE(Prepare(options).ok());
  const std::string label = folder.Read("out/label_party.data"), nonlabel = folder.Read("out/nonlabel_party.data");
  EXPECT_TRUE(Prepare(options).ok());  // The same bytes.
  options.rows.seed = 2;
  const absl::Status others = Prepare(options).status();
  EXPECT_EQ(others.code(), absl::StatusCode::kAlreadyExists) << others;
  EXPECT_EQ(others.message(),
            folder.Path("out/label_party.data") +
                ": expected no file of this name, or one of the same bytes, found a different one: give another --out");
  EXPECT_EQ(folder.Read("out/label_party.data"), label);
  EXPECT_EQ(folder.Read("out/nonlabel_party.data"), nonlabel);
  // One of both is enough, and so is a file that is no data.
  std::filesystem::remove(folder.Path("out/label_party.data"));
  folder.Write("out/nonlabel_party.data", "SECRET");
  EXPECT_EQ(Prepare(options).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_FALSE(std::filesystem::exists(folder.Path("out/label_party.data")));
  EXPECT_EQ(folder.Read("out/nonlabel_party.data"), "SECRET");
  options.keeps_other_data = false;
  EXPECT_TRUE(Prepare(options).ok());
  EXPECT_NE(folder.Read("out/label_party.data"), label);
}

TEST(PrepareTest, ReadsSeveralFilesAsOneTable) {
  const ScratchFolder whole;
  const ScratchFolder parts;
  ASSERT_TRUE(Prepare(OptionsFor(whole, Rows(100))).ok());
  const std::string text = Rows(100);
  const size_t half = Rows(40).size();
  PrepareOptions options = OptionsFor(parts, text.substr(0, half));
  options.rows.input_paths.push_back(parts.Write("rest", GzipBytes(text.substr(half))));
  ASSERT_TRUE(Prepare(options).ok());
  EXPECT_EQ(whole.Read("out/label_party.data"), parts.Read("out/label_party.data"));
}

TEST(PrepareTest, PreparesAPartysOwnTableInItsOrder) {
  const ScratchFolder folder;
  PrepareOptions options = OptionsFor(folder, "name,age\nb,30\na,20\n");
  ASSERT_TRUE(Prepare(OptionsFor(folder, Rows(3))).ok());  // Does not disturb.
  options = OptionsFor(folder, "name,age\nb,30\na,20\n");
  options.parties = v1::TableSchema::NONLABEL_PARTY;
  options.rows.schema.Clear();
  v1::TableSchema::Column* column = options.rows.schema.add_columns();
  column->set_name("name");
  column->set_kind(v1::TableSchema::ID);
  column = options.rows.schema.add_columns();
  column->set_name("age");
  column->set_kind(v1::TableSchema::NUMERIC);
  options.out_dir = folder.Path("out");
  const absl::StatusOr<PrepareResult> result = Prepare(options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->parties.size(), 1);
  const auto own = Open(folder, "nonlabel_party");
  EXPECT_EQ(IdsOf(*own), (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(AllRows(*own).numeric.row(0)[0], 1.0F);
}

TEST(PrepareTest, GivesNoPartyAColumnThatTheSchemaDoesNotGiveIt) {
  const ScratchFolder folder;
  PrepareOptions options = OptionsFor(folder, "name,income,visits,both,label\na,1,2,3,1\nb,2,3,4,0\n");
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(
      columns { name: "name" kind: ID } columns { name: "label" kind: LABEL }
      columns { name: "income" kind: NUMERIC holder: LABEL_PARTY }
      columns { name: "visits" kind: NUMERIC holder: NONLABEL_PARTY }
      columns { name: "both" kind: NUMERIC holder: BOTH })",
                                                            &options.rows.schema));
  const auto names = [&](const char* party) {
    std::vector<std::string> names;
    const std::shared_ptr<const Dataset> data = Open(folder, party);
    for (const v1::NumericScaling& column : data->preprocessing().numeric()) {
      names.push_back(column.name());
    }
    return names;
  };
  ASSERT_TRUE(Prepare(options).ok());
  EXPECT_THAT(names("label_party"), ElementsAre("income", "both"));
  EXPECT_THAT(names("nonlabel_party"), ElementsAre("visits", "both"));
  options.parties = v1::TableSchema::LABEL_PARTY;  // The label party alone, with the schema of both.
  ASSERT_TRUE(Prepare(options).ok());
  EXPECT_THAT(names("label_party"), ElementsAre("income", "both"));
}

TEST(PrepareTest, RefusesToSplitAColumnOrImagesOfNoHolder) {
  const ScratchFolder folder;
  PrepareOptions options = OptionsFor(folder, "name,income,label\na,1,1\nb,2,0\n");
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(
      columns { name: "name" kind: ID } columns { name: "income" kind: NUMERIC }
      columns { name: "label" kind: LABEL })",
                                                            &options.rows.schema));
  const absl::Status status = Prepare(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      status.message(),
      "table schema: columns: income: expected a holder, as the table is split between the parties, found none; a "
      "table of one party alone takes --party");
  EXPECT_FALSE(std::filesystem::exists(folder.Path("out")));
  options.rows.schema.mutable_columns(1)->set_kind(v1::TableSchema::IGNORE);
  options.rows.schema.mutable_images()->set_height(1);
  options.rows.schema.mutable_images()->set_width(1);
  options.rows.images_path = folder.Write("pixels", std::string(6, 'x'));
  EXPECT_THAT(std::string(Prepare(options).status().message()), HasSubstr("table schema: images: expected a holder"));
  options.rows.schema.mutable_columns(1)->set_kind(v1::TableSchema::NUMERIC);
  options.parties = v1::TableSchema::LABEL_PARTY;  // Its own table: all of it.
  ASSERT_TRUE(Prepare(options).ok()) << Prepare(options).status();
  EXPECT_EQ(Open(folder, "label_party")->preprocessing().image().height(), 1);
}

TEST(PrepareTest, FailsOnTheWrongLabelsOrIdsOfAPartysOwnTable) {
  const ScratchFolder folder;
  PrepareOptions options = OptionsFor(folder, Rows(3));
  options.parties = v1::TableSchema::LABEL_PARTY;
  EXPECT_THAT(std::string(Prepare(options).status().message()), HasSubstr("expected an ID"));
  options.parties = v1::TableSchema::NONLABEL_PARTY;
  EXPECT_THAT(std::string(Prepare(options).status().message()), HasSubstr("expected no LABEL"));
  options.parties = v1::TableSchema::BOTH;
  options.rows.schema.mutable_columns(0)->set_kind(v1::TableSchema::IGNORE);
  EXPECT_THAT(std::string(Prepare(options).status().message()), HasSubstr("expected one LABEL"));
}

TEST(PrepareTest, LeavesOutBadRowsWithACountWhereAllowed) {
  const ScratchFolder folder;
  PrepareOptions options = OptionsFor(folder, WithCell(3, "PLANTED") + "0\t1\n" + WithCell(1, "2") + Rows(5));
  options.rows.skip_bad_rows = true;
  options.min_usable_share = 0.75;
  const absl::StatusOr<PrepareResult> result = Prepare(options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->rows, 9);
  EXPECT_EQ(result->skipped[static_cast<size_t>(RowFault::kNumber)], 1);
  EXPECT_EQ(result->skipped[static_cast<size_t>(RowFault::kColumnCount)], 1);
  EXPECT_EQ(result->skipped[static_cast<size_t>(RowFault::kLabel)], 1);
  options.min_usable_share = 0.76;
  const absl::Status too_few = Prepare(options).status();
  EXPECT_EQ(too_few.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(too_few.message()),
              HasSubstr("criteo: expected at least 76% of the 12 rows to be usable, found 9; most often"));
  EXPECT_THAT(std::string(too_few.message()), Not(HasSubstr("PLANTED")));
}

TEST(PrepareTest, ALeftOutRowChangesNothingForTheOthers) {
  const ScratchFolder whole;
  const ScratchFolder damaged;
  PrepareOptions options = OptionsFor(whole, Rows(100));
  options.only_label_fraction = 0.3;
  ASSERT_TRUE(Prepare(options).ok());
  std::string text = Rows(100);
  text[0] = '7';  // The label of the first row.
  options = OptionsFor(damaged, text);
  options.only_label_fraction = 0.3;
  options.rows.skip_bad_rows = true;
  ASSERT_TRUE(Prepare(options).ok());
  std::vector<std::string> expected = IdsOf(*Open(whole, "nonlabel_party"));
  std::vector<std::string> found = IdsOf(*Open(damaged, "nonlabel_party"));
  std::sort(expected.begin(), expected.end());
  std::sort(found.begin(), found.end());
  EXPECT_TRUE(std::includes(expected.begin(), expected.end(), found.begin(), found.end()));
  EXPECT_GE(found.size() + 1, expected.size());
}

TEST(PrepareTest, KeepsWhatCanBeReadOfATruncatedFileWhereTheTablesRowsAreKnown) {
  const ScratchFolder folder;
  const std::string bytes = GzipBytes(Rows(500));
  PrepareOptions options = OptionsFor(folder, bytes.substr(0, bytes.size() / 2));
  options.rows.skip_bad_rows = true;
  options.min_usable_share = 0.1;
  EXPECT_THAT(std::string(Prepare(options).status().message()),
              HasSubstr("the gzip stream is cut short; the number of lost rows is unknown"));
  options.expected_rows = 500;
  const absl::StatusOr<PrepareResult> result = Prepare(options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GT(result->rows, 100);
  EXPECT_EQ(result->skipped[static_cast<size_t>(RowFault::kFile)], 1);
}

}  // namespace
}  // namespace splitveil
