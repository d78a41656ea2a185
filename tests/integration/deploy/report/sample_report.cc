// sample_report FOLDER: writes plausible ledgers of both parties and FOLDER/report.html from them.
#include <cstdio>
#include <string>

#include "absl/status/status.h"
#include "deploy/report/report.h"

#include "tests/unit/deploy/report/plausible_ledger.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: sample_report FOLDER\n");
    return 2;
  }
  const std::string folder = argv[1];
  const std::string label_party = folder + "/label_party.db", nonlabel_party = folder + "/nonlabel_party.db";
  splitveil::PlausibleRun open, hidden;
  open.run_id = "criteo-none-20260131";
  open.protection = "none";
  open.norm_auc = 0.91;
  open.cosine_auc = 0.995;
  open.sum_kl = 0;
  open.best_test_auc = 0.745;
  hidden.run_id = "criteo-marvell-20260131";
  absl::Status status;
  for (const splitveil::PlausibleRun& run : {open, hidden}) {
    status.Update(splitveil::WriteLabelPartyLedger(label_party, run));
    status.Update(splitveil::WriteNonLabelPartyLedger(nonlabel_party, run));
  }
  status.Update(splitveil::WriteReport({label_party, nonlabel_party}, folder + "/report.html"));
  if (!status.ok()) {
    std::fprintf(stderr, "sample_report: %s\n", std::string(status.message()).c_str());
  }
  return status.ok() ? 0 : 1;
}
