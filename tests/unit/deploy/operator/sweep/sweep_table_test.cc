#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "deploy/operator/sweep/tradeoff.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace splitveil {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

AttackFigure Leak(const std::string& layer, const std::string& attack, double mean, double p95) {
  return {layer, attack, "label_party", {mean, 0, p95, 10}};
}

SweptRun RunOf(const std::string& name, std::optional<double> parameter, uint64_t seed, double test_auc, double leak) {
  SweptRun swept;
  swept.run.protection = {name, parameter ? "marvell_s" : "none", parameter, {}};
  swept.run.protection.reference = parameter ? Reference::kNo : Reference::kNone;
  swept.run.name = name + "-folder";
  swept.run.seed = seed;
  swept.run.nonlabel_config.mutable_model()->add_layers()->set_name("first");
  swept.figures.test.auc = test_auc;
  swept.figures.final_test.auc = 0.73;
  swept.figures.test.log_loss = 0.5;
  swept.figures.run_auc_bound = 0.9;
  swept.figures.sum_kl_mean = 0.25;
  swept.figures.steps = 595;
  swept.figures.seconds = 28.5;
  swept.figures.attacks = swept.recorded.attacks = {Leak("cut", "norm", leak - 0.1, leak)};
  swept.recorded.of_label_party = swept.recorded.bound_tested = true;
  swept.recorded.guessing = Guessing{0.517, 0.541};
  swept.recorded.protection = parameter ? "marvell(s=4)" : "none";
  swept.recorded.run_auc_bound = 0.9;
  if (parameter) {
    swept.recorded.worst_case = Leak("cut", "conditional_likelihood_ratio", 0.5, 0.55);
  }
  return swept;
}

std::vector<SweptRun> Runs() {
  return {RunOf("none", std::nullopt, 1, 0.75, 1.0), RunOf("s4", 4, 1, 0.74, 0.6), RunOf("s4", 4, 2, 0.72, 0.7),
          RunOf("s9", 9, 1, 0.70, 0.8)};
}

// Without gradients no attack has anything to read.
SweptRun FrozenRun(uint64_t seed, double test_auc) {
  SweptRun swept = RunOf("frozen", std::nullopt, seed, test_auc, 0.5);
  swept.run.protection.family = "frozen";
  swept.run.protection.reference = Reference::kFrozen;
  swept.figures.attacks.clear();
  swept.recorded = RunFigures();
  return swept;
}

TEST(SweepCsvTest, HasOneLineARun) {
  std::vector<SweptRun> runs = Runs();
  runs.push_back(FrozenRun(1, 0.70));
  const std::vector<std::string> lines = absl::StrSplit(SweepCsv(runs), '\n', absl::SkipEmpty());
  const std::string not_exceeded = "not exceeded by the attacks run here";
  const std::string holds = ",,conditional_likelihood_ratio@cut,0.55,,not refuted";
  EXPECT_THAT(
      lines,
      ElementsAre(
          "run,protection,parameter,seed,strongest_attack,strongest_auc,strongest_tpr_at_1pct_fpr,"
          "strongest_tpr_at_01pct_fpr,practical_attack,practical_auc,"
          "with_side_information_attack,with_side_information_auc,no_gradient_attack,no_gradient_auc,guessing_auc_p95,"
          "guessing_auc_mean,bound,"
          "proved_auc_bound,worst_case_attack,worst_case_auc,worst_case_tpr_at_1pct_fpr,verdict,test_auc,frozen_test_"
          "auc,none_test_auc,gain_"
          "kept,final_test_auc,test_log_loss,steps,cut_norm_mean,"
          "cut_norm_p95,run_auc_bound,auc_bound_p95,sum_kl_mean,seconds",
          "none-folder,none,,1,norm@cut,1,,,norm@cut,1,,,,,0.541,0.517,none stated,,,,,nothing "
          "claimed,0.75,0.7,0.75,1,0.73,0.5,595,0.9,1,"
          "0.9,,0.25,28.5",
          "s4-folder,marvell_s,4,1,norm@cut,0.6,,,norm@cut,0.6,,,,,0.541,0.517," + not_exceeded + holds +
              ",0.74,0.7,0.75,0.8,0.73,0.5,595,0.5,0.6,0.9,,0.25,28.5",
          "s4-folder,marvell_s,4,2,norm@cut,0.7,,,norm@cut,0.7,,,,,0.541,0.517," + not_exceeded + holds +
              ",0.72,,,,0.73,0.5,595,0.6,0.7,0.9,,0.25,28.5",
          "s9-folder,marvell_s,9,1,norm@cut,0.8,,,norm@cut,0.8,,,,,0.541,0.517," + not_exceeded + holds +
              ",0.7,0.7,0.75,0,0.73,0.5,595,0.7,0.8,0.9,,0.25,28.5",
          "frozen-folder,frozen,,1,,,,,,,,,,,,,not measurable from this ledger,,,,,not "
          "known,0.7,0.7,0.75,0,0.73,0.5,595,,,0.9,,0.25,"
          "28.5"));
}

TEST(SweepCsvTest, LeavesOutSharesOfAGainWithinNoise) {
  std::vector<SweptRun> runs = {RunOf("none", std::nullopt, 1, 0.750, 1), RunOf("none", std::nullopt, 2, 0.741, 1),
                                RunOf("s4", 4, 1, 0.745, 0.6), FrozenRun(1, 0.740), FrozenRun(2, 0.745)};
  EXPECT_THAT(SweepCsv(runs), HasSubstr(",0.745,0.74,0.75,,0.73,"));
  EXPECT_THAT(SweepSummary(runs), HasSubstr("nothing that these seeds tell from noise"));
}

TEST(SweepCsvTest, LeavesACellEmptyThatOneRunDidNotMeasure) {
  std::vector<SweptRun> runs = {Runs()[0], Runs()[1]};
  runs[1].figures.attacks.clear();
  EXPECT_THAT(SweepCsv(runs), HasSubstr("0.74,,0.75,,0.73,0.5,595,,,0.9"));
}

TEST(SweepCsvTest, QuotesNamesThatWouldBreakTheTable) {
  std::vector<SweptRun> runs = {Runs()[0]};
  runs[0].figures.attacks[0].layer = "a,\"b\"";
  EXPECT_THAT(SweepCsv(runs), HasSubstr(",\"a,\"\"b\"\"_norm_mean\","));
  runs[0].recorded.attacks[0].layer = "a,\"b\"";
  EXPECT_THAT(SweepCsv(runs), HasSubstr(",1,\"norm@a,\"\"b\"\"\",1,,,\"norm@a,\"\"b\"\"\",1,"));
}

TEST(SweepSummaryTest, HasOneAlignedLineAProtection) {
  std::vector<SweptRun> runs = Runs();
  runs.push_back(FrozenRun(1, 0.70));
  runs[2].recorded.bound_exceeded = 1;
  runs[2].recorded.excesses = {{"cut", "norm", 0.7, 0.6, {1}, 1}};
  runs[2].recorded.attacks.insert(runs[2].recorded.attacks.begin(), Leak("first", "cosine", 0.8, 0.9));
  std::vector<std::string> lines = absl::StrSplit(SweepSummary(runs), '\n', absl::SkipEmpty());
  EXPECT_EQ(lines.back(), GainOf(runs).Words());
  lines.pop_back();
  std::vector<std::string> squeezed;  // Columns are aligned: two spaces or more between them.
  for (const std::string& line : lines) {
    EXPECT_EQ(line.size(), lines[0].size());
    squeezed.push_back(absl::StrJoin(absl::StrSplit(line, ' ', absl::SkipEmpty()), " "));
  }
  EXPECT_THAT(squeezed, ElementsAre("protection seeds strongest bound verdict worst case practical test AUC gain kept",
                                    "none 1 1.000 none nothing claimed - 1.000 0.750 1.00",
                                    "s4 2 0.750 exceeded broken (1 of 2 seeds) 0.550 0.650 0.730 0.80",
                                    "s9 1 0.800 not exceeded not refuted 0.550 0.800 0.700 0.00",
                                    "frozen 1 - nothing left no gradient released - - 0.700 0.00"));
}

TEST(SweepTableTest, ComparesRegressionsByRSquared) {
  std::vector<SweptRun> runs = {RunOf("none", std::nullopt, 1, 0.625, 1.0), FrozenRun(1, 0.375)};
  for (SweptRun& run : runs) {
    run.figures.test.r_squared = run.figures.test.auc;
    run.figures.test.rmse = 0.5;
  }
  EXPECT_THAT(SweepCsv(runs),
              HasSubstr(",test_r2,frozen_test_r2,none_test_r2,gain_kept,final_test_r2,test_rmse,steps,"));
  EXPECT_THAT(SweepSummary(runs), AllOf(HasSubstr("practical  test R^2  gain kept"),
                                        HasSubstr("test R^2 0.3750 frozen at its start, 0.6250 without protection")));
  EXPECT_EQ(TradeoffJson(runs, 2)["quality"], "R^2");
  EXPECT_EQ(TradeoffJson(runs, 2)["loss"], "RMSE");
  EXPECT_THAT(SweepSummary(Runs()), HasSubstr("test AUC"));
  EXPECT_EQ(TradeoffJson(Runs(), 2)["quality"], "AUC");
}

TEST(SweepSummaryTest, SaysWhatIsProvedAndTheLeastOfItsVerdicts) {
  std::vector<SweptRun> runs = {RunOf("noised", 0.7, 1, 0.74, 0.6), RunOf("noised", 0.7, 2, 0.74, 0.6)};
  for (SweptRun& run : runs) {
    run.recorded.protection = "gaussian_label_dp(sigma=2)";
    run.recorded.run_auc_bound = 0.7;
    run.recorded.claim_check.emplace().claimed_mu = 0.5;
    run.recorded.claim_check->half_noise_mu_lower = 0.8;
  }
  EXPECT_THAT(SweepSummary(runs), HasSubstr("guaranteed       0.550      0.600  "));
  EXPECT_EQ(TradeoffJson(runs, 2)["points"][0]["verdict"], "guaranteed");
  EXPECT_EQ(TradeoffJson(runs, 2)["points"][0]["proved_auc_bound"]["mean"], 0.7);
  EXPECT_EQ(TradeoffJson(runs, 2)["points"][0]["worst_case"]["auc"]["mean"], 0.55);
  runs[1].recorded.claim_check.reset();
  EXPECT_THAT(SweepSummary(runs), HasSubstr("proved, not checked (1 of 2 seeds)"));
  EXPECT_FALSE(TradeoffJson(runs, 2)["points"][0]["broken"]);
  runs[0].recorded.claim_check->failing_mu_lower = 0.6;
  EXPECT_THAT(SweepSummary(runs), HasSubstr("broken (1 of 2 seeds)"));
  EXPECT_TRUE(TradeoffJson(runs, 2)["points"][0]["broken"]);
}

TEST(SweepSummaryTest, GivesAShareItsSpreadOverSeeds) {
  EXPECT_THAT(SweepSummary({RunOf("none", std::nullopt, 1, 0.72, 1), RunOf("none", std::nullopt, 2, 0.73, 1),
                            FrozenRun(1, 0.62), FrozenRun(2, 0.63), RunOf("s4", 4, 1, 0.70, 0.6),
                            RunOf("s4", 4, 2, 0.69, 0.6)}),
              HasSubstr("0.70 (0.60 to 0.80)"));
}

TEST(TradeoffJsonTest, MarksTheFrontAndOrdersEachLineByItsParameter) {
  std::vector<SweptRun> runs = Runs();
  std::swap(runs[1], runs[3]);  // s=9 comes first.
  const Json page = TradeoffJson(runs, 5);
  EXPECT_THAT(page["words"].get<std::string>(), HasSubstr("4 of 5 runs finished: 3 protections, seeds 1, 2;"));
  ASSERT_THAT(page["families"], SizeIs(2));
  EXPECT_EQ(page["families"][1]["points"], Json({2, 1}));
  ASSERT_THAT(page["charts"], SizeIs(3));  // The strongest attack twice, then norm at the cut.
  // None trains best, s=4 leaks least, s=9 is worse than s=4 in both.
  EXPECT_EQ(page["charts"][0]["metric"], "test_quality");
  EXPECT_EQ(page["charts"][0]["front"], Json({true, false, true}));
  EXPECT_EQ(page["points"][2]["test_quality"]["min"], 0.72);
}

TEST(TradeoffJsonTest, StatesTheGainAndTheShareKept) {
  std::vector<SweptRun> runs = Runs();
  runs.push_back(FrozenRun(1, 0.735));
  const Json page = TradeoffJson(runs, 5);
  EXPECT_THAT(page["words"].get<std::string>(), HasSubstr("5 of 5 runs finished: 3 protections, "));
  EXPECT_EQ(page["gain"], GainOf(runs).Words());
  ASSERT_THAT(page["points"], SizeIs(4));
  EXPECT_NEAR(page["points"][1]["gain_kept"]["mean"].get<double>(), 1. / 3, 1e-5);  // As many digits as a page gets.
  EXPECT_EQ(page["points"][1]["frozen_quality"]["mean"], 0.735);
  EXPECT_EQ(page["points"][1]["none_quality"]["mean"], 0.75);
  EXPECT_EQ(page["points"][1]["frozen"], false);
  EXPECT_EQ(page["points"][3]["frozen"], true);
  // Frozen leaks least; s=4 (0.73 on average) leaks more and is worse, s=9 is worse than no training.
  EXPECT_EQ(page["charts"][0]["front"], Json({true, false, false, true}));
}

TEST(TradeoffJsonTest, AShareThatMeansNothingIsNull) {
  const Json page = TradeoffJson(Runs(), 5);
  EXPECT_TRUE(page["points"][1]["gain_kept"]["mean"].is_null());
  EXPECT_THAT(page["gain"].get<std::string>(), HasSubstr("not known yet"));
}

TEST(TradeoffJsonTest, WhatIsMissingIsNullAndOnNoFront) {
  std::vector<SweptRun> runs = {Runs()[0], Runs()[3]};
  runs[0].figures.test.log_loss.reset();
  runs[1].figures.attacks.clear();
  runs[1].recorded = RunFigures();
  const Json page = TradeoffJson(runs, 2);
  EXPECT_TRUE(page["points"][0]["test_loss"]["mean"].is_null());
  EXPECT_TRUE(page["points"][1]["leaks"][0]["p95"]["mean"].is_null());
  EXPECT_EQ(page["charts"][1]["front"], Json({false, false}));
}

TEST(TradeoffJsonTest, RanksByTheStrongestAttackWhicheverItIs) {
  std::vector<SweptRun> runs = {Runs()[1], Runs()[3]};
  // Norm reads little of s=4, another attack all.
  AttackFigure direction = {"cut", "direction", "label_party", {}, EpochLeakRow()};
  direction.last_epoch->auc = 1;
  direction.last_epoch->tpr_1pct = 0.5;
  direction.last_epoch->tpr_01pct = 0.25;
  runs[0].recorded.attacks.insert(runs[0].recorded.attacks.begin(), direction);
  const Json page = TradeoffJson(runs, 2);
  EXPECT_TRUE(page["charts"][0]["pair"].is_null());
  EXPECT_EQ(page["points"][0]["strongest"]["title"], "Line between the classes");
  EXPECT_EQ(page["points"][0]["strongest"]["auc"]["mean"], 1);
  EXPECT_EQ(page["points"][0]["strongest"]["tpr_1pct"]["mean"], 0.5);
  EXPECT_EQ(page["points"][0]["strongest"]["tpr_01pct"]["mean"], 0.25);
  EXPECT_TRUE(page["points"][1]["strongest"]["tpr_1pct"]["mean"].is_null());
  EXPECT_EQ(page["points"][0]["practical"]["title"], "Gradient length");
  EXPECT_EQ(page["points"][0]["bound_words"], "not exceeded by the attacks run here");
}

TEST(TradeoffJsonTest, OnlyFrozenIsDrawnAsNoProtection) {
  const Json page = TradeoffJson({Runs()[0], Runs()[1], FrozenRun(1, 0.7)}, 3);
  ASSERT_EQ(page["families"].size(), 3);
  for (const Json& family : page["families"]) {
    EXPECT_EQ(family["frozen"].get<bool>(), family["label"] == "Bottom model frozen at its start");
  }
}

TEST(TradeoffPageTest, CannotBeLeftThroughAName) {
  std::vector<SweptRun> runs = {Runs()[0]};
  runs[0].run.protection.name = "</script><b>&";
  EXPECT_THAT(TradeoffPage(runs, 1), Not(HasSubstr("</script><b>")));
  EXPECT_THAT(TradeoffPage(runs, 1), HasSubstr("\\u003c/script\\u003e\\u003cb\\u003e\\u0026"));
}

}  // namespace
}  // namespace splitveil
