// What several runs released of the same labels is held to the limits together, whichever account counted them.
#include <algorithm>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/operator/audit/audit_report.h"

#include "common/config/text_config.h"
#include "common/leakage/bounds.h"
#include "tests/unit/deploy/operator/audit/recorded_run.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;

class AllRunsCriteriaTest : public ::testing::Test {
 protected:
  // A run on one table that meets everything; its accountant's figure is `auc_bound`.
  PartyRecords& Add(const std::string& protection, double auc_bound) {
    LedgerRun run = RecordedRun();
    RunRow& row = run.parties.front().record.run;
    row.run_id = absl::StrCat("run-", runs_.size());
    row.protection = protection;
    row.data_sha256 = "ab";
    for (EpochLeakRow& leak : run.parties.front().epoch_leaks) {
      leak.gaussian_auc_bound = auc_bound;
      leak.auc = leak.auc_low = leak.auc_high = 0.5;
    }
    runs_.push_back(run);
    return runs_.back().parties.front();
  }
  PartyRecords& AddGaussian(const std::string& account, int64_t sigma_units, double mu) {
    PartyRecords& party = Add("gaussian_label_dp(sigma=2)", GaussianAucBound(mu * mu));
    party.record.run.account = account;
    party.record.run.label_set = "clicks";
    party.label_releases = {{"gaussian", sigma_units, 1, mu}};
    party.all_runs = AllRunsRow{account, 100, GaussianAucBound(mu * mu), 150};  // Two such runs share an example.
    return party;
  }
  PartyRecords& AddFlips(double epsilon) {
    PartyRecords& party = Add("label_dp(epsilon=1)", 0.73106);
    party.label_releases = {{"flip", 0, 1, epsilon}};
    return party;
  }

  // Of the last run.
  Finding Judge(const std::string& policy, const std::string& criterion = "bound per run") {
    v1::AuditPolicy parsed;
    EXPECT_TRUE(ParseTextConfig(policy, "policy", parsed).ok());
    SetListDefaults(parsed);
    if (!parsed.has_require_proved_bound()) {
      parsed.set_require_proved_bound(false);
    }
    verdicts_ = JudgeRuns(runs_, parsed);
    for (const Finding& finding : verdicts_.back().findings) {
      if (finding.criterion.rfind(criterion, 0) == 0) {
        return finding;
      }
    }
    return {Outcome::kNotMeasured, "", "", "no such criterion", ""};
  }

  std::vector<LedgerRun> runs_;
  std::vector<RunVerdict> verdicts_;
};

// Its gradients were kept back, but its head has learned from noised labels: it may be served, or be a later run's
// start.
TEST_F(AllRunsCriteriaTest, NoisedLabelsCountAlsoWhereNoGradientWasSent) {
  const auto freeze = [](PartyRecords& party) {
    for (ProtectionRow& row : party.protections) {
      row.gate = v1::FREEZE_BOTTOM;
    }
  };
  freeze(AddGaussian("0123456789", 10, 2));
  EXPECT_EQ(Judge("max_run_auc_bound: 0.7").outcome, Outcome::kNotMet);
  EXPECT_EQ(Judge("max_step_auc_bound_p95: 0.7", "bound of Theorem 1").outcome, Outcome::kMet);
  runs_.clear();
  freeze(AddFlips(30));
  AddFlips(1);
  EXPECT_EQ(Judge("max_run_auc_bound: 0.74").outcome, Outcome::kNotMet);
  runs_.clear();
  freeze(Add("none", 0.5));
  EXPECT_EQ(Judge("max_run_auc_bound: 0.7").outcome, Outcome::kMet);
}

// What was answered with a model is in no bound of its gradients.
TEST_F(AllRunsCriteriaTest, UnprovedAnswersFailWhereAGuaranteeIsAskedFor) {
  AddFlips(1);
  const std::string limit = "max_run_auc_bound: 0.76 ", proof = "require_proved_bound: true";
  EXPECT_EQ(Judge(limit + proof).outcome, Outcome::kMet);
  EXPECT_EQ(Judge(proof, "bound proved").outcome, Outcome::kMet);
  std::vector<EventRow>& events = runs_.back().parties.front().events;
  events.push_back({"2026-01-30T09:30:00.123Z", kUnprovedAnswers, "17 to shop"});
  events.push_back({"2026-01-31T09:30:00.123Z", kUnprovedAnswers, "4 to shop"});
  const std::string words = "answers left that no bound covers: at most 21";
  for (const char* const criterion : {"bound per run", "bound proved"}) {
    const Finding finding = Judge(limit + proof, criterion);
    EXPECT_EQ(finding.outcome, Outcome::kNotMet) << criterion;
    EXPECT_EQ(finding.found, words);
    EXPECT_THAT(finding.remedy, HasSubstr("release_head_predicts"));
  }
  EXPECT_EQ(Judge(limit).outcome, Outcome::kNotMet);
  EXPECT_THAT(VerdictText(verdicts_), HasSubstr(words));
  // A policy that asks for none is told.
  Judge("");
  EXPECT_TRUE(verdicts_.back().met());
  EXPECT_THAT(VerdictText(verdicts_), HasSubstr(words));
  // The partner of a later run on the labels keeps them.
  AddFlips(0.1);
  EXPECT_EQ(Judge("max_run_auc_bound: 0.9 " + proof).outcome, Outcome::kOpen);
  EXPECT_EQ(Judge(proof, "bound proved").outcome, Outcome::kOpen);
  EXPECT_THAT(verdicts_.back().further_lines.back(), HasSubstr("run run-0 (label_dp(epsilon=1))"));
}

TEST_F(AllRunsCriteriaTest, UnprovedAnswersCountWhereNoGradientWasSent) {
  PartyRecords& party = Add("none", 0.5);
  for (ProtectionRow& row : party.protections) {
    row.gate = v1::FREEZE_BOTTOM;
  }
  EXPECT_EQ(Judge("max_run_auc_bound: 0.7").outcome, Outcome::kMet);
  runs_.back().parties.front().events.push_back({"", kUnprovedAnswers, "1 to shop"});
  EXPECT_EQ(Judge("max_run_auc_bound: 0.7").outcome, Outcome::kNotMet);
}

TEST_F(AllRunsCriteriaTest, ALostAccountDoesNotMakeASecondRunPass) {
  AddGaussian("0123456789", 10, 0.36);
  EXPECT_EQ(Judge("max_run_auc_bound: 0.61").outcome, Outcome::kMet);
  AddGaussian("abcdefabcd", 10, 0.36);  // 0.600 each, 0.641 together.
  const Finding finding = Judge("max_run_auc_bound: 0.61");
  EXPECT_EQ(finding.outcome, Outcome::kNotMet);
  EXPECT_EQ(finding.found, "0.641");
  EXPECT_EQ(finding.where,
            "all releases of 2 runs on these labels up to this one, by privacy accounts 01234567, abcdefab");
  EXPECT_THAT(finding.remedy, HasSubstr("one privacy account"));
  EXPECT_EQ(Judge("max_run_auc_bound: 0.65").outcome, Outcome::kMet);
  EXPECT_THAT(VerdictText(verdicts_), HasSubstr("policy met"));
}

TEST_F(AllRunsCriteriaTest, ACopiedAccountDoesNotMakeASecondRunPass) {
  AddGaussian("a", 10, 0.36);
  AddGaussian("a", 9, 0.4);  // Whose account does not know of the first.
  EXPECT_EQ(Judge("max_run_auc_bound: 0.62").outcome, Outcome::kNotMet);
  runs_.back().parties.front().all_runs->table_rows = 200;
  runs_.front().parties.front().all_runs->table_rows =
      200;  // Or the account has lost nothing, and no example is in both.
  EXPECT_EQ(Judge("max_run_auc_bound: 0.62").outcome, Outcome::kOpen);
  runs_.pop_back();
  AddGaussian("a", 10, 0.36);  // The same bits once more.
  EXPECT_EQ(Judge("max_run_auc_bound: 0.62").outcome, Outcome::kMet);
}

TEST_F(AllRunsCriteriaTest, TwoLabelSetsOnOneTableAddUp) {
  AddGaussian("a", 10, 0.36);
  AddGaussian("b", 10, 0.36).record.run.label_set = "purchases";
  EXPECT_EQ(Judge("max_run_auc_bound: 0.61").outcome, Outcome::kNotMet);
}

TEST_F(AllRunsCriteriaTest, RunsOfLabelDpAddUp) {
  AddFlips(1);
  EXPECT_EQ(Judge("max_run_auc_bound: 0.76").outcome, Outcome::kMet);
  for (const char* const found : {"0.822", "0.876", "0.911"}) {
    AddFlips(1);
    const Finding finding = Judge("max_run_auc_bound: 0.76");
    EXPECT_EQ(finding.outcome, Outcome::kNotMet);
    EXPECT_EQ(finding.found, found);
  }
}

TEST_F(AllRunsCriteriaTest, ARunThatEndedWithinItsFirstBatchHasReleasedSomething) {
  PartyRecords& broken = Add("none", 0.5);
  broken.epoch_leaks.clear();
  broken.protections.clear();
  broken.record.status = "failed";
  broken.record.run.data_sha256 = "ab";
  broken.events.push_back({"", kFirstSliceSent, ""});
  AddGaussian("a", 10, 0.36).record.run.data_sha256 = "ab";
  EXPECT_EQ(Judge("max_run_auc_bound: 0.62").outcome, Outcome::kOpen);
  runs_.front().parties.front().events.clear();
  EXPECT_EQ(Judge("max_run_auc_bound: 0.62").outcome, Outcome::kMet);
}

TEST_F(AllRunsCriteriaTest, MixedMethodsAddUp) {
  Add("marvell(s=4)", 0.6);
  AddFlips(0.5);
  AddGaussian("a", 10, 0.36);
  EXPECT_EQ(Judge("max_run_auc_bound: 0.67").outcome, Outcome::kNotMet);
  EXPECT_EQ(Judge("max_run_auc_bound: 0.75").outcome, Outcome::kMet);
}

// A sum is proved only if every part of it is.
TEST_F(AllRunsCriteriaTest, AProvedRunAfterAConditionalOneIsNotProvedOnTheseLabels) {
  Add("iso(t=6000)", 0.57);
  AddGaussian("a", 10, 0.36);
  for (const char* const criterion : {"bound per run", "bound proved"}) {
    const Finding finding = Judge("max_run_auc_bound: 0.9 require_proved_bound: true", criterion);
    EXPECT_EQ(finding.outcome, Outcome::kOpen);
    EXPECT_THAT(finding.found, HasSubstr("nothing proved bounds what run run-0 (iso(t=6000)) released"));
  }
  EXPECT_EQ(Judge("max_run_auc_bound: 0.9").outcome, Outcome::kMet);
  EXPECT_THAT(VerdictText(verdicts_, /*verbose=*/true), HasSubstr("bound per run (conditional)"));
  EXPECT_THAT(VerdictText(verdicts_),
              HasSubstr("not in the promise: what run run-0 (iso(t=6000)) released of the same"));
  // The promise is about this run alone: nothing holds for any adversary of both.
  EXPECT_EQ(verdicts_.back().figures.all_runs_auc_bound, 1);
  EXPECT_THAT(VerdictText(verdicts_), HasSubstr("(in this run alone: nothing bounds the earlier runs"));
}

// Whether the tables have the same people, nobody knows: what is promised to them must hold if they do.
TEST_F(AllRunsCriteriaTest, ThePromiseCountsTablesThatMayHaveTheSameExamples) {
  AddGaussian("a", 10, 0.36);
  AddGaussian("b", 10, 0.36).record.run.data_sha256 = "of another table";
  EXPECT_EQ(Judge("max_run_auc_bound: 0.61").outcome, Outcome::kOpen);
  EXPECT_NEAR(*verdicts_.back().figures.all_runs_auc_bound, GaussianAucBound(2 * 0.36 * 0.36), 1e-9);
}

TEST_F(AllRunsCriteriaTest, AMethodWithoutABoundLeavesTheSumOpen) {
  PartyRecords& party = Add("none", 0);
  for (EpochLeakRow& row : party.epoch_leaks) {
    row.gaussian_auc_bound = std::nan("");
  }
  AddGaussian("a", 10, 0.36);
  const Finding finding =
      Judge("max_run_auc_bound: 0.61 allowed_protections: [\"none\", \"marvell\", \"gaussian_label_dp\"]");
  EXPECT_EQ(finding.outcome, Outcome::kOpen);
  EXPECT_EQ(finding.found, "0.601 or more: nothing bounds what run run-0 (none) released of the same labels");
  EXPECT_THAT(VerdictText(verdicts_), HasSubstr("OPEN  bound per run (conditional)"));
  EXPECT_FALSE(PolicyMet(verdicts_));
  EXPECT_FALSE(verdicts_.back().failed());
  // More than the limit by what is known fails whatever is open.
  EXPECT_EQ(Judge("max_run_auc_bound: 0.59").outcome, Outcome::kNotMet);
}

TEST_F(AllRunsCriteriaTest, AnotherTableMayHaveTheSameLabels) {
  AddFlips(1).record.run.data_sha256 = "cd";
  AddFlips(1);
  EXPECT_EQ(Judge("max_run_auc_bound: 0.76").outcome, Outcome::kOpen);
  EXPECT_EQ(Judge("max_run_auc_bound: 0.76").found,
            "0.732 or up to 0.822: the table of run run-0 (label_dp(epsilon=1)) may have the same examples, "
            "and no one privacy account has counted both");
  EXPECT_EQ(Judge("max_run_auc_bound: 0.83").outcome, Outcome::kMet);
}

// Whatever the policy says.
TEST_F(AllRunsCriteriaTest, TheAccountsOwnLimitHoldsForTheSum) {
  const std::string criterion = "bound of all runs on these labels";
  AddGaussian("a", 10, 0.36).record.run.max_lifetime_auc_bound = 0.62;
  EXPECT_EQ(Judge("", criterion).outcome, Outcome::kMet);
  PartyRecords& second = AddGaussian("b", 10, 0.36);
  second.events.push_back({"", "new_account", "account b; the same labels were counted by a"});
  const Finding finding = Judge("", criterion);
  EXPECT_EQ(finding.outcome, Outcome::kNotMet);
  EXPECT_EQ(finding.limit, "at most 0.62");
  EXPECT_EQ(finding.where,
            "all releases of 2 runs on these labels up to this one, by privacy accounts a, b; a new account, by the "
            "operator's new_account; limit: max_lifetime_auc_bound");
  // A run without an account is held to it, too.
  runs_.pop_back();
  AddFlips(1);
  EXPECT_EQ(Judge("", criterion).outcome, Outcome::kNotMet);
}

TEST_F(AllRunsCriteriaTest, ThePromiseIsOfAllRuns) {
  AddGaussian("a", 10, 0.36);
  AddGaussian("b", 10, 0.36);
  Judge("");
  EXPECT_NEAR(*verdicts_.back().figures.all_runs_auc_bound, GaussianAucBound(2 * 0.36 * 0.36), 1e-12);
}

}  // namespace
}  // namespace splitveil
