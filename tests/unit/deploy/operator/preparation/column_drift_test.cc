#include "deploy/operator/preparation/column_drift.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/operator/preparation/preprocessor.h"

#include "common/dataset/column_encoding.h"
#include "tests/testing/scratch_folder.h"

namespace splitveil {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Verdict = ColumnDrift::Verdict;

const double kNone = std::numeric_limits<double>::quiet_NaN();

// Of chi-squared with d = 2k degrees of freedom more than x has probability exp(-x/2) sum over i < k of (x/2)^i / i!.
TEST(ChanceIndexTest, IsTheQuantileOfChiSquared) {
  for (const int degrees : {2, 4, 10, 12, 20}) {
    const double half = ChanceIndex(1000, 500, degrees + 1) / (1 / 1000.0 + 1 / 500.0) / 2;
    double term = std::exp(-half), probability = 0;
    for (int i = 0; i < degrees / 2; ++i) {
      probability += term;
      term *= half / (i + 1);
    }
    EXPECT_LT(probability, 1.05e-6) << degrees;
    EXPECT_GT(probability, degrees < 10 ? 1e-7 : 5e-7) << degrees;
  }
}

TableColumns Columns() {
  TableColumns columns;
  columns.numeric = {{"amount", v1::TableSchema::BOTH}, {"flag", v1::TableSchema::BOTH}};
  columns.categorical = {{"region", v1::TableSchema::BOTH}, {"grade", v1::TableSchema::BOTH}};
  return columns;
}

struct Cells {
  double amount = 0, flag = 0;
  std::string region, grade;
};

TableRow RowOf(const Cells& cells) {
  TableRow row;
  row.numeric = {cells.amount, cells.flag};
  row.categories = {cells.region, cells.grade};
  return row;
}

// Amounts around 50, a flag of one in ten, one of four regions, a grade from 1 to 5.
std::vector<Cells> Table(size_t rows, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<Cells> table(rows);
  for (Cells& cells : table) {
    cells = {50 + 10 * normal(random), random() % 10 == 0 ? 1.0 : 0.0, absl::StrCat("r", random() % 4),
             absl::StrCat(1 + random() % 5)};
  }
  return table;
}

// 7 rows of pooled codes (TableSchema.rare_below) are as unknown in the training as new codes will be later.
TEST(CountCategoriesTest, PooledCodesCountAsUnseen) {
  v1::CategoryIndex index;
  index.add_blocks()->set_rows(3);
  CountCategories({7, 3, 5}, /*first_new_row=*/0, index);
  EXPECT_THAT(index.bucket_rows(), ElementsAre(2, 1));
  EXPECT_THAT(index.counts().buckets(), ElementsAre(7, 5, 3, 0));
}

class ColumnDriftTest : public ::testing::Test {
 protected:
  ColumnDriftTest() {
    Preprocessor preprocessor = *Preprocessor::Create(Columns(), {});
    Fill(Table(4000, 1), preprocessor);
    fitted_ = preprocessor.preprocessing();
    training_ = Store(fitted_, preprocessor.vocabularies());
  }

  static void Fill(const std::vector<Cells>& table, Preprocessor& preprocessor) {
    for (const Cells& cells : table) {
      EXPECT_TRUE(preprocessor.Fit(RowOf(cells), true).ok());
    }
    EXPECT_TRUE(preprocessor.FinishFit().ok());
    for (const Cells& cells : table) {
      EncodedRow encoded;
      preprocessor.Encode(RowOf(cells), encoded);
      preprocessor.Count(RowOf(cells), encoded);
    }
    preprocessor.FinishCounts();
  }

  std::shared_ptr<const Dataset> Store(const v1::Preprocessing& preprocessing,
                                       absl::Span<const Vocabulary> vocabularies) const {
    auto writer = *DatasetWriter::Create(folder_.Path("fitted"), std::nullopt);
    EncodedRow row;
    row.id = "id";
    row.numeric.resize(static_cast<size_t>(preprocessing.numeric_size()));
    row.categories.resize(2);
    EXPECT_TRUE(writer->Append(row).ok());
    EXPECT_TRUE(writer->Finish(preprocessing, vocabularies).ok());
    EXPECT_TRUE(DatasetWriter::Publish({writer.get()}).ok());
    absl::StatusOr<std::shared_ptr<const Dataset>> dataset = Dataset::Open(folder_.Path("fitted"));
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    return *std::move(dataset);
  }

  // Of a table that is encoded as the training was.
  v1::Preprocessing Applied(const std::vector<Cells>& table, const std::vector<std::string>& allowed = {}) const {
    Preprocessor::Options options;
    options.extends = training_;
    options.only_applies = true;
    options.allowed_changes = allowed;
    Preprocessor preprocessor = *Preprocessor::Create(Columns(), options);
    Fill(table, preprocessor);
    return preprocessor.preprocessing();
  }

  // Of a table changed row by row.
  template <typename Change>
  v1::Preprocessing Changed(Change change, size_t rows = 400) const {
    std::vector<Cells> table = Table(rows, 2);
    for (size_t i = 0; i < rows; ++i) {
      change(i, table[i]);
    }
    return Applied(table);
  }

  static std::vector<Verdict> Verdicts(const v1::Preprocessing& preprocessing) {
    std::vector<Verdict> verdicts;
    for (const ColumnDrift& drift : CompareColumns(preprocessing)) {
      verdicts.push_back(drift.verdict);
    }
    return verdicts;
  }

  const ScratchFolder folder_;
  v1::Preprocessing fitted_;
  std::shared_ptr<const Dataset> training_;
};

TEST_F(ColumnDriftTest, TrainingIsCountedByDecilesAndByFrequentValues) {
  const v1::NumericScaling& amount = fitted_.numeric(0);
  EXPECT_EQ(amount.bucket_edges_size(), 11);  // The deciles, and the ends of the range.
  ASSERT_EQ(amount.counts().buckets_size(), NumberBuckets(amount));
  int64_t rows = amount.counts().missing();
  for (int i = 0; i < amount.counts().buckets_size(); ++i) {
    rows += amount.counts().buckets(i);
    if (i > 3 && i < 10) {
      EXPECT_NEAR(static_cast<double>(amount.counts().buckets(i)), 400, 2);
    }
  }
  EXPECT_EQ(rows, 4000);
  EXPECT_THAT(fitted_.numeric(1).bucket_edges(), ElementsAre(0, std::nextafter(1, 0)));  // A flag: 0, between, 1.
  const v1::ValueCounts& flag = fitted_.numeric(1).counts();
  EXPECT_EQ(flag.buckets(1) + flag.buckets(3), 4000);
  EXPECT_EQ(fitted_.categorical(0).bucket_rows_size(), 4);
  EXPECT_EQ(fitted_.categorical(0).counts().buckets_size(), 6);
  EXPECT_TRUE(CompareColumns(fitted_).empty());
}

// What later rows of the same kind lack, from the training alone: 4,000 rows of a law in which half of the values are
// rare, and 4,000 later ones.
TEST_F(ColumnDriftTest, ValuesOfASingleRowSayHowManyLaterOnesAreUnseen) {
  const auto table = [](uint64_t seed) {
    std::vector<Cells> rows = Table(4000, seed);
    std::mt19937_64 random(seed);
    for (Cells& cells : rows) {
      cells.region = absl::StrCat("v", random() % 2 == 0 ? random() % 10 : random() % 3000);
    }
    return rows;
  };
  Preprocessor preprocessor = *Preprocessor::Create(Columns(), {});
  Fill(table(3), preprocessor);
  Preprocessor::Options options;
  options.extends = Store(preprocessor.preprocessing(), preprocessor.vocabularies());
  options.only_applies = true;
  Preprocessor applied = *Preprocessor::Create(Columns(), options);
  Fill(table(4), applied);
  const ColumnDrift region = CompareColumns(applied.preprocessing())[2];
  EXPECT_GT(region.here.outside, 0.2);
  EXPECT_NEAR(region.training.outside, region.here.outside, 0.03);
  EXPECT_EQ(region.verdict, Verdict::kSame) << region.what;
}

TEST_F(ColumnDriftTest, RowsOfTheSameKindAreTheSameHoweverFew) {
  for (const size_t rows : {1, 2, 3, 10, 100, 4000}) {
    for (uint64_t seed = 0; seed < (rows > 100 ? 10 : 200); ++seed) {
      for (const ColumnDrift& drift : CompareColumns(Applied(Table(rows, 100 + seed)))) {
        EXPECT_EQ(drift.verdict, Verdict::kSame) << rows << " " << seed << " " << drift.name << " " << drift.what;
      }
    }
  }
}

TEST_F(ColumnDriftTest, AColumnThatIsGoneIsAnErrorThatNamesItAndItsFigures) {
  const auto error = [&](const v1::Preprocessing& preprocessing) {
    const absl::Status status = CheckColumnsAreThere("new.csv", preprocessing);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_EQ(
      error(Changed([](size_t, Cells& row) { row.amount = kNone; })),
      "new.csv: column \"amount\": 100.0% missing, in the training 0.0%: see whether the table lacks its values, or "
      "accept it with --allow_changed=amount");
  EXPECT_THAT(error(Changed([](size_t, Cells& row) { row.amount *= 1000; })),
              HasSubstr("column \"amount\": 100.0% clipped, in the training 2.0%: see whether its unit has changed"));
  EXPECT_THAT(error(Changed([](size_t, Cells& row) { row.region = "R" + row.region; })),
              HasSubstr("column \"region\": 100.0% unseen, in the training 0.0%: see whether its values are written"));
  EXPECT_THAT(error(Changed([](size_t, Cells& row) { row.grade = ""; })),
              HasSubstr("column \"grade\": 100.0% missing"));
  // One row in a hundred changes nothing; neither does half the column this way, and half the other way.
  EXPECT_THAT(
      error(Changed([](size_t i, Cells& row) { row.amount = i % 100 == 0 ? row.amount
                                                            : i % 2      ? kNone
                                                                         : 1e9; })),
      AllOf(HasSubstr("column \"amount\": 50.0% missing"), HasSubstr("49.0% clipped"), Not(HasSubstr("region"))));
  std::vector<Cells> table = Table(400, 2);
  for (Cells& row : table) {
    row.amount = kNone;
    row.region = "none";
  }
  EXPECT_TRUE(CheckColumnsAreThere("new.csv", Applied(table, {"amount", "region"})).ok());
  EXPECT_THAT(std::string(CheckColumnsAreThere("new.csv", Applied(table, {"amount"})).message()),
              AllOf(Not(HasSubstr("column \"amount\"")), HasSubstr("column \"region\"")));
}

TEST_F(ColumnDriftTest, AShiftIsAWarningWithBothFigures) {
  const auto drift = [](const v1::Preprocessing& preprocessing, int column) {
    EXPECT_TRUE(CheckColumnsAreThere("new.csv", preprocessing).ok());
    const ColumnDrift drift = CompareColumns(preprocessing)[static_cast<size_t>(column)];
    EXPECT_EQ(drift.verdict, Verdict::kShifted);
    return drift;
  };
  EXPECT_THAT(drift(Changed([](size_t i, Cells& row) { row.region = i % 4 == 0 ? "" : row.region; }), 2).what,
              "25.0% missing, in the training 0.0%");
  EXPECT_THAT(drift(Changed([](size_t i, Cells& row) { row.grade = i % 4 == 0 ? "9" : row.grade; }), 3).what,
              "25.0% unseen, in the training 0.0%");
  EXPECT_THAT(drift(Changed([](size_t, Cells& row) { row.amount *= 1.3; }), 0).what,
              HasSubstr("clipped, in the training 2.0%"));
  // A share too small to be told on its own: what grew most.
  EXPECT_THAT(
      CompareColumns(Changed([](size_t i, Cells& row) { row.amount = i % 25 == 0 ? kNone : row.amount; }, 4000))[0]
          .what,
      "4.0% missing, in the training 0.0%");
  // Inside the range: the bucket that grew most.
  const ColumnDrift narrow = drift(Changed([](size_t, Cells& row) { row.amount = 50 + (row.amount - 50) / 5; }), 0);
  EXPECT_THAT(narrow.what, ::testing::ContainsRegex("^[0-9.]+% from 4[0-9.]+ to [45][0-9.]+, in the training 10.0%$"));
  EXPECT_GT(narrow.index, 0.25);
  EXPECT_THAT(drift(Changed([](size_t, Cells& row) { row.flag = 1; }), 1).what,
              HasSubstr("100.0% at 1, in the training 1"));
  EXPECT_THAT(drift(Changed([](size_t, Cells& row) { row.flag *= 0.001; }), 1).what,
              HasSubstr("% from 0 to 1, in the training 0.0%"));
  EXPECT_THAT(drift(Changed([](size_t, Cells& row) { row.region = "r3"; }), 2).what,
              ::testing::ContainsRegex("^100.0% have the value that is number [1-4] by frequency, in the training 2"));
  // The rare ones of a flag, in another unit.
  EXPECT_THAT(drift(Changed([](size_t, Cells& row) { row.flag *= 100; }), 1).what,
              HasSubstr("clipped, in the training 0.0%"));
}

TEST_F(ColumnDriftTest, AModerateShiftIsNoWarning) {
  const ColumnDrift drift = CompareColumns(Changed([](size_t, Cells& row) { row.amount += 4; }, 4000))[0];
  EXPECT_GT(drift.index, 0.1);
  EXPECT_LT(drift.index, 0.25);
  EXPECT_EQ(drift.verdict, Verdict::kMoved);
  EXPECT_THAT(drift.what, HasSubstr("% from 62.725 to 74.388, in the training 9.0%"));
}

TEST_F(ColumnDriftTest, ANumberInAnotherWritingIsTheSameCategory) {
  const v1::Preprocessing floats = Changed([](size_t, Cells& row) { row.grade += ".0"; });
  EXPECT_THAT(Verdicts(floats), ::testing::Each(Verdict::kSame));
  EXPECT_EQ(CompareColumns(floats)[3].rewritten, 400);
  EXPECT_EQ(CompareColumns(Changed([](size_t, Cells&) {}))[3].rewritten, 0);
  // 03 is another code, as are 3.5 and 3a.
  for (const char* const form : {"0$", "$.5", "$a", "+$", "$..0", "$,0"}) {
    const v1::Preprocessing other = Changed([&](size_t, Cells& row) {
      std::string text = form;
      row.grade = text.replace(text.find('$'), 1, row.grade);
    });
    EXPECT_EQ(CompareColumns(other)[3].verdict, Verdict::kGone) << form;
  }
}

// A hash knows no values, but its buckets are others.
TEST_F(ColumnDriftTest, HashedCategoriesAreComparedByBucket) {
  Preprocessor::Options options;
  options.hash_buckets = 64;
  Preprocessor hashed = *Preprocessor::Create(Columns(), options);
  Fill(Table(4000, 1), hashed);
  options.extends = Store(hashed.preprocessing(), hashed.vocabularies());
  options.only_applies = true;
  std::vector<Cells> table = Table(400, 2);
  Preprocessor same = *Preprocessor::Create(Columns(), options);
  Fill(table, same);
  EXPECT_THAT(Verdicts(same.preprocessing()), ::testing::Each(Verdict::kSame));
  for (Cells& row : table) {
    row.grade += ".0";
  }
  Preprocessor changed = *Preprocessor::Create(Columns(), options);
  Fill(table, changed);
  const ColumnDrift grade = CompareColumns(changed.preprocessing())[3];
  EXPECT_EQ(grade.verdict, Verdict::kShifted);
  EXPECT_EQ(grade.here.outside, 0);
  EXPECT_THAT(grade.what, HasSubstr("% have a rarer value, in the training 0.0%"));
}

// A training file without counts is read, and nothing is claimed of its columns.
TEST_F(ColumnDriftTest, DataWithoutCountsAreNotCompared) {
  Preprocessor preprocessor = *Preprocessor::Create(Columns(), {});
  Fill(Table(400, 1), preprocessor);
  v1::Preprocessing uncounted = preprocessor.preprocessing();
  for (v1::NumericScaling& column : *uncounted.mutable_numeric()) {
    column.clear_counts();
    column.clear_bucket_edges();
    column.clear_scaling();
  }
  for (v1::CategoryIndex& column : *uncounted.mutable_categorical()) {
    column.clear_counts();
    column.clear_bucket_rows();
  }
  const float before = ScaledNumber(preprocessor.preprocessing().numeric(0), 47);
  EXPECT_EQ(ScaledNumber(uncounted.numeric(0), 47), before);
  Preprocessor::Options options;
  options.extends = Store(uncounted, preprocessor.vocabularies());
  options.only_applies = true;
  Preprocessor applied = *Preprocessor::Create(Columns(), options);
  std::vector<Cells> table = Table(100, 2);
  for (Cells& row : table) {
    row.amount = kNone;
    row.grade += ".0";
  }
  Fill(table, applied);
  EXPECT_THAT(Verdicts(applied.preprocessing()), ::testing::Each(Verdict::kNotCompared));
  EXPECT_TRUE(CheckColumnsAreThere("new.csv", applied.preprocessing()).ok());
  const std::vector<ColumnDrift> drifts = CompareColumns(applied.preprocessing());
  EXPECT_EQ(drifts[0].here.missing, 1);
  EXPECT_EQ(drifts[3].here.outside, 0);
}

// Of data that extend others and are trained on: they are what comes next is compared with.
TEST_F(ColumnDriftTest, ExtendedDataAreComparedWithTheLatest) {
  Preprocessor::Options options;
  options.extends = training_;
  Preprocessor extended = *Preprocessor::Create(Columns(), options);
  std::vector<Cells> table = Table(1000, 5);
  for (Cells& row : table) {
    row.region = "new " + row.region;
  }
  Fill(table, extended);
  EXPECT_EQ(CompareColumns(extended.preprocessing())[2].here.outside, 1);
  options.extends = Store(extended.preprocessing(), extended.vocabularies());
  options.only_applies = true;
  Preprocessor applied = *Preprocessor::Create(Columns(), options);
  Fill(table, applied);
  const ColumnDrift region = CompareColumns(applied.preprocessing())[2];
  EXPECT_EQ(region.here.outside, 0);
  EXPECT_EQ(region.training.outside, 1);  // All values of that day were new.
}

}  // namespace
}  // namespace splitveil
