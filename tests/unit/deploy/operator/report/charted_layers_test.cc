#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "deploy/operator/report/report_sections.h"

#include "tests/unit/deploy/operator/records/recorded_leaks.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;

TEST(ChartedLayersTest, ChartsTheFourStrongestOfOneRunAndTheTwoStrongestOfSeveral) {
  std::vector<LeakSeries> series;
  for (int i = 0; i < 9; ++i) {
    series.push_back(Series("cut", "attack_" + std::to_string(i), 0.5 + 0.05 * i));
  }
  const LedgerRun run = Recorded(series, {});
  const std::vector<AttackLeak> leaks = AttackLeaks(run);
  EXPECT_THAT(ChooseCharts({leaks}).at(0).attacks, ElementsAre("attack_8", "attack_7", "attack_6", "attack_5"));
  EXPECT_THAT(ChooseCharts({leaks, leaks}).at(0).attacks, ElementsAre("attack_8", "attack_7"));
}

TEST(ChartedLayersTest, ChartsAnAttackBeyondItsBoundBeforeStrongerOnes) {
  std::vector<LeakSeries> series;
  for (int i = 0; i < 9; ++i) {
    series.push_back(Series("cut", "attack_" + std::to_string(i), 0.5 + 0.05 * i));
  }
  EpochLeakRow beyond = Row(0, "cut", "attack_1", 0.55, 0.53);
  beyond.examples = 100'000;
  beyond.positives = 25'000;
  EXPECT_EQ(ChooseCharts({AttackLeaks(Recorded(series, {beyond}))}).at(0).attacks.front(), "attack_8");
  // Only the label party's own attacks show it: the attack module's scores may be made of anything.
  beyond.observer = series[1].observer = "label_party";
  EXPECT_EQ(ChooseCharts({AttackLeaks(Recorded(series, {beyond}))}).at(0).attacks.front(), "attack_1");
}

TEST(ChartedLayersTest, ChartsFourLayersAtMostTheCutAmongThem) {
  std::vector<LeakSeries> series;
  for (const char* layer : {"a", "b", "c", "d", "e", "cut"}) {
    series.push_back(Series(layer, "norm", 0.6));
  }
  const LedgerRun run = Recorded(series, {});
  const std::vector<ChartedLayer> charted = ChooseCharts({AttackLeaks(run)});
  ASSERT_EQ(charted.size(), 4);
  EXPECT_EQ(charted[0].layer, "cut");
}

TEST(ChartedLayersTest, ChartsNothingOfNoRun) { EXPECT_TRUE(ChooseCharts({}).empty()); }

}  // namespace
}  // namespace splitveil
