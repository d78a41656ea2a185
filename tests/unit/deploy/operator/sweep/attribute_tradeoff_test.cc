#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "deploy/operator/sweep/tradeoff.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace splitveil {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

AttributeFigure Figure(const std::string& attack, double accuracy, bool is_highest = false) {
  AttributeFigure figure;
  figure.leak = {19,   attack,         "sex",           is_highest ? "training" : "test",
                 1000, accuracy,       accuracy - 0.01, accuracy + 0.01,
                 0.67, accuracy - 0.05};
  figure.is_highest = is_highest;
  return figure;
}

SweptRun RunOf(const std::string& name, const std::string& protection, uint64_t seed, double test_accuracy,
               std::vector<AttributeFigure> figures) {
  SweptRun run;
  run.run.protection.name = name;
  run.run.protection.family = "none";
  run.run.seed = seed;
  run.run.agreement.set_cut_layer("second");
  run.run.agreement.set_cut_width(8);
  run.run.variant.activation_name = name;
  run.run.variant.activations.emplace();
  run.test_accuracy = test_accuracy;
  run.attributes.emplace();
  run.attributes->protection = protection;
  run.attributes->figures = std::move(figures);
  return run;
}

std::vector<SweptRun> Runs() {
  return {RunOf("open", "none", 1, 0.84, {Figure("basic", 0.80), Figure("poison", 0.77, true)}),
          RunOf("pareto", "pareto(threshold=0.005, slack=0.5, noise_sigma=1)", 1, 0.83,
                {Figure("poison", 0.69, true), Figure("basic", 0.68)}),
          RunOf("pareto", "pareto(threshold=0.005, slack=0.5, noise_sigma=1)", 2, 0.81,
                {Figure("basic", 0.71), Figure("poison", 0.68, true)})};
}

TEST(AttributeTradeoffTest, SaysNothingOfRunsThatSayNothingOfAttributes) {
  std::vector<SweptRun> runs(1);
  runs.front().attributes.emplace();
  runs.front().attributes->protection = "none";
  EXPECT_FALSE(HasOtherDirection(runs));
  EXPECT_THAT(SummarizeAttributes(runs), IsEmpty());
  EXPECT_THAT(AttributeColumns(runs), IsEmpty());
  EXPECT_THAT(AttributeCells(runs, runs.front()), IsEmpty());
  EXPECT_EQ(AttributeSummary(runs), "");
  EXPECT_TRUE(AttributeTradeoffJson(runs).is_null());
}

TEST(AttributeTradeoffTest, TakesEachSeedsStrongestAttackAndNamesTheStrongestOfAll) {
  const std::vector<AttributePoint> points = SummarizeAttributes(Runs());
  ASSERT_THAT(points, SizeIs(2));
  EXPECT_EQ(points[1].method, "pareto");
  EXPECT_EQ(points[1].seeds, 2);
  EXPECT_NEAR(points[1].test_accuracy.mean, 0.82, 1e-12);
  ASSERT_THAT(points[1].attributes, SizeIs(1));
  const AttributeSpread& sex = points[1].attributes.front();
  EXPECT_EQ(sex.strongest.attack, "basic");
  EXPECT_NEAR(sex.strongest.accuracy.mean, 0.70, 1e-12);  // 0.69 by poison and 0.71 by basic.
  EXPECT_NEAR(sex.strongest.accuracy.min, 0.69, 1e-12);
  EXPECT_NEAR(sex.strongest.accuracy.max, 0.71, 1e-12);
  EXPECT_NEAR(sex.floor.mean, 0.67, 1e-12);
  ASSERT_THAT(sex.attacks, SizeIs(2));
  EXPECT_EQ(sex.attacks[0].attack, "basic");  // 0.695 on average, poison 0.685.
  EXPECT_NEAR(sex.attacks[0].advantage.mean, 0.025, 1e-12);
  EXPECT_TRUE(sex.attacks[1].is_highest);
}

TEST(AttributeTradeoffTest, PutsEveryAttackIntoTheCsv) {
  const std::vector<SweptRun> runs = Runs();
  EXPECT_THAT(AttributeColumns(runs), ElementsAre("activation_protection", "cut_layer", "cut_width", "test_accuracy",
                                                  "proved_attribute_auc_bound", "largest_privacy_loss", "sex_attack",
                                                  "sex_accuracy", "sex_floor", "sex_auc", "sex_advantage",
                                                  "sex_basic_test_accuracy", "sex_poison_training_accuracy"));
  EXPECT_THAT(AttributeCells(runs, runs[1]),
              ElementsAre("\"pareto(threshold=0.005, slack=0.5, noise_sigma=1)\"", "second", "8", "0.83", "", "",
                          "poison@training", "0.69", "0.67", "0.64", "0.02", "0.68", "0.69"));
  SweptRun lost = runs[0];
  lost.attributes.reset();  // Somebody took the non-label party's ledger away.
  EXPECT_THAT(AttributeCells(runs, lost), ElementsAre("", "second", "8", "0.84", "", "", "", "", "", "", "", "", ""));
  const std::vector<std::string> lines = absl::StrSplit(SweepCsv(runs), '\n', absl::SkipEmpty());
  ASSERT_THAT(lines, SizeIs(4));
  EXPECT_THAT(lines[0], HasSubstr("seconds,activation_protection,"));
}

TEST(AttributeTradeoffTest, SaysWhatIsProvedAndWhatIsNot) {
  std::vector<SweptRun> runs = Runs();
  runs.push_back(RunOf("gaussian", "gaussian(clip_norm=1, noise_sigma=10)", 1, 0.80, {Figure("basic", 0.67)}));
  runs.back().attributes->bound = ActivationBoundRow{20, 0.894, 0.736};
  EXPECT_THAT(AttributeSummary(runs),
              AllOf(HasSubstr("AUC at most 0.736"), HasSubstr("0.700 (0.690 to 0.710)"), HasSubstr("basic at test")));
  const Json page = AttributeTradeoffJson(runs);
  EXPECT_EQ(page["points"][0]["proved_words"], "not protected");
  EXPECT_EQ(page["points"][1]["proved_words"], "measured only: a heuristic");
  EXPECT_EQ(page["points"][2]["proved_words"], "AUC at most 0.736 in one run");
  EXPECT_EQ(page["points"][1]["attributes"]["sex"]["strongest"]["title"], "Black-box decoder");
  EXPECT_TRUE(page["cuts"].is_null());
}

TEST(AttributeTradeoffTest, PlotsBothDirectionsAgainstTheCut) {
  std::vector<SweptRun> runs;
  for (const char* cut : {"first", "second"}) {
    for (const char* name : {"none", "pareto"}) {
      runs.push_back(RunOf(std::string(name) + ", cut " + cut, "none", 1, 0.8, {Figure("basic", 0.7)}));
      runs.back().run.variant.cut_layer = cut;
      runs.back().run.agreement.set_cut_layer(cut);
    }
  }
  runs.push_back(runs.front());
  runs.back().run.protection.name = "frozen, cut first";
  runs.back().run.protection.reference = Reference::kFrozen;
  EXPECT_TRUE(VariesCut(runs));
  const Json cuts = AttributeTradeoffJson(runs)["cuts"];
  EXPECT_EQ(cuts["names"], Json({"first", "second"}));
  EXPECT_EQ(cuts["charts"], Json({{{"title", "none"}, {"points", {0, 2}}}, {{"title", "pareto"}, {"points", {1, 3}}}}));
}

TEST(AttributeTradeoffTest, KeepsGainsOfDifferentCutsApart) {
  std::vector<SweptRun> runs;
  double quality = 0.8;
  for (const char* cut : {"first", "second"}) {
    for (const Reference reference : {Reference::kNone, Reference::kFrozen}) {
      runs.push_back(
          RunOf(std::string(reference == Reference::kNone ? "none" : "frozen") + ", cut " + cut, "none", 1, 0.8, {}));
      runs.back().run.protection.reference = reference;
      runs.back().run.variant.cut_layer = cut;
      runs.back().figures.test.auc = reference == Reference::kNone ? quality : 0.7;
    }
    quality += 0.1;
  }
  EXPECT_NEAR(GainOf(runs, "first").gain().mean, 0.1, 1e-12);
  EXPECT_NEAR(GainOf(runs, "second").gain().mean, 0.2, 1e-12);
  EXPECT_THAT(GainWords(runs), AllOf(HasSubstr("Cut after first: "), HasSubstr("Cut after second: ")));
  EXPECT_THAT(TradeoffPage(runs, 4), Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace splitveil
