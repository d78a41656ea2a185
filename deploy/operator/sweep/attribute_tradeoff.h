// The other direction of a sweep: what attacks read of sensitive attributes, beside what the model is good for.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_SWEEP_ATTRIBUTE_TRADEOFF_H_
#define SPLITVEIL_DEPLOY_OPERATOR_SWEEP_ATTRIBUTE_TRADEOFF_H_

#include <cstdint>
#include <string>
#include <vector>

#include "deploy/operator/sweep/spread.h"
#include "deploy/operator/sweep/tradeoff.h"

namespace splitveil {

// One attack at one attribute, over the seeds.
struct AttributeAttackSpread {
  std::string attack, examples;
  bool is_highest = false;  // AttributeFigure's.
  Spread accuracy, auc, advantage;
};

struct AttributeSpread {
  std::string attribute;
  Spread floor;  // Of the strongest attack's examples.
  // Of each seed its strongest attack; named after that of the seed in which most is read.
  AttributeAttackSpread strongest;
  std::vector<AttributeAttackSpread> attacks;  // The strongest first, by mean advantage.
};

// One protection and cut: as TradeoffPoint has it for the labels.
struct AttributePoint {
  std::string name;        // SweepProtection's.
  std::string protection;  // Of the activations, as the ledger names it; empty: no ledger.
  std::string method;      // "pareto": its name without parameters.
  std::string gradient_protection, cut_layer;
  int64_t cut_width = 0;
  Reference reference = Reference::kNo;
  int seeds = 0;
  Spread test_accuracy, test_quality;  // At last; best test AUC.
  Spread label_leak;                   // Of the strongest attack on gradients.
  Spread proved_auc_bound;             // NaN: nothing is proved of the activations.
  std::vector<AttributeSpread> attributes;
};

// In the order of first appearance. Empty where no run says anything of attributes or protected activations.
std::vector<AttributePoint> SummarizeAttributes(const std::vector<SweptRun>& runs);

// Whether anything but the gradients' protection differs between the runs, or a run says anything of attributes.
bool HasOtherDirection(const std::vector<SweptRun>& runs);
// Whether the cut layer differs between the runs.
bool VariesCut(const std::vector<SweptRun>& runs);

// Of all runs, by name.
std::vector<std::string> AttributesOf(const std::vector<SweptRun>& runs);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_SWEEP_ATTRIBUTE_TRADEOFF_H_
