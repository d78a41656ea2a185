#include "label_party/policy/release_gate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/crypto/discrete_gaussian.h"
#include "common/crypto/invariant.h"
#include "common/crypto/secure_random.h"
#include "common/figures/figure_words.h"
#include "common/leakage/bounds.h"
#include "common/status/status_macros.h"
#include "label_party/marvell/marvell_planner.h"
#include "label_party/protection/protection_factory.h"

namespace splitveil {
namespace {

using Budget = v1::GradientProtection::RunBudget;

// The largest divergence whose AucBound is at most `auc_bound` < 1: Theorem 1 solved for sum_kl.
double SumKlForAucBound(double auc_bound) {
  const double root = 2 - 2 * std::sqrt(2 * (1 - auc_bound));
  return root * root;
}

// The most severe of the actions that the limits ask for, and the least of the divergences.
class Verdict {
 public:
  explicit Verdict(int times_raised) : times_raised_(times_raised) {}

  void Pass(const char* what, double found, double limit, v1::GateAction action, double raise_to) {
    const bool can_raise = raise_to > 0 && std::isfinite(raise_to) && times_raised_ < ReleaseGate::kMaxRaises;
    // Fail closed: if no more noise helps, nothing is sent.
    if (action == v1::RAISE_NOISE && !can_raise) {
      action = v1::FREEZE_BOTTOM;
    }
    // Actions are in the order of severity: the most severe one wins, with its reason.
    if (action > decision_.action) {
      decision_.action = action;
      decision_.reason = absl::StrFormat("%s %.4f, released up to %.4f", what, found, limit);
    }
    if (action == v1::RAISE_NOISE) {
      // The batch must keep every limit that was passed.
      decision_.max_sum_kl = std::min(decision_.max_sum_kl, raise_to);
    }
  }

  // `epoch`, from 0, comes after the first `released` epochs.
  // A public fact, agreed beforehand: this decision reveals nothing about any label.
  void PassLastReleasedEpoch(uint32_t epoch, uint32_t released) {
    if (v1::FREEZE_BOTTOM > decision_.action) {
      decision_.action = v1::FREEZE_BOTTOM;
      decision_.reason = absl::StrCat("epoch ", epoch + 1, ", released up to epoch ", released);
    }
  }

  GateDecision& decision() { return decision_; }

 private:
  const int times_raised_;
  GateDecision decision_;
};

// Fail closed: an unknown divergence counts as infinite.
double Known(double sum_kl) { return sum_kl >= 0 ? sum_kl : std::numeric_limits<double>::infinity(); }

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// The divergence of one release in each epoch; NaN if the method bounds none; empty if it depends on the gradients.
// What is known before the run, for `validate` and `plan`; in the run each release states its own.
absl::StatusOr<std::vector<double>> PlannedSumKl(const v1::GradientProtection& protection, int32_t epochs,
                                                 const std::vector<double>& label_dp_sum_kl) {
  using Marvell = v1::GradientProtection::Marvell;
  if (protection.has_gaussian_label_dp() || !label_dp_sum_kl.empty()) {
    return label_dp_sum_kl;
  }
  if (protection.has_label_dp()) {  // One draw of flips, without an account: as LabelDpMethod states it.
    return std::vector<double>{SumKlForRunAuc(1 / (1 + std::exp(-protection.label_dp().epsilon())))};
  }
  const auto all = static_cast<size_t>(epochs);
  if (!protection.has_marvell()) {
    return protection.has_iso() ? std::vector<double>() : std::vector<double>(all, kUnknown);
  }
  switch (protection.marvell().strength_case()) {
    case Marvell::kSumKl:
      return std::vector<double>(all, protection.marvell().sum_kl());
    case Marvell::kDetectionError:
      // As SumKlForDetectionError; the value was checked when the protection was made.
      return std::vector<double>(all, std::pow(2 - 4 * protection.marvell().detection_error(), 2));
    case Marvell::kRunBudget:
      return PlanRunBudget(protection.marvell().run_budget());
    default:
      return std::vector<double>();
  }
}

std::string Words(v1::GateAction action) { return absl::AsciiStrToLower(v1::GateAction_Name(action)); }

std::string RunBoundText(double run_sum_kl) {
  return std::isnan(run_sum_kl) ? "no bound on what the releases allow"
                                : absl::StrCat("all releases of an example allow an AUC of at most ",
                                               BoundText(GaussianAucBound(run_sum_kl)));
}

}  // namespace

absl::StatusOr<ReleaseGate> ReleaseGate::Create(const v1::ReleasePolicy& policy,
                                                const v1::GradientProtection& protection) {
  ReleaseGate gate;
  gate.action_ = policy.action();
  if (gate.action_ < v1::WARN) {  // A limit that is passed must be acted on.
    return absl::InvalidArgumentError(
        absl::StrCat("release.action: expected WARN, RAISE_NOISE, FREEZE_BOTTOM or HALT, found ",
                     v1::GateAction_Name(gate.action_)));
  }
  if (gate.action_ == v1::RAISE_NOISE && !CanRaiseNoise(protection)) {
    return absl::InvalidArgumentError(
        "release.action: expected WARN, HALT or FREEZE_BOTTOM with this protection, found RAISE_NOISE, which needs iso "
        "or marvell");
  }
  gate.max_step_auc_bound_ = policy.max_step_auc_bound();
  gate.max_measured_leak_ = policy.max_measured_leak();
  gate.max_worst_case_auc_bound_ = policy.max_worst_case_auc_bound();
  // Limits are kept as divergences: these add up over releases, AUCs do not.
  if (policy.max_run_auc_bound() < 1) {
    gate.run_limits_.push_back({policy.max_run_auc_bound(), SumKlForRunAuc(policy.max_run_auc_bound()), gate.action_});
  }
  if (protection.marvell().has_run_budget()) {
    const Budget& budget = protection.marvell().run_budget();
    SPLITVEIL_RETURN_IF_ERROR(PlanRunBudget(budget).status());
    const double spendable = SpendableSumKl(budget);
    // A run budget is a limit like the policy's own, with its own action.
    gate.run_limits_.push_back({GaussianAucBound(spendable), spendable, budget.when_spent()});
  }
  if (protection.gaussian_label_dp().released_epochs() > 0) {
    gate.released_epochs_ = static_cast<uint32_t>(protection.gaussian_label_dp().released_epochs());
  }
  return gate;
}

double ReleaseGate::max_run_sum_kl() const {
  double least = std::numeric_limits<double>::infinity();
  for (const RunLimit& limit : run_limits_) {
    least = std::min(least, limit.sum_kl);
  }
  return least;
}

// A limit that only warns does not keep a sum below it, so it cannot justify replacing an interrupted run (rule 6).
bool ReleaseGate::enforces_run_limit() const {
  return std::any_of(run_limits_.begin(), run_limits_.end(),
                     [](const RunLimit& limit) { return limit.action != v1::WARN; });
}

GateDecision ReleaseGate::Decide(const ReleaseFigures& figures) const {
  // Every limit is looked at, also after one has failed: raised noise must keep all of them at once.
  Verdict verdict(figures.times_raised);
  // For noise on labels the Gaussian AUC is proved and tighter; Theorem 1 alone bounds noise on gradients.
  verdict.decision().auc_bound = std::isnan(figures.run_sum_kl)
                                     ? AucBound(figures.sum_kl)
                                     : std::min(AucBound(figures.sum_kl), GaussianAucBound(figures.sum_kl));
  // An unknown figure exceeds every limit: comparisons are written so that NaN does.
  if (max_step_auc_bound_ < 1 && !(verdict.decision().auc_bound <= max_step_auc_bound_)) {
    verdict.Pass("bound on the AUC of one step", verdict.decision().auc_bound, max_step_auc_bound_, action_,
                 (1 - kSolverShare) * SumKlForAucBound(max_step_auc_bound_));
  }
  // A method that states the whole run is compared with its limits from the first batch on.
  const double after = figures.run_sum_kl >= 0 ? figures.run_sum_kl
                                               : figures.exposed_sum_kl + (figures.sum_kl >= 0 ? figures.sum_kl : NAN);
  for (const RunLimit& limit : run_limits_) {
    if (!(after <= limit.sum_kl)) {
      // Half of what remains, so that further releases can follow, each with half of the rest.
      verdict.Pass("bound on the AUC of an adversary that accumulates over steps", GaussianAucBound(after), limit.auc,
                   limit.action, (limit.sum_kl - figures.exposed_sum_kl) / 2);
    }
  }
  if (figures.measured_leak > max_measured_leak_) {
    // How a measured leak falls with the noise is not known: the divergence is halved and the batch measured again.
    verdict.Pass("leak measured on the batch", figures.measured_leak, max_measured_leak_, action_, figures.sum_kl / 2);
  }
  if (WantsWorstCase() && !(figures.worst_case_auc_bound <= max_worst_case_auc_bound_)) {
    verdict.Pass("bound on the AUC of an adversary that knows all but one label", figures.worst_case_auc_bound,
                 max_worst_case_auc_bound_, action_, figures.sum_kl / 2);
  }
  if (released_epochs_.has_value() && figures.epoch >= *released_epochs_) {
    verdict.PassLastReleasedEpoch(figures.epoch, *released_epochs_);
  }
  return verdict.decision();
}

// If nothing can block, rows need not wait until the figures of their whole batch are known.
bool ReleaseGate::can_block() const {
  return action_ > v1::WARN || released_epochs_.has_value() ||
         std::any_of(run_limits_.begin(), run_limits_.end(),
                     [](const RunLimit& limit) { return limit.action > v1::WARN; });
}

// By the most exposed example: a promise on the mean would be none to the person it is about.
namespace {

// A sum may be too large by a hair, never too small.
float RoundedUp(double sum_kl) {
  const auto rounded = static_cast<float>(sum_kl);
  return rounded < sum_kl ? std::nextafter(rounded, std::numeric_limits<float>::infinity()) : rounded;
}

}  // namespace

double LeakageAccountant::MaxOf(absl::Span<const uint32_t> positions) const {
  float largest = 0;
  for (uint32_t position : positions) {
    largest = std::max(largest, sum_kls_[position]);
  }
  return largest;
}

double LeakageAccountant::Release(absl::Span<const uint32_t> positions, double sum_kl) {
  for (uint32_t position : positions) {
    // Divergences of independent releases add (chain rule), so the sum bounds an adversary that has kept all of them.
    sum_kls_[position] = RoundedUp(sum_kls_[position] + Known(sum_kl));
    max_sum_kl_ = std::max(max_sum_kl_, double{sum_kls_[position]});
  }
  return max_sum_kl_;
}

double LeakageAccountant::ReleaseOfRun(absl::Span<const uint32_t> positions, double run_sum_kl) {
  const double known = Known(run_sum_kl);
  for (uint32_t position : positions) {
    // The largest, not the sum: the figure stands for all releases of the run.
    sum_kls_[position] = std::max(sum_kls_[position], RoundedUp(known));
  }
  // As it was stated, for it may be a limit that the run just keeps.
  max_sum_kl_ = std::max(max_sum_kl_, positions.empty() ? 0 : known);
  return max_sum_kl_;
}

absl::StatusOr<PolicyOutlook> ForeseePolicy(const v1::ReleasePolicy& policy, const v1::GradientProtection& protection,
                                            int32_t epochs, const std::vector<double>& label_dp_sum_kl) {
  SPLITVEIL_ASSIGN_OR_RETURN(const ReleaseGate gate, ReleaseGate::Create(policy, protection));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<double> planned, PlannedSumKl(protection, epochs, label_dp_sum_kl));
  PolicyOutlook outlook;
  if (planned.empty()) {
    outlook.known = false;
    outlook.text = "the noise is set relative to the gradients: what a release allows is known in the run only";
    return outlook;
  }
  const bool is_on_labels = protection.has_gaussian_label_dp() || protection.has_label_dp();
  const double whole = std::accumulate(planned.begin(), planned.end(), 0.0);
  double so_far = 0;
  for (int32_t epoch = 0; epoch < epochs; ++epoch) {
    ReleaseFigures figures;
    // After the plan of a run budget, nothing remains for a release.
    figures.sum_kl = static_cast<size_t>(epoch) < planned.size() ? planned[epoch]
                     : is_on_labels                              ? 0
                                                                 : std::numeric_limits<double>::infinity();
    figures.exposed_sum_kl = so_far;
    figures.epoch = static_cast<uint32_t>(epoch);
    if (is_on_labels) {
      figures.run_sum_kl = whole;  // All of them count from the first batch on.
    }
    const GateDecision decision = gate.Decide(figures);
    if (decision.action != v1::RELEASE && outlook.first_epoch == 0) {
      outlook.first_epoch = epoch + 1;
      outlook.text =
          absl::StrCat(Words(decision.action), " in epoch ", epoch + 1, " of ", epochs, ": ", decision.reason);
    }
    outlook.action = std::max(outlook.action, decision.action);
    // Nothing is released after that, so no later epoch can be judged.
    if (decision.action >= v1::FREEZE_BOTTOM) {
      return outlook;
    }
    so_far += figures.sum_kl;
  }
  if (outlook.first_epoch == 0) {
    outlook.text = absl::StrCat(RunBoundText(whole), "; the policy acts on none of the ", epochs, " epochs");
  }
  return outlook;
}

namespace {

constexpr double kRankShare = 0.8;       // Share of mu^2 spent on W; the rest on the count of positives.
constexpr int64_t kCountGrid = 1024;     // Positives are counted in these parts, so that a small sigma is exact.
constexpr double kEndOfSigmas = 0x1p31;  // Limit of SampleDiscreteGaussian.
constexpr double kAnswersPerUnit = 100;  // Rounding to 0.01.

double RankSigma(double mu, int64_t examples) {
  // W moves by at most n - 1 with one label. Rounded up: more noise, never less, than mu asks for.
  // mu^2 is shared between two draws, which compose to mu.
  return std::ceil(static_cast<double>(examples - 1) / (mu * std::sqrt(kRankShare)));
}

double CountSigma(double mu) { return std::ceil(static_cast<double>(kCountGrid) / (mu * std::sqrt(1 - kRankShare))); }

int64_t Noise(double sigma) {
  // Below 1 a discrete Gaussian no longer behaves like a continuous one, and the bound would not hold.
  CheckInvariant(sigma >= 1 && sigma < kEndOfSigmas, "RoundedAnswer: a sigma that can be drawn");
  return SampleDiscreteGaussian(static_cast<uint32_t>(sigma), [] {
    uint64_t word = 0;
    FillSecureRandom({reinterpret_cast<uint8_t*>(&word), sizeof(word)});
    return word;
  });
}

// W of the header: ties count half, so a block of equal scores counts once.
int64_t RankSum(absl::Span<const float> scores, absl::Span<const uint8_t> labels) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] < scores[b]; });
  int64_t sum = 0;
  const auto count = static_cast<int64_t>(order.size());
  for (int64_t begin = 0, end = 0; begin < count; begin = end) {  // Of equal scores.
    // Scores are the peer's: ties must not be broken by the order that the sort leaves them in.
    int64_t positives = 0;
    for (end = begin; end < count && scores[order[end]] == scores[order[begin]]; ++end) {
      positives += labels[order[end]];
    }
    sum += positives * (begin - (count - end));
  }
  return sum;
}

}  // namespace

std::optional<double> DisclosedAuc(v1::DisclosureLevel disclosure, std::optional<double> auc) {
  return disclosure == v1::ORACLE ? auc : std::nullopt;
}

bool RoundedAnswers::IsDue(int64_t step, int64_t examples) const {
  const v1::RoundedAnswers& config = audit_.rounded();
  // By public facts only: whether a batch is answered must not reveal its labels.
  // And by a quota, so that a peer cannot earn more by submitting more.
  return any() && step % audit_.every_batches() == 0 && spent_ < static_cast<uint32_t>(config.max_answers()) &&
         examples >= config.minimum_batch() && RankSigma(config.mu(), examples) < kEndOfSigmas;
}

double RoundedAnswer(const v1::RoundedAnswers& config, absl::Span<const float> scores,
                     absl::Span<const uint8_t> labels) {
  const auto examples = static_cast<int64_t>(labels.size());
  const int64_t rank_sum = RankSum(scores, labels) + Noise(RankSigma(config.mu(), examples));
  const int64_t positive_parts =
      kCountGrid * std::accumulate(labels.begin(), labels.end(), int64_t{0}) + Noise(CountSigma(config.mu()));
  // From here on everything is computed from noised and public numbers: post-processing discloses nothing more.
  const double positives = std::clamp(static_cast<double>(positive_parts) / static_cast<double>(kCountGrid), 1.0,
                                      static_cast<double>(examples - 1));
  const double pairs = positives * (static_cast<double>(examples) - positives);
  const double auc = std::clamp(0.5 + static_cast<double>(rank_sum) / (2 * pairs), 0.0, 1.0);
  // For reading only; the protection is in the noise above.
  return std::round(auc * kAnswersPerUnit) / kAnswersPerUnit;
}

}  // namespace splitveil
