// A run's figures, the RESULT line and the file beside the ledger.
#ifndef SPLITVEIL_LABEL_PARTY_SESSION_RESULT_JSON_H_
#define SPLITVEIL_LABEL_PARTY_SESSION_RESULT_JSON_H_

#include <string>

#include "common/figures/run_figures.h"
#include "label_party/audit/leak_auditor.h"
#include "label_party/training/step_recorder.h"

namespace splitveil {

// What the run came to, from what was gathered while it trained.
RunFigures FiguresOf(const RunResult& result, const LeakAuditor& auditor);

// The RESULT line's JSON object (deploy/OPERATIONS.md), numbers at six significant digits: test_* are those of the
// best epoch (best_epoch 0: before the first), final_test_auc the last one's; the best one has the best AUC (R^2) on
// the examples that best_epoch_chosen_on names: "validation", or "test" if no validation part is agreed, and
// test_auc is then flattered by the choice; validation_* are those of the best epoch, too; run_auc_bound is the bound
// on the AUC (bound_kind: proved, conditional or none) of an adversary that keeps every release of the run,
// all_runs_auc_bound of one that also kept the runs it resumes from, for the most exposed example; gate counts the
// steps by decision; frozen_after_epoch is null if the bottom model was never frozen; bound_exceeded counts the
// attacks that reached more over an epoch than the noise allows, bound_state says it in words. `strongest` is the
// strongest attack on gradients, by which runs are ranked; `practical` that without side information,
// `with_side_information` that with hints or the classes' true moments, `auc` as AttackFigure::auc; null: none was
// measured. `guessing` is what a random score reaches. `leak`
// summarises the AUCs of batches (SummarizeLeak): per layer "norm", "cosine" and "strongest", the first in the order of
// IsStronger, with its name as "attack"; `pooled` is over all examples of the last epoch. Every AUC is inverted below
// 0.5. Layers are keyed by their own names. Numbers that do not exist are null.
std::string ResultJson(const RunFigures& figures);

// The same object with every digit and every attack, `ended` ("completed", "stopped", "halted", "failed"), and
// `epoch_leak`: the figures over all examples of the latest epoch, [low, high] being 95% intervals. `standing`: what is
// proved, the worst case measured and the strongest practical attack, with the verdict (VerdictWords) and every attack
// that exceeds its bound. `claim_check`: the row that ledgers keep (common/ledger/README.md); null if the run
// claims no mu.
std::string FullResultJson(const RunFigures& figures);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SESSION_RESULT_JSON_H_
