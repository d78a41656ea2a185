#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/operator/records/ledger_figures.h"
#include "deploy/operator/report/report_sections.h"

#include "common/figures/attack_catalogue.h"
#include "common/figures/figure_words.h"
#include "common/figures/run_figures.h"

namespace splitveil {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

bool IsPromised(const RunFigures& figures) {
  return figures.verdict() == PrivacyVerdict::kGuaranteed && Promises(figures.run_auc_bound);
}

bool StatesRunBound(const RunFigures& figures) {
  return figures.bound() >= BoundState::kNotTested && Promises(figures.run_auc_bound);
}

// Of the best epoch; NaN: not evaluated.
double TestQuality(const LedgerRun* run) {
  const EvaluationRow* best = run == nullptr ? nullptr : KeptTest(run->evaluations());
  return best == nullptr ? kNone : ModelFiguresOf(*best).quality().value_or(kNone);
}

std::string TestQualityName(const LedgerRun& run) { return absl::StrCat("test ", QualityName(run.evaluations())); }

// The difference of two figures as a reader subtracts what is printed.
double Printed(double quality, double less) { return (std::round(1000 * quality) - std::round(1000 * less)) / 1000; }

// What the run lost against no protection. NaN: not known, or of a baseline, which is a different model.
double Cost(const LedgerRun& run, const ReferenceRuns& references) {
  return run.is_baseline() ? kNone : Printed(TestQuality(references.unprotected), TestQuality(&run));
}

// "0.021 above logistic regression": whether the model is worth it. Empty if there is no baseline, or it is of
// labels of another kind.
std::string AgainstBaseline(const LedgerRun& run, const ReferenceRuns& references) {
  const double gain = Printed(TestQuality(&run), TestQuality(references.baseline));
  if (!std::isfinite(gain) || QualityName(run.evaluations()) != QualityName(references.baseline->evaluations())) {
    return "";
  }
  return gain == 0 ? "no more than logistic regression"
                   : absl::StrCat(AucText(std::abs(gain)), gain > 0 ? " above" : " below", " logistic regression");
}

// The part of what training gains over an untrained bottom model that the run keeps. Empty if that is not known, or if
// training gains nothing.
std::string KeptGain(const LedgerRun& run, const ReferenceRuns& references) {
  const double untrained = TestQuality(references.untrained), unprotected = TestQuality(references.unprotected);
  return unprotected > untrained && std::isfinite(TestQuality(&run))
             ? absl::StrFormat("keeps %.0f%% of the gain",
                               100 * (TestQuality(&run) - untrained) / (unprotected - untrained))
             : "";
}

// What the run lost, and what there is to lose; less where the picture tells it.
std::string PriceWords(const LedgerRun& run, const ReferenceRuns& references) {
  if (run.only_predicts()) {
    return "of all rows scored: those that the model was trained on flatter it";
  }
  if (&run == references.untrained) {
    return "of an untrained bottom model";
  }
  if (run.is_baseline()) {
    return "of logistic regression on the same columns";
  }
  const double untrained = TestQuality(references.untrained);
  const double cost = Cost(run, references);
  std::vector<std::string> words;
  if (&run != references.unprotected && std::isfinite(cost)) {
    words.push_back(cost > 0 ? absl::StrCat(AucText(cost), " below no protection") : "no less than without protection");
  }
  if (std::string against = AgainstBaseline(run, references); !against.empty()) {
    words.push_back(std::move(against));
  }
  if (!std::isfinite(untrained)) {
    words.emplace_back("no run with an untrained model to compare");
  } else if (!std::isfinite(cost)) {
    words.push_back(absl::StrCat("untrained ", AucText(untrained)));
  }
  return absl::StrJoin(words, "; ");
}

Json Figure(const std::string& name, const std::string& value, const std::string& note = "") {
  return {{"name", name}, {"value", value}, {"note", note}};
}

// Of the figure that AttackFigure::auc gives. nullopt: that figure is of one batch in twenty.
std::optional<AucInterval> IntervalOf(const AttackFigure& attack) {
  const AucInterval pooled = attack.pooled();
  return pooled.known() && std::abs(pooled.auc - attack.auc()) < 1e-9 ? std::optional(pooled) : std::nullopt;
}

std::string IntervalWords(const AucInterval& interval) {
  const std::string low = MeasuredCertainty(interval.low), high = MeasuredCertainty(interval.high);
  return interval.known() && low != high ? absl::StrCat("95% interval ", low, " to ", high) : "";
}

std::string WithInterval(const AucInterval& certainty) {
  const std::string words = IntervalWords(certainty);
  return absl::StrCat(MeasuredCertainty(certainty.auc), words.empty() ? "" : absl::StrCat(" (", words, ")"));
}

// What the partner's own attacks on gradients reach beyond what it can tell from features alone, over all examples:
// what the training itself has revealed.
Json BeyondFeatures(const AttackFigure& attack, const AttackFigure& features) {
  const AucInterval with = attack.pooled(), without = features.pooled();
  const double points = std::round(1000 * with.auc) / 10 - std::round(1000 * without.auc) / 10;
  const bool may_be_chance = points > 0 && with.known() && without.known() && with.low <= without.high;
  return Figure("revealed beyond features", points > 0 ? absl::StrFormat("%.1f points", points) : "0 points",
                absl::StrCat("as the strongest attack that the partner can run reaches ", WithInterval(with),
                             ", and one without any gradient ", WithInterval(without),
                             may_be_chance ? "; the difference may be chance" : ""));
}

// Only the worst case is held against a proved bound: an attack that ranks by features, too, may reach more.
const char* WorstName(const RunFigures& figures) { return figures.is_proved() ? "worst case" : "worst attack"; }

// How far chance may have moved a measurement, and what it is held against, so that neither has to be looked up.
std::string MeasuredNote(const AttackFigure& attack, const RunFigures& figures) {
  std::vector<std::string> notes;
  if (const std::optional<AucInterval> interval = IntervalOf(attack); interval.has_value()) {
    if (const std::string words = IntervalWords(*interval); !words.empty()) {
      notes.push_back(words);
    }
  }
  if (StatesRunBound(figures) && !IsPromised(figures)) {  // A promised one stands beside it as that.
    notes.push_back(absl::StrCat("limit ", BoundCertainty(*figures.run_auc_bound)));
  }
  return absl::StrJoin(notes, "; ");
}

Json FiguresJson(const LedgerRun& run, const RunFigures& figures, const ReferenceRuns& references) {
  Json told = Json::array();
  // A run that sent nothing has nothing to promise and nothing to attack: its quality is all that is told.
  if (figures.verdict() != PrivacyVerdict::kNothingReleased) {
    told.push_back(
        Figure("promised",
               IsPromised(figures) ? absl::StrCat("at most ", BoundCertainty(*figures.run_auc_bound))
               : figures.verdict() == PrivacyVerdict::kNotKnown ? "not known"
                                                                : "nothing",
               IsPromised(figures) && figures.own_features.has_value()
                   ? absl::StrFormat("beyond what features tell: the label party's own features alone reach test %s %s",
                                     QualityName(run.evaluations()), AucText(*figures.own_features))
                   : ""));
    if (figures.practical_pooled() != nullptr && figures.baseline() != nullptr) {
      told.push_back(BeyondFeatures(*figures.practical_pooled(), *figures.baseline()));
    }
    const AttackFigure* const measured = HeldAgainstBound(figures);
    const std::string name = absl::StrCat(WorstName(figures), " measured");
    told.push_back(measured == nullptr
                       ? Figure(name, "none")
                       : Figure(name, MeasuredCertainty(measured->auc()), MeasuredNote(*measured, figures)));
  }
  if (const double quality = TestQuality(&run); std::isfinite(quality)) {
    told.push_back(Figure(TestQualityName(run), AucText(quality), PriceWords(run, references)));
  }
  return told;
}

Json Mark(const char* kind, double auc, const std::string& words) {
  return {{"kind", kind}, {"auc", NumberJson(auc)}, {"words", words}};
}

Json MarksJson(const RunFigures& figures) {
  Json marks = Json::array();
  if (figures.verdict() == PrivacyVerdict::kNothingReleased) {
    return marks;
  }
  const bool is_bounded = StatesRunBound(figures) && figures.run_auc_bound.has_value();
  const double bound = figures.run_auc_bound.value_or(1);
  if (figures.guessing.has_value()) {
    marks.push_back(
        Mark("guessing", figures.guessing->p95,
             absl::StrCat("chance reaches ", MeasuredCertainty(figures.guessing->p95), " in one batch of 20")));
  }
  const AttackFigure* const practical = figures.practical_pooled();
  const AttackFigure* const features = figures.baseline();
  const double reached = practical == nullptr ? 0 : practical->pooled().auc;
  // Beyond a proved bound it ranks by features, which that bound is not about: then it stands in FeaturesJson. Nor does
  // an attack that reaches less than features alone show what such a run reveals.
  const bool by_features =
      figures.is_proved() && is_bounded &&
      (reached > bound || (IsPromised(figures) && features != nullptr && reached <= features->pooled().auc));
  if (practical != nullptr && !by_features) {
    marks.push_back(
        Mark("practical", reached, absl::StrCat("attack the partner can run ", MeasuredCertainty(reached))));
  }
  if (const AttackFigure* const measured = HeldAgainstBound(figures); measured != nullptr) {
    Json& mark = marks.emplace_back(
        Mark("worst", measured->auc(), absl::StrCat(WorstName(figures), " ", MeasuredCertainty(measured->auc()))));
    if (const std::optional<AucInterval> interval = IntervalOf(*measured); interval.has_value()) {
      mark["interval"] = {NumberJson(interval->low), NumberJson(interval->high)};
    }
  }
  if (is_bounded) {
    marks.push_back(figures.is_proved() ? Mark("proved", bound, absl::StrCat("proved limit ", BoundCertainty(bound)))
                                        : Mark("conditional", bound,
                                               absl::StrCat("limit if classes were Gaussian ", BoundCertainty(bound))));
  }
  return marks;
}

// Where the run lies between an untrained bottom model and no protection, on a scale that starts where a model that
// knows nothing is: a bar from anywhere else would make small differences look large.
Json PriceJson(const LedgerRun& run, const ReferenceRuns& references) {
  const double untrained = TestQuality(references.untrained), unprotected = TestQuality(references.unprotected);
  const double value = TestQuality(&run);
  // An AUC and an R² share no scale; a baseline is another model.
  if (run.only_predicts() || run.is_baseline() || &run == references.untrained ||
      !std::isfinite(untrained + unprotected + value) ||
      QualityName(run.evaluations()) != QualityName(references.untrained->evaluations())) {
    return Json();
  }
  const bool is_r_squared = QualityName(run.evaluations()) == "R²";
  return {{"start", is_r_squared ? 0.0 : 0.5},
          {"start_words", is_r_squared ? "predicting the mean" : "guessing"},
          {"untrained", NumberJson(untrained)},
          {"unprotected", NumberJson(unprotected)},
          {"value", NumberJson(value)},
          {"name", TestQualityName(run)},
          {"words", &run == references.unprotected ? ""
                    : unprotected > untrained      ? KeptGain(run, references)
                                                   : "training gains nothing here"}};
}

Json CertainJson(const AttackFigure* attack) {
  return attack != nullptr
             ? Json{{"title", AttackTitle(attack->attack)}, {"certainty", MeasuredCertainty(attack->auc())}}
             : Json();
}

}  // namespace

ReferenceRuns FindReferences(const std::vector<LedgerRun>& runs) {
  std::vector<const LedgerRun*> unprotected, untrained, baselines;
  for (const LedgerRun& run : runs) {
    // Predictions may be on rows that the model was trained on: their quality is no reference.
    if (run.only_predicts()) {
      continue;
    }
    if (run.is_baseline()) {
      baselines.push_back(&run);
    } else if (run.released_nothing()) {
      untrained.push_back(&run);
    } else if (run.protection() == "none") {
      unprotected.push_back(&run);
    }
  }
  // Two candidates would give two prices: then none is shown.
  const auto only = [](const std::vector<const LedgerRun*>& found) {
    return found.size() == 1 ? found.front() : nullptr;
  };
  return {only(unprotected), only(untrained), only(baselines)};
}

Json AnswerJson(const LedgerRun& run, const RunFigures& figures, const ReferenceRuns& references) {
  const bool alarming =
      figures.verdict() == PrivacyVerdict::kBroken || figures.verdict() == PrivacyVerdict::kNothingClaimed;
  return {{"headline", PromiseHeadline(PromiseOf(figures))},
          {"tone", IsPromised(figures) ? "good"
                   : alarming          ? "alarm"
                                       : "quiet"},
          {"sentence", PromiseSentence(PromiseOf(figures))},
          {"figures", FiguresJson(run, figures, references)},
          {"marks", MarksJson(figures)},
          {"price", PriceJson(run, references)}};
}

std::string AnswerSentence(const std::vector<LedgerRun>& runs, const std::vector<RunFigures>& figures) {
  const ReferenceRuns references = FindReferences(runs);
  std::vector<std::string> promised;
  size_t asked = 0, unknown = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    asked += figures[i].verdict() == PrivacyVerdict::kNothingReleased ? 0 : 1;
    unknown += figures[i].verdict() == PrivacyVerdict::kNotKnown ? 1 : 0;
    if (!IsPromised(figures[i])) {
      continue;
    }
    const double cost = Cost(runs[i], references);
    const std::string kept = KeptGain(runs[i], references);
    promised.push_back(absl::StrCat(
        runs[i].label, ", with at most ", BoundCertainty(*figures[i].run_auc_bound),
        " certainty about a label beyond what features tell",
        std::isfinite(cost)
            ? absl::StrCat(", at ", cost > 0 ? absl::StrCat("a cost of ", AucText(cost)) : "no cost", " in ",
                           TestQualityName(runs[i]), kept.empty() ? "" : absl::StrCat(" (", kept, " from training)"))
            : ""));
  }
  const std::string of = asked == 1             ? "This run"
                         : asked == runs.size() ? absl::StrCat("Of these ", asked, " runs, ")
                                                : absl::StrCat("Of the ", asked, " runs that sent gradients, ");
  if (asked == 0) {
    return "No gradient was sent: there is nothing to promise.";
  }
  // Without the label party's ledger nothing is known, which is not the same as nothing promised.
  if (unknown == asked) {
    return "Only the label party's ledger can tell what may be promised.";
  }
  if (promised.empty()) {
    return absl::StrCat(of, asked == 1 ? " may be promised to nobody." : "none may be promised to anyone.");
  }
  return absl::StrCat(of,
                      asked == 1             ? ""
                      : promised.size() == 1 ? "one"
                                             : absl::StrCat(promised.size()),
                      " may be promised to anyone: ", absl::StrJoin(promised, "; "), ".");
}

Json FeaturesJson(const RunFigures& figures) {
  const AttackFigure* const strongest = figures.strongest();
  const bool by_features = figures.is_proved() && figures.verdict() != PrivacyVerdict::kNothingReleased &&
                           strongest != nullptr && !IsWorstCase(strongest->attack);
  if (figures.no_gradient() == nullptr && !by_features) {
    return Json();
  }
  return {{"without_gradient", CertainJson(figures.no_gradient())},
          {"with_gradient", by_features ? CertainJson(strongest) : Json()}};
}

}  // namespace splitveil
