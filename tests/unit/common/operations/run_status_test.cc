#include "common/operations/run_status.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/config/agreement.h"
#include "common/operations/run_facts.h"
#include "common/process/version.h"

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

TEST(RunFactsTest, LedgerThatCannotBeOpenedIsAnError) {
  EXPECT_FALSE(BeginLedger("/no/such/folder/ledger.db", RunRow(), v1::ORACLE).ok());
}

}  // namespace
}  // namespace splitveil
