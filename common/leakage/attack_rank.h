// The one order of attacks, strongest first, and the one figure they are ordered by: in every table, chart and file.
#ifndef SPLITVEIL_COMMON_LEAKAGE_ATTACK_RANK_H_
#define SPLITVEIL_COMMON_LEAKAGE_ATTACK_RANK_H_

#include <limits>
#include <string>

#include "absl/strings/string_view.h"

#include "common/leakage/summary.h"

namespace splitveil {

// What an attack's adversary has beside what the protocol sends it, from nothing on.
enum class AttackNeeds { kNothing, kKnownPositives, kTrueClasses, kGivenLabels, kUnknown };

// `attack` as ledgers name it, here and below; kUnknown for a name of another build.
AttackNeeds NeedsOf(absl::string_view attack);

// Whether the attack runs without hints, given labels and the classes' true moments.
bool NeedsNoSideInformation(absl::string_view attack);

// Attacks that run once and are fitted to labels the adversary was given, and so say nothing of the gradients' leak by
// themselves.
bool UsesGivenLabels(absl::string_view attack);

// Whether noise on the gradients, and a bound that follows from it, is about the attack. An unknown one: assumed so.
bool ReadsGradients(absl::string_view attack);

// Whether the attack's scores sum an example's evidence over the epochs.
bool IsCumulativeAttack(absl::string_view attack);

// What was measured of one attack at one layer.
struct MeasuredAttack {
  std::string layer, attack;
  LeakSummary batches;  // No steps: no batch was scored.
  // Over all examples of the last epoch, as measured; of a cumulative attack, over all epochs so far.
  double pooled_auc = std::numeric_limits<double>::quiet_NaN();

  // The figure that attacks are ordered and runs are ranked by: the largest AUC that the attack reaches, in one batch
  // of twenty (p95) or over all examples of the last epoch. Of a cumulative attack the latter where it is known: that
  // is what a bound for the run is about, and a p95 would mix epochs of little and of much evidence. Inverted; 0 where
  // nothing was measured.
  double auc() const;
  // Over the last epoch, else the mean over the batches; inverted, 0 where nothing was measured. Orders attacks of the
  // same auc().
  double typical_auc() const;
};

// Attacks on gradients first, then those that read none, then those that use given labels; among each the stronger
// first, whatever the layer; of equally strong ones that which needs least, then the cut layer, then by name.
bool IsStronger(const MeasuredAttack& a, const MeasuredAttack& b);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_ATTACK_RANK_H_
