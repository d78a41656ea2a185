// The report's sentences: what the figures mean, for a reader who is no statistician.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_REPORT_REPORT_TEXT_H_
#define SPLITVEIL_DEPLOY_OPERATOR_REPORT_REPORT_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "deploy/operator/records/ledger_figures.h"

#include "common/figures/run_figures.h"
#include "common/ledger/ledger_reader.h"

#include "splitveil/v1/protection.pb.h"

namespace splitveil {

// How much of the labels can be inferred at a leak AUC. The thresholds are the report's own; the page states them.
enum class Exposure { kHidden, kPartly, kLargely, kExposed };
inline constexpr double kPartlyFrom = 0.60, kLargelyFrom = 0.75, kExposedFrom = 0.90;
Exposure ExposureOf(double leak_auc);
std::string ExposureName(Exposure exposure);  // hidden, partly, largely, exposed.

// An AUC to three digits: the one unit of every sentence.
std::string AucText(double auc);

// "0.779 (95% interval 0.775 to 0.783)", inverted where below 0.5. The interval has as many digits as its ends need to
// differ, three at least and six at most; no interval where it has no width or is not known.
std::string AucWithInterval(double auc, double low, double high);

// What the label party released, from the protection's name ("marvell(s=4)").
std::string DescribeProtection(absl::string_view protection);

// "Gradient length at the cut layer reaches AUC 0.600 in one batch of twenty; 0.541 on average over the batches, 0.560
// over the last epoch." The first is the figure that attacks are ordered by. Empty where nothing was measured.
std::string DescribeReach(const AttackLeak& leak);

// What a cumulative attack reaches after its last epoch, and the bound of the run, with what became of it. Empty
// without an epoch.
std::string DescribeCumulative(const AttackLeak& leak, BoundState state);

// By how much an attack exceeds its bound, and in which epochs.
std::string DescribeExcess(const BoundExcess& excess);

// What labels a classifier infers from the bottom model beyond those it infers from the features, from the rows of
// model_completion and features_only; empty without both. `auxiliary_labels`: those both were given; 0 where unknown.
std::string DescribeAdvantage(const std::vector<EpochLeakRow>& rows, int64_t auxiliary_labels);

// "released", "kept back: bottom model frozen"; "unknown decision" for what this version does not know.
std::string DescribeGateDecision(v1::GateAction gate);

// What the attack's adversary must know: "from what the partner receives", "with known positives", ...
std::string DescribeNeeds(const std::string& attack);
// "label party", "non-label party"; another role's own name.
std::string DescribeRole(absl::string_view role);

// The verdict, the bound over the run and what it rests on, Theorem 1's over the steps, and whether an attack exceeded
// it. A bound that is not proved is never a promise.
std::string DescribeBound(const std::vector<ProtectionRow>& protections, const RunFigures& figures);

// What the strongest attack on gradients without side information reads beyond features alone; says so where nobody
// measured what these tell.
std::string DescribeBaseline(const RunFigures& figures);

// "R²", "macro AUC", "AUC".
std::string QualityName(const std::vector<EvaluationRow>& evaluations);

// What is attacked where labels are numbers or of several classes (SECURITY.md); empty of two classes, or not known.
std::string DescribeTask(const std::vector<EvaluationRow>& evaluations);

// Test AUC of the best epoch, of a regression R^2, by what it was chosen, and the last one; empty without an evaluation
// of the test split.
std::string DescribeModel(const std::vector<EvaluationRow>& evaluations);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_REPORT_REPORT_TEXT_H_
