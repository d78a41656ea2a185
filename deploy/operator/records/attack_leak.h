// All that was recorded of one attack: its batches and its epochs, joined.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_RECORDS_ATTACK_LEAK_H_
#define SPLITVEIL_DEPLOY_OPERATOR_RECORDS_ATTACK_LEAK_H_

#include <string>
#include <vector>

#include "deploy/operator/records/run_records.h"

namespace splitveil {

// The AUC of an adversary who turns a score round that points the wrong way: 0.5 + |auc - 0.5|. NaN stays NaN.
double TurnedAuc(double auc);

// One attack at one layer as one observer scored it. Borrows from the records, which must outlive it.
struct AttackLeak {
  std::string layer, attack, observer;
  const LeakSeries* series = nullptr;       // Null, or without steps: no batch was scored.
  std::vector<const EpochLeakRow*> epochs;  // Ascending; with a finite AUC only.

  bool has_batches() const { return series != nullptr && series->summary.steps > 0; }
  // The figure that attacks are ordered by and runs are ranked by, in every table, chart and verdict: the largest AUC
  // that the attack reaches, in one batch of twenty (the 95% quantile over the batches) or over all examples of the
  // last epoch. Turned; 0 where nothing was measured.
  double measured_auc() const;
  // Over the last epoch, else the mean over the batches; turned, 0 where nothing was measured. Orders attacks of the
  // same measured_auc.
  double typical_auc() const;
};

// Attacks that run once and use labels the adversary was given, and so say nothing of the gradients' leak by
// themselves.
bool UsesGivenLabels(const std::string& attack);

// What an attack's adversary has beside what the protocol sends it, from nothing on.
enum class AttackNeeds { kNothing, kKnownPositives, kTrueClasses, kGivenLabels, kUnknown };
AttackNeeds NeedsOf(const std::string& attack);

// Of all parties, the label party's rows where both have them. Strongest first, whatever the layer, and of equally
// strong ones that which needs least; last those that use given labels, and of an attack that both observers scored the
// weaker figure.
std::vector<AttackLeak> AttackLeaks(const RunRecords& run);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_RECORDS_ATTACK_LEAK_H_
