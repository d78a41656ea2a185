#include "tests/unit/deploy/operator/audit/recorded_run.h"

#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "deploy/operator/audit/audit_report.h"

#include "common/config/text_config.h"
#include "common/leakage/summary.h"

namespace splitveil {

LeakSeries Series(const std::string& observer, const std::string& layer, const std::string& attack,
                  std::vector<double> aucs) {
  LeakSeries series = {observer, layer, attack, {}, std::move(aucs), {}};
  for (size_t step = 0; step < series.aucs.size(); ++step) {
    series.steps.push_back(static_cast<int64_t>(step));
  }
  series.summary = SummarizeLeak(series.aucs);
  return series;
}

LedgerRun RecordedRun() {
  PartyRecords party;
  party.record.run = {"run-1", "label_party", "00", "marvell(s=4)",
                      R"({"agreement":{"audit":{"layers":["cut"],"attacks":["NORM"]}}})"};
  party.record.status = "completed";
  std::vector<double> norm, spectral;
  for (int64_t step = 0; step < 20; ++step) {
    party.steps.push_back({step, step / 10, step % 10, 1024, 0.5, 0.1, 0, 0});
    ProtectionRow row = {step, "marvell", 0, 0, 0, 0.25, 1, 0, 0, 0, 0, 0.3, 0.7, v1::RELEASE};
    party.protections.push_back(row);
    norm.push_back(step % 2 == 0 ? 0.52 : 0.58);
    spectral.push_back(step % 2 == 0 ? 0.5 : 0.56);
  }
  party.leaks = {Series("label_party", "cut", "norm", norm), Series("nonlabel_party", "first", "spectral", spectral)};
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    party.epoch_leaks.push_back({epoch, "label_party", "cut", "likelihood_ratio", 10240, 2560, 0.6, 0.58, 0.62, 0.02,
                                 0.01, 0.03, 0.004, 0.002, 0.006, 0.65, 0.7});
  }
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    party.epoch_leaks.push_back({epoch, "label_party", "cut", "cumulative_direction", 10240, 2560, 0.64, 0.62, 0.66,
                                 0.02, 0.01, 0.03, 0.004, 0.002, 0.006, 0.72, 0.8});
  }
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    party.epoch_leaks.push_back({epoch, "label_party", "cut", "cumulative_conditional_likelihood_ratio", 10240, 2560,
                                 0.63, 0.61, 0.65, 0.02, 0.01, 0.03, 0.004, 0.002, 0.006, 0.72, 0.8});
  }
  party.evaluations = {{10, "test", 0.5, 0.7, 0.8, 0.01}, {20, "test", 0.5, 0.75, 0.8, 0.01}};
  party.events = {{"", "disclosure", "attack module reads: LABEL_SIDE_ONLY"}};
  LedgerRun run;
  run.label = "marvell(s=4)";
  run.parties.push_back(std::move(party));
  return run;
}

Finding Judge(const LedgerRun& run, const std::string& policy, const std::string& criterion) {
  v1::AuditPolicy parsed;
  const absl::Status status = ParseTextConfig(policy, "policy", parsed);
  EXPECT_TRUE(status.ok()) << status;
  SetListDefaults(parsed);
  if (!parsed.has_require_proved_bound()) {  // The recorded run's is conditional.
    parsed.set_require_proved_bound(false);
  }
  const std::vector<RunVerdict> verdicts = JudgeRuns({run}, parsed);
  for (const Finding& finding : verdicts.at(0).findings) {
    if (absl::StrContains(finding.criterion, criterion)) {
      return finding;
    }
  }
  ADD_FAILURE() << "no criterion \"" << criterion << "\"";
  return {};
}

}  // namespace splitveil
