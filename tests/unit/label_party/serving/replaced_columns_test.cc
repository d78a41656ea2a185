// Values of a request are encoded as the rows that training read: a row's own values give the row.
#include "label_party/serving/replaced_columns.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/operator/preparation/preprocessor.h"

#include "tests/testing/process/temp_folder.h"

namespace splitveil::testing {
namespace {

using Schema = v1::TableSchema;

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kRows = 400;

// Numbers of every scaling, some missing; categories with a rare value and missing ones; an image; as `splitveil
// prepare` writes them.
class ReplacedColumnsTest : public ::testing::Test {
 protected:
  void Prepare(int64_t hash_buckets) {
    TableColumns columns;
    columns.label = {Task(), {}, 0, 0};
    for (const auto& [name, scaling] : {std::pair("robust", Schema::ROBUST),
                                        {"log", Schema::LOG},
                                        {"rank", Schema::QUANTILE},
                                        {"plain", Schema::MIN_MAX}}) {
      columns.numeric.push_back({name, Schema::LABEL_PARTY, scaling});
    }
    columns.numeric.push_back({"peers", Schema::NONLABEL_PARTY, Schema::ROBUST});
    columns.categorical = {{"town", Schema::LABEL_PARTY}, {"kind", Schema::BOTH}};
    columns.image = {1, 1, 2};
    columns.image_holder = Schema::LABEL_PARTY;
    Preprocessor::Options options;
    options.holder = Schema::LABEL_PARTY;
    options.hash_buckets = hash_buckets;
    options.rare_below = 2;
    Preprocessor preprocessor = *Preprocessor::Create(columns, options);
    for (size_t i = 0; i < kRows; ++i) {
      const auto number = static_cast<double>(i);
      towns_.push_back(i == 7 ? "seen once" : i % 11 == 0 ? "" : absl::StrCat("town ", i % 5));
      numbers_[0].push_back(i % 9 == 0 ? kMissing : number - 50);
      numbers_[1].push_back(std::exp(number / 40));
      numbers_[2].push_back(i < 300 ? 3 : number);
      numbers_[3].push_back(i % 13 == 0 ? kMissing : 2 * number);
    }
    for (size_t i = 0; i < kRows; ++i) {
      ASSERT_TRUE(preprocessor.Fit(Row(i), /*training=*/true).ok());
    }
    ASSERT_TRUE(preprocessor.FinishFit().ok());
    const std::unique_ptr<DatasetWriter> writer = *DatasetWriter::Create(files_.File("own.data"), Task());
    EncodedRow encoded;
    for (size_t i = 0; i < kRows; ++i) {
      preprocessor.Encode(Row(i), encoded);
      encoded.id = absl::StrCat("id", i);
      ASSERT_TRUE(writer->Append(encoded).ok());
    }
    ASSERT_TRUE(writer->Finish(preprocessor.preprocessing(), preprocessor.vocabularies()).ok());
    ASSERT_TRUE(DatasetWriter::Publish({writer.get()}).ok());
    data_ = *Dataset::Open(files_.File("own.data"));
    columns_ = *OwnColumns::Of(*data_);
  }

  TableRow Row(size_t i) const {
    TableRow row;
    row.label = i % 2;
    row.numeric = {numbers_[0][i], numbers_[1][i], numbers_[2][i], numbers_[3][i], -1.0};
    row.categories = {towns_[i], i % 2 == 0 ? "even" : "odd"};
    row.pixels = {static_cast<uint8_t>(i % 256), 255};
    return row;
  }

  // The values of rows [0, n) as a request for them gives them.
  ReplacedColumns Given(size_t n) const {
    ReplacedColumns given;
    for (const auto& [column, name] : {std::pair(0, "robust"), {1, "log"}, {2, "rank"}, {3, "plain"}}) {
      EXPECT_TRUE(columns_->AddNumbers(name, absl::MakeConstSpan(numbers_[column]).first(n), given)) << name;
    }
    std::vector<absl::string_view> towns(towns_.begin(), towns_.begin() + static_cast<int64_t>(n)), kinds;
    for (size_t i = 0; i < n; ++i) {
      kinds.push_back(i % 2 == 0 ? "even" : "odd");
    }
    EXPECT_TRUE(columns_->AddCategories("town", towns, given));
    EXPECT_TRUE(columns_->AddCategories("kind", kinds, given));
    return given;
  }

  FeatureBatch Gather(const std::vector<uint32_t>& rows) const { return data_->Gather(rows); }

  const TempFolder files_;
  std::vector<double> numbers_[4];
  std::vector<std::string> towns_;
  std::shared_ptr<const Dataset> data_;
  std::optional<OwnColumns> columns_;
};

TEST_F(ReplacedColumnsTest, ARowsOwnValuesGiveTheRow) {
  for (const int64_t buckets : {0, 17}) {
    towns_.clear();
    for (std::vector<double>& numbers : numbers_) {
      numbers.clear();
    }
    ASSERT_NO_FATAL_FAILURE(Prepare(buckets));
    std::vector<uint32_t> rows(kRows);
    std::iota(rows.begin(), rows.end(), 0);
    const FeatureBatch stored = Gather(rows);
    // Put into one other row's place, all of the values come from the request, but pixels, which it cannot give.
    FeatureBatch own = Gather(std::vector<uint32_t>(kRows, 8));
    std::vector<size_t> ids(rows.begin(), rows.end());
    Given(kRows).Apply(ids, own);
    for (size_t i = 0; i < kRows; ++i) {
      const auto row = static_cast<int64_t>(i);
      for (size_t column = 2; column < 7;
           ++column) {  // After the pixels: four numbers, and where the first is missing.
        ASSERT_EQ(own.numeric.row(row)[column], stored.numeric.row(row)[column]) << i << " " << column;
      }
      EXPECT_EQ(own.numeric.row(row)[0], 8 / 255.0F);
    }
    EXPECT_EQ(own.numeric.cols(), 7);
    EXPECT_EQ(own.categories, stored.categories);
  }
}

// Ids that are not known, or are withheld, leave gaps.
TEST_F(ReplacedColumnsTest, EachRowGetsTheValuesOfItsId) {
  ASSERT_NO_FATAL_FAILURE(Prepare(0));
  FeatureBatch own = Gather({8, 8});
  Given(10).Apply({3, 9}, own);
  const FeatureBatch stored = Gather({3, 9});
  EXPECT_EQ(own.categories, stored.categories);
  for (const int64_t row : {0, 1}) {
    EXPECT_EQ(own.numeric.row(row)[2], stored.numeric.row(row)[2]);
  }
}

TEST_F(ReplacedColumnsTest, WhatTrainingHasNotSeenIsEncodedAsThat) {
  ASSERT_NO_FATAL_FAILURE(Prepare(0));
  ReplacedColumns given;
  ASSERT_TRUE(columns_->AddCategories("town", {"nowhere", "seen once"}, given));
  EXPECT_EQ(given.categories[0].second[0], data_->preprocessing().categorical(0).blocks(0).first_row());
  EXPECT_EQ(given.categories[0].second[1], given.categories[0].second[0]);
}

TEST_F(ReplacedColumnsTest, KnowsOwnColumnsAlone) {
  ASSERT_NO_FATAL_FAILURE(Prepare(0));
  ReplacedColumns given;
  const std::vector<double> number = {1};
  for (const char* const name : {"peers", "town", "robust is missing", "", "income"}) {
    EXPECT_FALSE(columns_->AddNumbers(name, number, given)) << name;
  }
  for (const char* const name : {"robust", "", "label"}) {
    EXPECT_FALSE(columns_->AddCategories(name, {"a"}, given)) << name;
  }
  EXPECT_TRUE(given.empty());
}

}  // namespace
}  // namespace splitveil::testing
