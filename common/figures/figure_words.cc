#include "common/figures/figure_words.h"

#include <cmath>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/figures/attack_catalogue.h"

namespace splitveil {

std::string VerdictWords(PrivacyVerdict verdict) {
  // In the order of PrivacyVerdict.
  constexpr const char* kWords[] = {"not known",
                                    "no gradient released",
                                    "nothing claimed",
                                    "claimed, the worst case was not measured",
                                    "holds as far as measured",
                                    "proved, not checked",
                                    "guaranteed",
                                    "broken"};
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
    constexpr const char* kWords[] = {"not measurable from this ledger", "no gradient released", "none stated",
                                      "no attack was held against it", "not exceeded by the attacks run here"};
    static_assert(std::size(kWords) == static_cast<size_t>(BoundState::kExceeded));
    return kWords[static_cast<size_t>(state)];
  }
  if (figures.excesses.empty()) {  // In an earlier epoch, of which only the events tell.
    return "exceeded: see bound_exceeded in the ledger's events";
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
                          ? absl::StrFormat("AUC at most %.3f over the whole run", *figures.run_auc_bound)
                          : "a bound on single steps, none over the whole run";
  // Of a run that continues none the two are the same.
  if (figures.all_runs_auc_bound.has_value() && figures.all_runs_auc_bound != figures.run_auc_bound) {
    absl::StrAppendFormat(&bound, " and %.3f over all runs up to it", *figures.all_runs_auc_bound);
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
  const double advantage = attack->auc() - baseline->auc();
  return absl::StrFormat("%.3f %s %s, AUC %.3f", std::abs(advantage), advantage < 0 ? "below" : "above",
                         AttackTitle(baseline->attack), baseline->auc());
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
      check.is_conclusive() ? "" : "; too few examples to detect noise at half the claimed strength");
}

}  // namespace splitveil
