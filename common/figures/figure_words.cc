#include "common/figures/figure_words.h"

#include <cmath>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

#include "common/figures/attack_catalogue.h"
#include "common/figures/run_figures.h"

namespace splitveil {
namespace {

bool IsClaimRefuted(const RunFigures& figures) {
  return figures.claim_check.has_value() && figures.claim_check->is_refuted();
}

}  // namespace

std::string VerdictWords(PrivacyVerdict verdict) {
  // In the order of PrivacyVerdict.
  constexpr const char* kWords[] = {
      "not known",   "no gradient released", "nothing claimed", "claimed, the worst case was not measured",
      "not refuted", "proved, not checked",  "guaranteed",      "broken"};
  static_assert(std::size(kWords) == static_cast<size_t>(PrivacyVerdict::kBroken) + 1);
  return kWords[static_cast<size_t>(verdict)];
}

std::string BoundStateName(BoundState state) {
  // In the order of BoundState.
  constexpr const char* kNames[] = {"unknown", "nothing_left", "none", "untested", "not_exceeded", "exceeded"};
  static_assert(std::size(kNames) == static_cast<size_t>(BoundState::kExceeded) + 1);
  return kNames[static_cast<size_t>(state)];
}

std::string BoundStateWords(const RunFigures& figures, AttackNaming naming) {
  const BoundState state = figures.bound();
  if (state != BoundState::kExceeded) {
    const bool is_refuted = state >= BoundState::kNotTested && IsClaimRefuted(figures);
    constexpr const char* kWords[] = {"not measurable from this ledger", "no gradient released", "none stated",
                                      "no attack was held against it", "not exceeded by the attacks run here"};
    static_assert(std::size(kWords) == static_cast<size_t>(BoundState::kExceeded));
    return absl::StrCat(kWords[static_cast<size_t>(state)], is_refuted ? " but refuted by the claim check" : "");
  }
  if (figures.excesses.empty()) {
    return "exceeded";
  }
  const BoundExcess& first = figures.excesses.front();
  const size_t more = figures.excesses.size() - 1;
  return absl::StrCat(
      "exceeded by ",
      naming == AttackNaming::kTitle ? AttackTitle(first.attack) : absl::StrCat(first.attack, " at ", first.layer),
      more > 0 ? absl::StrCat(" and ", more, " more") : "");
}

std::string BoundKindName(const RunFigures& figures) {
  return figures.bound() < BoundState::kNotTested ? "none" : figures.is_proved() ? "proved" : "conditional";
}

std::string ProvedWords(const RunFigures& figures) {
  const BoundState state = figures.bound();
  // Of these there is nothing to prove, and the state says it all.
  if (state == BoundState::kNotInLedger || state == BoundState::kNothingReleased) {
    return BoundStateWords(figures);
  }
  if (state == BoundState::kNoneStated) {
    return "nothing";
  }
  std::string bound = figures.states_run_bound()
                          ? absl::StrCat("AUC at most ", BoundText(*figures.run_auc_bound), " over the whole run")
                          : "a bound on single steps, none over the whole run";
  // Of a run that continues none the two are the same.
  if (figures.all_runs_auc_bound.has_value() && figures.all_runs_auc_bound != figures.run_auc_bound) {
    absl::StrAppend(&bound,
                    Promises(figures.all_runs_auc_bound)
                        ? absl::StrCat(" and ", BoundText(*figures.all_runs_auc_bound), " over all runs up to it")
                        : ", with nothing that bounds the earlier runs on these labels");
  }
  if (!figures.is_proved()) {
    return absl::StrCat("nothing; conditional: ", bound);
  }
  absl::StrAppend(&bound, ", for any adversary, beyond what both parties' features tell");
  // Beside the bound, so that nobody reads it as covering them.
  return !figures.own_features.has_value()
             ? bound
             : absl::StrFormat("%s (own features: %s %.3f)", bound, figures.test.is_regression() ? "R^2" : "AUC",
                               *figures.own_features);
}

std::string AdvantageWords(const AttackFigure* attack, const RunFigures& figures) {
  const AttackFigure* const baseline = figures.baseline();
  if (baseline == nullptr) {
    return "not measured: neither features_only nor activation_clusters was run";
  }
  if (attack == nullptr) {
    return "none measured";
  }
  // What an attack reads beyond the features is what the training has revealed.
  const bool pooled = attack->last_epoch.has_value() && baseline->last_epoch.has_value();
  const AucInterval with = pooled ? attack->pooled() : AucInterval{attack->auc()};
  const AucInterval without = pooled ? baseline->pooled() : AucInterval{baseline->auc()};
  const double advantage = with.auc - without.auc;
  return absl::StrFormat("%.3f %s %s, AUC %.3f%s", std::abs(advantage), advantage < 0 ? "below" : "above",
                         AttackTitle(baseline->attack), without.auc,
                         with.known() && without.known()
                             ? absl::StrFormat(" (over all examples; 95%% intervals %.3f to %.3f against %.3f to %.3f)",
                                               with.low, with.high, without.low, without.high)
                             : "");
}

std::string DescribeLayer(const std::string& layer) {
  return layer == "cut" ? std::string("the cut layer") : absl::StrCat("layer \"", layer, "\"");
}

std::string DescribeAttack(const AttackFigure* attack) {
  return attack != nullptr ? absl::StrFormat("%s at %s, AUC %.3f", AttackNamed(attack->attack),
                                             DescribeLayer(attack->layer), attack->auc())
                           : std::string("none measured");
}

std::string DescribeClaimCheck(const ClaimCheckRow& check) {
  return absl::StrCat(
      absl::StrFormat(
          "claimed mu %.3f; measured mu at least %.3f (%.0f%% confidence), at least %.3f (%.4g%%): claim %s",
          check.claimed_mu, check.mu_lower, 100 * check.confidence, check.failing_mu_lower,
          100 * check.failing_confidence, check.is_refuted() ? "refuted" : "not refuted"),
      check.is_conclusive()
          ? ""
          : "; too few examples, or rounded too coarsely, to detect noise at half the claimed strength");
}

namespace {

double Tenths(double auc) { return std::round(1000 * auc); }

// The twentieth of a tenth takes up what a bound lost when it was computed or stored.
double BoundTenths(double auc_bound) { return std::ceil(1000 * auc_bound - 0.05); }

std::string Percent(double tenths) {
  return absl::StrCat(absl::StripSuffix(absl::StrFormat("%.1f", tenths / 10), ".0"), "%");
}

// The claim check first: it can refute a bound that no attack has exceeded.
std::string Contradiction(const RunFigures& figures) {
  if (IsClaimRefuted(figures)) {
    return absl::StrFormat("the claim check found mu at least %.3f, and the run claims %.3f",
                           figures.claim_check->failing_mu_lower, figures.claim_check->claimed_mu);
  }
  if (figures.excesses.empty() || !figures.excesses.front().auc_at_least.has_value()) {
    return "an attack has read more than it allows";
  }
  const BoundExcess& first = figures.excesses.front();
  return absl::StrFormat("%s at %s reached an AUC of at least %.3f, and the noise allows %s", AttackNamed(first.attack),
                         DescribeLayer(first.layer), *first.auc_at_least, BoundText(*first.auc_bound));
}

std::string Measured(const Promise& promise) {
  return !promise.measured_auc.has_value()
             ? "no attack on its gradients was measured"
             : absl::StrCat("the worst attack measured tells apart two customers with different labels with ",
                            MeasuredCertainty(*promise.measured_auc), " certainty");
}

// A conditional bound is never told without what it rests on.
std::string Conditional(const Promise& promise) {
  return Promises(promise.run_auc_bound)
             ? absl::StrCat(
                   "A limit of ", BoundCertainty(*promise.run_auc_bound),
                   " is computed only for Gaussian classes and adversaries that use class moments alone, given "
                   "the top model")
             : "No limit over the whole run is computed";
}

std::string Proved(const Promise& promise) {
  // A partner keeps what it received in earlier runs: the sum is told when it is the larger promise.
  const bool is_more = promise.all_runs_auc_bound.has_value() &&
                       BoundTenths(*promise.all_runs_auc_bound) > BoundTenths(*promise.run_auc_bound);
  const std::string all_runs = !is_more ? ""
                               : Promises(promise.all_runs_auc_bound)
                                   ? absl::StrCat(" (", BoundCertainty(*promise.all_runs_auc_bound),
                                                  " together with the earlier runs on the same labels)")
                                   : " (in this run alone: nothing bounds the earlier runs on the same labels)";
  return absl::StrCat(
      "hatever the partner does with what it received, it can tell apart two customers who differ only in their label "
      "with at most ",
      BoundCertainty(*promise.run_auc_bound), " certainty", all_runs);
}

bool IsProvedForStepsOnly(const Promise& promise) {
  return (promise.verdict == PrivacyVerdict::kGuaranteed || promise.verdict == PrivacyVerdict::kUnchecked) &&
         !Promises(promise.run_auc_bound);
}

}  // namespace

const AttackFigure* HeldAgainstBound(const RunFigures& figures) {
  const AttackFigure* const worst_case = figures.worst_case.has_value() ? &*figures.worst_case : nullptr;
  const AttackFigure* const strongest = figures.strongest();
  // Every attack but the worst case ranks by features as well, which a proved bound is not about.
  const bool is_worst_case =
      figures.is_proved() || strongest == nullptr || (worst_case != nullptr && worst_case->auc() >= strongest->auc());
  return is_worst_case ? worst_case : strongest;
}

Promise PromiseOf(const RunFigures& figures) {
  Promise promise;
  promise.verdict = figures.verdict();
  promise.run_auc_bound = figures.run_auc_bound;
  promise.all_runs_auc_bound = figures.all_runs_auc_bound;
  // Only what may be compared with the bound stands beside it in the sentence.
  if (const AttackFigure* const measured = HeldAgainstBound(figures); measured != nullptr) {
    promise.measured_auc = measured->auc();
  }
  if (promise.verdict == PrivacyVerdict::kBroken) {
    promise.contradiction = Contradiction(figures);
  }
  return promise;
}

std::string MeasuredCertainty(double auc) { return Percent(Tenths(auc)); }
std::string BoundCertainty(double auc_bound) { return Percent(BoundTenths(auc_bound)); }
std::string BoundText(double auc_bound) { return absl::StrFormat("%.3f", BoundTenths(auc_bound) / 1000); }

std::string PromiseSentence(const Promise& promise) {
  // A bound on each step says nothing of many steps together, which is what a partner holds.
  if (IsProvedForStepsOnly(promise)) {
    return "Not a promise: what is proved limits single steps, and nothing limits the whole run.";
  }
  switch (promise.verdict) {
    case PrivacyVerdict::kNotKnown:
      return "This ledger cannot answer: only the label party's states what its run promises.";
    case PrivacyVerdict::kNothingReleased:
      return "No gradient was sent to the partner, so no gradient tells it anything about a label.";
    case PrivacyVerdict::kNothingClaimed:
      return absl::StrCat("Nothing limits what the partner learns: ", Measured(promise), ".");
    case PrivacyVerdict::kUntested:
      return absl::StrCat("Not a promise: the worst case was not measured; ", Measured(promise), ". ",
                          Conditional(promise), ".");
    case PrivacyVerdict::kHolds:
      return absl::StrCat("Not a promise: ", Measured(promise), ". ", Conditional(promise), ".");
    case PrivacyVerdict::kUnchecked:
      return absl::StrCat("Proved, but this run measured too little to check that the programs keep to it: w",
                          Proved(promise), ".");
    case PrivacyVerdict::kGuaranteed:
      return absl::StrCat(
          "W", Proved(promise),
          !promise.measured_auc.has_value()
              ? "."
              : absl::StrCat(". The worst case measured reached ", MeasuredCertainty(*promise.measured_auc),
                             Tenths(*promise.measured_auc) > BoundTenths(*promise.run_auc_bound)
                                 ? ", above the limit by chance."
                                 : "."));
    case PrivacyVerdict::kBroken:
      break;
  }
  const bool has_limit = Promises(promise.run_auc_bound);
  // Of a claim that is refuted the attacks may stay below the limit. Told beside it, they would seem to confirm it.
  const bool is_above = promise.measured_auc.has_value() &&
                        (!has_limit || Tenths(*promise.measured_auc) > BoundTenths(*promise.run_auc_bound));
  return absl::StrCat(
      "Do not rely on ",
      has_limit ? absl::StrCat("the limit of ", BoundCertainty(*promise.run_auc_bound), " that this run states")
                : "any limit that this run states for its steps",
      ": ", promise.contradiction.empty() ? "what was measured contradicts it" : promise.contradiction, ".",
      is_above ? absl::StrCat(" Here ", Measured(promise), ".") : "");
}

std::string PromiseHeadline(const Promise& promise) {
  if (IsProvedForStepsOnly(promise)) {
    return "Promise to nobody: single steps only";
  }
  // In the order of PrivacyVerdict.
  constexpr const char* kHeadlines[] = {
      "Not known from this ledger",       "No gradient was sent",
      "Promise nothing to anyone",        "Promise to nobody: the worst case was not measured",
      "Promise to nobody: measured only", "Proved, not checked: do not promise it yet",
      "May be promised to anyone",        "Broken: promise nothing to anyone"};
  static_assert(std::size(kHeadlines) == static_cast<size_t>(PrivacyVerdict::kBroken) + 1);
  return kHeadlines[static_cast<size_t>(promise.verdict)];
}

}  // namespace splitveil
