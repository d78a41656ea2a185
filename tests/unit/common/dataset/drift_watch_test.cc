// What is counted of encoded rows is what `splitveil prepare` has counted of the table, for every kind of column.
#include "common/dataset/drift_watch.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <random>

#include "absl/strings/str_cat.h"
#include "deploy/operator/preparation/column_drift.h"
#include "deploy/operator/preparation/preprocessor.h"

#include "tests/testing/process/temp_folder.h"

namespace splitveil::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Schema = v1::TableSchema;

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
const std::vector<std::string> kNames = {"robust", "log",  "rank", "plain", "flag",
                                         "whole",  "same", "town", "sold",  "hashed later"};
constexpr size_t kNumbers = 7;

struct Cells {
  std::vector<double> numbers;  // [kNumbers]
  std::vector<std::string> texts;
};

// Of every scaling, with missing numbers, frequent ones, clipped ones and rare texts.
std::vector<Cells> Table(size_t rows, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<Cells> table;
  for (size_t i = 0; i < rows; ++i) {
    const double z = normal(random);
    table.push_back({{random() % 9 == 0 ? kMissing : 50 + 10 * z, std::exp(3 * z),
                      random() % 3 == 0 ? 3 : std::round(100 * normal(random)), random() % 7 == 0 ? kMissing : 1000 + z,
                      random() % 10 == 0 ? 1.0 : 0.0, static_cast<double>(random() % 6), 4.0},
                     {random() % 11 == 0 ? "" : absl::StrCat("t", random() % 40), absl::StrCat(random() % 3),
                      absl::StrCat("v", random() % 2 == 0 ? random() % 4 : random() % 3000)}});
  }
  return table;
}

class DriftWatchTest : public ::testing::Test {
 protected:
  static TableRow RowOf(const Cells& cells) {
    TableRow row;
    row.numeric = cells.numbers;
    row.categories.assign(cells.texts.begin(), cells.texts.end());
    return row;
  }

  // As `splitveil prepare` does, or `transform` if there is data to encode them after.
  std::shared_ptr<const Dataset> Store(const std::vector<Cells>& table, Preprocessor::Options options = {}) {
    TableColumns columns;
    const Schema::Scaling scalings[] = {Schema::ROBUST,  Schema::LOG,    Schema::QUANTILE, Schema::MIN_MAX,
                                        Schema::MIN_MAX, Schema::ROBUST, Schema::ROBUST};
    for (size_t i = 0; i < kNames.size(); ++i) {
      auto& kind = i < kNumbers ? columns.numeric : columns.categorical;
      kind.push_back({kNames[i], Schema::BOTH, i < kNumbers ? scalings[i] : Schema::ROBUST});
    }
    options.rare_below = 2;
    options.only_applies = options.extends != nullptr;
    Preprocessor preprocessor = *Preprocessor::Create(columns, options);
    for (const Cells& cells : table) {
      EXPECT_TRUE(preprocessor.Fit(RowOf(cells), /*training=*/true).ok());
    }
    EXPECT_TRUE(preprocessor.FinishFit().ok());
    const std::string path = files_.File(absl::StrCat(++stored_, ".data"));
    const std::unique_ptr<DatasetWriter> writer = *DatasetWriter::Create(path, std::nullopt);
    for (size_t i = 0; i < table.size(); ++i) {
      EncodedRow encoded;
      preprocessor.Encode(RowOf(table[i]), encoded);
      preprocessor.Count(RowOf(table[i]), encoded);
      encoded.id = absl::StrCat("id", i);
      EXPECT_TRUE(writer->Append(encoded).ok());
    }
    preprocessor.FinishCounts();
    EXPECT_TRUE(writer->Finish(preprocessor.preprocessing(), preprocessor.vocabularies()).ok());
    EXPECT_TRUE(DatasetWriter::Publish({writer.get()}).ok());
    return *Dataset::Open(path);
  }
  std::shared_ptr<const Dataset> Transform(const std::vector<Cells>& table) {
    Preprocessor::Options options;
    options.extends = training_;
    return Store(table, options);
  }

  static FeatureBatch All(const Dataset& data) {
    std::vector<uint32_t> rows(static_cast<size_t>(data.rows()));
    std::iota(rows.begin(), rows.end(), 0);
    return data.Gather(rows);
  }
  // The indices of all rows of `data` against the training.
  DriftWatch::Day DayOf(const Dataset& data) const {
    const auto watch = *DriftWatch::Create(data, &data == training_.get());
    watch->Count(All(data), std::vector<float>(static_cast<size_t>(data.rows())), 7);
    return watch->Days(7).front();
  }
  DriftWatch::Day Changed(const std::function<void(Cells&)>& change) {
    std::vector<Cells> table = Table(2000, 2);
    std::for_each(table.begin(), table.end(), change);
    return DayOf(*Transform(table));
  }

  const TempFolder files_;
  int stored_ = 0;
  const std::vector<Cells> table_ = Table(5000, 1);
  const std::shared_ptr<const Dataset> training_ = Store(table_);
};

TEST(PopulationStabilityIndexTest, IsTheSymmetricDivergence) {
  // (0.25 - 0.5) ln(0.25 / 0.5) + (0.75 - 0.5) ln(0.75 / 0.5) = 0.25 ln 3, but for half a row in a million.
  EXPECT_NEAR(PopulationStabilityIndex({500000, 500000}, {250000, 750000}), 0.25 * std::log(3), 1e-5);
  EXPECT_NEAR(PopulationStabilityIndex({250000, 750000}, {500000, 500000}), 0.25 * std::log(3), 1e-5);
  EXPECT_EQ(PopulationStabilityIndex({10, 20, 0}, {10, 20, 0}), 0);
  // With empty buckets: shares 10.5 / 11 and 0.5 / 11, exchanged.
  EXPECT_NEAR(PopulationStabilityIndex({10, 0}, {0, 10}), 2 * (10.0 / 11) * std::log(21), 1e-12);
}

TEST(CountScoresTest, AreDecilesAndAFrequentScoreHasABucketOfItsOwn) {
  std::vector<float> scores(1001);
  std::iota(scores.rbegin(), scores.rend(), 0.0F);
  v1::ScoreCounts counted = CountScores(scores);
  EXPECT_THAT(counted.edges(), ElementsAre(100, 200, 300, 400, 500, 600, 700, 800, 900));
  EXPECT_THAT(counted.counts(), ElementsAre(101, 100, 100, 100, 100, 100, 100, 100, 100, 100));
  std::fill(scores.begin(), scores.begin() + 500, 2.0F);  // They were 501 to 1000.
  counted = CountScores(scores);
  EXPECT_THAT(counted.edges(), ElementsAre(std::nextafter(2.0F, 0.0F), 2, 100, 200, 300, 400));
  EXPECT_THAT(counted.counts(), ElementsAre(2, 501, 98, 100, 100, 100, 100));
  EXPECT_THAT(CountScores({}).counts(), IsEmpty());
  EXPECT_THAT(CountScores({3}).counts(), ElementsAre(0, 1, 0));
}

// The buckets of encoded values hold the rows that those of the table's values do. In "plain", whose numbers fill a
// hundredth of its range, a row may lie nearer to an edge than a float can tell: one in 5,000 is an index of 1e-6.
TEST_F(DriftWatchTest, TheTrainingRowsThemselvesHaveNoDrift) {
  const DriftWatch::Day day = DayOf(*training_);
  EXPECT_EQ(day.rows, 5000);
  ASSERT_THAT(day.columns, SizeIs(kNames.size()));
  for (size_t i = 0; i < kNames.size(); ++i) {
    EXPECT_EQ(day.columns[i].first, kNames[i]);
    if (kNames[i] == "same") {  // The model sees one number, whatever the table has.
      EXPECT_TRUE(std::isnan(day.columns[i].second));
    } else {
      EXPECT_NEAR(day.columns[i].second, 0, kNames[i] == "plain" ? 1e-5 : 1e-12) << kNames[i];
    }
  }
  EXPECT_TRUE(std::isnan(day.scores));  // None were given to compare with.
}

// At most 20 buckets. By chance once in a million for each (ChanceIndex); fixed seeds.
TEST_F(DriftWatchTest, OtherRowsOfTheSameKindHaveNoMoreThanChance) {
  for (uint64_t seed = 10; seed < 13; ++seed) {
    for (const auto& [name, index] : DayOf(*Transform(Table(2000, seed))).columns) {
      EXPECT_FALSE(index > ChanceIndex(5000, 2000, 20)) << name << " " << index;
    }
  }
}

TEST_F(DriftWatchTest, AShiftedColumnAloneIsFound) {
  const std::function<void(Cells&)> changes[] = {
      [](Cells& cells) { cells.numbers[0] += 10; },  // One standard deviation.
      [](Cells& cells) { cells.numbers[1] *= 8; },
      [](Cells& cells) { cells.numbers[2] = cells.numbers[2] == 3 ? 4 : cells.numbers[2]; },
      [](Cells& cells) { cells.numbers[3] = kMissing; },  // As 0, MIN_MAX has no input for it.
      [](Cells& cells) { cells.numbers[4] *= 0.01; },
      [](Cells& cells) { cells.numbers[5] += 1; },
      [](Cells&) {},
      [](Cells& cells) { cells.texts[0] = ""; },
      [](Cells& cells) { cells.texts[1] = "new"; },
      [](Cells& cells) { cells.texts[2] = "v1"; }};
  for (size_t changed = 0; changed < kNames.size(); ++changed) {
    const DriftWatch::Day day = Changed(changes[changed]);
    for (size_t i = 0; i < kNames.size(); ++i) {
      const double index = day.columns[i].second;
      EXPECT_EQ(index > 0.25, i == changed && kNames[i] != "same") << kNames[i] << " " << index;
    }
  }
  // Missing numbers have a bucket of their own: shares as in the training but for them.
  EXPECT_GT(Changed([](Cells& cells) { cells.numbers[0] = kMissing; }).columns[0].second, 5);
}

// The texts of a column, counted by hand: 3 values, as frequent as they are.
TEST_F(DriftWatchTest, TheIndexIsThatOfCountsByHand) {
  const auto rare = [](Cells& cells) { cells.texts[1] = cells.texts[1] == "1" ? "0" : cells.texts[1]; };
  std::vector<Cells> table = Table(2000, 2);
  std::for_each(table.begin(), table.end(), rare);
  double index = 0;
  for (const char* const text : {"0", "1", "2", "none"}) {
    const auto share = [&](const std::vector<Cells>& of) {
      const auto rows = std::count_if(of.begin(), of.end(), [&](const Cells& cells) { return cells.texts[1] == text; });
      return (static_cast<double>(rows) + 0.5) / (static_cast<double>(of.size()) + 4 * 0.5);
    };
    const double p = share(table_), q = share(table);
    index += (q - p) * std::log(q / p);
  }
  EXPECT_NEAR(DayOf(*Transform(table)).columns[8].second, index, 1e-12);
}

TEST_F(DriftWatchTest, TheLatestTwoDaysAreKeptAndFewRowsGiveNoFigure) {
  std::vector<float> scores(5000);
  std::iota(scores.begin(), scores.end(), 0.0F);
  const auto watch = *DriftWatch::Create(*training_, /*trained_on_data=*/true, CountScores(scores));
  EXPECT_THAT(watch->Days(20000), IsEmpty());
  const FeatureBatch all = All(*training_);
  watch->Count(all, scores, 20000);
  EXPECT_EQ(watch->Days(20000).front().scores, 0);
  std::vector<uint32_t> rows(DriftWatch::kLeastRows - 1);
  std::iota(rows.begin(), rows.end(), 0);
  const std::vector<float> low(rows.size());
  watch->Count(training_->Gather(rows), low, 20001);
  std::vector<DriftWatch::Day> days = watch->Days(20001);
  ASSERT_THAT(days, SizeIs(2));
  EXPECT_EQ(days[0].rows, DriftWatch::kLeastRows - 1);
  EXPECT_TRUE(std::isnan(days[0].scores) && std::isnan(days[0].columns[0].second));
  EXPECT_EQ(days[1].days_ago, 1);
  EXPECT_EQ(days[1].rows, 5000);
  watch->Count(training_->Gather({0}), {0.0F}, 20001);
  days = watch->Days(20001);
  EXPECT_GT(days[0].scores, 1);  // All in the first decile.
  EXPECT_FALSE(std::isnan(days[0].columns[0].second));
  // No single row shows: the figures change with each 500 rows.
  const double index = days[0].columns[0].second;
  watch->Count(training_->Gather({0}), {0.0F}, 20001);
  EXPECT_EQ(watch->Days(20001)[0].columns[0].second, index);
  EXPECT_EQ(watch->Days(20001)[0].rows, DriftWatch::kLeastRows + 1);
  watch->Count(training_->Gather(rows), low, 20001);
  EXPECT_NE(watch->Days(20001)[0].columns[0].second, index);
  watch->Count(training_->Gather({0}), {0.0F}, 20003);
  EXPECT_THAT(watch->Days(20003), SizeIs(1));  // Of the day before nothing was asked.
  EXPECT_THAT(watch->Days(20001), SizeIs(1));
  // The clock had been ahead.
  watch->Count(training_->Gather({0}), {0.0F}, 19990);
  EXPECT_THAT(watch->Days(19990), SizeIs(1));
}

TEST_F(DriftWatchTest, DataThatWereEncodedAfterOneTrainingCompareWithTheSame) {
  const v1::ScoreCounts scores = CountScores({1, 2, 3});
  const auto of_training = *DriftWatch::Create(*training_, true, scores);
  const auto later = Transform(Table(100, 3));
  EXPECT_TRUE(of_training->SameTraining(**DriftWatch::Create(*later, false, scores)));
  EXPECT_FALSE(of_training->SameTraining(**DriftWatch::Create(*later, false)));
  EXPECT_FALSE(of_training->SameTraining(**DriftWatch::Create(*later, true, scores)));
  // A server's versions share the watch of their model, two of which are kept while no version uses them.
  DriftWatches watches;
  auto first = watches.Shared("run/1", *DriftWatch::Create(*training_, true, scores));
  EXPECT_EQ(watches.Shared("run/1", *DriftWatch::Create(*later, false, scores)), first);
  EXPECT_NE(watches.Shared("run/1", *DriftWatch::Create(*later, false)), first);
  EXPECT_NE(watches.Shared("run/2", *DriftWatch::Create(*training_, true)), first);
  const auto shared = [&] { return watches.Shared("run/3", *DriftWatch::Create(*training_, true, scores)); };
  shared()->Count(All(*training_), {}, 3);
  EXPECT_EQ(shared()->Days(3).front().rows, 5000);
  watches.Shared("run/4", *DriftWatch::Create(*training_, true));
  EXPECT_EQ(shared()->Days(3).front().rows, 5000);
  watches.Shared("run/4", *DriftWatch::Create(*training_, true));
  watches.Shared("run/5", *DriftWatch::Create(*training_, true));
  EXPECT_THAT(shared()->Days(3), IsEmpty());
  // Data without counts of their training: nothing is claimed of a column.
  EXPECT_THAT((*DriftWatch::Create(*training_, false))->Days(0), IsEmpty());
  const auto uncounted = *DriftWatch::Create(*training_, false);
  uncounted->Count(All(*training_), std::vector<float>(5000), 1);
  EXPECT_THAT(uncounted->Days(1).front().columns, IsEmpty());
}

}  // namespace
}  // namespace splitveil::testing
