// A run's figures as its ledgers' rows give them.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_RECORDS_LEDGER_FIGURES_H_
#define SPLITVEIL_DEPLOY_OPERATOR_RECORDS_LEDGER_FIGURES_H_

#include <string>
#include <vector>

#include "deploy/operator/records/run_records.h"

#include "common/figures/run_figures.h"

namespace splitveil {

// The one place where the rows of ledgers become figures. What only the label party's ledger states is left out without
// it.
RunFigures FiguresOf(const LedgerRun& run);

ModelFigures ModelFiguresOf(const EvaluationRow& row);

// The evaluation of the test split after the epoch that the run keeps; null without one.
const EvaluationRow* KeptTest(const std::vector<EvaluationRow>& evaluations);
// After the last one; null without one.
const EvaluationRow* LastTest(const std::vector<EvaluationRow>& evaluations);

// What runs are ranked by, the verdict, what is proved, what the worst case was measured to read and what a partner can
// do today, one line each:
//   "strongest attack on gradients: ..."
//   "bound: not exceeded by the attacks run here"
//   "proved: nothing; conditional: AUC at most 0.786 over the whole run"
//   "worst case measured: ..."
//   "practical, without side information: ..."
//   "with side information: ..."
// The third and the fourth are one if the label party's ledger was not given. Then, if they are known, what the
// practical attack reads beside features alone, "claimed mu 0.742; ...", "guessing: p95 0.541" and "without any
// gradient: ...".
std::vector<std::string> VerdictLines(const RunFigures& figures);

// What one observer recorded of an attack at a layer. Borrows from the records, which must outlive it.
struct AttackLeak : AttackFigure {
  const LeakSeries* series = nullptr;       // Null: no batch was scored.
  std::vector<const EpochLeakRow*> epochs;  // Ascending; with a finite AUC only.
};

// Of all parties, the label party's rows where both have them. In the order of IsStronger; last, of an attack that both
// observers scored, the weaker figure.
std::vector<AttackLeak> AttackLeaks(const LedgerRun& run);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_RECORDS_LEDGER_FIGURES_H_
