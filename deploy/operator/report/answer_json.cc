#include "deploy/operator/report/answer_json.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/operator/records/run_promise.h"
#include "deploy/operator/report/report_text.h"

#include "common/leakage/attack_words.h"
#include "common/leakage/run_standing.h"
#include "common/ledger/promise.h"
#include "common/ledger/run_claim.h"

namespace splitveil {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

bool IsPromised(const RunRanking& ranking) {
  return ranking.standing == RunStanding::kGuaranteed && ranking.run_auc_bound < kNoPromise;
}

bool StatesRunBound(const RunRanking& ranking) {
  return ranking.bound >= BoundState::kNotTested && ranking.run_auc_bound < kNoPromise;
}

// Of the best epoch; NaN: not evaluated.
double TestQuality(const RunRecords* run) {
  const EvaluationRow* best = run == nullptr ? nullptr : BestTest(run->evaluations());
  return best == nullptr ? kNone : Quality(*best);
}

std::string TestQualityName(const RunRecords& run) { return absl::StrCat("test ", QualityName(run.evaluations())); }

// What the run lost against no protection, and what there is to lose; less where the picture tells it.
std::string PriceWords(const RunRecords& run, const ReferenceRuns& references) {
  if (run.only_predicts()) {
    return "of all rows scored: those that the model was trained on flatter it";
  }
  if (&run == references.untrained) {
    return "of an untrained bottom model";
  }
  const double untrained = TestQuality(references.untrained);
  const double cost = TestQuality(references.unprotected) - TestQuality(&run);
  const std::string beside = !std::isfinite(untrained) ? "no untrained model to compare"
                             : std::isfinite(cost)     ? ""
                                                       : absl::StrCat("untrained ", AucText(untrained));
  if (&run == references.unprotected || !std::isfinite(cost)) {
    return beside;
  }
  return absl::StrCat(
      cost > 0.0005 ? absl::StrCat(AucText(cost), " below no protection") : "no less than without protection",
      beside.empty() ? "" : "; ", beside);
}

Json Figure(const std::string& name, const std::string& value, const std::string& note = "") {
  return {{"name", name}, {"value", value}, {"note", note}};
}

Json FiguresJson(const RunRecords& run, const RunRanking& ranking, const ReferenceRuns& references) {
  Json figures = Json::array();
  if (ranking.standing != RunStanding::kNothingReleased) {
    figures.push_back(Figure("promised", IsPromised(ranking)
                                             ? absl::StrCat("at most ", BoundCertainty(ranking.run_auc_bound))
                                         : ranking.standing == RunStanding::kNotKnown ? "not known"
                                                                                      : "nothing"));
    const RankedAttack& measured = HeldAgainstBound(ranking);
    figures.push_back(
        Figure("worst attack measured", measured.is_measured() ? MeasuredCertainty(measured.auc) : "none"));
  }
  if (const double quality = TestQuality(&run); std::isfinite(quality)) {
    figures.push_back(Figure(TestQualityName(run), AucText(quality), PriceWords(run, references)));
  }
  return figures;
}

Json Mark(const char* kind, double auc, const std::string& words) {
  return {{"kind", kind}, {"auc", NumberJson(auc)}, {"words", words}};
}

Json MarksJson(const RunRanking& ranking) {
  Json marks = Json::array();
  if (ranking.standing == RunStanding::kNothingReleased) {
    return marks;
  }
  const double bound = StatesRunBound(ranking) ? ranking.run_auc_bound : kNone;
  if (std::isfinite(ranking.guessing.p95)) {
    marks.push_back(Mark("guessing", ranking.guessing.p95,
                         absl::StrCat("guessing with luck ", MeasuredCertainty(ranking.guessing.p95))));
  }
  // Beyond a proved bound it ranks by features, which that bound is not about: then it stands in FeaturesJson.
  if (ranking.practical.is_measured() && !(ranking.proved && ranking.practical.auc > bound)) {
    marks.push_back(Mark("practical", ranking.practical.auc,
                         absl::StrCat("attack the partner can run ", MeasuredCertainty(ranking.practical.auc))));
  }
  if (const RankedAttack& measured = HeldAgainstBound(ranking); measured.is_measured()) {
    marks.push_back(
        Mark("worst", measured.auc, absl::StrCat("worst attack measured ", MeasuredCertainty(measured.auc))));
  }
  if (std::isfinite(bound)) {
    marks.push_back(ranking.proved ? Mark("proved", bound, absl::StrCat("proved limit ", BoundCertainty(bound)))
                                   : Mark("conditional", bound,
                                          absl::StrCat("limit for Gaussian classes only, ", BoundCertainty(bound))));
  }
  return marks;
}

// Where the run lies between an untrained bottom model and no protection.
Json PriceJson(const RunRecords& run, const ReferenceRuns& references) {
  const double untrained = TestQuality(references.untrained), unprotected = TestQuality(references.unprotected);
  const double value = TestQuality(&run);
  if (run.only_predicts() || &run == references.untrained || !std::isfinite(untrained + unprotected + value) ||
      QualityName(run.evaluations()) != QualityName(references.untrained->evaluations())) {
    return Json();
  }
  return {{"untrained", NumberJson(untrained)},
          {"unprotected", NumberJson(unprotected)},
          {"value", NumberJson(value)},
          {"name", TestQualityName(run)},
          {"words", &run == references.unprotected ? ""
                    : unprotected > untrained      ? absl::StrFormat("keeps %.0f%% of the gain",
                                                                     100 * (value - untrained) / (unprotected - untrained))
                                                   : "training gains nothing here"}};
}

Json CertainJson(const RankedAttack& attack) {
  return attack.is_measured()
             ? Json{{"title", AttackTitle(attack.attack)}, {"certainty", MeasuredCertainty(attack.auc)}}
             : Json();
}

}  // namespace

ReferenceRuns FindReferences(const std::vector<RunRecords>& runs) {
  std::vector<const RunRecords*> unprotected, untrained;
  for (const RunRecords& run : runs) {
    if (run.only_predicts()) {
      continue;
    }
    if (run.released_nothing()) {
      untrained.push_back(&run);
    } else if (run.protection() == "none") {
      unprotected.push_back(&run);
    }
  }
  return {unprotected.size() == 1 ? unprotected.front() : nullptr, untrained.size() == 1 ? untrained.front() : nullptr};
}

Json AnswerJson(const RunRecords& run, const RunRanking& ranking, const ReferenceRuns& references) {
  const bool alarming = ranking.standing == RunStanding::kBroken || ranking.standing == RunStanding::kNothingClaimed;
  return {{"headline", PromiseHeadline(PromiseOf(ranking))},
          {"tone", IsPromised(ranking) ? "good"
                   : alarming          ? "alarm"
                                       : "quiet"},
          {"sentence", PromiseSentence(PromiseOf(ranking))},
          {"figures", FiguresJson(run, ranking, references)},
          {"marks", MarksJson(ranking)},
          {"price", PriceJson(run, references)}};
}

std::string AnswerSentence(const std::vector<RunRecords>& runs, const std::vector<RunRanking>& rankings) {
  const ReferenceRuns references = FindReferences(runs);
  std::vector<std::string> promised;
  size_t asked = 0, unknown = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    asked += rankings[i].standing == RunStanding::kNothingReleased ? 0 : 1;
    unknown += rankings[i].standing == RunStanding::kNotKnown ? 1 : 0;
    if (!IsPromised(rankings[i])) {
      continue;
    }
    const double cost = TestQuality(references.unprotected) - TestQuality(&runs[i]);
    promised.push_back(absl::StrCat(
        runs[i].label, ", with at most ", BoundCertainty(rankings[i].run_auc_bound), " certainty about a label",
        std::isfinite(cost) ? absl::StrCat(", at a price of ", cost > 0.0005 ? AucText(cost) : "nothing", " in ",
                                           TestQualityName(runs[i]))
                            : ""));
  }
  const std::string of = asked == 1 ? "This run" : absl::StrCat("Of these ", asked, " runs ");
  if (asked == 0) {
    return "No gradient was sent: there is nothing to promise.";
  }
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

Json FeaturesJson(const RunRanking& ranking) {
  const RankedAttack& strongest = ranking.strongest();
  const bool by_features = ranking.proved && ranking.standing != RunStanding::kNothingReleased &&
                           strongest.is_measured() && !IsWorstCase(strongest.attack);
  if (!ranking.no_gradient.is_measured() && !by_features) {
    return Json();
  }
  return {{"without_gradient", CertainJson(ranking.no_gradient)},
          {"with_gradient", by_features ? CertainJson(strongest) : Json()}};
}

}  // namespace splitveil
