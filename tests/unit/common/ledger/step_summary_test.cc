// What PartyCommon.ledger_retained_steps removes is summarised before.
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "common/ledger/ledger.h"
#include "common/ledger/ledger_reader.h"
#include "tests/unit/common/ledger/ledger_file.h"

namespace splitveil {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class StepSummaryTest : public LedgerFileTest {
 protected:
  // Released up to step 500, frozen after. Step 7 reads the most, step 42 has no bound, every tenth no AUC.
  static void Record(int64_t from, int64_t to, Ledger& ledger) {
    for (int64_t step = from; step < to; ++step) {
      StepRow row;
      row.step = step;
      row.epoch = step / 100;
      row.examples = 10;
      ASSERT_TRUE(ledger.Record(row).ok());
      ProtectionRow protection = {};
      protection.step = step;
      protection.method = step < 500 ? "marvell" : "frozen";
      protection.gate = step < 500 ? v1::RELEASE : v1::FREEZE_BOTTOM;
      protection.auc_bound = step == 42 ? kNan : step == 7 ? 0.9 : 0.6;
      protection.sum_kl = step == 7 ? 3 : 0.2;
      ASSERT_TRUE(ledger.Record(protection).ok());
      const double auc = step % 10 == 0 ? kNan : step == 7 ? 0.02 : 0.55;
      ASSERT_TRUE(ledger.Record(LeakRow{step, "label_party", "cut", "norm", auc, 10}).ok());
      PrivacyLossRow loss;
      loss.step = step;
      loss.attribute = "sex";
      loss.privacy_loss = step == 7 ? 0.4 : 0.1;
      ASSERT_TRUE(ledger.Record(loss).ok());
    }
    ASSERT_TRUE(ledger.Commit().ok());
  }

  std::unique_ptr<LedgerReader> Read() const { return *LedgerReader::Open(path_); }
  std::unique_ptr<Ledger> OpenTrimmed() { return *Ledger::Create(path_, Run("run-1"), /*retained_steps=*/150); }
};

TEST_F(StepSummaryTest, HasWhatWasRemovedByMethodAndDecision) {
  Record(0, 1000, *OpenTrimmed());  // Up to step 749 removed.
  const std::vector<StepSummaryRow> rows = *Read()->StepSummaries("run-1");
  ASSERT_EQ(rows.size(), 2);
  EXPECT_EQ(rows[0].method, "marvell");
  EXPECT_EQ(rows[0].gate, v1::RELEASE);
  EXPECT_EQ(rows[0].steps, 500);
  EXPECT_EQ(rows[0].examples, 5000);
  EXPECT_EQ(rows[0].first_step, 0);
  EXPECT_EQ(rows[0].last_step, 499);
  EXPECT_EQ(rows[0].last_epoch, 4);
  EXPECT_TRUE(std::isnan(rows[0].worst_auc_bound));  // Of step 42: it may have been any.
  EXPECT_EQ(rows[0].worst_step, 42);
  EXPECT_EQ(rows[0].worst_sum_kl, 3);
  EXPECT_EQ(rows[1].method, "frozen");
  EXPECT_EQ(rows[1].gate, v1::FREEZE_BOTTOM);
  EXPECT_EQ(rows[1].steps, 250);
  EXPECT_EQ(rows[1].first_step, 500);
  EXPECT_EQ(rows[1].last_step, 749);
  EXPECT_EQ(rows[1].worst_auc_bound, 0.6);
  EXPECT_EQ(rows[1].worst_step, 500);
  const std::vector<PrivacyLossSummaryRow> losses = *Read()->PrivacyLossSummaries("run-1");
  ASSERT_EQ(losses.size(), 1);
  EXPECT_EQ(losses[0].steps, 750);
  EXPECT_EQ(losses[0].worst_privacy_loss, 0.4);
  EXPECT_EQ(losses[0].worst_step, 7);
}

// The mean is exact; the quantile is known up to what the removed ones may have been.
TEST_F(StepSummaryTest, ASeriesIsOfAllSteps) {
  Record(0, 1000, *OpenTrimmed());
  const std::vector<LeakSeries> trimmed = *Read()->Leaks("run-1");
  ASSERT_EQ(trimmed.size(), 1);
  EXPECT_EQ(trimmed[0].steps.size(), 225);
  EXPECT_EQ(trimmed[0].summary.p95, 0.98);
  EXPECT_EQ(trimmed[0].p95_at_least, 0.55);
  Record(0, 1000, *Open("whole"));
  const LeakSeries whole = Read()->Leaks("whole")->front();
  EXPECT_EQ(trimmed[0].summary.steps, whole.summary.steps);
  EXPECT_NEAR(trimmed[0].summary.mean, whole.summary.mean, 1e-12);
  EXPECT_NEAR(trimmed[0].summary.mean_ci95, whole.summary.mean_ci95, 1e-9);
  EXPECT_TRUE(std::isnan(whole.p95_at_least));
}

// What a run with more steps than are read one by one states is what all of its rows say.
TEST_F(StepSummaryTest, OfTooManyStepsTheEarlierOnesAreReadAsASummary) {
  Record(0, 1000, *Open("whole"));
  const std::unique_ptr<LedgerReader> few = *LedgerReader::Open(path_, /*most_steps=*/150);
  EXPECT_EQ(few->Steps("whole")->size(), 150);
  EXPECT_EQ(few->Steps("whole")->front().step, 850);
  EXPECT_EQ(few->Protections("whole")->size(), 150);
  EXPECT_EQ(few->PrivacyLosses("whole")->size(), 150);
  const std::vector<StepSummaryRow> rows = *few->StepSummaries("whole");
  // Released at 0.6, 0.9 and at no bound; frozen.
  ASSERT_EQ(rows.size(), 4);
  int64_t steps = 0, examples = 0;
  for (const StepSummaryRow& row : rows) {
    steps += row.steps;
    examples += row.examples;
  }
  EXPECT_EQ(steps, 850);
  EXPECT_EQ(examples, 8500);
  EXPECT_EQ(rows[0].worst_auc_bound, 0.6);
  EXPECT_EQ(rows[0].steps, 498);
  EXPECT_NEAR(rows[0].least_auc_bound, 0.6, 2e-5);
  EXPECT_EQ(rows[1].worst_auc_bound, 0.9);
  EXPECT_EQ(rows[1].first_step, 7);
  EXPECT_TRUE(std::isnan(rows[2].worst_auc_bound));
  EXPECT_EQ(rows[2].first_step, 42);
  EXPECT_EQ(rows[3].method, "frozen");
  EXPECT_EQ(rows[3].last_step, 849);
  const std::vector<PrivacyLossSummaryRow> losses = *few->PrivacyLossSummaries("whole");
  ASSERT_EQ(losses.size(), 1);
  EXPECT_EQ(losses[0].steps, 850);
  EXPECT_EQ(losses[0].worst_privacy_loss, 0.4);
  EXPECT_EQ(losses[0].worst_step, 7);
  const LeakSeries all = Read()->Leaks("whole")->front(), series = few->Leaks("whole")->front();
  EXPECT_EQ(series.steps.size(), 135);
  EXPECT_EQ(series.steps.front(), 851);
  EXPECT_EQ(series.summary.steps, all.summary.steps);
  EXPECT_EQ(series.summary.mean, all.summary.mean);
  EXPECT_EQ(series.summary.p95, all.summary.p95);
}

TEST_F(StepSummaryTest, StepsAreNeitherLostNorCountedTwiceBetweenBothSummaries) {
  Record(0, 1000, *OpenTrimmed());  // Up to step 749 removed.
  const std::unique_ptr<LedgerReader> few = *LedgerReader::Open(path_, /*most_steps=*/50);
  int64_t steps = static_cast<int64_t>(few->Protections("run-1")->size());
  EXPECT_EQ(steps, 50);
  const std::vector<StepSummaryRow> summaries = few->StepSummaries("run-1").value();
  for (const StepSummaryRow& row : summaries) {
    steps += row.steps;
  }
  EXPECT_EQ(steps, 1000);
  EXPECT_EQ(few->Leaks("run-1")->front().summary.steps, 900);
  const std::vector<EpochStepsRow> epochs = *few->EpochSteps("run-1");  // Of what the file has.
  ASSERT_EQ(epochs.size(), 3);
  EXPECT_EQ(epochs[0].epoch, 7);
  EXPECT_EQ(epochs[0].first_step, 750);
  EXPECT_EQ(epochs[0].steps, 50);
  EXPECT_EQ(epochs[2].last_step, 999);
  EXPECT_EQ(epochs[2].examples, 1000);
}

// They were released once, and the answers are the same.
TEST_F(StepSummaryTest, StepsThatAreRecordedAgainCountOnce) {
  Record(0, 1000, *OpenTrimmed());
  v1::LedgerPosition position;
  position.set_steps(700);
  {
    const std::unique_ptr<Ledger> ledger = *Ledger::Continue(path_, Run("run-1"), position, 150);
    Record(700, 740, *ledger);
    EXPECT_EQ(Sql("SELECT count(*) FROM step WHERE run_id = 'run-1'"), "40");
    EXPECT_EQ(Read()->Steps("run-1")->size(), 0);  // All summarised.
    Record(740, 2000, *ledger);
  }
  int64_t steps = static_cast<int64_t>(Read()->Protections("run-1")->size());
  const std::vector<StepSummaryRow> removed = *Read()->StepSummaries("run-1");
  for (const StepSummaryRow& row : removed) {
    steps += row.steps;
  }
  EXPECT_EQ(steps, 2000);
  EXPECT_EQ(Read()->Leaks("run-1")->front().summary.steps, 1800);
}

// The non-label party records no protection.
TEST_F(StepSummaryTest, StepsWithoutAProtectionHaveAMethodOfTheirOwn) {
  const std::unique_ptr<Ledger> ledger = OpenTrimmed();
  for (int64_t step = 0; step < 1000; ++step) {
    ASSERT_TRUE(ledger->Record(StepRow{step, step / 100, 0, 10}).ok());
  }
  ASSERT_TRUE(ledger->Commit().ok());
  const std::vector<StepSummaryRow> rows = *Read()->StepSummaries("run-1");
  ASSERT_EQ(rows.size(), 1);
  EXPECT_EQ(rows[0].method, "");
  EXPECT_EQ(rows[0].gate, v1::GATE_ACTION_UNSPECIFIED);
  EXPECT_EQ(rows[0].steps, 750);
  EXPECT_EQ(rows[0].last_epoch, 7);
}

TEST_F(StepSummaryTest, ALossThatIsNotKnownMayHaveBeenAny) {
  const std::unique_ptr<Ledger> ledger = OpenTrimmed();
  for (int64_t step = 0; step < 1000; ++step) {
    PrivacyLossRow loss;
    loss.step = step;
    loss.attribute = "sex";
    loss.privacy_loss = step == 400 ? kNan : 0.1;
    ASSERT_TRUE(ledger->Record(loss).ok());
    ASSERT_TRUE(ledger->Record(StepRow{step, 0, step, 1}).ok());
  }
  ASSERT_TRUE(ledger->Commit().ok());
  const PrivacyLossSummaryRow row = Read()->PrivacyLossSummaries("run-1")->front();
  EXPECT_TRUE(std::isnan(row.worst_privacy_loss));
  EXPECT_EQ(row.worst_step, 400);
}

}  // namespace
}  // namespace splitveil
