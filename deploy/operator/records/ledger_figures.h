// A run's figures as its ledgers' rows give them: of labels in gradients, and of attributes in activations.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_RECORDS_LEDGER_FIGURES_H_
#define SPLITVEIL_DEPLOY_OPERATOR_RECORDS_LEDGER_FIGURES_H_

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "deploy/operator/records/run_records.h"

#include "common/figures/run_figures.h"

namespace splitveil {

// The one place where the rows of ledgers become figures. What only the label party's ledger states is left out without
// it.
RunFigures FiguresOf(const LedgerRun& run);

// Bound on the AUC by the noise on labels that the run planned before its first step: it has released no more, also if
// it was killed. nullopt: the method adds none to them.
std::optional<double> PlannedAucBound(const PartyRecords& party);

// "answers left that no bound covers: at most 17": what `label_party serve` gave outside callers of the run's model
// (v1.UnprovedAnswers). Empty: none.
std::string DescribeUnprovedAnswers(const PartyRecords& party);

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

// What one attack reached at one attribute on one kind of examples. Of attacks on the trained model: after the last
// epoch that was due. Of those that read the training: the epoch in which they were the most accurate.
struct AttributeFigure {
  AttributeLeakRow leak;
  bool is_highest = false;  // Over the training.
};

struct AttributeRecords {
  // "pareto(threshold=0.005, slack=0.5, noise_sigma=1)", "none".
  std::string protection = "none";
  // By attribute; the strongest attack of each, by advantage, first. Attacks without an example whose attribute is
  // known are left out.
  std::vector<AttributeFigure> figures;
  std::optional<ActivationBoundRow> bound;  // nullopt: nothing is proved.
  // Of `pareto`, which lets nothing above both together leave: nats, and a share of the threshold. NaN: another method.
  double threshold = std::numeric_limits<double>::quiet_NaN();
  double slack = std::numeric_limits<double>::quiet_NaN();
  double largest_privacy_loss = std::numeric_limits<double>::quiet_NaN();  // NaN: the method has none.

  bool is_protected() const { return protection != "none"; }
  // Whether the run says anything of attributes or of protected activations.
  bool has_any() const { return is_protected() || !figures.empty() || bound.has_value(); }
  // One figure per attribute: its strongest attack.
  std::vector<const AttributeFigure*> strongest() const;
};

// nullopt: the non-label party's ledger was not given.
std::optional<AttributeRecords> AttributeRecordsOf(const LedgerRun& run);

// Of these rows, as AttributeRecords::figures has them.
std::vector<AttributeFigure> AttributeFigures(const std::vector<AttributeLeakRow>& rows);

// When the figure is of: "inference, after epoch 20", "highest over training, in epoch 7".
std::string DescribeWhen(const AttributeFigure& figure);

// A method that protects activations: as ledgers name it, in a legend, and what it does.
struct ActivationMethod {
  const char *name, *label, *words;
};
// In the order of the paper's tables, so that a method looks the same on every page.
absl::Span<const ActivationMethod> ActivationMethods();

// What protects the activations, and whether that is proved, for people; one sentence each.
std::string DescribeActivationProtection(absl::string_view protection);
std::string ProvedOfActivations(const AttributeRecords& records);

// What is proved, then of each attribute what its strongest attack reads; lines as VerdictLines has them:
//   "attributes proved: nothing; ..." "attribute sex, the strongest attack measured: Black-box decoder (basic),
//   accuracy 0.674 (95% interval 0.664 to 0.684), floor 0.667, AUC 0.601; inference, after epoch 20"
std::vector<std::string> AttributeLines(const AttributeRecords& records);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_RECORDS_LEDGER_FIGURES_H_
