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

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(StrongestFirstTest, InTheOneOrderOfAttacksWithTheLastEpochs) {
  const std::vector<MeasuredAttack> figures = StrongestFirst({{{"first", "norm"}, {0.9, 0.9}},
                                                              {{"cut", "norm"}, {0.6, 0.6}},
                                                              {{"cut", "residual_norm"}, {0.2, 0.8}},
                                                              {{"cut", "activation_clusters"}, {0.95, 0.95}},
                                                              {{"cut", "cumulative_direction"}, {0.99, 0.99}}},
                                                             {{{"cut", "cumulative_direction"}, 0.3}});
  std::vector<std::string> order;
  for (const MeasuredAttack& figure : figures) {
    order.push_back(figure.layer + " " + figure.attack);
  }
  EXPECT_EQ(order, (std::vector<std::string>{"first norm", "cut residual_norm", "cut cumulative_direction", "cut norm",
                                             "cut activation_clusters"}));
  EXPECT_DOUBLE_EQ(figures[1].batches.mean, 0.8);  // Each batch inverted by itself.
  EXPECT_DOUBLE_EQ(figures[2].auc(), 0.7);
}

TEST(StrongestFirstTest, OfNothingNothing) { EXPECT_TRUE(StrongestFirst({}).empty()); }

MeasuredAttack Attack(const std::string& layer, const std::string& attack, double p95,
                      double pooled = std::numeric_limits<double>::quiet_NaN()) {
  return {layer, attack, {0.5, 0, p95, 10}, pooled};
}

TEST(StrongestOnGradientsTest, IsTheFirstOfEachKindAndTheStrongerOfTheTwo) {
  std::vector<MeasuredAttack> attacks = {Attack("cut", "cosine", 0.9), Attack("first", "norm", 0.8)};
  EXPECT_EQ(StrongestOf(attacks).practical, &attacks[1]);
  EXPECT_EQ(StrongestOf(attacks).with_side_information, &attacks[0]);
  EXPECT_EQ(StrongestOf(attacks).strongest(), &attacks[0]);
  attacks[1] = Attack("first", "norm", 0.9);  // What needs less stands for both.
  EXPECT_EQ(StrongestOf(attacks).strongest(), &attacks[1]);
  attacks.erase(attacks.begin());
  EXPECT_EQ(StrongestOf(attacks).strongest(), &attacks[0]);
  EXPECT_EQ(StrongestOf(attacks).with_side_information, nullptr);
}

TEST(StrongestOnGradientsTest, ReadsGradientsAndNoGivenLabels) {
  const std::vector<MeasuredAttack> attacks = {Attack("cut", "activation_clusters", 0.99),
                                               Attack("cut", "model_completion", 0.99)};
  EXPECT_EQ(StrongestOf(attacks).strongest(), nullptr);
  EXPECT_EQ(StrongestOf({}).strongest(), nullptr);
}

RunSummary LabelSummary() {
  RunSummary summary;
  summary.party = "label party";
  summary.run_id = "demo-1234";
  summary.ended = "completed";
  summary.protection = "marvell(s=4)";
  summary.epochs = 5;
  summary.steps = 680;
  summary.examples = 696320;
  summary.seconds = 23.2;
  summary.bytes_sent = 123456789;
  summary.bytes_received = 999;
  summary.test_auc = 0.74312;
  summary.test_log_loss = 0.4512;
  summary.best_epoch = 4;
  summary.final_test_auc = 0.7425;
  summary.run_auc_bound = 0.786;
  summary.bound_tested = true;
  summary.gate = {{"release", 678}, {"warn", 2}};
  summary.leaks = {Attack("cut", "cumulative_direction", 0.793, 0.782), Attack("cut", "cosine", 0.72),
                   Attack("cut", "norm", 0.58, 0.3), Attack("first", "norm", 0.6),
                   Attack("cut", "activation_clusters", 0.917)};
  summary.guessing = {0.517, 0.541};
  summary.worst_case.attack = "cumulative_conditional_likelihood_ratio";
  summary.worst_case.examples = 696320;
  summary.worst_case.auc = 0.259;
  summary.claim_check.emplace();
  summary.claim_check->claimed_mu = 1.121;
  summary.claim_check->mu_lower = 0.9;
  summary.claim_check->confidence = 0.95;
  summary.claim_check->failing_mu_lower = 0.8;
  summary.claim_check->failing_confidence = 0.9999;
  summary.claim_check->half_noise_mu_lower = 1.7;
  summary.details = "out/label_party.result.json";
  return summary;
}

TEST(RunSummaryTest, AnswersFirstInTwelveLines) {
  EXPECT_EQ(
      RunSummaryTable(LabelSummary()),
      "run demo-1234 completed at the label party\n"
      "  verdict         holds as far as measured; the bound: not exceeded by the attacks run here\n"
      "  promise         Not a promise: the strongest attack measured tells two customers with different labels apart "
      "with 78.2% certainty. A limit of 78.6% is computed only for Gaussian classes and adversaries that use class "
      "moments alone, given the law of the noise.\n"
      "  proved          nothing; conditional: AUC at most 0.786 over all epochs\n"
      "  worst case      0.741 measured over all epochs, held against the bound: "
      "cumulative_conditional_likelihood_ratio\n"
      "  practical       0.700 measured, no side information: norm at cut\n"
      "  test AUC        0.7431 (best, chosen on the test part itself, after epoch 4; last 0.7425)\n"
      "  test log loss   0.4512\n"
      "  protection      marvell(s=4)\n"
      "  training        5 epochs, 680 steps, 696320 examples in 23.2 s (30014 per second)\n"
      "  release gate    678 release, 2 warn\n"
      "  all figures     out/label_party.result.json\n");
}

TEST(RunSummaryTest, HasTheAttacksIfAsked) {
  EXPECT_THAT(
      RunSummaryTable(LabelSummary(), /*verbose=*/true),
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
  EXPECT_THAT(RunSummaryTable(LabelSummary(), true), HasSubstr("  bytes           123 MB sent, 999 B received\n"));
}

TEST(RunSummaryTest, IsNeverLongerThanAScreenfulOfAnswers) {
  RunSummary summary = LabelSummary();
  summary.test_accuracy = 0.9;
  summary.task = {Task::Kind::kMultiClass, 5};
  summary.attribute_leaks.resize(20);
  for (double bound : {kNan, 0.786}) {  // The non-label party knows no bound, the label party of no attribute.
    summary.run_auc_bound = bound;
    const std::string table = RunSummaryTable(summary);
    EXPECT_LE(std::count(table.begin(), table.end(), '\n'), kSummaryLines) << table;
    summary.attribute_leaks.clear();
  }
}

TEST(RunSummaryTest, AnAttackAboveAProvedBoundIsNotHeldAgainstIt) {
  const char* const words = "not held against the bound)";
  RunSummary summary = LabelSummary();
  summary.run_auc_bound = 0.7;
  EXPECT_THAT(RunSummaryTable(summary, true), Not(HasSubstr(words)));  // A conditional one: every attack is.
  summary.protection = "gaussian_label_dp(sigma=1)";
  EXPECT_THAT(RunSummaryTable(summary, true), HasSubstr("cumulative_direction at cut\n                  (ranks by features, "
                                                  "too: not held against the bound)\n"));
  summary.run_auc_bound = 0.79;
  EXPECT_THAT(RunSummaryTable(summary, true), Not(HasSubstr(words)));
  summary.run_auc_bound = 0.7;
  summary.leaks = {Attack("cut", "cumulative_conditional_likelihood_ratio", 0.71, 0.71)};
  EXPECT_THAT(RunSummaryTable(summary, true), Not(HasSubstr(words)));
}

TEST(RunSummaryTest, LongNamesStandApartFromTheirFigures) {
  RunSummary summary = LabelSummary();
  AttributeLeakRow leak;
  leak.attribute = "relationship";
  leak.attack = "basic";
  summary.attribute_leaks = {leak};
  EXPECT_THAT(RunSummaryTable(summary), HasSubstr("  attribute relationship basic "));
}

TEST(RunSummaryTest, HasTheFiguresOfItsTask) {
  RunSummary summary = LabelSummary();
  summary.test_accuracy = 0.9375;
  EXPECT_THAT(RunSummaryTable(summary, true), Not(HasSubstr("accuracy")));
  summary.task = {Task::Kind::kMultiClass, 5};
  EXPECT_THAT(RunSummaryTable(summary, true),
              HasSubstr("  test macro AUC  0.7431 (best, chosen on the test part itself, after epoch 4; last 0.7425)\n"
                        "  test log loss   0.4512\n"
                        "  test accuracy   0.9375\n"));
  summary.task = {Task::Kind::kRegression, 0};
  summary.test_auc = summary.test_log_loss = summary.test_accuracy = summary.final_test_auc = kNan;
  summary.test_rmse = 0.0625;
  summary.test_r_squared = 0.75;
  summary.final_test_r_squared = 0.6875;
  summary.best_on_validation = true;
  EXPECT_THAT(RunSummaryTable(summary, true), HasSubstr("norm at cut\n"
                                                  "  test R^2        0.7500 (best by validation, after epoch 4; last "
                                                  "0.6875)\n"
                                                  "  test RMSE       0.0625  (of targets scaled to 0 to 1)\n"));
  summary.test_r_squared = summary.test_rmse = kNan;  // No test examples.
  EXPECT_THAT(RunSummaryTable(summary, true), Not(HasSubstr("  test ")));
}

TEST(RunSummaryTest, SaysWhatTheBoundRestsOn) {
  RunSummary summary = LabelSummary();
  summary.protection = "gaussian_label_dp(sigma=1.348)";
  EXPECT_THAT(
      RunSummaryTable(summary),
      HasSubstr(
          "  proved          AUC at most 0.786 over all epochs, for any adversary, beyond what both parties' features "
          "tell\n"));
  EXPECT_THAT(RunSummaryTable(summary), HasSubstr("  verdict         guaranteed; the bound: not exceeded"));
}

// Nothing that was measured makes a bound for Gaussian classes a guarantee.
TEST(RunSummaryTest, OnlyAProvedBoundIsGuaranteed) {
  for (const char* protection : {"marvell(s=4)", "iso(t=2)", "max_norm", "label_dp(epsilon=1)"}) {
    RunSummary summary = LabelSummary();
    summary.protection = protection;
    EXPECT_EQ(StandingOf(ClaimOf(summary)), RunStanding::kHolds) << protection;
    summary.worst_case.examples = 0;
    EXPECT_EQ(StandingOf(ClaimOf(summary)), RunStanding::kUntested) << protection;
  }
}

TEST(RunSummaryTest, AProvedBoundThatTooLittleWasHeldAgainstIsSaidToBeSo) {
  RunSummary summary = LabelSummary();
  summary.protection = "gaussian_label_dp(sigma=1.348)";
  summary.claim_check.reset();
  EXPECT_THAT(RunSummaryTable(summary), HasSubstr("  verdict         proved, not checked; the bound: not exceeded"));
}

TEST(RunSummaryTest, ABoundOnSingleStepsAloneIsToldApart) {
  RunSummary summary = LabelSummary();
  summary.run_auc_bound = 0.9997;
  EXPECT_THAT(RunSummaryTable(summary), HasSubstr("  proved          nothing: these releases bound no attack\n"));
  EXPECT_THAT(RunSummaryTable(summary), HasSubstr("  verdict         nothing claimed\n"));
  summary.step_auc_bound_p95 = 0.75;
  EXPECT_THAT(RunSummaryTable(summary), HasSubstr("a bound on single steps, none over all epochs\n"));
  EXPECT_THAT(RunSummaryTable(summary), HasSubstr("  verdict         holds as far as measured; the bound: "));
}

TEST(RunSummaryTest, AClaimThatItsOwnScoresRefuteIsBroken) {
  RunSummary summary = LabelSummary();
  summary.protection = "gaussian_label_dp(sigma=1.348)";
  summary.claim_check->failing_mu_lower = 1.122;
  EXPECT_THAT(RunSummaryTable(summary), HasSubstr("  verdict         broken; the bound: not exceeded"));
}

TEST(RunSummaryTest, LeavesOutWhatThePartyDoesNotKnow) {
  RunSummary summary;
  summary.party = "non-label party";
  summary.run_id = "demo-1234";
  summary.ended = "stopped";
  summary.steps = 3;
  summary.agreed_epochs = 5;
  EXPECT_EQ(RunSummaryTable(summary),
            "run demo-1234 stopped at the non-label party\n"
            "  training        0 of 5 epochs, 3 steps, 0 examples\n");
}

TEST(RunSummaryTest, ARunThatOnlyPredictsClaimsNothingOfGradients) {
  RunSummary summary;
  summary.party = "label party";
  summary.run_id = "demo-1234";
  summary.ended = "completed";
  summary.protection = "none";
  summary.run_auc_bound = 1;
  summary.test_auc = 0.75;
  summary.test_log_loss = 0.5;
  EXPECT_EQ(RunSummaryTable(summary),
            "run demo-1234 completed at the label party\n"
            "  verdict         no gradient left\n"
            "  promise         No gradient was sent to the partner, so no gradient tells it anything about a label.\n"
            "  AUC             0.7500\n"
            "  log loss        0.5000\n"
            "                  of all rows scored: those that the model was trained on flatter it\n"
            "  training        none: the run only predicts, and no gradient is sent\n");
  summary.agreed_epochs = 5;  // It was to train: its first gradients may have left before it recorded a step.
  EXPECT_THAT(RunSummaryTable(summary), HasSubstr("  verdict         nothing claimed\n"));
}

TEST(RunSummaryTest, ShowsTheStrongestAttacksOfALayerAndCountsTheOthers) {
  RunSummary summary = LabelSummary();
  summary.leaks.clear();
  for (const char* attack : {"a", "b", "c", "d", "e"}) {
    summary.leaks.push_back(Attack("cut", attack, 0.5));
  }
  EXPECT_THAT(RunSummaryTable(summary, true),
              HasSubstr("  leak at cut     a 0.500  (AUC: p95 over batches, or of the last epoch where larger)\n"
                        "                  b 0.500\n"
                        "                  c 0.500; 2 weaker\n"));
}

TEST(RunSummaryTest, ACumulativeAttackThatNobodyPooledStandsByItsBatches) {
  RunSummary summary = LabelSummary();
  summary.leaks = {Attack("cut", "cumulative_spectral", 0.7)};
  EXPECT_THAT(RunSummaryTable(summary, true), HasSubstr("leak at cut     cumulative_spectral 0.700"));
  EXPECT_THAT(RunSummaryTable(summary, true), Not(HasSubstr("over all examples")));
}

TEST(RunSummaryTest, ARunThatMeasuredNoLeakSaysSo) {
  RunSummary summary = LabelSummary();
  summary.leaks.clear();
  EXPECT_THAT(RunSummaryTable(summary, true), HasSubstr("leak            none measured\n"));
  summary.gate = {{"freeze_bottom", 680}};
  EXPECT_THAT(RunSummaryTable(summary), HasSubstr("leak            none measured: no gradient left the label party\n"));
  EXPECT_THAT(RunSummaryTable(summary), HasSubstr("  verdict         no gradient left\n"));
  EXPECT_THAT(RunSummaryTable(summary), Not(HasSubstr("proved")));
}

TEST(RunSummaryTest, ABoundIsNeverSaidToHold) {
  RunSummary summary = LabelSummary();
  summary.run_auc_bound = 1;
  EXPECT_THAT(RunSummaryTable(summary), HasSubstr("  proved          nothing: these releases bound no attack\n"));
  EXPECT_THAT(RunSummaryTable(summary), HasSubstr("  verdict         nothing claimed\n"));
  EXPECT_THAT(RunSummaryTable(summary), Not(HasSubstr("at most")));
  EXPECT_THAT(RunSummaryTable(summary), HasSubstr("  promise         Nothing limits what the partner learns: "));
  summary.run_auc_bound = 0.7;
  summary.bound_exceeded = 2;
  EXPECT_THAT(RunSummaryTable(summary),
              HasSubstr("broken; the bound: exceeded: see bound_exceeded in the ledger's events\n"));
  summary.exceeded_by = {"residual_norm at cut"};
  EXPECT_THAT(RunSummaryTable(summary), HasSubstr("; the bound: exceeded by residual_norm at cut\n"));
  summary.exceeded_by = {"a at cut", "b at cut", "c at cut", "d at cut", "e at cut"};
  EXPECT_EQ(BoundState(summary), "exceeded by a at cut and 4 more");
  summary.bound_exceeded = 0;
  summary.bound_tested = false;
  EXPECT_THAT(RunSummaryTable(summary), HasSubstr("; the bound: no attack was held against it\n"));
}

TEST(ResultPathTest, IsBesideTheLedger) {
  EXPECT_EQ(ResultPath("/a/label_party.db", /*only_predicts=*/false), "/a/label_party.result.json");
  EXPECT_EQ(ResultPath("ledger.sqlite", /*only_predicts=*/false), "ledger.sqlite.result.json");
  EXPECT_EQ(ResultPath("/a/label_party.db", /*only_predicts=*/true), "/a/label_party.prediction.json");
}

}  // namespace
}  // namespace splitveil
