// A run whose bad steps the ledger no longer has does not pass.
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

#include "deploy/operator/audit/audit_report.h"
#include "deploy/operator/records/ledger_figures.h"

#include "common/config/text_config.h"
#include "common/ledger/ledger.h"
#include "tests/unit/common/ledger/ledger_file.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;

class RemovedStepsTest : public LedgerFileTest {
 protected:
  // 2,000 steps that leaked and 2,000 frozen ones, of which the last 1,000 remain.
  void Record(int64_t retained_steps, double auc_bound = 0.9) {
    RunRow run = Run("run-1");
    run.role = "label_party";
    run.protection = "marvell(s=4)";
    run.config_json = R"({"agreement":{"audit":{"layers":["cut"],"attacks":["NORM"]}}})";
    const std::unique_ptr<Ledger> ledger = *Ledger::Create(path_, run, retained_steps);
    for (int64_t step = 0; step < 4000; ++step) {
      StepRow row;
      row.step = step;
      row.epoch = step / 1000;
      row.examples = 1024;
      ASSERT_TRUE(ledger->Record(row).ok());
      ProtectionRow protection = {};
      protection.step = step;
      protection.method = step >= 2000 ? "frozen" : step == 5 ? "none" : "marvell";
      protection.gate = step >= 2000 ? v1::FREEZE_BOTTOM : step == 7 ? v1::WARN : v1::RELEASE;
      protection.auc_bound = step % 10 == 0 ? auc_bound : 0.6;
      protection.sum_kl = 0.3;
      ASSERT_TRUE(ledger->Record(protection).ok());
      if (step < 2000) {
        ASSERT_TRUE(
            ledger->Record(LeakRow{step, "label_party", "cut", "norm", step % 10 == 0 ? 0.95 : 0.55, 1024}).ok());
      }
    }
    ASSERT_TRUE(ledger->RecordEvent("disclosure", "attack module reads: LABEL_SIDE_ONLY").ok());
    ASSERT_TRUE(ledger->Finish("completed").ok());
  }

  Finding Judge(const std::string& policy, const std::string& criterion) {
    v1::AuditPolicy parsed;
    EXPECT_TRUE(ParseTextConfig(policy, "policy", parsed).ok());
    SetListDefaults(parsed);
    if (!parsed.has_require_proved_bound()) {
      parsed.set_require_proved_bound(false);
    }
    const absl::StatusOr<std::vector<LedgerRun>> runs = ReadRuns({path_});
    EXPECT_TRUE(runs.ok()) << runs.status();
    const std::vector<RunVerdict> verdicts = JudgeRuns(*runs, parsed);
    for (const Finding& finding : verdicts.front().findings) {
      if (finding.criterion.rfind(criterion, 0) == 0) {
        return finding;
      }
    }
    ADD_FAILURE() << criterion;
    return {};
  }
};

TEST_F(RemovedStepsTest, WhatTheSummaryKnowsFailsAsBefore) {
  Record(1000);
  ASSERT_EQ(Sql("SELECT min(step) FROM step"), "2900");
  EXPECT_EQ(Judge("", "gradient protection").outcome, Outcome::kNotMet);
  EXPECT_EQ(Judge("", "gradient protection").found, "none");
  EXPECT_EQ(Judge("", "gradient protection").where, "step 5");
  EXPECT_EQ(Judge("", "decisions of the release gate").outcome, Outcome::kNotMet);
  EXPECT_EQ(Judge("", "decisions of the release gate").found, "freeze_bottom 2000, release 1999, warn 1");
  EXPECT_EQ(Judge("", "decisions of the release gate").where, "warn first at step 7");
  EXPECT_EQ(Judge("", "share of the steps audited").outcome, Outcome::kMet);
  EXPECT_EQ(Judge("", "share of the steps audited").found, "1.000");
  EXPECT_EQ(Judge("max_measured_leak { max_mean: 0.58 }", "mean AUC").found, "0.590");
  EXPECT_EQ(Judge("max_measured_leak { max_mean: 0.58 }", "mean AUC").outcome, Outcome::kNotMet);
  // They were released, so the bound is not "proved, nothing left".
  EXPECT_NE(Judge("require_proved_bound: true", "bound proved").outcome, Outcome::kMet);
  EXPECT_NE(Judge("max_run_auc_bound: 0.7", "bound per run").outcome, Outcome::kMet);
}

// A tenth of the steps have 0.9, or all: which is not known any more.
TEST_F(RemovedStepsTest, AQuantileThatTheSummaryCannotAnswerIsOpen) {
  Record(1000);
  const Finding bound = Judge("max_step_auc_bound_p95: 0.7", "bound of Theorem 1");
  EXPECT_EQ(bound.outcome, Outcome::kOpen);
  EXPECT_EQ(bound.found, "not known: of steps 1 to 2900 only a summary is read");
  EXPECT_THAT(bound.remedy, HasSubstr("ledger_retained_steps"));
  EXPECT_EQ(Judge("max_step_auc_bound_p95: 0.95", "bound of Theorem 1").outcome, Outcome::kMet);
  const Finding leak = Judge("max_measured_leak { max_p95: 0.7 }", "p95 AUC");
  EXPECT_EQ(leak.outcome, Outcome::kOpen);
  EXPECT_EQ(leak.found, "not known: of steps 1 to 2900 only a summary is read");
  EXPECT_EQ(Judge("max_measured_leak { max_p95: 0.96 }", "p95 AUC").outcome, Outcome::kMet);
}

// Fail closed: each removed step counts with the worst.
TEST_F(RemovedStepsTest, FiguresAreNoBetterThanOfAllSteps) {
  Record(0);
  const RunFigures whole = FiguresOf(ReadRuns({path_})->front());
  Sql("DELETE FROM run; DELETE FROM step; DELETE FROM protection; DELETE FROM leak; DELETE FROM event");
  Record(1000);
  const RunFigures trimmed = FiguresOf(ReadRuns({path_})->front());
  EXPECT_EQ(trimmed.gate, whole.gate);
  EXPECT_EQ(trimmed.steps, whole.steps);
  EXPECT_EQ(trimmed.examples, whole.examples);
  EXPECT_EQ(trimmed.epochs, whole.epochs);
  EXPECT_GE(*trimmed.auc_bound_p95, *whole.auc_bound_p95);
  EXPECT_GE(*trimmed.step_auc_bound_p95, *whole.step_auc_bound_p95);
  EXPECT_FALSE(trimmed.released_nothing());
}

TEST_F(RemovedStepsTest, StepsWithoutABoundMayHaveHadAny) {
  Record(1000, std::nan(""));
  EXPECT_EQ(Judge("max_step_auc_bound_p95: 0.99", "bound of Theorem 1").outcome, Outcome::kOpen);
}

}  // namespace
}  // namespace splitveil
