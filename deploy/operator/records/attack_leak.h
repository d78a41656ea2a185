// All that was recorded of one attack: its batches and its epochs, joined.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_RECORDS_ATTACK_LEAK_H_
#define SPLITVEIL_DEPLOY_OPERATOR_RECORDS_ATTACK_LEAK_H_

#include <string>
#include <vector>

#include "deploy/operator/records/run_records.h"

#include "common/leakage/attack_rank.h"

namespace splitveil {

// One attack at one layer as one observer scored it. Borrows from the records, which must outlive it.
struct AttackLeak {
  std::string layer, attack, observer;
  const LeakSeries* series = nullptr;       // Null, or without steps: no batch was scored.
  std::vector<const EpochLeakRow*> epochs;  // Ascending; with a finite AUC only.

  bool has_batches() const { return series != nullptr && series->summary.steps > 0; }
  // What the attacks are ordered by.
  MeasuredAttack figures() const;
  // MeasuredAttack's.
  double auc() const { return figures().auc(); }
};

// Of all parties, the label party's rows where both have them. In the order of IsStronger; last, of an attack that both
// observers scored, the weaker figure.
std::vector<AttackLeak> AttackLeaks(const RunRecords& run);

// Of these the attacks that scored batches, each once at a layer: the stronger of two observers' figures.
std::vector<AttackLeak> BatchLeaks(const RunRecords& run);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_RECORDS_ATTACK_LEAK_H_
