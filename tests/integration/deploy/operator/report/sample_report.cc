// sample_report FOLDER: writes plausible ledgers and the reports check_page.sh opens: report.html (two runs, both
// parties), audit.html (one run, held to a policy, with an attack beyond its bound), audit_nonlabel.html (its non-label
// party's ledger alone), begun.html (no step yet),
// days.html (runs that continue one another) and hostile.html (names that are long and full of markup).
#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "deploy/operator/audit/audit_report.h"
#include "deploy/operator/records/run_records.h"
#include "deploy/operator/report/report.h"

#include "tests/unit/deploy/operator/report/plausible_ledger.h"

namespace splitveil {
namespace {

absl::Status WriteUsual(const std::string& folder) {
  const std::string label_party = folder + "/label_party.db", nonlabel_party = folder + "/nonlabel_party.db";
  PlausibleRun open, hidden;
  open.run_id = "criteo-none-20260131";
  open.protection = "none";
  open.norm_auc = 0.91;
  open.cosine_auc = 0.995;
  open.sum_kl = 0;
  open.best_test_auc = 0.745;
  hidden.run_id = "criteo-marvell-20260131";
  hidden.mu_lower = 1.93;
  absl::Status status;
  for (const PlausibleRun& run : {open, hidden}) {
    status.Update(WriteLabelPartyLedger(label_party, run));
    status.Update(WriteNonLabelPartyLedger(nonlabel_party, run));
  }
  status.Update(WriteReport({label_party, nonlabel_party}, folder + "/report.html"));
  return status;
}

absl::Status WriteOne(const std::string& folder, const std::string& name, const PlausibleRun& run) {
  absl::Status status = WriteLabelPartyLedger(folder + "/" + name + ".db", run);
  status.Update(WriteReport({folder + "/" + name + ".db"}, folder + "/" + name + ".html"));
  return status;
}

absl::Status WriteAudit(const std::string& folder) {
  PlausibleRun run;
  run.run_id = "criteo-marvell-20260207";
  run.sum_kl = 0.4;
  run.exceeds_bound = true;
  run.mu_lower = 1.62;
  absl::Status status = WriteLabelPartyLedger(folder + "/audit.db", run);
  absl::StatusOr<std::vector<LedgerRun>> runs = ReadRuns({folder + "/audit.db"});
  status.Update(runs.status());
  v1::AuditPolicy policy;
  SetListDefaults(policy);
  for (const char* attack : {"", "norm", "cosine", "spectral", "residual_norm"}) {  // "": any.
    v1::MeasuredLeakLimit& limit = *policy.add_max_measured_leak();
    if (attack[0] != '\0') {
      limit.set_attack(attack);
    }
    limit.set_max_p95(0.7);
    limit.set_max_mean(0.65);
  }
  policy.set_max_measured_cumulative_auc(0.8);
  policy.set_require_proved_bound(false);
  policy.set_max_run_auc_bound(0.75);
  policy.set_max_measured_tpr_at_1pct_fpr(0.1);
  policy.set_min_final_test_auc(0.7);
  if (!status.ok()) {
    return status;
  }
  const AuditSubject subject = {
      {"policy.textproto", std::string(64, '0')}, {{"audit.db", std::string(64, '1')}}, "2026-02-07T12:00:00Z"};
  status = WriteAuditReport(*runs, {JudgeRuns(*runs, policy), subject}, folder + "/audit.html");
  // The same run as the non-label party's ledger alone shows it.
  status.Update(WriteNonLabelPartyLedger(folder + "/audit_nonlabel.db", run));
  runs = ReadRuns({folder + "/audit_nonlabel.db"});
  status.Update(runs.status());
  if (status.ok()) {
    status = WriteAuditReport(*runs, {JudgeRuns(*runs, policy), subject}, folder + "/audit_nonlabel.html");
  }
  return status;
}

// Four protections over four days, each day continuing from the one before.
absl::Status WriteDays(const std::string& folder) {
  const std::string path = folder + "/days.db";
  absl::Status status;
  double strength = 0.9;
  for (const char* protection : {"none", "max_norm", "marvell(sum_kl=0.25)", "marvell(sum_kl=0.1)"}) {
    std::string before;
    for (int day = 1; day <= 4; ++day) {
      PlausibleRun run;
      run.run_id = absl::StrCat("stream-", strength, "-day", day);
      run.protection = protection;
      run.resumed_from = before;
      run.epochs = 1;
      run.norm_auc = strength;
      run.cosine_auc = strength + 0.05 - 0.01 * day;
      run.predicted_auc = 0.5 + 0.25 * (1 - 0.5 / day) - 0.01 * (0.9 - strength);
      status.Update(WriteLabelPartyLedger(path, run));
      before = run.run_id;
    }
    strength -= 0.1;
  }
  status.Update(WriteReport({path}, folder + "/days.html"));
  return status;
}

absl::Status WriteAll(const std::string& folder) {
  absl::Status status = WriteUsual(folder);
  status.Update(WriteAudit(folder));
  status.Update(WriteDays(folder));
  PlausibleRun begun;
  begun.epochs = 0;
  begun.status = "running";
  status.Update(WriteOne(folder, "begun", begun));

  PlausibleRun hostile;
  hostile.run_id = "</script><script>document.documentElement.dataset.planted = 1</script>" + std::string(300, 'x');
  hostile.protection =
      "marvell<img src=x onerror=\"document.documentElement.dataset.planted = 1\">" + std::string(200, 'W');
  hostile.hidden_layers = {"<b>" + std::string(200, 'm')};
  status.Update(WriteOne(folder, "hostile", hostile));
  return status;
}

}  // namespace
}  // namespace splitveil

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: sample_report FOLDER\n");
    return 2;
  }
  const absl::Status status = splitveil::WriteAll(argv[1]);
  if (!status.ok()) {
    std::fprintf(stderr, "sample_report: %s\n", std::string(status.message()).c_str());
  }
  return status.ok() ? 0 : 1;
}
