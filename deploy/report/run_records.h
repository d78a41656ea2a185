// Reads ledgers and puts together what both parties recorded of one run.
#ifndef SPLITVEIL_DEPLOY_REPORT_RUN_RECORDS_H_
#define SPLITVEIL_DEPLOY_REPORT_RUN_RECORDS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "common/ledger/ledger_reader.h"

namespace splitveil {

// What one party recorded.
struct PartyRecords {
  std::string ledger_name;  // File name without its folder.
  RunRecord record;
  std::vector<StepRow> steps;
  std::vector<ProtectionRow> protections;
  std::vector<EvaluationRow> evaluations;
  std::vector<LeakSeries> leaks;
  std::vector<EventRecord> events;
};

struct RunRecords {
  std::vector<PartyRecords> parties;  // One or two; the label party first.
  std::string label;                  // For legends: the protection, with the run_id where several runs share it.

  const std::string& run_id() const { return parties.front().record.run.run_id; }
  // Gradient protection as the label party names it; empty where nobody recorded it.
  std::string protection() const;

  // The rows of the party that has them, the label party's first: it alone knows losses and exact leak AUCs.
  const std::vector<StepRow>& steps() const;
  const std::vector<ProtectionRow>& protections() const;
  const std::vector<EvaluationRow>& evaluations() const;
  // One series a layer, attack and observer; the cut layer and the adversary (the attack module) first.
  std::vector<const LeakSeries*> leaks() const;
};

// In the order the runs started. Errors: as WriteReport.
absl::StatusOr<std::vector<RunRecords>> ReadRuns(const std::vector<std::string>& ledger_paths);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_REPORT_RUN_RECORDS_H_
