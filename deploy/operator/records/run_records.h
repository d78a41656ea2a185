// Reads ledgers and puts together what both parties recorded of one run.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_RECORDS_RUN_RECORDS_H_
#define SPLITVEIL_DEPLOY_OPERATOR_RECORDS_RUN_RECORDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "common/figures/all_runs.h"
#include "common/figures/json_number.h"
#include "common/ledger/ledger_reader.h"

namespace splitveil {

// What one party recorded.
struct PartyRecords {
  std::string ledger_name;  // File name without its folder.
  RunRecord record;
  std::vector<StepRow> steps;
  std::vector<EpochStepsRow> epochs;
  std::vector<StepTimeRow> step_times;
  std::vector<ProtectionRow> protections;
  std::vector<EvaluationRow> evaluations;
  std::vector<LeakSeries> leaks;
  std::vector<EpochLeakRow> epoch_leaks;
  std::vector<DistributionRow> distributions;
  std::vector<AttributeLeakRow> attribute_leaks;
  std::vector<PrivacyLossRow> privacy_losses;
  std::vector<EventRow> events;
  // Of the steps that PartyCommon.ledger_retained_steps has removed, or that are too many (LedgerReader); the rows of
  // steps above are without them.
  std::vector<StepSummaryRow> removed_steps = {};
  std::vector<PrivacyLossSummaryRow> removed_privacy_losses = {};
  std::vector<LabelReleaseRow> label_releases = {};
  std::optional<ClaimCheckRow> claim_check;
  std::optional<AllRunsRow> all_runs;
  std::optional<ActivationBoundRow> activation_bound;

  // What the agreement that it recorded has at `path`, "/audit/layers"; null where that is missing: a ledger of another
  // version may lack it, or hold anything in its place. And the texts of such a list.
  Json Agreed(const std::string& path) const;
  std::vector<std::string> AgreedTexts(const std::string& path) const;
  // Steps whose gradients were released: the gate neither halted nor kept them back. 0 where this party does not
  // know.
  int64_t released_steps() const;
  // The last epoch of such a step; -1 for none. Later epochs trained the top model only.
  int64_t last_released_epoch() const;
  // Whether it has a row of a step, and whether it knows the decisions of the release gate.
  bool has_step() const;
  bool knows_decisions() const;
  // Whether it is the label party's, and sent no gradient (ReleasedGradients) and no label (audit.auxiliary_labels): a
  // bottom model frozen from the start, or an end before the first answer.
  bool released_nothing() const;
  bool has_event(absl::string_view kind) const { return HasEvent(events, kind); }
  // Answers that no bound covers, which `label_party serve` gave outside callers.
  int64_t unproved_answers() const { return CountUnprovedAnswers(events); }
  // "of steps 1 to 750 only a summary is read"; empty where none was removed, and there are not too many.
  std::string missing_steps() const;
};

// A version of the run's model that `label_party serve` may answer with.
struct StoredVersionFigures {
  std::string number;
  // What its answers on training rows tell of their labels; nullopt: not measured.
  std::optional<EvaluationRow> train;
};

struct LedgerRun {
  std::vector<PartyRecords> parties;  // One or two; the label party first.
  // For legends: the protection, behind "logistic regression" of a baseline, and the run_id where several runs share
  // it.
  std::string label;
  std::vector<StoredVersionFigures> versions = {};  // Of its model, in the order in which they were stored.

  const std::string& run_id() const { return parties.front().record.run.run_id; }
  // Null where its ledger was not given.
  const PartyRecords* label_party() const;
  const PartyRecords* nonlabel_party() const;
  // Whether the agreement trains nothing and no party's ledger has a trace of a step: no gradient was released. A run
  // with one is the record of a training, whatever its agreement says.
  bool only_predicts() const;
  // Whether its model is logistic regression, as `splitveil baseline` writes it.
  bool is_baseline() const;
  // PartyRecords::released_nothing of the label party, or only_predicts.
  bool released_nothing() const;
  // Gradient protection as the label party names it; empty where nobody recorded it.
  std::string protection() const;
  // Of the activations, "pareto(threshold=0.005, slack=0.5, noise_sigma=1)"; empty where there is none, or no ledger of
  // the non-label party.
  std::string activation_protection() const;

  // The rows of the party that has them, the label party's first: it alone knows losses and exact leak AUCs.
  template <typename Rows>
  const Rows& RowsOf(Rows PartyRecords::*rows) const {
    const PartyRecords& first = parties.front();
    return (first.*rows).empty() ? parties.back().*rows : first.*rows;
  }
  const std::vector<StepRow>& steps() const { return RowsOf(&PartyRecords::steps); }
  const std::vector<EpochStepsRow>& epochs() const { return RowsOf(&PartyRecords::epochs); }
  const std::vector<StepSummaryRow>& removed_steps() const { return RowsOf(&PartyRecords::removed_steps); }
  const std::vector<ProtectionRow>& protections() const { return RowsOf(&PartyRecords::protections); }
  const std::vector<EvaluationRow>& evaluations() const { return RowsOf(&PartyRecords::evaluations); }
  const std::vector<EpochLeakRow>& epoch_leaks() const { return RowsOf(&PartyRecords::epoch_leaks); }
  // One series a layer, attack and observer; the cut layer and the adversary (the attack module) first.
  std::vector<const LeakSeries*> leaks() const;
};

// In the order the runs started. Errors: InvalidArgument for no ledger, a file that
// is none, one without a run, or the same party of a run twice; NotFound for a missing ledger.
absl::StatusOr<std::vector<LedgerRun>> ReadRuns(const std::vector<std::string>& ledger_paths);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_RECORDS_RUN_RECORDS_H_
