#include <limits>
#include <string>
#include <utility>

#include "deploy/operator/audit/audit_report.h"
#include "deploy/operator/audit/criteria.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/config/text_config.h"
#include "tests/unit/deploy/operator/audit/recorded_run.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kAdvantage[] = "accuracy over the floor";
constexpr char kAuc[] = "AUC of attacks on attributes";
constexpr char kMiss[] = "attacks on attributes that miss";
constexpr char kLoss[] = "privacy loss";
constexpr char kBound[] = "bound on any attribute";
constexpr char kRan[] = "attacks on sensitive attributes that ran";

AttributeLeakRow Leak(int64_t epoch, const std::string& attack, const std::string& examples, double accuracy) {
  return {epoch, attack, "sex", examples, 1000, accuracy, accuracy - 0.02, accuracy + 0.02, 0.67, accuracy - 0.1};
}

// Both parties' records: two attacks on `sex`, of which poison did best in its first epoch; pareto.
LedgerRun RunWithAttributes() {
  LedgerRun run = RecordedRun();
  PartyRecords party;
  party.record.run = {"run-1", "nonlabel_party", "00", "",
                      R"({"agreement":{"attribute_audit":{"attributes":["sex"],"attacks":["BASIC","POISON"]}}})"};
  party.record.status = "completed";
  party.attribute_leaks = {Leak(0, "basic", "test", 0.75), Leak(1, "basic", "test", 0.68),
                           Leak(0, "poison", "training", 0.70), Leak(1, "poison", "training", 0.66)};
  party.privacy_losses = {{0, "sex", 0.004, 0.005, 1, 1, 0, false}, {1, "sex", 0.0071, 0.005, 1, 1, 2, true}};
  party.events = {{"", "disclosure", "attack module reads: LABEL_SIDE_ONLY"},
                  {"", "activation_protection", "pareto(threshold=0.005, slack=0.5, noise_sigma=1); 12 steps before"}};
  run.parties.push_back(std::move(party));
  return run;
}

PartyRecords& NonLabelParty(LedgerRun& run) { return run.parties.back(); }

void ExpectFound(const Finding& finding, Outcome outcome, const std::string& found, const std::string& where = "") {
  EXPECT_EQ(finding.outcome, outcome) << finding.found;
  EXPECT_THAT(finding.found, HasSubstr(found));
  EXPECT_THAT(finding.where, HasSubstr(where));
}

TEST(AttributeCriteriaTest, JudgesByTheUpperEndOfTheStrongestAttack) {
  const LedgerRun run = RunWithAttributes();
  // basic after its last epoch at most 0.68 + 0.02 over 0.67; poison, which reads the training, in its best.
  ExpectFound(Judge(run, "max_attribute_advantage: 0.06", kAdvantage), Outcome::kMet,
              "0.050: upper 95% limit; measured 0.030",
              "(poison) at sex, training examples, highest over training, in epoch 1");
  ExpectFound(Judge(run, "max_attribute_advantage: 0.049", kAdvantage), Outcome::kNotMet, "0.050");
  // The AUC of every epoch counts, whatever the accuracy: what was sent in one is kept.
  ExpectFound(Judge(run, "max_attribute_auc: 0.66", kAuc), Outcome::kMet, "0.650", "in epoch 1");
  ExpectFound(Judge(run, "max_attribute_auc: 0.64", kAuc), Outcome::kNotMet, "0.650");
}

TEST(AttributeCriteriaTest, JudgesTheLargestAucNotThatOfTheMostAccurateEpoch) {
  LedgerRun run = RunWithAttributes();
  std::vector<AttributeLeakRow>& leaks = NonLabelParty(run).attribute_leaks;
  for (AttributeLeakRow& leak : leaks) {
    leak.auc = 0.52;
  }
  leaks.push_back(Leak(8, "poison", "training", 0.68));
  leaks.back().auc = 0.95;
  ExpectFound(Judge(run, "max_attribute_auc: 0.6", kAuc), Outcome::kNotMet, "0.950", "in epoch 9");
}

TEST(AttributeCriteriaTest, AnAttackThatIsWrongMoreOftenThanNotIsInverted) {
  LedgerRun run = RunWithAttributes();
  for (AttributeLeakRow& leak : NonLabelParty(run).attribute_leaks) {
    leak.accuracy = leak.accuracy_high = 0.08;
    leak.auc = 0.05;
  }
  ExpectFound(Judge(run, "max_attribute_auc: 0.6", kAuc), Outcome::kNotMet, "0.950");
  // By accuracy alone it looks harmless.
  ExpectFound(Judge(run, "max_attribute_advantage: 0", kAdvantage), Outcome::kMet, "-0.590");
  ExpectFound(Judge(run, "max_attribute_advantage: 0", kMiss), Outcome::kNotMet,
              "accuracy 0.080 (at most 0.080), where guessing the most common value reaches 0.670", "at sex, test");
}

TEST(AttributeCriteriaTest, AnAttackThatIsWorseThanGuessingByLessIsNone) {
  LedgerRun run = RunWithAttributes();
  for (AttributeLeakRow& leak : NonLabelParty(run).attribute_leaks) {
    leak.accuracy = leak.accuracy_high = 0.34;
  }
  v1::AuditPolicy policy;
  policy.set_max_attribute_auc(1);
  for (const Finding& finding : AttributeFindings(run, policy)) {
    EXPECT_NE(finding.criterion, kMiss);
  }
}

TEST(AttributeCriteriaTest, AnAgreedAttackThatWasNotMeasuredIsNotMet) {
  LedgerRun run = RunWithAttributes();
  NonLabelParty(run).attribute_leaks.resize(2);
  ExpectFound(Judge(run, "max_attribute_advantage: 0.06", kAdvantage), Outcome::kNotMeasured, "not measured",
              "(poison) at sex");
  EXPECT_THAT(Judge(run, "max_attribute_advantage: 0.06", kAdvantage).remedy, HasSubstr("attribute_audit.attacks"));
  NonLabelParty(run).attribute_leaks.clear();
  NonLabelParty(run).record.run.config_json = "{}";
  ExpectFound(Judge(run, "max_attribute_auc: 0.9", kAuc), Outcome::kNotMeasured, "no attack on an attribute");
}

TEST(AttributeCriteriaTest, AsksForTheAttacksThatThePolicyLists) {
  LedgerRun run = RunWithAttributes();
  ExpectFound(Judge(run, "require_attribute_attacks: BASIC require_attribute_attacks: POISON", kRan), Outcome::kMet,
              "all");
  ExpectFound(Judge(run, "require_attribute_attacks: [BASIC, SIMULATOR]", kRan), Outcome::kNotMet,
              "not run: simulator on sex");
  NonLabelParty(run).record.run.config_json = "{}";
  ExpectFound(Judge(run, "require_attribute_attacks: BASIC", kRan), Outcome::kNotMet, "no attribute is agreed");
}

TEST(AttributeCriteriaTest, HoldsEveryBatchToThePrivacyLoss) {
  LedgerRun run = RunWithAttributes();
  ExpectFound(Judge(run, "max_privacy_loss: 0.0075", kLoss), Outcome::kMet, "0.0071 nats", "sex, step 1");
  ExpectFound(Judge(run, "max_privacy_loss: 0.005", kLoss), Outcome::kNotMet, "0.0071 nats", "sex, step 1");
  NonLabelParty(run).privacy_losses[0].privacy_loss = std::numeric_limits<double>::quiet_NaN();
  ExpectFound(Judge(run, "max_privacy_loss: 1", kLoss), Outcome::kNotMeasured, "without a figure", "step 0");
  NonLabelParty(run).privacy_losses.clear();
  ExpectFound(Judge(run, "max_privacy_loss: 1", kLoss), Outcome::kNotMeasured, "no privacy loss");
}

TEST(AttributeCriteriaTest, OnlyAProvedBoundIsABound) {
  LedgerRun run = RunWithAttributes();
  ExpectFound(Judge(run, "max_activation_auc_bound: 0.99", kBound), Outcome::kNotMet, "is a heuristic");
  NonLabelParty(run).activation_bound = ActivationBoundRow{2, 0.28, 0.58};
  ExpectFound(Judge(run, "max_activation_auc_bound: 0.6", kBound), Outcome::kMet, "0.580: guaranteed, mu 0.280",
              "all 2 releases");
  ExpectFound(Judge(run, "max_activation_auc_bound: 0.57", kBound), Outcome::kNotMet, "0.580");
  NonLabelParty(run).activation_bound.reset();
  NonLabelParty(run).events.clear();
  ExpectFound(Judge(run, "max_activation_auc_bound: 0.99", kBound), Outcome::kNotMet, "nothing protects");
}

TEST(AttributeCriteriaTest, ARunThatWasKilledBeforeItBeganToSendHasSentNothing) {
  LedgerRun run = RunWithAttributes();
  NonLabelParty(run).record.status = "running";
  ExpectFound(Judge(run, "max_activation_auc_bound: 0.5", kBound), Outcome::kMet, "no activation was sent");
  NonLabelParty(run).events.push_back({"", kReleasesFollow, "1000 examples"});
  ExpectFound(Judge(run, "max_activation_auc_bound: 0.5", kBound), Outcome::kNotMet, "is a heuristic");
}

TEST(AttributeCriteriaTest, IsNotDecidedByTheLabelPartysLedgerAlone) {
  const std::string policy =
      "max_attribute_advantage: 0.06 max_attribute_auc: 0.6 max_privacy_loss: 1 max_activation_auc_bound: 0.9 "
      "require_attribute_attacks: BASIC";
  for (const char* criterion : {kAdvantage, kAuc, kLoss, kBound, kRan}) {
    const Finding finding = Judge(RecordedRun(), policy, criterion);
    ExpectFound(finding, Outcome::kNotMeasurable, "not measurable without the non-label party's ledger");
    EXPECT_EQ(finding.remedy, "");
  }
  v1::AuditPolicy parsed;
  ASSERT_TRUE(ParseTextConfig(policy, "policy", parsed).ok());
  EXPECT_FALSE(PolicyMet(JudgeRuns({RecordedRun()}, parsed)));  // Exit 10.
  EXPECT_THAT(VerdictText(JudgeRuns({RecordedRun()}, parsed)),
              HasSubstr("only from the non-label party's (5 criteria): attacks on sensitive attributes that ran; "));
}

TEST(AttributeCriteriaTest, AsksNothingThatThePolicyDoesNotSet) {
  EXPECT_THAT(AttributeFindings(RunWithAttributes(), v1::AuditPolicy()), IsEmpty());
}

TEST(AttributeCriteriaTest, TheVerdictNamesWhatIsGuaranteedAndWhatIsMeasuredOnly) {
  LedgerRun run = RunWithAttributes();
  EXPECT_THAT(
      VerdictText(JudgeRuns({run}, v1::AuditPolicy())),
      HasSubstr("attributes: measured only, a heuristic: pareto(threshold=0.005, slack=0.5, noise_sigma=1)\n"
                "attribute sex, the strongest attack measured: Marked training examples (poison), accuracy 0.700 "
                "(95% interval 0.680 to 0.720), floor 0.670"));
  NonLabelParty(run).activation_bound = ActivationBoundRow{2, 0.28, 0.58};
  EXPECT_THAT(VerdictText(JudgeRuns({run}, v1::AuditPolicy())),
              HasSubstr("attributes: guaranteed, of this run alone, AUC at most 0.580"));
  EXPECT_THAT(VerdictText(JudgeRuns({RecordedRun()}, v1::AuditPolicy())), Not(HasSubstr("attributes:")));
}

// The label party measures, and is the adversary: what it does not hand over may be what reads the most.
TEST(AttributeCriteriaTest, GuessesThatWereKeptBackAreNotMeasured) {
  LedgerRun run = RunWithAttributes();
  NonLabelParty(run).events.push_back({"", kGuessesMissing, "after epoch 1 none came from the label party: basic"});
  ExpectFound(Judge(run, "require_attribute_attacks: BASIC", kRan), Outcome::kNotMet,
              "not all: after epoch 1 none came");
  ExpectFound(Judge(run, "max_attribute_advantage: 0.06", kAdvantage), Outcome::kNotMeasured,
              "not all measured: after");
  ExpectFound(Judge(run, "max_attribute_advantage: 0.01", kAdvantage), Outcome::kNotMet, "0.050");
}

// Read the other way round, it tells as much as one that hits: 1000 rows, of which chance leaves 0.5 +- 0.02.
TEST(AttributeCriteriaTest, AnAttackThatRanksTheWrongWayRoundMisses) {
  LedgerRun run = RunWithAttributes();
  NonLabelParty(run).attribute_leaks.front().auc = 0.41;
  ExpectFound(Judge(run, "max_attribute_advantage: 0.5", kMiss), Outcome::kNotMet,
              "AUC 0.410, read the other way round 0.590");
  NonLabelParty(run).attribute_leaks.front().auc = 0.43;
  v1::AuditPolicy policy;
  policy.set_max_attribute_advantage(0.5);
  for (const Finding& finding : AttributeFindings(run, policy)) {
    EXPECT_NE(finding.criterion, kMiss);
  }
}

TEST(AttributeCriteriaTest, TheLossOfASimulatedAdversaryIsNoPrivacyLoss) {
  LedgerRun run = RunWithAttributes();
  NonLabelParty(run).events.back().detail = "adversarial(weight=1); 0 steps";
  NonLabelParty(run).privacy_losses.front().privacy_loss = NonLabelParty(run).privacy_losses.back().privacy_loss = -0.5;
  ExpectFound(Judge(run, "max_privacy_loss: 0.01", kLoss), Outcome::kNotMeasured, "has no privacy loss");
}

}  // namespace
}  // namespace splitveil
