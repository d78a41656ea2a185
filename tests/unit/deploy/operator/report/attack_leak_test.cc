#include "deploy/operator/report/attack_leak.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <vector>

#include "common/leakage/summary.h"

namespace splitveil {
namespace {

using testing::ElementsAre;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

LeakSeries Series(const std::string& layer, const std::string& attack, double auc) {
  LeakSeries series = {"nonlabel_party", layer, attack, {0, 1}, {auc, auc}, {}};
  series.summary = SummarizeLeak(series.aucs);
  return series;
}

EpochLeakRow Row(int64_t epoch, const std::string& layer, const std::string& attack, double auc, double bound = 1) {
  EpochLeakRow row;
  row.epoch = epoch;
  row.observer = "nonlabel_party";
  row.layer = layer;
  row.attack = attack;
  row.auc = row.auc_low = row.auc_high = auc;
  row.gaussian_auc_bound = bound;
  return row;
}

RunRecords Recorded(std::vector<LeakSeries> leaks, std::vector<EpochLeakRow> rows) {
  RunRecords run;
  run.parties.emplace_back();
  run.parties[0].leaks = std::move(leaks);
  run.parties[0].epoch_leaks = std::move(rows);
  return run;
}

std::vector<std::string> Names(const std::vector<AttackLeak>& leaks) {
  std::vector<std::string> names;
  for (const AttackLeak& leak : leaks) {
    names.push_back(leak.layer + "/" + leak.attack);
  }
  return names;
}

TEST(AttackLeakTest, JoinsBatchesAndEpochsOfAnAttack) {
  const RunRecords run =
      Recorded({Series("cut", "norm", 0.6)}, {Row(0, "cut", "norm", 0.7), Row(1, "cut", "norm", 0.8)});
  const std::vector<AttackLeak> leaks = AttackLeaks(run);
  ASSERT_EQ(leaks.size(), 1);
  EXPECT_TRUE(leaks[0].has_batches());
  ASSERT_EQ(leaks[0].epochs.size(), 2);
  EXPECT_DOUBLE_EQ(leaks[0].strength(), 0.8);
  EXPECT_DOUBLE_EQ(leaks[0].exposure(), 0.8);
}

TEST(AttackLeakTest, PutsTheCutFirstThenTheStrongest) {
  const RunRecords run =
      Recorded({Series("alpha", "norm", 0.99), Series("cut", "cosine", 0.6), Series("cut", "norm", 0.55)},
               {Row(0, "cut", "spectral", 0.3), Row(0, "cut", "features_only", 0.9)});
  EXPECT_THAT(Names(AttackLeaks(run)),
              ElementsAre("cut/spectral", "cut/cosine", "cut/norm", "cut/features_only", "alpha/norm"));
}

TEST(AttackLeakTest, PutsTheAuditsRepetitionsLast) {
  LeakSeries repeated = Series("cut", "norm", 0.8), own = Series("cut", "direction", 0.9);
  repeated.observer = own.observer = "label_party";
  const RunRecords run = Recorded({Series("cut", "norm", 0.8), Series("cut", "cosine", 0.6), repeated, own}, {});
  const std::vector<AttackLeak> leaks = AttackLeaks(run);
  EXPECT_THAT(Names(leaks), ElementsAre("cut/direction", "cut/norm", "cut/cosine", "cut/norm"));
  EXPECT_EQ(leaks.back().observer, "label_party");
}

TEST(AttackLeakTest, CountsAScoreThatPointsTheWrongWay) {
  const RunRecords run = Recorded({}, {Row(0, "cut", "norm", 0.1)});
  EXPECT_DOUBLE_EQ(AttackLeaks(run).at(0).strength(), 0.9);
}

TEST(AttackLeakTest, AnAttackWithoutAFigureHasNoStrength) {
  const RunRecords run = Recorded({{"nonlabel_party", "cut", "norm", {}, {}, {}}}, {Row(0, "cut", "spectral", kNan)});
  const std::vector<AttackLeak> leaks = AttackLeaks(run);
  ASSERT_EQ(leaks.size(), 1);
  EXPECT_FALSE(leaks[0].has_batches());
  EXPECT_EQ(leaks[0].strength(), 0);
  EXPECT_EQ(leaks[0].exposure(), 0);
  EXPECT_TRUE(ChooseCharts({leaks}).empty());
}

TEST(AttackLeakTest, ChartsTheFiveStrongestOfOneRunAndTheTwoStrongestOfSeveral) {
  std::vector<LeakSeries> series;
  for (int i = 0; i < 9; ++i) {
    series.push_back(Series("cut", "attack_" + std::to_string(i), 0.5 + 0.05 * i));
  }
  const RunRecords run = Recorded(series, {});
  const std::vector<AttackLeak> leaks = AttackLeaks(run);
  EXPECT_THAT(ChooseCharts({leaks}).at(0).attacks,
              ElementsAre("attack_8", "attack_7", "attack_6", "attack_5", "attack_4"));
  EXPECT_THAT(ChooseCharts({leaks, leaks}).at(0).attacks, ElementsAre("attack_8", "attack_7"));
}

TEST(AttackLeakTest, ChartsAnAttackBeyondItsBoundBeforeStrongerOnes) {
  std::vector<LeakSeries> series;
  for (int i = 0; i < 9; ++i) {
    series.push_back(Series("cut", "attack_" + std::to_string(i), 0.5 + 0.05 * i));
  }
  EpochLeakRow beyond = Row(0, "cut", "attack_1", 0.55, 0.53);
  EXPECT_EQ(ChooseCharts({AttackLeaks(Recorded(series, {beyond}))}).at(0).attacks.front(), "attack_8");
  // Only the label party's own attacks show it: the attack module's scores may be made of anything.
  beyond.observer = series[1].observer = "label_party";
  EXPECT_EQ(ChooseCharts({AttackLeaks(Recorded(series, {beyond}))}).at(0).attacks.front(), "attack_1");
}

TEST(AttackLeakTest, ChartsFourLayersAtMostTheCutAmongThem) {
  std::vector<LeakSeries> series;
  for (const char* layer : {"a", "b", "c", "d", "e", "cut"}) {
    series.push_back(Series(layer, "norm", 0.6));
  }
  const RunRecords run = Recorded(series, {});
  const std::vector<ChartedLayer> charted = ChooseCharts({AttackLeaks(run)});
  ASSERT_EQ(charted.size(), 4);
  EXPECT_EQ(charted[0].layer, "cut");
}

TEST(AttackLeakTest, ChartsNothingOfNoRun) { EXPECT_TRUE(ChooseCharts({}).empty()); }

}  // namespace
}  // namespace splitveil
