// What a run trains on in place of its labels, and labels of every task as noise and account take them.
#ifndef SPLITVEIL_LABEL_PARTY_LABEL_PRIVACY_LABEL_TARGETS_H_
#define SPLITVEIL_LABEL_PARTY_LABEL_PRIVACY_LABEL_TARGETS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/crypto/label_noise.h"
#include "common/dataset/task.h"
#include "common/privacy/label_privacy.h"

namespace splitveil {

LabelKind LabelKindOf(const Task& task);

// A label as the noise is added to it and as an account remembers it: 0 or 1, a class, or a number of [0, 1] in units
// of the grid (common/crypto/label_noise.h).
int64_t LabelNumber(const Task& task, float label);
std::vector<int64_t> LabelNumbers(const Task& task, absl::Span<const float> labels);

// One component of the label before noise, in units of the grid: of a class, 1 for its own component and 0 for the
// others.
int64_t LabelComponent(const Task& task, float label, int64_t component);

// What a privacy account says of the examples of a run.
struct AccountedReleases {
  std::string account_id;
  std::string start;  // As which the account knows it (PrivacyAccount::Start).
  // Largest divergence, in nats, of all that was released of one example of the label set, less what this run may.
  double earlier_sum_kl = 0;
  // Of all that this run may release.
  double run_sum_kl = 0;
  // Of all that was released, or may be in this run, of one of the run's own examples.
  double of_examples_sum_kl = 0;
};

// Not thread-safe, but for TrainingTargets once Count has returned.
class LabelTargets {
 public:
  virtual ~LabelTargets() = default;

  // Counts all that the run may release of its `examples`, by which the noise of each is found again, and their
  // `labels` [examples]: 0 or 1, a class, or a number in [0, 1], as those of the run `run_id`. Once,
  // before the first batch. Errors: of a privacy account where one counts.
  virtual absl::Status Count(absl::string_view run_id, absl::Span<const NoiseRow> examples,
                             absl::Span<const float> labels) = 0;
  // What to train on in `epoch` instead of `labels`: [examples * outputs of the task]. `examples`: any that were
  // counted, in any order; each with its label gets the same in every call. On all cores. Error: FailedPrecondition
  // where an account is to count and has not.
  virtual absl::StatusOr<std::vector<float>> TrainingTargets(absl::Span<const NoiseRow> examples,
                                                             absl::Span<const float> labels, uint32_t epoch) = 0;
  // How many epochs have targets of their own, the later ones having those of the last of them. At least 1.
  virtual uint32_t draws() const { return 1; }
  // Whether targets have been given out: gradients of the labels themselves must not leave.
  virtual bool drawn() const = 0;
  // Whether a head that learns from the targets alone computes what is sent, and a different one predicts.
  virtual bool needs_release_head() const = 0;
  // TrainingTargets.noise_stddev of that head's, in `epoch`.
  virtual double target_noise(uint32_t epoch) const = 0;
  // Once drawn; nullopt where no account counts.
  virtual std::optional<AccountedReleases> accounted() const = 0;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_LABEL_PRIVACY_LABEL_TARGETS_H_
