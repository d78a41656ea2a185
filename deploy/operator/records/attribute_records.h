// The other direction: what the label party read of sensitive attributes in the activations, and what protects these,
// as the non-label party's ledger has it.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_RECORDS_ATTRIBUTE_RECORDS_H_
#define SPLITVEIL_DEPLOY_OPERATOR_RECORDS_ATTRIBUTE_RECORDS_H_

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "deploy/operator/records/run_records.h"

namespace splitveil {

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

// What protects the activations, and whether that is proved, for people; one sentence each.
std::string DescribeActivationProtection(absl::string_view protection);
std::string ProvedOfActivations(const AttributeRecords& records);

// What is proved, then of each attribute what its strongest attack reads; lines as VerdictLines has them:
//   "attributes proved: nothing; ..." "attribute sex, the strongest attack measured: Black-box decoder (basic),
//   accuracy 0.674 (95% interval 0.664 to 0.684), floor 0.667, AUC 0.601; inference, after epoch 20"
std::vector<std::string> AttributeLines(const AttributeRecords& records);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_RECORDS_ATTRIBUTE_RECORDS_H_
