#include "common/figures/run_figures.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"

#include "common/figures/attack_catalogue.h"
#include "common/leakage/bounds.h"
#include "common/leakage/summary.h"

namespace splitveil {
namespace {

// Figures that differ by rounding alone are the same.
// Two machines round differently in the last bits, and the order of attacks must be the same on both.
double AsPrinted(double auc) { return std::round(1e6 * auc) / 1e6; }

auto Rank(const AttackFigure& figure) {
  return std::make_tuple(UsesGivenLabels(figure.attack), !ReadsGradients(figure.attack), -AsPrinted(figure.auc()),
                         -AsPrinted(figure.typical_auc()), NeedsOf(figure.attack), figure.layer != "cut", figure.layer,
                         figure.attack);
}

std::optional<double> Finite(double value) { return std::isfinite(value) ? std::optional(value) : std::nullopt; }

constexpr char kLabelParty[] = "label_party";

MeasuredAuc MeasuredIn(const EpochLeakRow& row) {
  return {row.attack, row.epoch, row.auc, row.examples, row.positives};
}

// The first, which is the strongest, that `is` holds of and that measured anything.
template <typename Is>
const AttackFigure* First(const std::vector<AttackFigure>& attacks, Is is) {
  for (const AttackFigure& attack : attacks) {
    if (attack.auc() > 0 && is(attack.attack)) {
      return &attack;
    }
  }
  return nullptr;
}

bool IsOnGradients(const std::string& attack) { return ReadsGradients(attack) && !UsesGivenLabels(attack); }

}  // namespace

bool Promises(const std::optional<double>& bound) { return bound.has_value() && *bound < kNoPromise; }

bool IsBoundProved(absl::string_view protection) {
  // What is combined with either ("+") is not made of noised labels alone.
  return (absl::StartsWith(protection, "gaussian_label_dp") || absl::StartsWith(protection, "label_dp")) &&
         !absl::StrContains(protection, '+');
}

double StepAucBound(double auc_bound, double sum_kl) {
  return std::isnan(sum_kl) ? auc_bound : std::fmin(auc_bound, GaussianAucBound(sum_kl));
}

std::optional<double> StepAucBoundP95(std::vector<RepeatedValue> of_steps) {
  if (of_steps.empty()) {
    return std::nullopt;
  }
  for (RepeatedValue& bound : of_steps) {
    // A step without a bound promises nothing: it counts as the worst, not as missing.
    bound.value = std::isnan(bound.value) ? 1 : bound.value;
  }
  return NearestRankQuantile(std::move(of_steps), 0.95);
}

double AttackFigure::auc() const {
  // A pooled figure over all examples is the stronger statement, but it exists only once an epoch has ended.
  const double pooled = last_epoch.has_value() ? InvertedAuc(last_epoch->auc) : 0;
  return pooled > 0 && IsCumulativeAttack(attack) ? pooled : std::max(has_batches() ? batches.p95 : 0, pooled);
}

double AttackFigure::typical_auc() const {
  if (last_epoch.has_value()) {
    return InvertedAuc(last_epoch->auc);
  }
  return has_batches() ? batches.mean : 0;
}

std::optional<double> AttackFigure::tpr_1pct() const {
  return last_epoch.has_value() ? Finite(last_epoch->tpr_1pct) : std::nullopt;
}

std::optional<double> AttackFigure::tpr_01pct() const {
  return last_epoch.has_value() ? Finite(last_epoch->tpr_01pct) : std::nullopt;
}

bool IsStronger(const AttackFigure& a, const AttackFigure& b) { return Rank(a) < Rank(b); }

std::vector<AttackFigure> StrongestFirst(const LeakSeriesByAttack& series, const EpochLeakByAttack& last_epoch) {
  std::map<std::pair<std::string, std::string>, AttackFigure> figures;
  for (const auto& [key, aucs] : series) {
    figures[key] = {key.first, key.second, "", aucs.LeakOf()};
  }
  // An attack may have figures of batches, of epochs or of both; they become one figure.
  for (const auto& [key, row] : last_epoch) {
    if (std::isfinite(row.auc)) {
      AttackFigure& figure = figures[key];
      figure.layer = key.first;
      figure.attack = key.second;
      figure.last_epoch = row;
    }
  }
  std::vector<AttackFigure> attacks;
  for (auto& [key, figure] : figures) {
    attacks.push_back(std::move(figure));
  }
  std::stable_sort(attacks.begin(), attacks.end(), IsStronger);
  return attacks;
}

std::optional<AttackFigure> WorstCaseOf(const std::vector<EpochLeakRow>& rows) {
  const EpochLeakRow* worst = nullptr;
  for (const EpochLeakRow& row : rows) {
    if (!IsWorstCase(row.attack) || row.layer != "cut" || row.observer != "label_party" || !std::isfinite(row.auc)) {
      continue;
    }
    // What adds up all epochs has seen the most of an example; of equals the latest epoch counts.
    const bool cumulative = IsCumulativeAttack(row.attack);
    if (worst == nullptr || (cumulative && !IsCumulativeAttack(worst->attack)) ||
        (row.attack == worst->attack && row.epoch > worst->epoch)) {
      worst = &row;
    }
  }
  return worst == nullptr ? std::nullopt
                          : std::optional(AttackFigure{worst->layer, worst->attack, worst->observer, {}, *worst});
}

AucInterval AttackFigure::pooled() const {
  if (!last_epoch.has_value()) {
    return {auc()};
  }
  const EpochLeakRow& row = *last_epoch;
  const AucInterval found = row.auc < 0.5 ? AucInterval{1 - row.auc, 1 - row.auc_high, 1 - row.auc_low}
                                          : AucInterval{row.auc, row.auc_low, row.auc_high};
  return found.known() ? found : AucInterval{found.auc};
}

std::vector<const AttackFigure*> RunFigures::over_batches() const {
  std::vector<const AttackFigure*> scored;
  std::set<std::pair<std::string, std::string>> seen;
  for (const AttackFigure& attack : attacks) {
    if (attack.has_batches() && seen.emplace(attack.layer, attack.attack).second) {
      scored.push_back(&attack);
    }
  }
  return scored;
}

const AttackFigure* RunFigures::practical() const {
  return First(attacks, [](const std::string& name) { return IsOnGradients(name) && NeedsNoSideInformation(name); });
}

const AttackFigure* RunFigures::practical_pooled() const {
  const AttackFigure* most = nullptr;
  for (const AttackFigure& attack : attacks) {
    if (attack.last_epoch.has_value() && IsOnGradients(attack.attack) && NeedsNoSideInformation(attack.attack) &&
        (most == nullptr || attack.pooled().auc > most->pooled().auc)) {
      most = &attack;
    }
  }
  return most != nullptr ? most : practical();
}

const AttackFigure* RunFigures::with_side_information() const {
  return First(attacks, [](const std::string& name) { return IsOnGradients(name) && !NeedsNoSideInformation(name); });
}

const AttackFigure* RunFigures::strongest() const {
  // Without side information wins ties: it is the attack that any partner can run.
  const AttackFigure* const unaided = practical();
  const AttackFigure* const aided = with_side_information();
  return unaided == nullptr || (aided != nullptr && aided->auc() > unaided->auc()) ? aided : unaided;
}

const AttackFigure* RunFigures::no_gradient() const {
  return First(attacks, [](const std::string& name) { return !ReadsGradients(name) && !UsesGivenLabels(name); });
}

const AttackFigure* RunFigures::baseline() const {
  // What features alone reveal, no protection of gradients can hide: the attacks are measured against that.
  const AttackFigure* const features = First(attacks, [](const std::string& name) { return name == "features_only"; });
  return features != nullptr ? features
                             : First(attacks, [](const std::string& name) { return name == "activation_clusters"; });
}

bool RunFigures::states_run_bound() const { return protection != "none" && Promises(run_auc_bound); }

bool RunFigures::states_bound() const {
  return states_run_bound() || (protection != "none" && Promises(step_auc_bound_p95));
}

bool RunFigures::is_proved() const { return IsBoundProved(protection); }

std::optional<double> RunFigures::proved_auc_bound() const {
  return is_proved() && states_run_bound() ? run_auc_bound : std::nullopt;
}

BoundState RunFigures::bound() const {
  // An excess is reported even when the run later froze or stated no bound: it has happened.
  return !of_label_party      ? BoundState::kNotInLedger
         : bound_exceeded > 0 ? BoundState::kExceeded
         : released_nothing() ? BoundState::kNothingReleased
         : !states_bound()    ? BoundState::kNoneStated
         : bound_tested       ? BoundState::kNotExceeded
                              : BoundState::kNotTested;
}

PrivacyVerdict RunFigures::verdict() const {
  if (!of_label_party) {
    return PrivacyVerdict::kNotKnown;
  }
  // Evidence against a bound counts even if none is stated: it was claimed of single epochs.
  if (bound_exceeded > 0 || (claim_check.has_value() && claim_check->is_refuted())) {
    return PrivacyVerdict::kBroken;
  }
  if (released_nothing()) {
    return PrivacyVerdict::kNothingReleased;
  }
  if (!states_bound()) {
    return PrivacyVerdict::kNothingClaimed;
  }
  // A proof is about the mechanism as described. Only a check that could have failed says that this run is that
  // mechanism.
  if (is_proved()) {
    return claim_check.has_value() && claim_check->is_conclusive() ? PrivacyVerdict::kGuaranteed
                                                                   : PrivacyVerdict::kUnchecked;
  }
  return worst_case.has_value() ? PrivacyVerdict::kHolds : PrivacyVerdict::kUntested;
}

const ClaimCheckRow* RunFigures::checked_claim() const {
  return claim_check.has_value() && verdict() != PrivacyVerdict::kNothingClaimed ? &*claim_check : nullptr;
}

std::optional<Guessing> GuessingInBatches(std::optional<double> batch, std::optional<double> positives) {
  // Without the size of a batch and its share of positives guessing is not known, which is not 0.5.
  if (!batch.has_value() || !positives.has_value() || !(*batch > 0) || !std::isfinite(*positives)) {
    return std::nullopt;
  }
  return GuessingOver(*batch * *positives, *batch * (1 - *positives));
}

bool IsHeldAgainstBound(const EpochLeakRow& row) {
  MeasuredAuc perfect = MeasuredIn(row);
  perfect.auc = 1;
  return row.observer == kLabelParty && std::isfinite(row.auc) &&
         ExceedsGaussianAucBound(perfect, row.gaussian_auc_bound);
}

bool ExceedsBound(const EpochLeakRow& row) {
  return row.observer == kLabelParty && ExceedsGaussianAucBound(MeasuredIn(row), row.gaussian_auc_bound);
}

void AddExcess(const EpochLeakRow& row, std::vector<BoundExcess>& excesses) {
  if (!ExceedsBound(row)) {
    return;
  }
  auto excess = std::find_if(excesses.begin(), excesses.end(), [&](const BoundExcess& known) {
    return known.layer == row.layer && known.attack == row.attack;
  });
  if (excess == excesses.end()) {
    excess = excesses.insert(excesses.end(), {row.layer, row.attack});
  }
  excess->epochs.push_back(row.epoch + 1);
  // The worst epoch is the one that passes its own bound by most: bounds differ from epoch to epoch.
  const double at_least = CertainAuc(MeasuredIn(row));
  if (!excess->auc_at_least.has_value() ||
      at_least - row.gaussian_auc_bound > *excess->auc_at_least - *excess->auc_bound) {
    excess->auc_at_least = at_least;
    excess->auc_bound = row.gaussian_auc_bound;
    excess->worst_epoch = row.epoch + 1;
  }
  std::stable_sort(excesses.begin(), excesses.end(),
                   [](const BoundExcess& a, const BoundExcess& b) { return a.auc_at_least > b.auc_at_least; });
}

}  // namespace splitveil
