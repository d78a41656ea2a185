#include "label_party/label_privacy/noised_labels.h"

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

#include "common/crypto/sha256.h"
#include "common/privacy/label_privacy.h"
#include "common/process/parallel_for.h"
#include "common/status/status_context.h"
#include "common/status/status_macros.h"
#include "label_party/label_privacy/label_targets.h"

namespace splitveil {
namespace {

constexpr size_t kShareDraws = 4096;  // A millisecond: worth a thread.

absl::StatusOr<LabelNoiseStrength> StrengthOf(const v1::GradientProtection::GaussianLabelDp& config) {
  switch (config.strength_case()) {
    case v1::GradientProtection::GaussianLabelDp::kSigma:
      return FirstReleaseSigma{config.sigma()};
    case v1::GradientProtection::GaussianLabelDp::kMu:
      return RunMu{config.mu()};
    case v1::GradientProtection::GaussianLabelDp::kBudget:
      return RunEpsilonDelta{config.budget().epsilon(), config.budget().delta()};
    case v1::GradientProtection::GaussianLabelDp::kMaxRunAucBound:
      return RunAucBound{config.max_run_auc_bound()};
    case v1::GradientProtection::GaussianLabelDp::STRENGTH_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("set one of sigma, mu, budget, max_run_auc_bound");
}

using Config = v1::GradientProtection::GaussianLabelDp;

absl::StatusOr<LabelNoisePlan> PlanNoise(const Config& config, const Task& task) {
  LabelNoisePlanOptions options;
  options.label_kind = LabelKindOf(task);
  SPLITVEIL_ASSIGN_OR_RETURN(options.strength, StrengthOf(config));
  if (config.noise_draws() == Config::EVERY_EPOCH && config.planned_epochs() > 1) {
    options.releases = static_cast<uint32_t>(config.planned_epochs());
    options.schedule = config.noise_growth_per_epoch() == 1 ? NoiseSchedule::kConstant : NoiseSchedule::kGrowing;
    options.noise_growth_per_release = config.noise_growth_per_epoch();
    if (config.has_sigma()) {  // What one draw would have: the mu of the run.
      SPLITVEIL_ASSIGN_OR_RETURN(const LabelPrivacy run, PrivacyOfSigmas(options.label_kind, {config.sigma()}));
      options.strength = RunMu{run.mu()};
    }
  }
  return PlanLabelNoise(options);
}

// Randomised response: the odds of the true label against the other are e^epsilon.
double FlipProbability(double epsilon) { return 1 / (1 + std::exp(epsilon)); }

// Noise that passes 1/2 with the probability of a flip, and a little more.
// The flips are made of Gaussian noise on the label, so that an account can add them up with other runs' noise.
Config NoiseOfFlips(double epsilon) {
  const double sigma = 0.5 / -NormalQuantile(FlipProbability(epsilon));
  Config config;
  // With d sigma more, a flip is phi(1 / (2 sigma)) / (2 sigma^2) d sigma likelier; noise is 1/2, to a unit of the
  // grid, with phi(1 / (2 sigma)) / sigma units, for which 2 sigma units make up.
  config.set_sigma(sigma + std::ldexp(2 * sigma + 2, -kLabelGridBits));
  return config;
}

}  // namespace

absl::StatusOr<NoisedLabels::Plan> NoisedLabels::PlanOf(const Config& config, const Task& task) {
  const absl::StatusOr<LabelNoisePlan> plan = PlanNoise(config, task);
  return plan.ok() ? absl::StatusOr<Plan>(Schedule(task, plan->sigma_units, plan->run))
                   : Within("protection.gaussian_label_dp", plan.status());
}

// Draws of one strength are numbered, whatever other strengths come between: a longer run, or one that grows otherwise,
// has as many of them in common with this one as there are.
NoisedLabels::Plan NoisedLabels::Schedule(const Task& task, absl::Span<const uint32_t> sigma_units,
                                          const LabelPrivacy& run) {
  Plan plan;
  plan.run = run;
  double so_far = 0;
  for (const uint32_t units : sigma_units) {
    const auto found = std::find_if(plan.releases.begin(), plan.releases.end(),
                                    [&](const NoiseReleases& of) { return of.sigma_units == units; });
    Draw draw;
    draw.strength = static_cast<size_t>(found - plan.releases.begin());
    if (found == plan.releases.end()) {
      plan.releases.push_back({units, 0});
    }
    draw.number = plan.releases[draw.strength].draws++;
    draw.sigma = std::ldexp(static_cast<double>(units), -kLabelGridBits);
    const double mu = LabelSensitivity(LabelKindOf(task)) / draw.sigma;
    draw.sum_kl = mu * mu;
    so_far += draw.sum_kl;
    draw.sum_kl_so_far = so_far;
    plan.draws.push_back(draw);
  }
  return plan;
}

absl::StatusOr<std::vector<NoiseReleases>> PlannedReleases(const v1::GradientProtection& config, const Task& task) {
  if (!config.has_gaussian_label_dp() && !config.has_label_dp()) {
    return std::vector<NoiseReleases>();
  }
  SPLITVEIL_ASSIGN_OR_RETURN(
      const NoisedLabels::Plan plan,
      NoisedLabels::PlanOf(
          config.has_label_dp() ? NoiseOfFlips(config.label_dp().epsilon()) : config.gaussian_label_dp(), task));
  return plan.releases;
}

NoisedLabels::NoisedLabels(const Config& config, const Task& task, std::vector<LabelNoise> noise, Plan plan,
                           std::unique_ptr<PrivacyAccount> account)
    : task_(task),
      corrects_(config.likelihood_correction()),
      releases_(std::move(plan.releases)),
      draws_(std::move(plan.draws)),
      privacy_(plan.run),
      noise_(std::move(noise)),
      account_(std::move(account)) {}

absl::StatusOr<std::shared_ptr<NoisedLabels>> NoisedLabels::Create(const Config& config, const Task& task,
                                                                   const SecretKey& key) {
  // Strength by strength, as the account would do it: with an account or without, the noise is the same up to its key.
  SPLITVEIL_ASSIGN_OR_RETURN(Plan plan, PlanOf(config, task));
  std::vector<LabelNoise> noise;
  for (const NoiseReleases& of : plan.releases) {
    SPLITVEIL_ASSIGN_OR_RETURN(LabelNoise drawn, LabelNoise::Create(key, Sha256("labels of one run"),
                                                                    std::vector<uint32_t>(of.draws, of.sigma_units)));
    noise.push_back(std::move(drawn));
  }
  return std::shared_ptr<NoisedLabels>(new NoisedLabels(config, task, std::move(noise), std::move(plan), nullptr));
}

absl::StatusOr<std::shared_ptr<NoisedLabels>> NoisedLabels::Create(const Config& config, const Task& task,
                                                                   std::unique_ptr<PrivacyAccount> account) {
  SPLITVEIL_ASSIGN_OR_RETURN(Plan plan, PlanOf(config, task));
  std::vector<LabelNoise> noise;
  for (const NoiseReleases& of : plan.releases) {
    SPLITVEIL_ASSIGN_OR_RETURN(LabelNoise drawn, account->Noise(of));
    noise.push_back(std::move(drawn));
  }
  return std::shared_ptr<NoisedLabels>(
      new NoisedLabels(config, task, std::move(noise), std::move(plan), std::move(account)));
}

absl::Status NoisedLabels::Count(absl::string_view run_id, absl::Span<const NoiseRow> examples,
                                 absl::Span<const float> labels) {
  if (account_ != nullptr && !accounted_) {
    SPLITVEIL_ASSIGN_OR_RETURN(const LabelPrivacy lifetime,
                               account_->Debit(examples, LabelNumbers(task_, labels), releases_));
    const double of_examples = lifetime.mu() * lifetime.mu(), run_sum_kl = privacy_.mu() * privacy_.mu();
    SPLITVEIL_ASSIGN_OR_RETURN(const PrivacyAccount::Start start, account_->RememberStart(run_id, of_examples));
    // The account knows all releases together; what this run does not repeat was released by others.
    accounted_ = {account_->id(), start.name, std::max(0.0, start.most_exposed - run_sum_kl), run_sum_kl, of_examples};
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> NoisedLabels::TrainingTargets(absl::Span<const NoiseRow> examples,
                                                                 absl::Span<const float> labels, uint32_t epoch) {
  // On the disk before the first target exists: what is not counted must not be released (rule 6).
  if (account_ != nullptr && !accounted_) {
    return absl::FailedPreconditionError("noised labels: expected the account to have counted the run before a draw");
  }
  // The gate refuses gradients of a model that was not trained on noised labels; this is how it knows.
  drawn_ = true;
  const Draw& draw = draws_[DrawOf(epoch)];
  const auto outputs = static_cast<size_t>(task_.outputs());
  std::vector<float> targets(labels.size() * outputs);
  const size_t share = std::max<size_t>(1, kShareDraws / outputs);  // Examples.
  ParallelFor((labels.size() + share - 1) / share, std::max(1U, std::thread::hardware_concurrency()), [&](size_t i) {
    // One per thread: a keystream has a position, which threads must not share.
    LabelNoise::Release noise = noise_[draw.strength].OfRelease(draw.number);
    for (size_t j = i * share; j < std::min(labels.size(), (i + 1) * share); ++j) {
      for (size_t k = 0; k < outputs; ++k) {
        // Integers on a grid: floating-point noise has gaps that can reveal what it was added to (Mironov, CCS 2012).
        const int64_t noised =
            LabelComponent(task_, labels[j], static_cast<int64_t>(k)) + noise.At(examples[j], static_cast<uint32_t>(k));
        targets[j * outputs + k] = std::ldexp(static_cast<float>(noised), -kLabelGridBits);
      }
    }
  });
  return targets;
}

LabelRandomizer::LabelRandomizer(double epsilon, std::shared_ptr<NoisedLabels> noised)
    : epsilon_(epsilon), rho_(FlipProbability(epsilon)), noised_(std::move(noised)) {}

absl::StatusOr<std::shared_ptr<LabelRandomizer>> LabelRandomizer::Create(double epsilon, const SecretKey& key) {
  SPLITVEIL_ASSIGN_OR_RETURN(std::shared_ptr<NoisedLabels> noised,
                             NoisedLabels::Create(NoiseOfFlips(epsilon), Task(), key));
  return std::shared_ptr<LabelRandomizer>(new LabelRandomizer(epsilon, std::move(noised)));
}

absl::StatusOr<std::shared_ptr<LabelRandomizer>> LabelRandomizer::Create(double epsilon,
                                                                         std::unique_ptr<PrivacyAccount> account) {
  SPLITVEIL_ASSIGN_OR_RETURN(std::shared_ptr<NoisedLabels> noised,
                             NoisedLabels::Create(NoiseOfFlips(epsilon), Task(), std::move(account)));
  return std::shared_ptr<LabelRandomizer>(new LabelRandomizer(epsilon, std::move(noised)));
}

absl::StatusOr<std::vector<float>> LabelRandomizer::TrainingTargets(absl::Span<const NoiseRow> examples,
                                                                    absl::Span<const float> labels, uint32_t epoch) {
  SPLITVEIL_ASSIGN_OR_RETURN(std::vector<float> targets, noised_->TrainingTargets(examples, labels, epoch));
  for (float& target : targets) {
    // Unbiased: over the flips the mean target is the label, so the model learns the same with more variance.
    target = static_cast<float>(((target > 0.5F ? 1 : 0) - rho_) / (1 - 2 * rho_));
  }
  return targets;
}

}  // namespace splitveil
