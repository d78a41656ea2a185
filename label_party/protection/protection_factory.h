// From the configuration to what protects a run.
#ifndef SPLITVEIL_LABEL_PARTY_PROTECTION_PROTECTION_FACTORY_H_
#define SPLITVEIL_LABEL_PARTY_PROTECTION_PROTECTION_FACTORY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/crypto/secure_gaussian.h"
#include "common/dataset/task.h"
#include "common/privacy_account/privacy_account.h"
#include "label_party/label_privacy/label_targets.h"
#include "label_party/protection/gradient_protection.h"

#include "splitveil/v1/protection.pb.h"

namespace splitveil {

// The two sides of a method: what is trained on, and what is done to the gradients.
struct Protection {
  std::unique_ptr<GradientProtection> gradients;
  // Null if the labels themselves are trained on: all but label_dp and gaussian_label_dp.
  std::shared_ptr<LabelTargets> labels;

  // What to train on in `epoch` instead of `labels`; see LabelTargets. Counts nothing.
  absl::StatusOr<std::vector<float>> TrainingTargets(absl::Span<const NoiseRow> examples,
                                                     absl::Span<const float> labels, uint32_t epoch) const;
  // See LabelTargets.
  bool needs_release_head() const { return labels != nullptr && labels->needs_release_head(); }
};

// `noise` draws the noise on gradients; null for methods without. `account` counts the releases of gaussian_label_dp
// and keeps the key of its noise. Without an account (null), and for label_dp, labels are noised under a key that is
// drawn here, and nothing is counted. Errors: InvalidArgument, with field, expected and found, for a missing or
// impossible setting; see also CheckTask.
absl::StatusOr<Protection> MakeProtection(const v1::GradientProtection& config, std::unique_ptr<SecureGaussian> noise,
                                          std::unique_ptr<PrivacyAccount> account = nullptr, const Task& task = {});

// Checks that the method can protect the task's labels. Most methods are made for two classes. Of several classes, and
// of numbers, they protect nothing that could be stated, so only `none` and `gaussian_label_dp` accept them. Error:
// InvalidArgument, with field, expected and found.
absl::Status CheckTask(const v1::GradientProtection& config, const Task& task);

// Sets planned_epochs if it is 0: for a Marvell run budget to the agreement's number of epochs (1 if it trains none),
// for gaussian_label_dp to the number of epochs whose gradients are sent.
void FillPlannedEpochs(int64_t epochs, v1::GradientProtection& config);

// Whether the configured method can be asked for more noise than configured: its divergence is known and falls with it.
bool CanRaiseNoise(const v1::GradientProtection& config);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_PROTECTION_PROTECTION_FACTORY_H_
