#include "common/operations/run_status.h"

#include <gtest/gtest.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/config/agreement.h"
#include "common/operations/run_facts.h"
#include "common/process/runtime.h"
#include "tests/testing/process/temp_folder.h"

namespace splitveil {
namespace {

TEST(RunStatusTest, StartsWaitingWithRoleAndVersion) {
  const v1::GetStatusResponse status = RunStatus("label_party").Snapshot();
  EXPECT_EQ(status.role(), "label_party");
  EXPECT_EQ(status.version(), Version());
  EXPECT_EQ(status.phase(), "waiting");
}

TEST(RunStatusTest, UpdatesFromSeveralThreadsAddUp) {
  RunStatus status("label_party");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 1000; ++j) {
        status.Update([](v1::GetStatusResponse& message) { message.set_step(message.step() + 1); });
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(status.Snapshot().step(), 4000);
}

TEST(RunFactsTest, ConfigIsJsonWithTheAgreementWhateverThePeerCallsItself) {
  v1::RunAgreement agreement;
  agreement.set_run_name("facts");
  agreement.set_cut_width(3);
  Canonicalize(agreement);
  const RunRow run = DescribeRun("facts-1", "label_party", "none", agreement, "\"}\xff\n" + std::string(100, 'v'));
  const nlohmann::json facts = nlohmann::json::parse(run.config_json, nullptr, false);
  ASSERT_TRUE(facts.is_object()) << run.config_json;
  EXPECT_EQ(facts["agreement"]["cut_width"], 3);
  EXPECT_EQ(facts["version"], Version());
  EXPECT_EQ(run.agreement_sha256.size(), 64);
}

TEST(RunFactsTest, RunsOfOneAgreementHaveDifferentNames) {
  EXPECT_EQ(NewRunId("demo").substr(0, 5), "demo-");
  EXPECT_NE(NewRunId("demo"), NewRunId("demo"));
}

// Across runs, and whether or not what was begun came to an end.
TEST(RunFactsTest, AlignmentsOfOneLedgerAreCounted) {
  const testing::TempFolder folder;
  const auto align = [&](const char* run_id, int64_t limit) {
    RunRow run;
    run.run_id = run_id;
    const absl::StatusOr<std::unique_ptr<Ledger>> ledger = BeginLedger(folder.File("a.db"), run, v1::ORACLE);
    EXPECT_TRUE(ledger.ok()) << ledger.status();
    int left = kMostAlignments;
    return CountAlignment(**ledger, limit, left);
  };
  EXPECT_TRUE(align("first", 2).ok());
  EXPECT_TRUE(align("second", 2).ok());
  const absl::Status refused = align("third", 2);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message(),
            "alignment: expected at most 2 with this party's ledger (party.max_alignments), found 2 begun before: each "
            "tries another list of ids");
  EXPECT_TRUE(align("fourth", 0).ok());
  EXPECT_FALSE(align("fifth", 3).ok());
}

TEST(RunFactsTest, AlignmentsOfOneProcessAreCounted) {
  const testing::TempFolder folder;
  RunRow run;
  run.run_id = "first";
  const absl::StatusOr<std::unique_ptr<Ledger>> ledger = BeginLedger(folder.File("a.db"), run, v1::ORACLE);
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  int left = 2;
  EXPECT_TRUE(CountAlignment(**ledger, 0, left).ok());
  EXPECT_TRUE(CountAlignment(**ledger, 0, left).ok());
  const absl::Status refused = CountAlignment(**ledger, 0, left);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(left, 0);
  EXPECT_EQ(*(*ledger)->CountEvents("aligning"), 2);
}

TEST(RunFactsTest, LedgerThatCannotBeOpenedIsAnError) {
  EXPECT_FALSE(BeginLedger("/no/such/folder/ledger.db", RunRow(), v1::ORACLE).ok());
}

}  // namespace
}  // namespace splitveil
