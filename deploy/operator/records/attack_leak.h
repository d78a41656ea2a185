// All that was recorded of one attack: its batches and its epochs, joined.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_RECORDS_ATTACK_LEAK_H_
#define SPLITVEIL_DEPLOY_OPERATOR_RECORDS_ATTACK_LEAK_H_

#include <vector>

#include "deploy/operator/records/run_records.h"

#include "common/figures/run_figures.h"

namespace splitveil {

// What one observer recorded of an attack at a layer. Borrows from the records, which must outlive it.
struct AttackLeak : AttackFigure {
  const LeakSeries* series = nullptr;       // Null: no batch was scored.
  std::vector<const EpochLeakRow*> epochs;  // Ascending; with a finite AUC only.
};

// Of all parties, the label party's rows where both have them. In the order of IsStronger; last, of an attack that both
// observers scored, the weaker figure.
std::vector<AttackLeak> AttackLeaks(const LedgerRun& run);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_RECORDS_ATTACK_LEAK_H_
