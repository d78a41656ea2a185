#include "label_party/protection/protection_factory.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/crypto/secure_random.h"
#include "common/status/status_macros.h"
#include "label_party/label_privacy/label_randomizer.h"
#include "label_party/label_privacy/noised_labels.h"
#include "label_party/marvell/marvell_planner.h"
#include "label_party/noise/discretize_planner.h"
#include "label_party/noise/iso_planner.h"
#include "label_party/noise/max_norm_planner.h"
#include "label_party/noise/sparsify_planner.h"
#include "label_party/protection/gaussian_label_dp_planner.h"
#include "label_party/protection/label_dp_planner.h"
#include "label_party/protection/none_planner.h"

namespace splitveil {
namespace {

absl::Status Unfit(const char* field, const char* expected, double found) {
  return absl::InvalidArgumentError(absl::StrCat("protection.", field, ": expected ", expected, ", found ", found));
}

// Beside a method that knows nothing of it: the trainer adds the regulariser's gradients before they are planned for.
class RegularisedPlanner final : public NoisePlanner {
 public:
  RegularisedPlanner(std::unique_ptr<const NoisePlanner> method, double weight)
      : method_(std::move(method)), weight_(weight) {}

  absl::StatusOr<NoisePlan> Plan(const BatchFacts& batch, double max_sum_kl) const override {
    return method_->Plan(batch, max_sum_kl);
  }
  // The regulariser goes by the whole batch: no row leaves before the others are there.
  Perturbation perturbation() const override {
    return method_->perturbation() == Perturbation::kNone ? Perturbation::kFixed : method_->perturbation();
  }
  std::string name() const override {
    return absl::StrCat(method_->name(), "+distance_correlation(weight=", weight_, ")");
  }

 private:
  const std::unique_ptr<const NoisePlanner> method_;
  const double weight_;
};

// The two sides of a method that protects the labels and not the gradients.
struct LabelProtection {
  std::unique_ptr<const NoisePlanner> planner;
  std::shared_ptr<LabelTargets> targets;
};

absl::StatusOr<LabelProtection> MakeLabelDp(const v1::GradientProtection::LabelDp& config) {
  const double epsilon = config.epsilon();
  if (!(epsilon > 0 && epsilon <= LabelRandomizer::kMaxEpsilon)) {
    return Unfit("label_dp.epsilon", "a positive number up to 30", epsilon);
  }
  auto randomizer = std::make_shared<LabelRandomizer>(epsilon, SecretKey::Generate());
  return LabelProtection{std::make_unique<LabelDpPlanner>(randomizer), randomizer};
}

absl::StatusOr<LabelProtection> MakeGaussianLabelDp(const v1::GradientProtection::GaussianLabelDp& config,
                                                    const Task& task, std::unique_ptr<PrivacyAccount> account) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::shared_ptr<NoisedLabels> labels,
                             account == nullptr ? NoisedLabels::Create(config, task, SecretKey::Generate())
                                                : NoisedLabels::Create(config, task, std::move(account)));
  return LabelProtection{std::make_unique<GaussianLabelDpPlanner>(labels), labels};
}

// Each checks its setting, written so that NaN fails.
absl::StatusOr<std::unique_ptr<const NoisePlanner>> MakePlanner(const v1::GradientProtection& config) {
  switch (config.method_case()) {
    case v1::GradientProtection::kNone:
      return std::make_unique<NonePlanner>();
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
    case v1::GradientProtection::kLabelDp:  // MakeMethod's.
    case v1::GradientProtection::kGaussianLabelDp:
    case v1::GradientProtection::METHOD_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "gradient_protection: expected one of none, iso, max_norm, marvell, label_dp, sparsify, discretize, "
      "gaussian_label_dp, found none of them");
}

// With targets where the method has any.
absl::StatusOr<LabelProtection> MakeMethod(const v1::GradientProtection& config, const Task& task,
                                           std::unique_ptr<PrivacyAccount> account) {
  if (config.has_label_dp()) {
    return MakeLabelDp(config.label_dp());
  }
  if (config.has_gaussian_label_dp()) {
    return MakeGaussianLabelDp(config.gaussian_label_dp(), task, std::move(account));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<const NoisePlanner> planner, MakePlanner(config));
  return LabelProtection{std::move(planner), nullptr};
}

}  // namespace

absl::StatusOr<std::vector<float>> Protection::TrainingTargets(absl::Span<const NoiseRow> examples,
                                                               absl::Span<const float> labels, uint32_t epoch) const {
  if (this->labels == nullptr) {
    return std::vector<float>(labels.begin(), labels.end());
  }
  return this->labels->TrainingTargets(examples, labels, epoch);
}

absl::StatusOr<Protection> MakeProtection(const v1::GradientProtection& config, std::unique_ptr<SecureGaussian> noise,
                                          std::unique_ptr<PrivacyAccount> account, const Task& task) {
  SPLITVEIL_RETURN_IF_ERROR(CheckTask(config, task));
  SPLITVEIL_ASSIGN_OR_RETURN(LabelProtection method, MakeMethod(config, task, std::move(account)));
  std::unique_ptr<const NoisePlanner> planner = std::move(method.planner);
  if (planner->perturbation() == Perturbation::kNoise && noise == nullptr) {
    return absl::InvalidArgumentError("gradient_protection: expected a source of noise, found none");
  }
  if (config.has_distance_correlation()) {
    const double weight = config.distance_correlation().weight();
    if (!(weight > 0 && std::isfinite(weight))) {
      return Unfit("distance_correlation.weight", "a positive finite number", weight);
    }
    planner = std::make_unique<RegularisedPlanner>(std::move(planner), weight);
  }
  return Protection{std::make_unique<GradientProtection>(std::move(planner), std::move(noise)),
                    std::move(method.targets)};
}

absl::Status CheckTask(const v1::GradientProtection& config, const Task& task) {
  const char* const found = task.kind == Task::Kind::kMultiClass ? "several classes" : "a number to be predicted";
  if (task.kind == Task::Kind::kBinary) {
    return absl::OkStatus();
  }
  if (!config.has_none() && !config.has_gaussian_label_dp()) {
    const google::protobuf::OneofDescriptor* const methods =
        v1::GradientProtection::descriptor()->FindOneofByName("method");
    const google::protobuf::FieldDescriptor* const method =
        config.GetReflection()->GetOneofFieldDescriptor(config, methods);
    return absl::InvalidArgumentError(absl::StrCat("protection.", method == nullptr ? "method" : method->name(),
                                                   ": expected labels of two classes, found ", found,
                                                   "; gaussian_label_dp protects those, too"));
  }
  if (config.has_distance_correlation()) {
    return absl::InvalidArgumentError(
        absl::StrCat("protection.distance_correlation: expected labels of two classes, found ", found));
  }
  return absl::OkStatus();
}

void FillPlannedEpochs(int64_t epochs, v1::GradientProtection& config) {
  epochs = std::max<int64_t>(epochs, 1);
  if (config.marvell().has_run_budget() && config.marvell().run_budget().planned_epochs() == 0) {
    config.mutable_marvell()->mutable_run_budget()->set_planned_epochs(static_cast<int32_t>(epochs));
  }
  const auto& labels = config.gaussian_label_dp();
  if (config.has_gaussian_label_dp() && labels.noise_draws() == v1::GradientProtection::GaussianLabelDp::EVERY_EPOCH &&
      labels.planned_epochs() == 0) {
    const int64_t released =
        labels.released_epochs() > 0 ? std::min<int64_t>(labels.released_epochs(), epochs) : epochs;
    config.mutable_gaussian_label_dp()->set_planned_epochs(static_cast<int32_t>(released));
  }
}

bool CanRaiseNoise(const v1::GradientProtection& config) { return config.has_iso() || config.has_marvell(); }

}  // namespace splitveil
