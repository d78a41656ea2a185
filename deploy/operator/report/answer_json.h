// What a reader asks first of each run, as JSON: may it be promised, with which number, and at what price. Nothing here
// needs a footnote: what cannot be held against a bound is in FeaturesJson alone.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_REPORT_ANSWER_JSON_H_
#define SPLITVEIL_DEPLOY_OPERATOR_REPORT_ANSWER_JSON_H_

#include <string>
#include <vector>

#include "deploy/operator/records/run_records.h"

#include "common/figures/json_number.h"
#include "common/figures/run_figures.h"

namespace splitveil {

// Runs by which the price of the others is measured: the only one without protection, and the only one of which no
// gradient was sent, so that its bottom model is untrained. Null: there is none, or there are several.
struct ReferenceRuns {
  const LedgerRun* unprotected = nullptr;
  const LedgerRun* untrained = nullptr;
};
ReferenceRuns FindReferences(const std::vector<LedgerRun>& runs);

// {"headline", "tone" (good, alarm, quiet), "sentence", "figures": [{"name", "value", "note"}], "marks": [{"kind"
// (guessing, practical, worst, proved, conditional), "auc", "words"}], "price": {"untrained", "unprotected", "value",
// "words"}}. Three figures at most; no marks of a run that sent no gradient; no price without both references.
Json AnswerJson(const LedgerRun& run, const RunFigures& figures, const ReferenceRuns& references);

// "Of these 3 runs one may be promised to anyone: gaussian_label_dp(sigma=1.348), with at most 70% certainty about a
// label beyond what features tell, at a price of 0.013 in test AUC." `figures`: of `runs`.
std::string AnswerSentence(const std::vector<LedgerRun>& runs, const std::vector<RunFigures>& figures);

// What features reveal without any protection's doing: {"without_gradient", "with_gradient"}, each {"title",
// "certainty"} or null: the strongest attack that reads no gradient, and the strongest that ranks by features beside
// the gradients, under a proved bound, which speaks of the gradients alone. Null without either.
Json FeaturesJson(const RunFigures& figures);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_REPORT_ANSWER_JSON_H_
