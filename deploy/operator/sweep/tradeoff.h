// What leaks against model quality: the runs of a sweep, summarised over seeds, which protections no other beats, and
// both as text and as one page.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_SWEEP_TRADEOFF_H_
#define SPLITVEIL_DEPLOY_OPERATOR_SWEEP_TRADEOFF_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "deploy/operator/records/ledger_figures.h"
#include "deploy/operator/sweep/bottom_gain.h"
#include "deploy/operator/sweep/sweep_plan.h"

#include "common/figures/json_number.h"
#include "common/figures/run_figures.h"

namespace splitveil {

// A finished run: the figures of its result file, and those of its ledger: every attack, and the bound.
struct SweptRun {
  SweepRun run;
  RunFigures figures;
  RunFigures recorded;
  // The other direction, by the non-label party's ledger; nullopt: it is not there.
  std::optional<AttributeRecords> attributes = std::nullopt;
  // Of the last evaluation of the test examples. NaN: none, or of a regression.
  double test_accuracy = std::numeric_limits<double>::quiet_NaN();
};

struct LeakSpread {
  std::string layer, attack;
  Spread mean, p95;  // Of LeakSummary.
};

// A kind of attack: the strongest, of the seed that leaks most, and the figures of each seed's strongest over the
// seeds. No attack: none measured.
struct RankedSpread {
  std::string layer, attack;
  Spread auc;
  Spread tpr_1pct, tpr_01pct;  // AttackFigure's.
};

// One protection: the point of a curve.
struct TradeoffPoint {
  std::string name, family;
  std::optional<double> parameter;
  Reference reference = Reference::kNo;
  int seeds = 0;                                               // Runs summarised.
  RankedSpread strongest;                                      // On gradients: what protections are ranked by.
  RankedSpread practical, with_side_information, no_gradient;  // As RunFigures has them.
  Spread guessing_auc_p95, guessing_auc_mean;
  // The three figures: what is proved, the worst case measured and, as `practical`, what a partner can do today; and
  // the worst verdict of any seed, "broken (1 of 2 seeds)".
  Spread proved_auc_bound;
  RankedSpread worst_case;
  PrivacyVerdict worst_verdict = PrivacyVerdict::kNotKnown;
  std::string verdict;
  BoundState bound = BoundState::kNotInLedger;
  std::string bound_words;  // "exceeded by Gradient length (1 of 2 seeds)".
  KeptGain kept;
  Spread test_quality, final_test_quality, test_loss, run_auc_bound, auc_bound_p95, sum_kl_mean, seconds;
  std::vector<LeakSpread> leaks;  // In the order of LayersAndAttacks.
};

// The runs of each protection, which differ in their seeds, in the order of first appearance.
std::vector<std::vector<const SweptRun*>> RunsByProtection(const std::vector<SweptRun>& runs);

// Over the runs that have it: `figure` gives a number, NaN for none, or an optional one.
template <typename Figure>
Spread SpreadOfFigure(const std::vector<const SweptRun*>& runs, Figure figure) {
  std::vector<double> values;
  for (const SweptRun* run : runs) {
    if (const std::optional<double> value = figure(*run); value.has_value()) {
      values.push_back(*value);
    }
  }
  return SpreadOf(values);
}

// Every layer and attack that any run measured over its batches: those on gradients first, then by the sum over the
// runs of the p95, the strongest first.
std::vector<std::pair<std::string, std::string>> LayersAndAttacks(const std::vector<SweptRun>& runs);

// Whether the runs, which share their data, predict a number.
bool IsRegression(const std::vector<SweptRun>& runs);
// What the model's quality is measured by: "AUC" or "R^2".
std::string QualityName(const std::vector<SweptRun>& runs);

// What the two references say, among the runs with this cut layer (SweepVariant's).
BottomGain GainOf(const std::vector<SweptRun>& runs, const std::string& cut_layer = "");
// BottomGain::Words, of each cut layer where it varies.
std::string GainWords(const std::vector<SweptRun>& runs);

// One point per protection, in the order of first appearance.
std::vector<TradeoffPoint> SummarizeSeeds(const std::vector<SweptRun>& runs);

// One choice among several; less is better in both.
struct Tradeoff {
  double leak = 0, cost = 0;
};

// Which choices are on the Pareto front: no other is at least as good in both and better in one. Equal choices stand or
// fall together. A choice with a figure that is not finite is never on it, and beats none.
std::vector<bool> ParetoFront(const std::vector<Tradeoff>& choices);

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

// sweep.csv: a header, then one line per run: run, protection (its family), parameter, seed, the columns of
// RankingColumns, test_auc (of the best epoch), frozen_test_auc, none_test_auc (of the same seed), gain_kept
// (BottomGain::ShareKept, a fraction), final_test_auc (of regressions test_r2 and so on), test_log_loss (test_rmse),
// steps, LAYER_ATTACK_mean and LAYER_ATTACK_p95 for each layer and attack (LeakSummary, the strongest first),
// run_auc_bound, auc_bound_p95, sum_kl_mean, seconds, AttributeColumns. An empty cell: not
// measured, or of no meaning.
std::string SweepCsv(const std::vector<SweptRun>& runs);

// For a terminal: one line per protection, means over its seeds: the strongest attack on gradients and the bound's
// worst state (BoundStateName), the worst verdict, the worst case measured, the practical attack, the model's quality,
// the share of the gain kept. Then what the gain is, in a sentence (GainWords), and the other direction
// (AttributeSummary).
std::string SweepSummary(const std::vector<SweptRun>& runs);

// activation_protection, cut_layer, cut_width, test_accuracy (at last: the utility), proved_attribute_auc_bound,
// largest_privacy_loss; of each attribute ATTRIBUTE_attack (the strongest, as ATTACK@EXAMPLES), _accuracy, _floor,
// _auc, _advantage, and of each attack ATTRIBUTE_ATTACK_EXAMPLES_accuracy. Attacks that read the training: their best
// epoch. None where no run says anything of the other direction.
std::vector<std::string> AttributeColumns(const std::vector<SweptRun>& runs);

// Of one of `runs`, as many, quoted. An empty cell: not measured.
std::vector<std::string> AttributeCells(const std::vector<SweptRun>& runs, const SweptRun& run);

// One line per protection and attribute, means over the seeds, with the range where they differ; empty where there are
// no AttributeColumns. Ends with a line end.
std::string AttributeSummary(const std::vector<SweptRun>& runs);

// The page's figures and words: page/tradeoff.js lays them out and computes none. Charts: the strongest attack against
// best test AUC and against test log loss (of regressions R^2 and RMSE); then, under a fold, the strongest layers and
// attacks one by one, with norm and cosine at the cut and the first layer as in Li et al., ICLR 2022, Figures 4 and 7
// to 9. `planned`: runs of the sweep, finished or not.
Json TradeoffJson(const std::vector<SweptRun>& runs, int64_t planned);

// The whole document.
std::string TradeoffPage(const std::vector<SweptRun>& runs, int64_t planned);

// Null where no run says anything of it.
Json AttributeTradeoffJson(const std::vector<SweptRun>& runs);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_SWEEP_TRADEOFF_H_
