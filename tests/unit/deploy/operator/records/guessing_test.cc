#include "deploy/operator/records/guessing.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

namespace splitveil {
namespace {

RunRecords RunOfBatches(const std::vector<int64_t>& sizes, double share) {
  RunRecords run;
  PartyRecords& party = run.parties.emplace_back();
  party.record.run.role = "label_party";
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto step = static_cast<int64_t>(i);
    party.steps.push_back({step, 0, step, sizes[i], 0.5, 0.1, 0, 0});
    ProtectionRow row = {step, "none", 0, 0, 0, share, 0, 0, 0, 0, 0, 0, 1, v1::RELEASE};
    party.protections.push_back(row);
  }
  return run;
}

TEST(GuessingTest, OfARunIsThatOfItsMeanBatch) {
  const Guessing guessing = GuessingOf(RunOfBatches({1024, 1024, 952}, 0.25));
  EXPECT_DOUBLE_EQ(guessing.p95, GuessingOver(250, 750).p95);
  EXPECT_DOUBLE_EQ(guessing.mean, GuessingOver(250, 750).mean);
}

// The RESULT line counts the same, so that both say the same.
TEST(GuessingTest, TakesTheShareOfPositivesFromTheEpochsBeforeTheSteps) {
  RunRecords run = RunOfBatches({1024}, 0.5);
  EXPECT_DOUBLE_EQ(GuessingOf(run).p95, GuessingOver(512, 512).p95);
  EpochLeakRow row;
  row.examples = 4000;
  row.positives = 1000;
  run.parties[0].epoch_leaks.push_back(row);
  EXPECT_DOUBLE_EQ(GuessingOf(run).p95, GuessingOver(256, 768).p95);
}

TEST(GuessingTest, OfAnUnknownShareIsUnknown) {
  EXPECT_TRUE(std::isnan(GuessingOf(RunOfBatches({1024}, std::numeric_limits<double>::quiet_NaN())).p95));
}

TEST(GuessingTest, OfARunWithoutStepsIsUnknown) { EXPECT_TRUE(std::isnan(GuessingOf(RunOfBatches({}, 0.25)).mean)); }

}  // namespace
}  // namespace splitveil
