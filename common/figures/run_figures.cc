#include "common/figures/run_figures.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "common/figures/attack_catalogue.h"
#include "common/figures/stated_bound.h"
#include "common/leakage/bounds.h"

namespace splitveil {
namespace {

constexpr char kLabelParty[] = "label_party";

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

const AttackFigure* RunFigures::with_side_information() const {
  return First(attacks, [](const std::string& name) { return IsOnGradients(name) && !NeedsNoSideInformation(name); });
}

const AttackFigure* RunFigures::strongest() const {
  const AttackFigure* const unaided = practical();
  const AttackFigure* const aided = with_side_information();
  return unaided == nullptr || (aided != nullptr && aided->auc() > unaided->auc()) ? aided : unaided;
}

const AttackFigure* RunFigures::no_gradient() const {
  return First(attacks, [](const std::string& name) { return !ReadsGradients(name) && !UsesGivenLabels(name); });
}

const AttackFigure* RunFigures::baseline() const {
  const AttackFigure* const features = First(attacks, [](const std::string& name) { return name == "features_only"; });
  return features != nullptr ? features
                             : First(attacks, [](const std::string& name) { return name == "activation_clusters"; });
}

bool RunFigures::released_nothing() const {
  return only_predicts || (!gate.empty() && std::all_of(gate.begin(), gate.end(), [](const auto& decision) {
           return decision.first == v1::FREEZE_BOTTOM || decision.first == v1::HALT;
         }));
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
  if (!batch.has_value() || !positives.has_value() || !(*batch > 0) || !std::isfinite(*positives)) {
    return std::nullopt;
  }
  return GuessingOver(*batch * *positives, *batch * (1 - *positives));
}

bool IsHeldAgainstBound(const EpochLeakRow& row) {
  return row.observer == kLabelParty && std::isfinite(row.auc_low) && std::isfinite(row.gaussian_auc_bound);
}

bool ExceedsBound(const EpochLeakRow& row) {
  return row.observer == kLabelParty &&
         ExceedsGaussianAucBound(CertainAuc(row.auc, row.auc_low, row.auc_high), row.gaussian_auc_bound);
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
  const double at_least = CertainAuc(row.auc, row.auc_low, row.auc_high);
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
