#include "common/operations/run_summary.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <vector>

namespace splitveil {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

EpochLeakRow Pooled(double auc) {
  EpochLeakRow row;
  row.auc = auc;
  return row;
}

AttackFigure Attack(const std::string& layer, const std::string& attack, double p95) {
  return {layer, attack, "", {0.5, 0, p95, 10}};
}

AttackFigure Attack(const std::string& layer, const std::string& attack, double p95, double pooled) {
  return {layer, attack, "", {0.5, 0, p95, 10}, Pooled(pooled)};
}

RunFigures LabelFigures() {
  RunFigures figures;
  figures.of_label_party = true;
  figures.run_id = "demo-1234";
  figures.ended = "completed";
  figures.protection = "marvell(s=4)";
  figures.epochs = 5;
  figures.steps = 680;
  figures.examples = 696320;
  figures.seconds = 23.2;
  figures.bytes_sent = 123456789;
  figures.bytes_received = 999;
  figures.test.auc = 0.74312;
  figures.test.log_loss = 0.4512;
  figures.best_epoch = 4;
  figures.kept_by = "test";
  figures.final_test.auc = 0.7425;
  figures.run_auc_bound = 0.786;
  figures.bound_tested = true;
  figures.gate = {{v1::RELEASE, 678}, {v1::WARN, 2}};
  figures.attacks = {Attack("cut", "cumulative_direction", 0.793, 0.782), Attack("cut", "cosine", 0.72),
                     Attack("cut", "norm", 0.58, 0.3), Attack("first", "norm", 0.6),
                     Attack("cut", "activation_clusters", 0.917)};
  figures.guessing = Guessing{0.517, 0.541};
  figures.worst_case = {"cut", "cumulative_conditional_likelihood_ratio", "label_party", {}, Pooled(0.259)};
  figures.claim_check.emplace();
  figures.claim_check->claimed_mu = 1.121;
  figures.claim_check->mu_lower = 0.9;
  figures.claim_check->confidence = 0.95;
  figures.claim_check->failing_mu_lower = 0.8;
  figures.claim_check->failing_confidence = 0.9999;
  figures.claim_check->half_noise_mu_lower = 1.7;
  return figures;
}

TEST(RunSummaryTest, AnswersFirstInTwelveLines) {
  EXPECT_EQ(
      RunSummaryTable(LabelFigures(), "out/label_party.result.json"),
      "run demo-1234 completed at the label party\n"
      "  verdict         not refuted; the bound: not exceeded by the attacks run here\n"
      "  promise         Not a promise: the worst attack measured tells apart two customers with different labels "
      "with 78.2% certainty. A limit of 78.6% is computed only for Gaussian classes and adversaries that use class "
      "moments alone, given the top model.\n"
      "  proved          nothing; conditional: AUC at most 0.786 over the whole run\n"
      "  worst case      0.741 measured over all epochs, held against the bound: "
      "cumulative_conditional_likelihood_ratio\n"
      "  practical       0.700 measured, no side information: norm at cut\n"
      "  test AUC        0.7431 (best, chosen on the test part itself, after epoch 4, which is kept; last 0.7425)\n"
      "  test log loss   0.4512\n"
      "  protection      marvell(s=4)\n"
      "  training        5 epochs, 680 steps, 696320 examples in 23.2 s (30014 per second)\n"
      "  release gate    678 release, 2 warn\n"
      "  all figures     out/label_party.result.json\n");
}

TEST(RunSummaryTest, AFigureThatMayBeAboveAProvedBoundSaysWhatItIncludes) {
  RunFigures figures = LabelFigures();
  figures.protection = "gaussian_label_dp(sigma=4.264, draws=10)";
  EXPECT_THAT(RunSummaryTable(figures, ""),
              HasSubstr("0.700 measured, no side information, what features tell included: norm at cut\n"));
}

TEST(RunSummaryTest, HasTheAttacksIfAsked) {
  EXPECT_THAT(
      RunSummaryTable(LabelFigures(), "", /*verbose=*/true),
      HasSubstr("  test log loss   0.4512\n"
                "  claim           claimed mu 1.121\n"
                "                  measured mu at least 0.900 (95% confidence), at least 0.800 (99.99%): claim not "
                "refuted\n"
                "  strongest       0.782 measured, of all attacks on gradients: cumulative_direction at cut\n"
                "  leak at cut     cosine 0.720  (AUC: p95 over batches, or of the last epoch where larger)\n"
                "                  norm 0.700\n"
                "  leak at first   norm 0.600\n"
                "  over all epochs cumulative_direction 0.782 at cut  (AUC over all examples)\n"
                "  no gradient     activation_clusters 0.917 at cut  (AUC as above; no bound applies)\n"
                "  guessing        0.541 p95 over batches, 0.517 mean\n"
                "  protection      marvell(s=4)\n"));
  EXPECT_THAT(RunSummaryTable(LabelFigures(), "", true), HasSubstr("  bytes           123 MB sent, 999 B received\n"));
}

TEST(RunSummaryTest, IsNeverLongerThanAScreenfulOfAnswers) {
  RunFigures figures = LabelFigures();
  figures.test.accuracy = 0.9;
  figures.several_classes = true;
  figures.attribute_leaks.resize(20);
  for (bool of_label_party : {false, true}) {  // The non-label party knows no bound, the label party of no attribute.
    figures.of_label_party = of_label_party;
    const std::string table = RunSummaryTable(figures, "");
    EXPECT_LE(std::count(table.begin(), table.end(), '\n'), kSummaryLines) << table;
    figures.attribute_leaks.clear();
  }
}

TEST(RunSummaryTest, AnAttackAboveAProvedBoundIsNotHeldAgainstIt) {
  const char* const words = "not held against the bound)";
  RunFigures figures = LabelFigures();
  figures.run_auc_bound = 0.7;
  EXPECT_THAT(RunSummaryTable(figures, "", true), Not(HasSubstr(words)));  // A conditional one: every attack is.
  figures.protection = "gaussian_label_dp(sigma=1)";
  EXPECT_THAT(RunSummaryTable(figures, "", true),
              HasSubstr("cumulative_direction at cut\n                  (ranks by features, "
                        "too: not held against the bound)\n"));
  figures.run_auc_bound = 0.79;
  EXPECT_THAT(RunSummaryTable(figures, "", true), Not(HasSubstr(words)));
  figures.run_auc_bound = 0.7;
  figures.attacks = {Attack("cut", "cumulative_conditional_likelihood_ratio", 0.71, 0.71)};
  EXPECT_THAT(RunSummaryTable(figures, "", true), Not(HasSubstr(words)));
}

TEST(RunSummaryTest, LongNamesStandApartFromTheirFigures) {
  RunFigures figures = LabelFigures();
  AttributeLeakRow leak;
  leak.attribute = "relationship";
  leak.attack = "basic";
  figures.attribute_leaks = {leak};
  EXPECT_THAT(RunSummaryTable(figures, ""), HasSubstr("  attribute relationship basic "));
}

TEST(RunSummaryTest, HasTheFiguresOfItsTask) {
  RunFigures figures = LabelFigures();
  figures.test.accuracy = 0.9375;
  EXPECT_THAT(RunSummaryTable(figures, "", true), Not(HasSubstr("accuracy")));
  figures.several_classes = true;
  EXPECT_THAT(
      RunSummaryTable(figures, "", true),
      HasSubstr(
          "  test macro AUC  0.7431 (best, chosen on the test part itself, after epoch 4, which is kept; last 0.7425)\n"
          "  test log loss   0.4512\n"
          "  test accuracy   0.9375\n"));
  figures.several_classes = false;
  figures.test = figures.final_test = {};
  figures.test.rmse = 0.0625;
  figures.test.r_squared = 0.75;
  figures.final_test.r_squared = 0.6875;
  figures.kept_by = "validation";
  EXPECT_THAT(RunSummaryTable(figures, "", true),
              HasSubstr("norm at cut\n"
                        "  test R^2        0.7500 (best by validation, after epoch 4, which is kept; last "
                        "0.6875)\n"
                        "  test RMSE       0.0625  (in the target's unit)\n"));
  figures.test = {};  // No test examples.
  EXPECT_THAT(RunSummaryTable(figures, "", true), Not(HasSubstr("  test ")));
}

TEST(RunSummaryTest, SaysWhatTheBoundRestsOn) {
  RunFigures figures = LabelFigures();
  figures.protection = "gaussian_label_dp(sigma=1.348)";
  EXPECT_THAT(RunSummaryTable(figures, ""), HasSubstr("  proved          AUC at most 0.786 over the whole run, for any "
                                                      "adversary, beyond what both parties' features "
                                                      "tell\n"));
  EXPECT_THAT(RunSummaryTable(figures, ""), HasSubstr("  verdict         guaranteed; the bound: not exceeded"));
}

// Nothing that was measured makes a bound for Gaussian classes a guarantee.
TEST(RunSummaryTest, OnlyAProvedBoundIsGuaranteed) {
  for (const char* protection :
       {"marvell(s=4)", "iso(t=2)", "max_norm", "label_dp(epsilon=1)+distance_correlation(weight=1)"}) {
    RunFigures figures = LabelFigures();
    figures.protection = protection;
    EXPECT_EQ(figures.verdict(), PrivacyVerdict::kHolds) << protection;
    figures.worst_case.reset();
    EXPECT_EQ(figures.verdict(), PrivacyVerdict::kUntested) << protection;
  }
}

TEST(RunSummaryTest, AProvedBoundThatTooLittleWasHeldAgainstIsSaidToBeSo) {
  RunFigures figures = LabelFigures();
  figures.protection = "gaussian_label_dp(sigma=1.348)";
  figures.claim_check.reset();
  EXPECT_THAT(RunSummaryTable(figures, ""),
              HasSubstr("  verdict         proved, not checked; the bound: not exceeded"));
}

TEST(RunSummaryTest, ABoundOnSingleStepsAloneIsToldApart) {
  RunFigures figures = LabelFigures();
  figures.run_auc_bound = 0.9997;
  EXPECT_THAT(RunSummaryTable(figures, ""), HasSubstr("  proved          nothing\n"));
  EXPECT_THAT(RunSummaryTable(figures, ""), HasSubstr("  verdict         nothing claimed\n"));
  figures.step_auc_bound_p95 = 0.75;
  EXPECT_THAT(RunSummaryTable(figures, ""), HasSubstr("a bound on single steps, none over the whole run\n"));
  EXPECT_THAT(RunSummaryTable(figures, ""), HasSubstr("  verdict         not refuted; the bound: "));
}

TEST(RunSummaryTest, AClaimThatItsOwnScoresRefuteIsBroken) {
  RunFigures figures = LabelFigures();
  figures.protection = "gaussian_label_dp(sigma=1.348)";
  figures.claim_check->failing_mu_lower = 1.122;
  EXPECT_THAT(RunSummaryTable(figures, ""), HasSubstr("  verdict         broken; the bound: not exceeded"));
}

TEST(RunSummaryTest, LeavesOutWhatThePartyDoesNotKnow) {
  RunFigures figures;
  figures.run_id = "demo-1234";
  figures.ended = "stopped";
  figures.steps = 3;
  figures.agreed_epochs = 5;
  EXPECT_EQ(RunSummaryTable(figures, ""),
            "run demo-1234 stopped at the non-label party\n"
            "  training        0 of 5 epochs, 3 steps, 0 examples\n");
}

TEST(RunSummaryTest, ARunThatOnlyPredictsClaimsNothingOfGradients) {
  RunFigures figures;
  figures.of_label_party = true;
  figures.run_id = "demo-1234";
  figures.ended = "completed";
  figures.only_predicts = true;
  figures.protection = "none";
  figures.run_auc_bound = 1;
  figures.test.auc = 0.75;
  figures.test.log_loss = 0.5;
  EXPECT_EQ(RunSummaryTable(figures, ""),
            "run demo-1234 completed at the label party\n"
            "  verdict         no gradient released\n"
            "  promise         No gradient was sent to the partner, so no gradient tells it anything about a label.\n"
            "  AUC             0.7500\n"
            "  log loss        0.5000\n"
            "                  of all rows scored: those that the model was trained on flatter it\n"
            "  training        none: the run only predicts, and no gradient is sent\n");
  figures.only_predicts = false;
  figures.agreed_epochs = 5;  // It was to train: its first gradients may have left before it recorded a step.
  EXPECT_THAT(RunSummaryTable(figures, ""), HasSubstr("  verdict         nothing claimed\n"));
}

TEST(RunSummaryTest, ShowsTheStrongestAttacksOfALayerAndCountsTheOthers) {
  RunFigures figures = LabelFigures();
  figures.attacks.clear();
  for (const char* attack : {"a", "b", "c", "d", "e"}) {
    figures.attacks.push_back(Attack("cut", attack, 0.5));
  }
  EXPECT_THAT(RunSummaryTable(figures, "", true),
              HasSubstr("  leak at cut     a 0.500  (AUC: p95 over batches, or of the last epoch where larger)\n"
                        "                  b 0.500\n"
                        "                  c 0.500; 2 weaker\n"));
}

TEST(RunSummaryTest, ACumulativeAttackThatNobodyPooledStandsByItsBatches) {
  RunFigures figures = LabelFigures();
  figures.attacks = {Attack("cut", "cumulative_spectral", 0.7)};
  EXPECT_THAT(RunSummaryTable(figures, "", true), HasSubstr("leak at cut     cumulative_spectral 0.700"));
  EXPECT_THAT(RunSummaryTable(figures, "", true), Not(HasSubstr("over all examples")));
}

TEST(RunSummaryTest, ARunThatMeasuredNoLeakSaysSo) {
  RunFigures figures = LabelFigures();
  figures.attacks.clear();
  EXPECT_THAT(RunSummaryTable(figures, "", true), HasSubstr("leak            none measured\n"));
  figures.gate = {{v1::FREEZE_BOTTOM, 680}};
  figures.may_have_released = false;
  EXPECT_THAT(RunSummaryTable(figures, ""), HasSubstr("leak            none measured: no gradient was released\n"));
  EXPECT_THAT(RunSummaryTable(figures, ""), HasSubstr("  verdict         no gradient released\n"));
  EXPECT_THAT(RunSummaryTable(figures, ""), Not(HasSubstr("proved")));
}

TEST(RunSummaryTest, ABoundIsNeverSaidToHold) {
  RunFigures figures = LabelFigures();
  figures.run_auc_bound = 1;
  EXPECT_THAT(RunSummaryTable(figures, ""), HasSubstr("  proved          nothing\n"));
  EXPECT_THAT(RunSummaryTable(figures, ""), HasSubstr("  verdict         nothing claimed\n"));
  EXPECT_THAT(RunSummaryTable(figures, ""), Not(HasSubstr("at most")));
  EXPECT_THAT(RunSummaryTable(figures, ""), HasSubstr("  promise         Nothing limits what the partner learns: "));
  figures.run_auc_bound = 0.7;
  figures.bound_exceeded = 2;
  EXPECT_THAT(RunSummaryTable(figures, ""), HasSubstr("broken; the bound: exceeded\n"));
  figures.excesses = {{"cut", "residual_norm"}};
  EXPECT_THAT(RunSummaryTable(figures, ""), HasSubstr("; the bound: exceeded by residual_norm at cut\n"));
  figures.excesses = {{"cut", "a"}, {"cut", "b"}, {"cut", "c"}, {"cut", "d"}, {"cut", "e"}};
  EXPECT_THAT(RunSummaryTable(figures, ""), HasSubstr("; the bound: exceeded by a at cut and 4 more\n"));
  figures.bound_exceeded = 0;
  figures.bound_tested = false;
  EXPECT_THAT(RunSummaryTable(figures, ""), HasSubstr("; the bound: no attack was held against it\n"));
}

TEST(ResultPathTest, IsBesideTheLedger) {
  EXPECT_EQ(ResultPath("/a/label_party.db"), "/a/label_party.result.json");
  EXPECT_EQ(ResultPath("ledger.sqlite"), "ledger.sqlite.result.json");
  EXPECT_EQ(PredictionPath("/a/label_party.db"), "/a/label_party.prediction.json");
}

}  // namespace
}  // namespace splitveil
