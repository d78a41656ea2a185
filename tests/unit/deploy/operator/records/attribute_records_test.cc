#include <cmath>
#include <string>
#include <vector>

#include "deploy/operator/records/ledger_figures.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/figures/attack_catalogue.h"
#include "common/leakage/attribute_leak.h"

namespace splitveil {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

AttributeLeakRow Leak(int64_t epoch, const std::string& attack, const std::string& attribute,
                      const std::string& examples, double accuracy, double floor) {
  return {epoch, attack, attribute, examples, 1000, accuracy, accuracy - 0.01, accuracy + 0.01, floor, 0.6};
}

LedgerRun RunWith(const std::string& protection) {
  PartyRecords party;
  party.record.run.role = "nonlabel_party";
  if (!protection.empty()) {
    party.events.push_back({"", "activation_protection", protection + "; 3 steps before anything was sent"});
  }
  LedgerRun run;
  run.parties.push_back(party);
  return run;
}

TEST(AttributeFiguresTest, TakesTheLastEpochOfInferenceAndTheBestOfTraining) {
  const std::vector<AttributeFigure> figures =
      AttributeFigures({Leak(0, "basic", "sex", "test", 0.80, 0.67), Leak(1, "basic", "sex", "test", 0.70, 0.67),
                        Leak(0, "poison", "sex", "test", 0.75, 0.67), Leak(1, "poison", "sex", "test", 0.69, 0.67)});
  ASSERT_THAT(figures, SizeIs(2));
  EXPECT_EQ(figures[0].leak.attack, "poison");
  EXPECT_EQ(figures[0].leak.accuracy, 0.75);
  EXPECT_EQ(DescribeWhen(figures[0]), "highest over training, in epoch 1");
  EXPECT_EQ(figures[1].leak.accuracy, 0.70);
  EXPECT_EQ(DescribeWhen(figures[1]), "inference, after epoch 2");
}

TEST(AttributeFiguresTest, OrdersByAdvantageWithinEachAttributeAndKeepsExamplesApart) {
  AttributeLeakRow unknown = Leak(0, "simulator", "sex", "test", 0, 0);
  unknown.rows = 0;  // Nobody knows the attribute of any.
  unknown.accuracy = std::nan("");
  const std::vector<AttributeFigure> figures = AttributeFigures(
      {Leak(0, "basic", "relationship", "test", 0.5, 0.4), Leak(0, "poison", "sex", "test", 0.70, 0.67),
       Leak(0, "poison", "sex", "training", 0.70, 0.60), unknown});
  ASSERT_THAT(figures, SizeIs(3));
  EXPECT_EQ(figures[0].leak.attribute, "relationship");
  EXPECT_EQ(figures[1].leak.examples, "training");  // 0.10 above its floor, on test examples 0.03.
  EXPECT_EQ(figures[2].leak.examples, "test");
}

TEST(AttributeRecordsTest, AreOfTheNonLabelPartysLedgerOnly) {
  LedgerRun run;
  run.parties.emplace_back();
  run.parties.front().record.run.role = "label_party";
  EXPECT_FALSE(AttributeRecordsOf(run).has_value());
  EXPECT_FALSE(AttributeRecordsOf(RunWith(""))->has_any());
  EXPECT_THAT(AttributeLines(*AttributeRecordsOf(RunWith(""))), IsEmpty());
}

TEST(AttributeRecordsTest, ReadsWhatParetoLetsLeave) {
  LedgerRun run = RunWith("pareto(threshold=0.005, slack=0.5, noise_sigma=1)");
  run.parties.front().privacy_losses = {{0, "sex", 0.004}, {1, "sex", std::nan("")}, {2, "sex", 0.006}};
  const AttributeRecords records = *AttributeRecordsOf(run);
  EXPECT_EQ(records.protection, "pareto(threshold=0.005, slack=0.5, noise_sigma=1)");
  EXPECT_EQ(records.threshold, 0.005);
  EXPECT_EQ(records.slack, 0.5);
  EXPECT_EQ(records.largest_privacy_loss, 0.006);
  EXPECT_TRUE(std::isnan(AttributeRecordsOf(RunWith("linear(lambda=1, noise_sigma=1)"))->threshold));
}

TEST(AttributeRecordsTest, OnlyAnActivationBoundGuaranteesAnything) {
  LedgerRun run = RunWith("gaussian(clip_norm=1, noise_sigma=10)");
  EXPECT_THAT(ProvedOfActivations(*AttributeRecordsOf(run)), StartsWith("Measured only: a heuristic"));
  EXPECT_THAT(ProvedOfActivations(*AttributeRecordsOf(RunWith(""))), StartsWith("Measured only: nothing protects"));
  run.parties.front().activation_bound = ActivationBoundRow{20, 0.894, 0.736};
  EXPECT_THAT(
      ProvedOfActivations(*AttributeRecordsOf(run)),
      AllOf(StartsWith("Proved: of this run alone, 20 releases"), HasSubstr("Further runs on the same examples"),
            HasSubstr("0.894-GDP"), HasSubstr("AUC above 0.736")));
  EXPECT_THAT(AttributeLines(*AttributeRecordsOf(run)),
              ElementsAre("attributes: guaranteed, of this run alone, AUC at most 0.736 for any attribute over 20 "
                          "releases of an example's "
                          "activations"));
}

TEST(AttributeRecordsTest, HaveWordsForEveryAttackAndMethod) {
  for (int number = v1::AttributeAttack_MIN + 1; number <= v1::AttributeAttack_MAX; ++number) {
    const absl::string_view attack = TraitsOf(static_cast<v1::AttributeAttack>(number)).name;
    EXPECT_NE(AttributeAttackTitle(attack), attack);
    EXPECT_NE(AttributeAttackExplanation(attack), "");
  }
  EXPECT_EQ(AttributeAttackNamed("later_attack"), "later_attack");
  EXPECT_EQ(AttributeAttackExplanation("later_attack"), "");
  for (const char* method : {"gaussian", "linear", "adversarial", "adversarial_label_flip", "infocensor", "pareto"}) {
    const std::string name = std::string(method) + "(x=1, noise_sigma=1)";
    EXPECT_THAT(DescribeActivationProtection(name),
                AllOf(HasSubstr(name), Not(StartsWith("The activations are protected"))));
  }
  EXPECT_EQ(DescribeActivationProtection("none"), "The activations are sent as the bottom model makes them.");
  EXPECT_EQ(DescribeActivationProtection("later(x=1)"), "The activations are protected by later(x=1).");
}

}  // namespace
}  // namespace splitveil
