// What one attack reached, and the one order of attacks in every table, chart and file.
#ifndef SPLITVEIL_COMMON_FIGURES_ATTACK_FIGURE_H_
#define SPLITVEIL_COMMON_FIGURES_ATTACK_FIGURE_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/leakage/step_series.h"
#include "common/leakage/summary.h"
#include "common/ledger/ledger_rows.h"

namespace splitveil {

// What was measured of one attack at one layer.
struct AttackFigure {
  std::string layer, attack;
  std::string observer = {};  // Who scored it; empty if only one party did.
  LeakSummary batches = {};   // No steps: no batch was scored.
  // Over all examples of the last epoch; of a cumulative attack, over all epochs so far. Its AUC is finite.
  std::optional<EpochLeakRow> last_epoch = std::nullopt;

  // The figure that attacks are ordered and runs are ranked by: the largest AUC that the attack reaches, in one batch
  // of twenty (p95) or over all examples of the last epoch. Of a cumulative attack the latter if it is known: a bound
  // for the run is about that, and a p95 would mix epochs of little and of much evidence. Inverted; 0 if nothing was
  // measured.
  double auc() const;
  // Over the last epoch, else the mean over the batches; inverted, 0 if nothing was measured. Orders attacks of the
  // same auc().
  double typical_auc() const;
  bool has_batches() const { return batches.steps > 0; }
  // True positive rates over the last epoch, at false positive rates of 1% and 0.1%.
  std::optional<double> tpr_1pct() const;
  std::optional<double> tpr_01pct() const;
};

// Attacks on gradients first, then those that read none, then those that use given labels; among each the stronger
// first, whatever the layer; of equally strong ones the one that needs least, then the cut layer, then by name.
bool IsStronger(const AttackFigure& a, const AttackFigure& b);

// What the attacks reached on the batches, and over the last epoch, by layer and attack.
using LeakSeriesByAttack = std::map<std::pair<std::string, std::string>, StepSeries>;
using EpochLeakByAttack = std::map<std::pair<std::string, std::string>, EpochLeakRow>;

// One figure for each attack of either, strongest first. Rows whose AUC is not finite count for nothing.
std::vector<AttackFigure> StrongestFirst(const LeakSeriesByAttack& series, const EpochLeakByAttack& last_epoch = {});

// The worst case among `rows`, which the label party scored at the cut: of
// cumulative_conditional_likelihood_ratio, which reads all epochs together, or else of conditional_likelihood_ratio.
std::optional<AttackFigure> WorstCaseOf(const std::vector<EpochLeakRow>& rows);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_FIGURES_ATTACK_FIGURE_H_
