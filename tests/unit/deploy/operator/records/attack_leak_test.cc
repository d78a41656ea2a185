#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <vector>

#include "deploy/operator/records/ledger_figures.h"

#include "tests/unit/deploy/operator/records/recorded_leaks.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<std::string> Names(const std::vector<AttackLeak>& leaks) {
  std::vector<std::string> names;
  for (const AttackLeak& leak : leaks) {
    names.push_back(leak.layer + "/" + leak.attack);
  }
  return names;
}

TEST(AttackLeakTest, JoinsBatchesAndEpochsOfAnAttack) {
  const LedgerRun run =
      Recorded({Series("cut", "norm", 0.6)}, {Row(0, "cut", "norm", 0.7), Row(1, "cut", "norm", 0.8)});
  const std::vector<AttackLeak> leaks = AttackLeaks(run);
  ASSERT_EQ(leaks.size(), 1);
  EXPECT_TRUE(leaks[0].has_batches());
  ASSERT_EQ(leaks[0].epochs.size(), 2);
  EXPECT_DOUBLE_EQ(leaks[0].typical_auc(), 0.8);
  EXPECT_DOUBLE_EQ(leaks[0].auc(), 0.8);
}

TEST(AttackLeakTest, PutsTheStrongestFirstWhateverItsLayer) {
  const LedgerRun run =
      Recorded({Series("alpha", "norm", 0.99), Series("cut", "cosine", 0.6), Series("cut", "norm", 0.55)},
               {Row(0, "cut", "spectral", 0.3), Row(0, "cut", "features_only", 0.9)});
  EXPECT_THAT(Names(AttackLeaks(run)),
              ElementsAre("alpha/norm", "cut/spectral", "cut/cosine", "cut/norm", "cut/features_only"));
}

TEST(AttackLeakTest, OrdersByTheWorstBatchesThenByTheUsualOnes) {
  LeakSeries steady = Series("cut", "steady", 0.9), wild = Series("cut", "wild", 0.5), usual = steady;
  wild.summary.p95 = 0.95;
  usual.attack = "usual";
  usual.summary.mean = 0.8;
  const LedgerRun run = Recorded({usual, steady, wild}, {});
  EXPECT_THAT(Names(AttackLeaks(run)), ElementsAre("cut/wild", "cut/steady", "cut/usual"));
}

TEST(AttackLeakTest, PutsTheWeakerFigureOfTwoObserversLast) {
  LeakSeries repeated = Series("cut", "norm", 0.79), own = Series("cut", "direction", 0.9);
  repeated.observer = own.observer = "label_party";
  const LedgerRun run = Recorded({Series("cut", "norm", 0.8), Series("cut", "cosine", 0.6), repeated, own}, {});
  const std::vector<AttackLeak> leaks = AttackLeaks(run);
  EXPECT_THAT(Names(leaks), ElementsAre("cut/direction", "cut/norm", "cut/cosine", "cut/norm"));
  EXPECT_EQ(leaks.back().observer, "label_party");
}

TEST(AttackLeakTest, CountsAScoreThatPointsTheWrongWay) {
  const LedgerRun run = Recorded({}, {Row(0, "cut", "norm", 0.1)});
  EXPECT_DOUBLE_EQ(AttackLeaks(run).at(0).auc(), 0.9);
}

TEST(AttackLeakTest, AnAttackWithoutAFigureHasNoStrength) {
  const LedgerRun run = Recorded({{"nonlabel_party", "cut", "norm", {}, {}, {}}}, {Row(0, "cut", "spectral", kNan)});
  const std::vector<AttackLeak> leaks = AttackLeaks(run);
  ASSERT_EQ(leaks.size(), 1);
  EXPECT_FALSE(leaks[0].has_batches());
  EXPECT_EQ(leaks[0].typical_auc(), 0);
  EXPECT_EQ(leaks[0].auc(), 0);
}

TEST(AttackLeakTest, ACumulativeAttackStandsByItsLastEpoch) {
  const LedgerRun run =
      Recorded({Series("cut", "cumulative_direction", 0.9)}, {Row(0, "cut", "cumulative_direction", 0.8)});
  EXPECT_DOUBLE_EQ(AttackLeaks(run).at(0).auc(), 0.8);
}

}  // namespace
}  // namespace splitveil
