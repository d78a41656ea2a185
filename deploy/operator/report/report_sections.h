// The report: its sentences, what the figures mean for a reader who is no statistician, and its sections as JSON, what
// page/*.js lays out. Each FILE_json.cc makes one section: what a reader asks first, what the attacks reach, what the
// protection did, the parties and the other direction.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_REPORT_REPORT_SECTIONS_H_
#define SPLITVEIL_DEPLOY_OPERATOR_REPORT_REPORT_SECTIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "deploy/operator/records/ledger_figures.h"
#include "deploy/operator/records/run_records.h"

#include "common/figures/json_number.h"
#include "common/figures/run_figures.h"

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

// What is attacked where labels are numbers or of several classes (BOUNDS.md); empty of two classes, or not known.
std::string DescribeTask(const std::vector<EvaluationRow>& evaluations);

// Test AUC of the best epoch, of a regression R^2, by what it was chosen, and the last one; empty without an evaluation
// of the test split.
std::string DescribeModel(const std::vector<EvaluationRow>& evaluations);

// What a caller of `label_party serve` can read of training labels from the answers of this version; one sentence.
std::string DescribeVersion(const StoredVersionFigures& version);

// A series of thousands of steps as what a screen can show: a smoothed line over faint raw points.
struct CurvePoint {
  double x = 0, y = 0;
};

struct Curve {
  std::vector<CurvePoint> line;    // Smoothed; at most kMaxLinePoints.
  std::vector<CurvePoint> points;  // As recorded; at most kMaxRawPoints. Empty where the line is unsmoothed.
};

inline constexpr int64_t kMaxLinePoints = 300;
inline constexpr int64_t kMaxRawPoints = 600;
inline constexpr int64_t kMaxUnsmoothed = 40;  // Series up to this length are shown as they are.

// `values` at ascending `steps` (equal lengths); values that are not finite are left out. The line is the mean over a
// centred window of a twentieth of the series, cut at its ends. Of more raw points than fit, the least and the largest
// of each stretch stay, so that no outlier disappears.
Curve MakeCurve(const std::vector<int64_t>& steps, const std::vector<double>& values);

// {"line": [[step, value], ...], "points": [...]}, smoothed and thinned by MakeCurve.
Json CurveJson(const std::vector<int64_t>& steps, const std::vector<double>& values);

// One field of every row against its step.
template <typename Row>
Json FieldCurve(const std::vector<Row>& rows, double Row::*field) {
  std::vector<int64_t> steps;
  std::vector<double> values;
  for (const Row& row : rows) {
    steps.push_back(row.step);
    values.push_back(row.*field);
  }
  return CurveJson(steps, values);
}

// Runs that the others are held against: the only one without protection, the only one of which no gradient was sent,
// so that its bottom model is untrained, and the only baseline (LedgerRun::is_baseline), which is neither of the first
// two. Null: there is none, or there are several.
struct ReferenceRuns {
  const LedgerRun* unprotected = nullptr;
  const LedgerRun* untrained = nullptr;
  const LedgerRun* baseline = nullptr;
};
ReferenceRuns FindReferences(const std::vector<LedgerRun>& runs);

// {"headline", "tone" (good, alarm, quiet), "sentence", "figures": [{"name", "value", "note"}], "marks": [{"kind"
// (guessing, practical, worst, proved, conditional), "auc", "words"}], "price": {"untrained", "unprotected", "value",
// "words"}}. Three figures at most; no marks of a run that sent no gradient; no price without both references.
Json AnswerJson(const LedgerRun& run, const RunFigures& figures, const ReferenceRuns& references);

// "Of these 3 runs, one may be promised to anyone: gaussian_label_dp(sigma=1.348), with at most 70% certainty about a
// label beyond what features tell, at a cost of 0.013 in test AUC." `figures`: of `runs`.
std::string AnswerSentence(const std::vector<LedgerRun>& runs, const std::vector<RunFigures>& figures);

// What features reveal without any protection's doing: {"without_gradient", "with_gradient"}, each {"title",
// "certainty"} or null: the strongest attack that reads no gradient, and the strongest that ranks by features beside
// the gradients, under a proved bound, which speaks of the gradients alone. Null without either.
Json FeaturesJson(const RunFigures& figures);

// Attacks at a layer that the page draws.
struct ChartedLayer {
  std::string layer;
  std::vector<std::string> attacks;
};

// The cut layer and up to three others. Of a single run up to four attacks at each, of several the two that are
// strongest on average; attacks beyond their bound come first, those that read no gradient last.
std::vector<ChartedLayer> ChooseCharts(const std::vector<std::vector<AttackLeak>>& runs);

// One object an attack, in the order of `leaks`; with the curve over the batches where `charted` draws it, and what it
// reads more than `baseline`, where that was measured.
Json LeaksJson(const std::vector<AttackLeak>& leaks, const LedgerRun& run, const std::vector<ChartedLayer>& charted,
               const AttackFigure* baseline);

// Cumulative attacks at the cut layer, over the epochs, with their bounds; null without any.
Json CumulativeJson(const std::vector<AttackLeak>& leaks);

// Name, title and explanation of every attack in `runs`, by title.
Json GlossaryJson(const std::vector<std::vector<AttackLeak>>& runs);

// "strongest", of the attacks on gradients, by which runs are ranked; the bound's state in words, its kind and whether
// it is proved; what guessing and features alone reach.
Json RankingJson(const RunFigures& figures);

// Layers and attacks that the page draws.
Json ChartedJson(const std::vector<ChartedLayer>& charted);

// Mean and curve of every quantity of the solver that was recorded, by name; beside them the curve
// "gaussian_auc_bound", what sum_kl allows an attack on Gaussian classes.
Json SolverJson(const LedgerRun& run);

// Decisions of the release gate that occurred, with their words, and how often in each epoch; null where none was
// recorded.
Json GateJson(const LedgerRun& run);

// Histograms of the last epoch that has them, by quantity: for each class its outline, [value, percent of the
// class from there on]. Null without any.
Json DistributionsJson(const LedgerRun& run);

// Null where the non-label party's ledger was not given, or says nothing of attributes.
Json AttributesJson(const LedgerRun& run);

// What the attacks of all runs do: [{attack, title, explanation}].
Json AttributeGlossaryJson(const std::vector<LedgerRun>& runs);

// [{"role", "facts": [[name, value]], "config"}]. Facts are those that a ledger has: protection, status, times, sizes,
// the gate's decisions, versions. A configuration that is no JSON is shown as it is.
Json PartiesJson(const LedgerRun& run);

// [{"at", "party", "kind", "detail"}] of both parties in the order of their times; of many, the first and the last.
Json EventsJson(const LedgerRun& run);

// The phases in the order of a bar, with what each means: [{"name", "words"}, ...].
Json PhasesJson();

// Of each party that recorded times: {"role", "step" (milliseconds, mean over the steps), "phases" (milliseconds, as
// PhasesJson), "words"}. Empty where none did.
Json TimesJson(const LedgerRun& run);

// Indices into the runs, each of which continues the one before it (RunRow.resumed_from).
using RunChain = std::vector<size_t>;

// One chain for each run that no other continues and that continues another; a run may begin several. Runs whose
// predecessor is not among `runs` begin a chain.
std::vector<RunChain> FindChains(const std::vector<LedgerRun>& runs);

// The runs to show in full: all where the page can tell their lines apart, else those that no other continues.
std::vector<size_t> RunsInFull(const std::vector<LedgerRun>& runs, const std::vector<RunChain>& chains);

// {"charted": layers and attacks, "chains": [{"label", "runs": [{"id", "auc", "log_loss", "ranking", "leaks": [mean
// leak AUC for each charted layer and attack]}]}]}: the day-by-day figures of Li et al. 2021, Figure 4.
// Quality is that of the model as it came (an evaluation before the first step), else the best. `leaks`: of each run.
// Null without chains.
Json ChainsJson(const std::vector<LedgerRun>& runs, const std::vector<std::vector<AttackLeak>>& leaks,
                const std::vector<RunChain>& chains);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_REPORT_REPORT_SECTIONS_H_
