#include "deploy/operator/preparation/synthetic_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "deploy/operator/preparation/prepare.h"
#include "deploy/operator/preparation/seeded_draws.h"
#include "deploy/operator/preparation/synthetic_criteo.h"

#include "common/config/text_config.h"
#include "common/crypto/sha256.h"
#include "common/dataset/dataset.h"
#include "common/dataset/features.h"
#include "tests/testing/scratch_folder.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

SyntheticTableOptions OptionsFor(const ScratchFolder& folder, Task::Kind kind, int64_t rows, uint64_t seed = 1) {
  return {kind, folder.Path("table"), folder.Path("schema"), rows, seed};
}

// Both parties' data of a generated table of `rows` rows, each held by both, by the schema that was written beside it.
struct Prepared {
  explicit Prepared(Task::Kind kind, int64_t rows = 20000) {
    const ScratchFolder folder;
    made = *GenerateSyntheticTable(OptionsFor(folder, kind, rows));
    PrepareOptions options;
    options.rows.input_paths = {folder.Path("table")};
    const absl::Status read = LoadTextConfig(folder.Path("schema"), options.rows.schema);
    EXPECT_TRUE(read.ok()) << read;
    options.out_dir = folder.Path("out");
    options.only_label_fraction = options.only_nonlabel_fraction = 0;
    absl::StatusOr<PrepareResult> result = Prepare(options);
    EXPECT_TRUE(result.ok()) << result.status();
    prepared = *std::move(result);
    label = *Dataset::Open(prepared.parties[0].path);
    nonlabel = *Dataset::Open(prepared.parties[1].path);
  }

  SyntheticTableResult made;
  PrepareResult prepared;
  std::shared_ptr<const Dataset> label, nonlabel;
};

// Correlation of a party's number `column` with the `outcome` of each row of the label party, by id.
double Correlation(const Dataset& label, const Dataset& party, int column, const std::vector<double>& outcome) {
  std::vector<uint32_t> row_of_id(static_cast<size_t>(party.rows()));
  for (uint32_t row = 0; row < party.rows(); ++row) {
    row_of_id[std::stoul(std::string(party.ids()[row])) - 1] = row;
  }
  double n = 0, x = 0, y = 0, xx = 0, yy = 0, xy = 0;
  for (uint32_t row = 0; row < label.rows(); ++row) {
    const uint32_t other = row_of_id[std::stoul(std::string(label.ids()[row])) - 1];
    const double number = party.Gather({other}).numeric.row(0)[column];
    n += 1;
    x += number;
    y += outcome[row];
    xx += number * number;
    yy += outcome[row] * outcome[row];
    xy += number * outcome[row];
  }
  return (n * xy - x * y) / std::sqrt((n * xx - x * x) * (n * yy - y * y));
}

double StrongestCorrelation(const Dataset& label, const Dataset& party, const std::vector<double>& outcome) {
  double strongest = 0;
  for (int column = 0; column < party.preprocessing().numeric_size(); ++column) {
    strongest = std::max(strongest, std::abs(Correlation(label, party, column, outcome)));
  }
  return strongest;
}

TEST(BayesRSquaredTest, EqualsTheMeanOverDrawnTargets) {
  // 1 - mean squared error about the means / mean squares about the drawn targets' own mean, over 200,000 draws.
  const std::vector<double> means = {0.1, 0.5, 0.5, 0.9}, reaches = {0.1, 0.5, 0.2, 0.1};
  std::vector<double> variances;
  for (const double reach : reaches) {
    variances.push_back(reach * reach / 3);
  }
  SeededDraws draws(3, 0);
  double errors = 0, squares = 0;
  for (int draw = 0; draw < 200000; ++draw) {
    std::array<double, 4> targets;
    double mean = 0;
    for (size_t i = 0; i < targets.size(); ++i) {
      targets[i] = means[i] + reaches[i] * (2 * draws.Uniform() - 1);
      mean += targets[i] / 4;
    }
    for (size_t i = 0; i < targets.size(); ++i) {
      errors += (targets[i] - means[i]) * (targets[i] - means[i]);
      squares += (targets[i] - mean) * (targets[i] - mean);
    }
  }
  EXPECT_NEAR(BayesRSquared(means, variances), 1 - errors / squares, 2e-3);
}

TEST(BayesRSquaredTest, IsOneWithoutNoiseAndNanWithoutSpread) {
  EXPECT_EQ(BayesRSquared({0.2, 0.4}, {0, 0}), 1);
  EXPECT_TRUE(std::isnan(BayesRSquared({0.3, 0.3}, {0, 0})));
  EXPECT_TRUE(std::isnan(BayesRSquared({}, {})));
  EXPECT_TRUE(std::isnan(BayesRSquared({0.3}, {1})));
}

TEST(BayesMacroAucTest, IsTheMeanOverTheClassesThatHaveOne) {
  const std::vector<double> first = {0.1, 0.6, 0.3}, second = {0.9, 0.4, 0.7}, never = {0, 0, 0};
  EXPECT_DOUBLE_EQ(BayesMacroAuc({first, second}), (BayesAuc(first) + BayesAuc(second)) / 2);
  EXPECT_DOUBLE_EQ(BayesMacroAuc({first, never}), BayesAuc(first));
  EXPECT_TRUE(std::isnan(BayesMacroAuc({never, never})));
}

TEST(SyntheticTableTest, OfSeveralClassesIsPreparedAsItIs) {
  const Prepared data(Task::Kind::kMultiClass);
  EXPECT_EQ(data.prepared.rows, 20000);
  EXPECT_EQ(data.prepared.class_rows, data.made.class_rows);
  ASSERT_THAT(data.made.class_rows, SizeIs(5));
  EXPECT_GT(*std::min_element(data.made.class_rows.begin(), data.made.class_rows.end()), 1000);
  EXPECT_NEAR(data.made.bayes_macro_auc, 0.85, 0.01);
  EXPECT_EQ(data.label->task().classes, 5);
  EXPECT_EQ(data.label->preprocessing().numeric_size(), 3);
  EXPECT_EQ(data.label->preprocessing().categorical_size(), 1);
  EXPECT_EQ(data.nonlabel->preprocessing().numeric_size(), 5);
  EXPECT_EQ(data.nonlabel->preprocessing().categorical_size(), 3);
}

TEST(SyntheticTableTest, OfARegressionIsPreparedAsItIs) {
  const Prepared data(Task::Kind::kRegression);
  EXPECT_EQ(data.prepared.rows, 20000);
  EXPECT_EQ(data.prepared.clipped_targets, 0);
  EXPECT_NEAR(data.prepared.target_mean, data.made.target_mean, 1e-4);  // Written with two decimals.
  EXPECT_NEAR(data.made.bayes_r_squared, 0.71, 0.01);
  EXPECT_EQ(data.label->targets().size(), 20000);
}

// 20,000 rows: a correlation of 0.04 is 5.6 standard deviations of one between independent columns.
TEST(SyntheticTableTest, BothPartiesColumnsTellWhatIsPredicted) {
  const Prepared classes(Task::Kind::kMultiClass), numbers(Task::Kind::kRegression);
  std::vector<double> targets(numbers.label->targets().begin(), numbers.label->targets().end());
  EXPECT_GT(StrongestCorrelation(*numbers.label, *numbers.label, targets), 0.1);
  EXPECT_GT(StrongestCorrelation(*numbers.label, *numbers.nonlabel, targets), 0.1);
  for (int label = 0; label < 5; ++label) {
    std::vector<double> members;
    for (const uint8_t found : classes.label->labels()) {
      members.push_back(found == label ? 1 : 0);
    }
    EXPECT_GT(StrongestCorrelation(*classes.label, *classes.label, members), 0.04) << label;
    EXPECT_GT(StrongestCorrelation(*classes.label, *classes.nonlabel, members), 0.04) << label;
  }
}

// Pinned: data generated elsewhere or by a later version must not differ unnoticed.
TEST(SyntheticTableTest, GivesTheSameBytesEverywhere) {
  const auto digest = [](Task::Kind kind) {
    const ScratchFolder folder;
    EXPECT_TRUE(GenerateSyntheticTable(OptionsFor(folder, kind, 1000)).ok());
    const Digest sha256 = Sha256(folder.Read("table") + folder.Read("schema"));
    return absl::BytesToHexString(AsBytes(sha256));
  };
  EXPECT_EQ(digest(Task::Kind::kMultiClass), "9bd16e611a1945cdedc38beea6b6601ff704ca289f06dff1bddb2048cac9be53");
  EXPECT_EQ(digest(Task::Kind::kRegression), "6448a04a32e11ff88b700e4544dbb02ed2aad5a18184a153b07915552d571b98");
}

TEST(SyntheticTableTest, AnotherSeedGivesOtherRowsOfTheSameLaw) {
  const ScratchFolder one, two;
  for (const Task::Kind kind : {Task::Kind::kMultiClass, Task::Kind::kRegression}) {
    const auto first = GenerateSyntheticTable(OptionsFor(one, kind, 20000, 1));
    const auto second = GenerateSyntheticTable(OptionsFor(two, kind, 20000, 2));
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_NE(one.Read("table"), two.Read("table"));
    EXPECT_EQ(one.Read("schema"), two.Read("schema"));
    if (kind == Task::Kind::kMultiClass) {
      EXPECT_NEAR(first->bayes_macro_auc, second->bayes_macro_auc, 0.01);
    } else {
      EXPECT_NEAR(first->bayes_r_squared, second->bayes_r_squared, 0.01);
    }
  }
}

TEST(SyntheticTableTest, FailsOnOptionsOutOfRangeAndLeavesNothing) {
  const ScratchFolder folder;
  const auto refused = [](const SyntheticTableOptions& options) {
    return GenerateSyntheticTable(options).status().code() == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused(OptionsFor(folder, Task::Kind::kMultiClass, 0)));
  EXPECT_TRUE(refused(OptionsFor(folder, Task::Kind::kBinary, 10)));
  SyntheticTableOptions options = OptionsFor(folder, Task::Kind::kRegression, 10);
  options.schema_path = folder.Path("absent/schema");
  EXPECT_TRUE(refused(options));
  options.schema_path = options.path;
  EXPECT_THAT(std::string(GenerateSyntheticTable(options).status().message()), HasSubstr("another file"));
  options.path = folder.Path("absent/table");
  EXPECT_TRUE(refused(options));
  EXPECT_THAT(folder.Names(), IsEmpty());
}

}  // namespace
}  // namespace splitveil
