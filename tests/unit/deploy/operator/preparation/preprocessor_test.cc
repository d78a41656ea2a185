#include "deploy/operator/preparation/preprocessor.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "common/dataset/column_encoding.h"
#include "tests/testing/scratch_folder.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const double kMissing = std::numeric_limits<double>::quiet_NaN();

TableColumns Columns(int numeric, int categorical) {
  TableColumns columns;
  for (int i = 0; i < numeric; ++i) {
    columns.numeric.push_back({"n" + std::to_string(i), v1::TableSchema::BOTH});
  }
  for (int i = 0; i < categorical; ++i) {
    columns.categorical.push_back({"c" + std::to_string(i), v1::TableSchema::BOTH});
  }
  return columns;
}

TableRow Row(std::vector<double> numeric, std::vector<absl::string_view> categories) {
  TableRow row;
  row.numeric = std::move(numeric);
  row.categories = std::move(categories);
  return row;
}

EncodedRow Encoded(const Preprocessor& preprocessor, const TableRow& row) {
  EncodedRow encoded;
  preprocessor.Encode(row, encoded);
  return encoded;
}

// Fitted on these values of one categorical column.
Preprocessor Categories(const std::vector<std::string>& values, const Preprocessor::Options& options = {}) {
  Preprocessor preprocessor = *Preprocessor::Create(Columns(0, 1), options);
  for (const std::string& value : values) {
    EXPECT_TRUE(preprocessor.Fit(Row({}, {value}), true).ok());
  }
  EXPECT_TRUE(preprocessor.FinishFit().ok());
  return preprocessor;
}

int32_t IndexOf(const Preprocessor& preprocessor, absl::string_view value) {
  return Encoded(preprocessor, Row({}, {value})).categories[0];
}

// Writes what was fitted as prepared data of one row.
std::shared_ptr<const Dataset> Store(const ScratchFolder& folder, const Preprocessor& preprocessor,
                                     const TableRow& row) {
  auto writer = *DatasetWriter::Create(folder.Path("old"), preprocessor.task());
  EncodedRow encoded = Encoded(preprocessor, row);
  encoded.id = "id";
  EXPECT_TRUE(writer->Append(encoded).ok());
  EXPECT_TRUE(writer->Finish(preprocessor.preprocessing(), preprocessor.vocabularies()).ok());
  EXPECT_TRUE(DatasetWriter::Publish({writer.get()}).ok());
  absl::StatusOr<std::shared_ptr<const Dataset>> dataset = Dataset::Open(folder.Path("old"));
  EXPECT_TRUE(dataset.ok()) << dataset.status();
  return *std::move(dataset);
}

Preprocessor::Options MinMax() {
  Preprocessor::Options options;
  options.scaling = v1::TableSchema::MIN_MAX;
  return options;
}

// Fitted on these numbers of one column.
Preprocessor Numbers(const std::vector<double>& numbers, const Preprocessor::Options& options = {}) {
  Preprocessor preprocessor = *Preprocessor::Create(Columns(1, 0), options);
  for (const double number : numbers) {
    EXPECT_TRUE(preprocessor.Fit(Row({number}, {}), true).ok());
  }
  EXPECT_TRUE(preprocessor.FinishFit().ok());
  return preprocessor;
}

float ScaledBy(const Preprocessor& preprocessor, double number) {
  return Encoded(preprocessor, Row({number}, {})).numeric[0];
}

TEST(PreprocessorTest, AValueFarOutMovesNoOther) {
  std::vector<double> numbers;
  for (int i = 0; i <= 1000; ++i) {
    numbers.push_back(i);
  }
  const Preprocessor clean = Numbers(numbers);
  EXPECT_EQ(clean.preprocessing().numeric(0).minimum(), 10);  // The quantiles at 1% and 99%.
  EXPECT_EQ(clean.preprocessing().numeric(0).maximum(), 990);
  EXPECT_FLOAT_EQ(ScaledBy(clean, 500), 0.5F);
  EXPECT_EQ(ScaledBy(clean, 1e6), 1);
  EXPECT_EQ(ScaledBy(clean, -1e6), 0);
  numbers[500] = 1e6;
  const Preprocessor dirty = Numbers(numbers);
  EXPECT_NEAR(ScaledBy(dirty, 500), 0.5, 0.002);
  EXPECT_EQ(dirty.preprocessing().numeric(0).greatest(), 1e6);
  EXPECT_LT(ScaledBy(Numbers(numbers, MinMax()), 999), 0.001);  // What the papers' way makes of it.
}

TEST(PreprocessorTest, AMissingNumberIsTheMedianAndAnInputTellsItFromThat) {
  const Preprocessor preprocessor = Numbers({kMissing, 0, 1, 2, 3, 4, kMissing});
  EXPECT_THAT(Encoded(preprocessor, Row({kMissing}, {})).numeric, ElementsAre(0.5F, 1));
  EXPECT_THAT(Encoded(preprocessor, Row({2}, {})).numeric, ElementsAre(0.5F, 0));
  EXPECT_THAT(Encoded(preprocessor, Row({-7}, {})).numeric, ElementsAre(0, 0));
  EXPECT_EQ(preprocessor.preprocessing().numeric(1).name(), "n0 is missing");
  EXPECT_TRUE(IsMissingIndicator(preprocessor.preprocessing().numeric(1)));
  EXPECT_EQ(preprocessor.preprocessing().numeric(0).missing(), 2);
  EXPECT_EQ(preprocessor.preprocessing().numeric(0).least(), 0);
  const Preprocessor empty = Numbers({kMissing, kMissing});
  EXPECT_THAT(Encoded(empty, Row({kMissing}, {})).numeric, ElementsAre(0, 1));
  EXPECT_THAT(Encoded(empty, Row({7}, {})).numeric, ElementsAre(0, 0));
  EXPECT_FALSE(empty.preprocessing().numeric(0).has_least());
}

TEST(PreprocessorTest, OnlyColumnsThatLackSomethingInTrainingHaveAFurtherInput) {
  Preprocessor preprocessor = *Preprocessor::Create(Columns(3, 0), {});
  ASSERT_TRUE(preprocessor.Fit(Row({1, kMissing, 0}, {}), true).ok());
  ASSERT_TRUE(preprocessor.Fit(Row({2, 5, 1}, {}), true).ok());
  ASSERT_TRUE(preprocessor.Fit(Row({kMissing, 5, kMissing}, {}), /*training=*/false).ok());
  ASSERT_TRUE(preprocessor.FinishFit().ok());
  EXPECT_THAT(Encoded(preprocessor, Row({kMissing, kMissing, 1}, {})).numeric, ElementsAre(0, 0, 1, 1));
  EXPECT_FALSE(IsMissingIndicator(preprocessor.preprocessing().numeric(2)));
}

TEST(PreprocessorTest, LaterDataKeepScalesAndFurtherInputs) {
  const ScratchFolder folder;
  Preprocessor old = *Preprocessor::Create(Columns(2, 0), {});
  for (const double number : {0.0, 10.0, 20.0, 30.0}) {
    ASSERT_TRUE(old.Fit(Row({number, number == 0 ? kMissing : number}, {}), true).ok());
  }
  ASSERT_TRUE(old.FinishFit().ok());
  Preprocessor::Options options = MinMax();
  options.extends = Store(folder, old, Row({0, 0}, {}));
  Preprocessor extended = *Preprocessor::Create(Columns(2, 0), options);
  ASSERT_TRUE(extended.Fit(Row({kMissing, 1e6}, {}), true).ok());
  ASSERT_TRUE(extended.FinishFit().ok());
  for (const auto& [first, second] : {std::pair(15.0, 15.0), {kMissing, kMissing}, {1e6, -1e6}}) {
    EXPECT_EQ(Encoded(extended, Row({first, second}, {})).numeric, Encoded(old, Row({first, second}, {})).numeric);
  }
  EXPECT_EQ(extended.preprocessing().numeric_size(), 3);
  EXPECT_EQ(extended.preprocessing().numeric(0).greatest(), 30);  // As fitted.
  EXPECT_EQ(extended.preprocessing().numeric(0).missing(), 1);
  EXPECT_FALSE(Preprocessor::Create(Columns(1, 0), options).ok());
  EXPECT_FALSE(Preprocessor::Create(Columns(3, 0), options).ok());
}

TEST(PreprocessorTest, CountsWhatItClips) {
  Preprocessor preprocessor = Numbers({0, 1, 2, 3}, MinMax());
  for (const double number : {-1.0, 0.0, 3.0, 4.0, kMissing}) {
    preprocessor.Count(Row({number}, {}), Encoded(preprocessor, Row({number}, {})));
  }
  EXPECT_EQ(preprocessor.preprocessing().numeric(0).clipped(), 2);
}

TEST(PreprocessorTest, ScalesByTheTrainingRangeAndClips) {
  Preprocessor preprocessor = *Preprocessor::Create(Columns(1, 0), MinMax());
  for (const double number : {-10.0, 30.0, kMissing}) {
    ASSERT_TRUE(preprocessor.Fit(Row({number}, {}), true).ok());
  }
  ASSERT_TRUE(preprocessor.Fit(Row({1000}, {}), /*training=*/false).ok());
  ASSERT_TRUE(preprocessor.FinishFit().ok());
  for (const auto& [number, scaled] :
       std::vector<std::pair<double, float>>{{-10, 0}, {0, 0.25F}, {30, 1}, {kMissing, 0.25F}, {-99, 0}, {1000, 1}}) {
    EXPECT_FLOAT_EQ(Encoded(preprocessor, Row({number}, {})).numeric[0], scaled) << number;
  }
  EXPECT_EQ(preprocessor.preprocessing().numeric(0).missing(), 1);
  EXPECT_EQ(preprocessor.preprocessing().training_rows(), 3);
}

TEST(PreprocessorTest, ARangeBeyondADoubleStillScales) {
  Preprocessor preprocessor = *Preprocessor::Create(Columns(1, 0), MinMax());
  const double largest = std::numeric_limits<double>::max();
  ASSERT_TRUE(preprocessor.Fit(Row({-largest}, {}), true).ok());
  ASSERT_TRUE(preprocessor.Fit(Row({largest}, {}), true).ok());
  ASSERT_TRUE(preprocessor.FinishFit().ok());
  EXPECT_FLOAT_EQ(Encoded(preprocessor, Row({largest / 2}, {})).numeric[0], 0.75F);
}

TEST(PreprocessorTest, AConstantColumnIsZero) {
  Preprocessor preprocessor = *Preprocessor::Create(Columns(1, 0), {});
  ASSERT_TRUE(preprocessor.Fit(Row({5}, {}), true).ok());
  ASSERT_TRUE(preprocessor.FinishFit().ok());
  EXPECT_EQ(Encoded(preprocessor, Row({7}, {})).numeric[0], 0);
}

TEST(PreprocessorTest, SeenCategoriesHaveAnIndexEachAndUnseenOnesShareTheFirst) {
  const Preprocessor preprocessor = Categories({"b", "a", "", "b"});
  EXPECT_EQ(IndexOf(preprocessor, "b"), 1);
  EXPECT_EQ(IndexOf(preprocessor, "a"), 2);
  EXPECT_EQ(IndexOf(preprocessor, ""), 3);  // No value is a value.
  EXPECT_EQ(IndexOf(preprocessor, "new"), 0);
  EXPECT_EQ(IndexOf(preprocessor, "other"), 0);
  EXPECT_EQ(preprocessor.preprocessing().embedding_rows(), 4);
  EXPECT_EQ(preprocessor.preprocessing().categorical(0).missing(), 1);
}

TEST(PreprocessorTest, RareCategoriesShareTheFirstIndex) {
  Preprocessor::Options options;
  options.rare_below = 2;
  Preprocessor preprocessor = *Preprocessor::Create(Columns(0, 2), options);
  for (const auto& [first, second] : {std::pair("a", "x"), {"b", "x"}, {"b", "y"}, {"", "y"}, {"c", "z"}, {"c", "y"}}) {
    ASSERT_TRUE(preprocessor.Fit(Row({}, {first, second}), true).ok());
  }
  ASSERT_TRUE(preprocessor.Fit(Row({}, {"a", "z"}), false).ok());  // Of another part: it does not count.
  ASSERT_TRUE(preprocessor.FinishFit().ok());
  EXPECT_THAT(Encoded(preprocessor, Row({}, {"a", "x"})).categories, ElementsAre(0, 4));
  EXPECT_THAT(Encoded(preprocessor, Row({}, {"b", "y"})).categories, ElementsAre(1, 5));
  EXPECT_THAT(Encoded(preprocessor, Row({}, {"", "z"})).categories, ElementsAre(0, 3));
  EXPECT_THAT(Encoded(preprocessor, Row({}, {"c", "new"})).categories, ElementsAre(2, 3));
  EXPECT_EQ(preprocessor.preprocessing().embedding_rows(), 6);
}

TEST(PreprocessorTest, ExtendingPoolsOnlyWhatIsNewAndRare) {
  const ScratchFolder folder;
  Preprocessor::Options options;
  options.extends = Store(folder, Categories({"a", "b"}), Row({}, {"a"}));
  options.rare_below = 2;
  const Preprocessor extended = Categories({"b", "c", "d", "d"}, options);
  EXPECT_EQ(IndexOf(extended, "a"), 1);
  EXPECT_EQ(IndexOf(extended, "b"), 2);
  EXPECT_EQ(IndexOf(extended, "c"), 0);
  EXPECT_EQ(IndexOf(extended, "d"), 3);
}

TEST(PreprocessorTest, ColumnsHaveRowsOfTheirOwn) {
  Preprocessor preprocessor = *Preprocessor::Create(Columns(0, 2), {});
  ASSERT_TRUE(preprocessor.Fit(Row({}, {"x", "x"}), true).ok());
  ASSERT_TRUE(preprocessor.Fit(Row({}, {"y", "x"}), true).ok());
  ASSERT_TRUE(preprocessor.Fit(Row({}, {"z", "z"}), false).ok());
  ASSERT_TRUE(preprocessor.FinishFit().ok());
  EXPECT_THAT(Encoded(preprocessor, Row({}, {"y", "x"})).categories, ElementsAre(2, 4));
  EXPECT_THAT(Encoded(preprocessor, Row({}, {"z", "z"})).categories, ElementsAre(0, 3));
  EXPECT_EQ(preprocessor.preprocessing().embedding_rows(), 5);
}

TEST(PreprocessorTest, TakesOnlyTheFeaturesThatThePartyHolds) {
  TableColumns columns = Columns(3, 0);
  columns.numeric[1].holder = v1::TableSchema::LABEL_PARTY;
  columns.numeric[2].holder = v1::TableSchema::NONLABEL_PARTY;
  const auto names = [&](v1::TableSchema::Holder holder) {
    Preprocessor::Options options;
    options.holder = holder;
    std::vector<std::string> held;
    const Preprocessor preprocessor = *Preprocessor::Create(columns, options);
    for (const v1::NumericScaling& column : preprocessor.preprocessing().numeric()) {
      held.push_back(column.name());
    }
    return held;
  };
  EXPECT_THAT(names(v1::TableSchema::LABEL_PARTY), ElementsAre("n0", "n1"));
  EXPECT_THAT(names(v1::TableSchema::NONLABEL_PARTY), ElementsAre("n0", "n2"));
  EXPECT_THAT(names(v1::TableSchema::BOTH), ElementsAre("n0", "n1", "n2"));
}

TEST(PreprocessorTest, HashingNeedsNoVocabularyAndSpreadsOverItsBuckets) {
  Preprocessor::Options options;
  options.hash_buckets = 50;
  const Preprocessor preprocessor = Categories({"only one seen"}, options);
  EXPECT_EQ(preprocessor.preprocessing().embedding_rows(), 50);
  EXPECT_EQ(preprocessor.vocabularies()[0].size(), 0);
  std::set<int32_t> used;
  for (int i = 0; i < 1000; ++i) {
    const int32_t index = IndexOf(preprocessor, std::to_string(i));
    EXPECT_TRUE(index >= 0 && index < 50);
    used.insert(index);
  }
  EXPECT_EQ(used.size(), 50);  // One stays empty with probability 50 (49/50)^1000 < 1e-7.
}

TEST(PreprocessorTest, ExtendingKeepsEveryIndexAndAppendsNewOnes) {
  const ScratchFolder folder;
  const Preprocessor old = Categories({"a", "b"});
  Preprocessor::Options options;
  options.extends = Store(folder, old, Row({}, {"a"}));
  const Preprocessor extended = Categories({"b", "c", "d"}, options);
  for (const char* value : {"a", "b"}) {
    EXPECT_EQ(IndexOf(extended, value), IndexOf(old, value));
  }
  EXPECT_EQ(IndexOf(extended, "c"), 3);
  EXPECT_EQ(IndexOf(extended, "d"), 4);
  EXPECT_EQ(IndexOf(extended, "unseen"), 0);
  EXPECT_EQ(extended.preprocessing().extended_embedding_rows(), 3);
  EXPECT_EQ(extended.preprocessing().embedding_rows(), 5);
  EXPECT_EQ(extended.preprocessing().extends_sha256(), AsBytes(options.extends->digest()));
  options.extends = Store(folder, extended, Row({}, {"a"}));
  const Preprocessor third = Categories({"e", "a"}, options);
  EXPECT_EQ(IndexOf(third, "c"), 3);
  EXPECT_EQ(IndexOf(third, "e"), 5);
}

TEST(PreprocessorTest, ExtendingKeepsScales) {
  const ScratchFolder folder;
  Preprocessor old = *Preprocessor::Create(Columns(1, 0), {});
  ASSERT_TRUE(old.Fit(Row({0}, {}), true).ok() && old.Fit(Row({10}, {}), true).ok() && old.FinishFit().ok());
  Preprocessor::Options options;
  options.extends = Store(folder, old, Row({0}, {}));
  Preprocessor extended = *Preprocessor::Create(Columns(1, 0), options);
  ASSERT_TRUE(extended.Fit(Row({1000}, {}), true).ok() && extended.FinishFit().ok());
  EXPECT_FLOAT_EQ(Encoded(extended, Row({5}, {})).numeric[0], 0.5F);
  EXPECT_EQ(extended.preprocessing().training_rows(), 1);
}

TEST(PreprocessorTest, RefusesToExtendDataOfOtherColumnsOrBuckets) {
  const ScratchFolder folder;
  Preprocessor::Options options;
  options.extends = Store(folder, Categories({"a"}), Row({}, {"a"}));
  EXPECT_THAT(std::string(Preprocessor::Create(Columns(1, 1), options).status().message()),
              HasSubstr("columns or image size differ"));
  EXPECT_FALSE(Preprocessor::Create(Columns(0, 2), options).ok());
  options.hash_buckets = 7;
  EXPECT_THAT(std::string(Preprocessor::Create(Columns(0, 1), options).status().message()), HasSubstr("hash_buckets"));
}

TableColumns MultiClassColumns(std::vector<std::string> classes) {
  TableColumns columns = Columns(1, 0);
  const Task task = {Task::Kind::kMultiClass, static_cast<int64_t>(classes.size())};
  columns.label = TableColumns::Label{task, std::move(classes)};
  return columns;
}

TableColumns RegressionColumns(double minimum, double maximum) {
  TableColumns columns = Columns(1, 0);
  columns.label = TableColumns::Label{{Task::Kind::kRegression, 0}, {}, minimum, maximum};
  return columns;
}

// Fitted on one row, whose label is the first class or whose target is 0.
Preprocessor Fitted(const TableColumns& columns) {
  Preprocessor preprocessor = *Preprocessor::Create(columns, {});
  EXPECT_TRUE(preprocessor.Fit(Row({1}, {}), true).ok() && preprocessor.FinishFit().ok());
  return preprocessor;
}

TEST(PreprocessorTest, ScalesTargetsFromTheRangeOfTheSchemaAndCountsWhatItClips) {
  const double largest = std::numeric_limits<double>::max();
  for (const auto& [minimum, maximum] : std::vector<std::pair<double, double>>{{-5, 15}, {-largest, largest}}) {
    Preprocessor preprocessor = *Preprocessor::Create(RegressionColumns(minimum, maximum), {});
    TableRow row = Row({1}, {});
    for (const auto& [target, scaled] : std::vector<std::pair<double, float>>{
             {minimum, 0}, {maximum, 1}, {minimum * 0.75 + maximum * 0.25, 0.25F}, {-largest, 0}, {largest, 1}}) {
      row.target = target;
      ASSERT_TRUE(preprocessor.Fit(row, true).ok());
      EXPECT_FLOAT_EQ(Encoded(preprocessor, row).target, scaled) << target;
    }
    EXPECT_EQ(preprocessor.preprocessing().target().clipped(), minimum == -5 ? 2 : 0);
    EXPECT_EQ(preprocessor.preprocessing().target().minimum(), minimum);
    EXPECT_EQ(preprocessor.preprocessing().target().maximum(), maximum);
  }
}

TEST(PreprocessorTest, TellsTheNonLabelPartyNothingOfClassesAndTargets) {
  Preprocessor::Options options;
  options.holder = v1::TableSchema::NONLABEL_PARTY;
  for (const TableColumns& columns : {MultiClassColumns({"a", "b", "c"}), RegressionColumns(-5, 15)}) {
    Preprocessor preprocessor = *Preprocessor::Create(columns, options);
    TableRow row = Row({1}, {});
    row.target = 99;
    ASSERT_TRUE(preprocessor.Fit(row, true).ok());
    EXPECT_FALSE(preprocessor.task().has_value());
    EXPECT_TRUE(preprocessor.preprocessing().classes().empty());
    EXPECT_FALSE(preprocessor.preprocessing().has_target());
    EXPECT_EQ(Encoded(preprocessor, row).target, 0);
  }
}

TEST(PreprocessorTest, ExtendsDataOfTheSameTaskOnly) {
  const ScratchFolder folder;
  const TableColumns classes = MultiClassColumns({"a", "b", "c"}), targets = RegressionColumns(-5, 15);
  TableColumns binary = Columns(1, 0);
  binary.label = TableColumns::Label{};
  const auto extend = [](const TableColumns& columns, const std::shared_ptr<const Dataset>& old) {
    Preprocessor::Options options;
    options.extends = old;
    return std::string(Preprocessor::Create(columns, options).status().message());
  };
  const auto old_classes = Store(folder, Fitted(classes), Row({1}, {}));
  EXPECT_EQ(extend(classes, old_classes), "");
  EXPECT_THAT(extend(MultiClassColumns({"a", "c", "b"}), old_classes), HasSubstr("the classes differ"));
  EXPECT_THAT(extend(MultiClassColumns({"a", "b", "c", "d"}), old_classes), HasSubstr("the classes differ"));
  EXPECT_THAT(extend(targets, old_classes), HasSubstr("same kind of label"));
  EXPECT_THAT(extend(binary, old_classes), HasSubstr("same kind of label"));
  const auto old_targets = Store(folder, Fitted(targets), Row({1}, {}));
  EXPECT_EQ(extend(targets, old_targets), "");
  EXPECT_THAT(
      extend(RegressionColumns(-5, 16), old_targets),
      HasSubstr("target_minimum, target_maximum: expected -5 and 15 as in the data to extend, found -5 and 16"));
  EXPECT_THAT(extend(classes, old_targets), HasSubstr("same kind of label"));
  const auto old_binary = Store(folder, Fitted(binary), Row({1}, {}));
  EXPECT_EQ(extend(binary, old_binary), "");
  EXPECT_THAT(extend(classes, old_binary), HasSubstr("same kind of label"));
  EXPECT_THAT(extend(Columns(1, 0), old_binary), HasSubstr("same kind of label"));
}

TEST(PreprocessorTest, FailsWithoutTrainingRowsOrWithTooManyEmbeddingRows) {
  Preprocessor none = *Preprocessor::Create(Columns(1, 0), {});
  ASSERT_TRUE(none.Fit(Row({1}, {}), /*training=*/false).ok());
  EXPECT_THAT(std::string(none.FinishFit().message()), HasSubstr("training part"));
  Preprocessor::Options options;
  options.hash_buckets = int64_t{1} << 30;
  Preprocessor many = *Preprocessor::Create(Columns(0, 2), options);
  ASSERT_TRUE(many.Fit(Row({}, {"a", "b"}), true).ok());
  EXPECT_THAT(std::string(many.FinishFit().message()), HasSubstr("embedding rows"));
}

}  // namespace
}  // namespace splitveil
