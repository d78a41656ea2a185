#include "label_party/protection/protection_factory.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/crypto/secure_random.h"
#include "common/status/status_macros.h"
#include "label_party/label_privacy/noised_labels.h"
#include "label_party/marvell/marvell_planner.h"
#include "label_party/noise/noise_planner.h"
#include "label_party/protection/gradient_protection.h"

namespace splitveil {
namespace {

absl::Status Unfit(const char* field, const char* expected, double found) {
  return absl::InvalidArgumentError(absl::StrCat("protection.", field, ": expected ", expected, ", found ", found));
}

// The two sides of a method that protects the labels and not the gradients.
struct LabelProtection {
  std::unique_ptr<const PassthroughMethod> method;
  std::shared_ptr<LabelTargets> targets;
};

absl::StatusOr<LabelProtection> MakeLabelDp(const v1::GradientProtection::LabelDp& config,
                                            std::unique_ptr<PrivacyAccount> account) {
  const double epsilon = config.epsilon();
  if (!(epsilon >= LabelRandomizer::kMinEpsilon && epsilon <= LabelRandomizer::kMaxEpsilon)) {
    return Unfit("label_dp.epsilon", "a number from 0.001 to 30", epsilon);
  }
  // With an account, the flips come from the key that it keeps, so that a second run draws the same ones.
  SPLITVEIL_ASSIGN_OR_RETURN(const std::shared_ptr<LabelRandomizer> randomizer,
                             account == nullptr ? LabelRandomizer::Create(epsilon, SecretKey::Generate())
                                                : LabelRandomizer::Create(epsilon, std::move(account)));
  return LabelProtection{std::make_unique<LabelDpMethod>(randomizer), randomizer};
}

absl::StatusOr<LabelProtection> MakeGaussianLabelDp(const v1::GradientProtection::GaussianLabelDp& config,
                                                    const Task& task, std::unique_ptr<PrivacyAccount> account) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::shared_ptr<NoisedLabels> labels,
                             account == nullptr ? NoisedLabels::Create(config, task, SecretKey::Generate())
                                                : NoisedLabels::Create(config, task, std::move(account)));
  return LabelProtection{std::make_unique<GaussianLabelDpMethod>(labels), labels};
}

// Each checks its setting, written so that NaN fails.
// The validator knows ranges of fields; what only a method knows is checked here, before a run starts.
absl::StatusOr<std::unique_ptr<const NoisePlanner>> MakePlanner(const v1::GradientProtection& config) {
  switch (config.method_case()) {
    case v1::GradientProtection::kIso: {
      SPLITVEIL_ASSIGN_OR_RETURN(IsoStrength strength, IsoStrengthOf(config.iso()));
      return std::make_unique<IsoPlanner>(std::move(strength));
    }
    case v1::GradientProtection::kMaxNorm:
      return std::make_unique<MaxNormPlanner>();
    case v1::GradientProtection::kMarvell: {
      SPLITVEIL_ASSIGN_OR_RETURN(MarvellStrength strength, MarvellStrengthOf(config.marvell()));
      return std::make_unique<MarvellPlanner>(std::move(strength));
    }
    case v1::GradientProtection::kSparsify:
      if (!(config.sparsify().keep() > 0 && config.sparsify().keep() < 1)) {
        return Unfit("sparsify.keep", "a share above 0 and below 1", config.sparsify().keep());
      }
      return std::make_unique<SparsifyPlanner>(config.sparsify().keep());
    case v1::GradientProtection::kDiscretize:
      if (config.discretize().bins() < 2) {
        return Unfit("discretize.bins", "at least 2", config.discretize().bins());
      }
      return std::make_unique<DiscretizePlanner>(config.discretize().bins());
    case v1::GradientProtection::kNone:  // These three: MakePassthrough.
    case v1::GradientProtection::kLabelDp:
    case v1::GradientProtection::kGaussianLabelDp:
    // No default: a run without a protection has to say `none`.
    case v1::GradientProtection::METHOD_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "protection: set one of none, iso, max_norm, marvell, label_dp, sparsify, discretize, gaussian_label_dp");
}

// A null method: the configured one changes gradients.
absl::StatusOr<LabelProtection> MakePassthrough(const v1::GradientProtection& config, const Task& task,
                                                std::unique_ptr<PrivacyAccount> account) {
  switch (config.method_case()) {
    case v1::GradientProtection::kNone:
      return LabelProtection{std::make_unique<NoProtection>(), nullptr};
    case v1::GradientProtection::kLabelDp:
      return MakeLabelDp(config.label_dp(), std::move(account));
    case v1::GradientProtection::kGaussianLabelDp:
      return MakeGaussianLabelDp(config.gaussian_label_dp(), task, std::move(account));
    default:
      return LabelProtection();
  }
}

}  // namespace

absl::StatusOr<std::vector<float>> Protection::TrainingTargets(absl::Span<const NoiseRow> examples,
                                                               absl::Span<const float> labels, uint32_t epoch) const {
  // Methods on gradients train on the true labels; their noise is added to what is sent.
  if (this->labels == nullptr) {
    return std::vector<float>(labels.begin(), labels.end());
  }
  return this->labels->TrainingTargets(examples, labels, epoch);
}

absl::StatusOr<Protection> MakeProtection(const v1::GradientProtection& config, std::unique_ptr<SecureGaussian> noise,
                                          std::unique_ptr<PrivacyAccount> account, const Task& task) {
  SPLITVEIL_RETURN_IF_ERROR(CheckTask(config, task));
  SPLITVEIL_ASSIGN_OR_RETURN(LabelProtection passthrough, MakePassthrough(config, task, std::move(account)));
  std::unique_ptr<const NoisePlanner> planner;
  if (passthrough.method == nullptr) {
    SPLITVEIL_ASSIGN_OR_RETURN(planner, MakePlanner(config));
    // Fail closed: a method that should draw noise must not send gradients as they are.
    if (planner->draws_noise() && noise == nullptr) {
      return absl::InvalidArgumentError("gradient_protection: the method draws noise, but there is no source of it");
    }
  }
  const double weight = config.distance_correlation().weight();
  if (config.has_distance_correlation() && !(weight > 0 && std::isfinite(weight))) {
    return Unfit("distance_correlation.weight", "a positive finite number", weight);
  }
  if (planner == nullptr) {
    return Protection{std::make_unique<GradientProtection>(std::move(passthrough.method), weight),
                      std::move(passthrough.targets)};
  }
  return Protection{std::make_unique<GradientProtection>(std::move(planner), std::move(noise), weight), nullptr};
}

absl::Status CheckTask(const v1::GradientProtection& config, const Task& task) {
  const char* const found = task.kind == Task::Kind::kMultiClass ? "several classes" : "a number to be predicted";
  if (task.kind == Task::Kind::kBinary) {
    return absl::OkStatus();
  }
  // The theorems behind the other methods are about two classes.
  if (!config.has_none() && !config.has_gaussian_label_dp()) {
    const google::protobuf::OneofDescriptor* const methods =
        v1::GradientProtection::descriptor()->FindOneofByName("method");
    const google::protobuf::FieldDescriptor* const method =
        config.GetReflection()->GetOneofFieldDescriptor(config, methods);
    return absl::InvalidArgumentError(absl::StrCat("protection.", method == nullptr ? "method" : method->name(),
                                                   ": expected labels of two classes, found ", found,
                                                   "; gaussian_label_dp protects those, too"));
  }
  // The regulariser uses distances between labels, and class numbers have none.
  if (config.has_distance_correlation()) {
    return absl::InvalidArgumentError(
        absl::StrCat("protection.distance_correlation: expected labels of two classes, found ", found));
  }
  return absl::OkStatus();
}

void FillPlannedEpochs(int64_t epochs, v1::GradientProtection& config) {
  // A run that trains nothing still plans, as for one epoch.
  epochs = std::max<int64_t>(epochs, 1);
  // 0 stands for "as many epochs as the agreement has".
  if (config.marvell().has_run_budget() && config.marvell().run_budget().planned_epochs() == 0) {
    config.mutable_marvell()->mutable_run_budget()->set_planned_epochs(static_cast<int32_t>(epochs));
  }
  const auto& labels = config.gaussian_label_dp();
  if (config.has_gaussian_label_dp() && labels.noise_draws() == v1::GradientProtection::GaussianLabelDp::EVERY_EPOCH &&
      labels.planned_epochs() == 0) {
    // Epochs behind released_epochs send nothing, so they need no share of the noise.
    const int64_t released =
        labels.released_epochs() > 0 ? std::min<int64_t>(labels.released_epochs(), epochs) : epochs;
    config.mutable_gaussian_label_dp()->set_planned_epochs(static_cast<int32_t>(released));
  }
}

bool CanRaiseNoise(const v1::GradientProtection& config) { return config.has_iso() || config.has_marvell(); }

}  // namespace splitveil
