#include "common/model/embedding_table.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "common/model/parameter_optimizer.h"
#include "common/model/parameters.h"
#include "tests/unit/common/model/model_fixtures.h"

namespace splitveil {
namespace {

using Indices = std::vector<int64_t>;

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

EmbeddingTable::Options SmallTable() {
  EmbeddingTable::Options options;
  options.rows = 50;
  options.dimension = 3;
  options.seed = 7;
  return options;
}

EmbeddingTable MakeTable(const EmbeddingTable::Options& options) {
  absl::StatusOr<EmbeddingTable> table = EmbeddingTable::Create(options);
  EXPECT_TRUE(table.ok()) << table.status();
  return *std::move(table);
}

std::vector<float> Copy(const StridedRows& rows) { return CopyParameters({{"", rows}}).front().second; }

std::vector<float> Values(EmbeddingTable& table) { return Copy(table.values()); }

// One for each arrangement of moments.
std::vector<OptimizerOptions> EveryMethod() {
  OptimizerOptions adam, sgd, momentum, adagrad;
  sgd.method = momentum.method = OptimizerOptions::Method::kSgd;
  momentum.momentum = 0.9;
  adagrad.method = OptimizerOptions::Method::kAdagrad;
  adagrad.initial_accumulator = 0.25;
  return {adam, sgd, momentum, adagrad};
}

// SparseAdam in double precision with one map entry a row.
class ReferenceSparseAdam {
 public:
  ReferenceSparseAdam(const std::vector<float>& values, int64_t dimension, const OptimizerOptions& adam)
      : values_(values.begin(), values.end()),
        m_(values.size()),
        v_(values.size()),
        dimension_(dimension),
        adam_(adam) {}

  void Update(const std::vector<int64_t>& indices, const Matrix& gradient, double scale) {
    std::map<int64_t, std::vector<double>> sums;
    const int64_t columns = indices.size() / gradient.rows();
    for (size_t i = 0; i < indices.size(); ++i) {
      std::vector<double>& sum = sums.emplace(indices[i], std::vector<double>(dimension_)).first->second;
      for (int64_t d = 0; d < dimension_; ++d) {
        sum[d] += gradient.row(i / columns)[i % columns * dimension_ + d] * scale;
      }
    }
    ++step_;
    for (const auto& [row, sum] : sums) {
      for (int64_t d = 0; d < dimension_; ++d) {
        const int64_t at = row * dimension_ + d;
        m_[at] = adam_.beta1 * m_[at] + (1 - adam_.beta1) * sum[d];
        v_[at] = adam_.beta2 * v_[at] + (1 - adam_.beta2) * sum[d] * sum[d];
        const double step_size =
            adam_.learning_rate * std::sqrt(1 - std::pow(adam_.beta2, step_)) / (1 - std::pow(adam_.beta1, step_));
        values_[at] -= step_size * m_[at] / (std::sqrt(v_[at]) + adam_.epsilon);
      }
    }
  }
  const std::vector<double>& values() const { return values_; }

 private:
  std::vector<double> values_;
  std::vector<double> m_;
  std::vector<double> v_;
  int64_t dimension_;
  OptimizerOptions adam_;
  int step_ = 0;
};

TEST(EmbeddingTableTest, StartsUniformInTheInitialRange) {
  EmbeddingTable::Options options = SmallTable();
  options.rows = 20000;
  options.initial_range = 0.2;
  EmbeddingTable table = MakeTable(options);
  double sum = 0;
  double squares = 0;
  for (const float value : Values(table)) {
    ASSERT_LE(std::abs(value), 0.2f);
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  const double count = 60000;
  EXPECT_NEAR(sum / count, 0, 0.003);                   // Six standard errors.
  EXPECT_NEAR(squares / count, 0.04 / 3, 0.04 * 0.02);  // Variance of a uniform number: range^2 / 3.
}

TEST(EmbeddingTableTest, TheSeedDecidesTheTable) {
  EmbeddingTable table = MakeTable(SmallTable());
  EmbeddingTable same = MakeTable(SmallTable());
  EmbeddingTable::Options options = SmallTable();
  options.seed = 8;
  EmbeddingTable other = MakeTable(options);
  EXPECT_EQ(Values(table), Values(same));
  EXPECT_NE(Values(table), Values(other));
}

TEST(EmbeddingTableTest, WhatTheOptimizerRemembersIsNoPartOfTheStart) {
  EmbeddingTable table = MakeTable(SmallTable());
  for (const OptimizerOptions& optimizer : EveryMethod()) {
    EmbeddingTable::Options options = SmallTable();
    options.optimizer = optimizer;
    EmbeddingTable same = MakeTable(options);
    EXPECT_EQ(Values(same), Values(table));
    ASSERT_EQ(same.moments(), optimizer.moments());
    for (int m = 0; m < same.moments(); ++m) {
      EXPECT_EQ(Copy(same.moment(m)), std::vector<float>(150, static_cast<float>(optimizer.initial_accumulator)));
    }
  }
}

// Adam's lazy values differ (where epsilon is added); its moments do not.
TEST(EmbeddingTableTest, AStepOnAllRowsIsADenseOne) {
  Indices every_row(50);
  std::iota(every_row.begin(), every_row.end(), 0);
  for (const OptimizerOptions& optimizer : EveryMethod()) {
    EmbeddingTable::Options options = SmallTable();
    options.optimizer = optimizer;
    EmbeddingTable table = MakeTable(options);
    std::vector<float> values = Values(table);
    ParameterOptimizer dense(optimizer, values.size());
    std::mt19937 generator(1);
    for (int step = 0; step < 5; ++step) {
      const Matrix gradient = RandomMatrix(50, 3, generator);
      ASSERT_TRUE(table.Update({{every_row, gradient}}, 0.5).ok());
      dense.Step({ConstMatrixView(gradient).values()}, 0.5, values.data());
    }
    if (optimizer.method != OptimizerOptions::Method::kAdam) {
      EXPECT_EQ(Values(table), values);
    }
    for (int m = 0; m < table.moments(); ++m) {
      EXPECT_THAT(Copy(table.moment(m)), ElementsAreArray(dense.moment(m)));
    }
  }
}

TEST(EmbeddingTableTest, GathersToTheFrontOfEachRow) {
  EmbeddingTable table = MakeTable(SmallTable());
  Matrix out(2, 7);
  out.row(1)[6] = 42;
  ASSERT_TRUE(table.Gather({4, 49, 0, 4}, ParameterUse::kTraining, out).ok());
  const std::vector<float> values = Values(table);
  EXPECT_THAT(out.row(0), ElementsAre(values[12], values[13], values[14], values[147], values[148], values[149], 0));
  EXPECT_THAT(out.row(1), ElementsAre(values[0], values[1], values[2], values[12], values[13], values[14], 42));
}

TEST(EmbeddingTableTest, UpdatesAsSparseAdamInDoublePrecision) {
  EmbeddingTable::Options options = SmallTable();
  options.optimizer.epsilon = 1e-3;  // Large enough for a wrong scale of the gradient to show.
  EmbeddingTable table = MakeTable(options);
  ReferenceSparseAdam reference(Values(table), options.dimension, options.optimizer);
  std::mt19937 generator(1);
  for (int step = 0; step < 200; ++step) {
    const Matrix gradient = RandomMatrix(8, 2 * 3 + 1, generator);  // Two columns and a number that is not ours.
    std::vector<int64_t> indices;
    for (int i = 0; i < 16; ++i) {
      indices.push_back(generator() % 20 * (generator() % 2 + 1));  // Repeats within a batch, gaps between batches.
    }
    ASSERT_TRUE(table.Update({{indices, gradient}}, 1.0 / 8).ok());
    reference.Update(indices, gradient, 1.0 / 8);
  }
  const std::vector<float> values = Values(table);
  for (size_t i = 0; i < reference.values().size(); ++i) {
    ASSERT_NEAR(values[i], reference.values()[i], 1e-6) << "at " << i;
  }
}

TEST(EmbeddingTableTest, LeavesRowsOutsideTheBatchAlone) {
  EmbeddingTable table = MakeTable(SmallTable());
  std::mt19937 generator(1);
  ASSERT_TRUE(table.Update({{Indices{3, 4}, RandomMatrix(2, 3, generator)}}, 1).ok());
  const std::vector<StridedRows> parts = {table.values(), table.moment(0), table.moment(1)};
  std::vector<std::vector<float>> before;
  for (const StridedRows& part : parts) {
    before.push_back(Copy(part));
  }
  ASSERT_TRUE(table.Update({{Indices{5, 5}, RandomMatrix(2, 3, generator)}}, 1).ok());
  for (size_t p = 0; p < parts.size(); ++p) {
    const std::vector<float> after = Copy(parts[p]);
    for (int i = 0; i < 150; ++i) {
      EXPECT_EQ(after[i] == before[p][i], i < 15 || i >= 18) << "at " << i << " of part " << p;
    }
  }
}

TEST(EmbeddingTableTest, AveragesARowInTheStepsThatTouchIt) {
  for (OptimizerOptions optimizer : EveryMethod()) {
    EmbeddingTable::Options options = SmallTable();
    options.optimizer = optimizer;
    EmbeddingTable plain = MakeTable(options);
    options.optimizer.average_decay = 0.5;
    EmbeddingTable table = MakeTable(options);
    const std::vector<float> start = Values(table);
    std::vector<double> average(start.begin(), start.end());
    std::mt19937 generator(1);
    std::map<int64_t, int> touched;
    for (int step = 0; step < 15; ++step) {
      const Indices rows = {step % 3, 7, step % 3};
      const Matrix gradient = RandomMatrix(3, 3, generator);
      ASSERT_TRUE(plain.Update({{rows, gradient}}, 1).ok());
      ASSERT_TRUE(table.Update({{rows, gradient}}, 1).ok());
      const std::vector<float> values = Values(table);
      for (const int64_t row : {rows[0], rows[1]}) {
        const int before = touched[row]++;
        const double keep = std::min(0.5, (1.0 + before) / (10 + before));
        for (int64_t at = 3 * row; at < 3 * row + 3; ++at) {
          average[at] = keep * average[at] + (1 - keep) * values[at];
        }
      }
    }
    EXPECT_EQ(Values(table), Values(plain));
    for (int m = 0; m < table.moments(); ++m) {
      EXPECT_EQ(Copy(table.moment(m)), Copy(plain.moment(m)));
    }
    const std::vector<float> predicting = Copy(table.values(ParameterUse::kPrediction));
    for (size_t i = 0; i < average.size(); ++i) {
      ASSERT_NEAR(predicting[i], average[i], 1e-6) << "at " << i;
    }
    EXPECT_GT(std::abs(predicting[21] - Values(table)[21]), 1e-6);
    EXPECT_EQ(predicting[30], start[30]);
    Matrix out(1, 3);
    ASSERT_TRUE(table.Gather({7}, ParameterUse::kPrediction, out).ok());
    EXPECT_THAT(out.row(0), ElementsAre(predicting[21], predicting[22], predicting[23]));
  }
}

// A row that is first touched late, at one value from then on: after n touches the weight of its random start is
// the product of (1 + k) / (10 + k), k < n, which is n! 9! / (n + 9)!.
TEST(EmbeddingTableTest, ARareRowPredictsFromItsOwnValues) {
  EmbeddingTable::Options options = SmallTable();
  options.initial_range = 10;
  options.optimizer.method = OptimizerOptions::Method::kSgd;
  options.optimizer.learning_rate = 1;
  options.optimizer.average_decay = 0.999;
  EmbeddingTable table = MakeTable(options);
  for (int step = 0; step < 20000; ++step) {
    ASSERT_TRUE(table.Update({{Indices{1}, Matrix(1, 3)}}, 1).ok());
  }
  const std::vector<float> start = Values(table);
  Matrix gradient(1, 3);
  gradient.row(0)[0] = 5;
  double start_weight = 1;
  for (int touches = 1; touches <= 100; ++touches) {
    ASSERT_TRUE(table.Update({{Indices{7}, touches == 1 ? gradient : Matrix(1, 3)}}, 1).ok());
    start_weight = std::exp(std::lgamma(touches + 1) + std::lgamma(10) - std::lgamma(touches + 10));
    // The value is the start less 5.
    ASSERT_NEAR(table.values(ParameterUse::kPrediction).row(7)[0], start[21] - 5 * (1 - start_weight), 1e-5) << touches;
  }
  EXPECT_LT(start_weight, 1e-12);
}

TEST(EmbeddingTableTest, AZeroGradientStillMovesARowByItsMomentum) {
  EmbeddingTable table = MakeTable(SmallTable());
  Matrix gradient(1, 3);
  gradient.row(0)[0] = 1;
  ASSERT_TRUE(table.Update({{Indices{3}, gradient}}, 1).ok());
  const std::vector<float> before = Values(table);
  ASSERT_TRUE(table.Update({{Indices{3}, Matrix(1, 3)}}, 1).ok());
  EXPECT_LT(Values(table)[9], before[9]);
  EXPECT_EQ(Values(table)[10], before[10]);
}

TEST(EmbeddingTableTest, RefusesOptionsOutOfRange) {
  for (const auto& [rows, dimension, range] :
       std::vector<std::tuple<int64_t, int64_t, double>>{{0, 3, 0.1},
                                                         {-1, 3, 0.1},
                                                         {std::numeric_limits<int64_t>::max(), 3, 0.1},
                                                         {5, 0, 0.1},
                                                         {5, 4097, 0.1},
                                                         {5, 3, -0.1},
                                                         {5, 3, std::nan("")}}) {
    EmbeddingTable::Options options = SmallTable();
    options.rows = rows;
    options.dimension = dimension;
    options.initial_range = range;
    EXPECT_EQ(EmbeddingTable::Create(options).status().code(), absl::StatusCode::kInvalidArgument)
        << rows << " " << dimension << " " << range;
  }
}

TEST(EmbeddingTableTest, ReportsMemoryThatCannotBeHad) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer stops the process instead of throwing.";
#endif
  EmbeddingTable::Options options = SmallTable();
  options.rows = int64_t{1} << 48;
  const absl::Status status = EmbeddingTable::Create(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("no memory for 3 x 3377699720527872 bytes"));  // 2^48 * 3 * 4
}

TEST(EmbeddingTableTest, GatherRefusesIndicesOutsideTheTable) {
  EmbeddingTable table = MakeTable(SmallTable());
  Matrix out(1, 3);
  EXPECT_EQ(table.Gather({50}, ParameterUse::kTraining, out).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(table.Gather({-1}, ParameterUse::kTraining, out).code(), absl::StatusCode::kInvalidArgument);
}

TEST(EmbeddingTableTest, GatherRefusesShapesThatDoNotFit) {
  EmbeddingTable table = MakeTable(SmallTable());
  Matrix narrow(2, 5);
  EXPECT_EQ(table.Gather({1, 2, 3}, ParameterUse::kTraining, narrow).code(),
            absl::StatusCode::kInvalidArgument);  // Not a multiple of 2.
  EXPECT_EQ(table.Gather({1, 2, 3, 4}, ParameterUse::kTraining, narrow).code(),
            absl::StatusCode::kInvalidArgument);  // Needs 6 columns.
  Matrix empty;
  EXPECT_EQ(table.Gather({1}, ParameterUse::kTraining, empty).code(), absl::StatusCode::kInvalidArgument);
}

TEST(EmbeddingTableTest, ARefusedUpdateChangesNothing) {
  EmbeddingTable table = MakeTable(SmallTable());
  EmbeddingTable twin = MakeTable(SmallTable());
  std::mt19937 generator(1);
  const Matrix gradient = RandomMatrix(2, 3, generator);
  EXPECT_EQ(table.Update({{Indices{3, 50}, gradient}}, 1).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(table.Update({{Indices{1, 2, 3, 4}, gradient}}, 1).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(table.Update({{Indices{3, 4}, gradient}}, 1).ok());
  ASSERT_TRUE(twin.Update({{Indices{3, 4}, gradient}}, 1).ok());
  EXPECT_THAT(Values(table), ElementsAreArray(Values(twin)));  // The step count included.
}

}  // namespace
}  // namespace splitveil
