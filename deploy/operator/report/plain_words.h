// The report's sentences: what the figures mean, for a reader who is no statistician.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_REPORT_PLAIN_WORDS_H_
#define SPLITVEIL_DEPLOY_OPERATOR_REPORT_PLAIN_WORDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "common/leakage/summary.h"
#include "common/ledger/ledger_reader.h"

#include "splitveil/v1/protection.pb.h"

namespace splitveil {

// How much of the labels a leak AUC gives away. The thresholds are the report's own; the page states them.
enum class Exposure { kHidden, kPartly, kLargely, kExposed };
inline constexpr double kPartlyFrom = 0.60, kLargelyFrom = 0.75, kExposedFrom = 0.90;
Exposure ExposureOf(double leak_auc);
std::string ExposureName(Exposure exposure);  // hidden, partly, largely, exposed.

// "Labels exposed: ...", from the strongest p95 of a run's attacks.
std::string Verdict(Exposure exposure);

// What left the label party, from the protection's name ("marvell(s=4)").
std::string DescribeProtection(absl::string_view protection);

// "Gradient length" at the cut layer tells a positive from a negative example in 54 of 100 pairs; in one batch of
// twenty, in 60 or more. A mean below one half is read in reverse, as an adversary would.
std::string DescribeLeak(const LeakSeries& series);

// What an adversary that remembers reads after the row's epoch, and what the noise allows it.
std::string DescribeCumulative(const EpochLeakRow& row);

// By how much the attack read more than its bound.
std::string DescribeBeyondBound(const EpochLeakRow& row);

// What the bottom model gives away beyond what the features tell, from the rows of model_completion and features_only;
// empty without both. `auxiliary_labels`: those both were given; 0 where unknown.
std::string DescribeAdvantage(const std::vector<EpochLeakRow>& rows, int64_t auxiliary_labels);

// "released", "kept back: bottom model frozen"; "unknown decision" for what this version does not know.
std::string DescribeGateDecision(v1::GateAction gate);

// "the cut layer", "layer "first"".
std::string DescribeLayer(absl::string_view layer);
// "attack module", "label party's audit"; another observer's own name.
std::string DescribeObserver(absl::string_view observer);
// "label party", "non-label party"; another role's own name.
std::string DescribeRole(absl::string_view role);

// Theorem 1's bound over the steps; empty without one.
std::string DescribeBound(const std::vector<ProtectionRow>& protections);

// Best test AUC and its log-loss; empty without an evaluation of the test split.
std::string DescribeModel(const std::vector<EvaluationRow>& evaluations);

// The evaluation of the test split with the largest AUC; null without one.
const EvaluationRow* BestTest(const std::vector<EvaluationRow>& evaluations);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_REPORT_PLAIN_WORDS_H_
