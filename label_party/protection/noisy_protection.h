// What every method that adds noise shares: the generator, the run's class moments, and the fallback of architecture
// rule 3.
#ifndef SPLITVEIL_LABEL_PARTY_PROTECTION_NOISY_PROTECTION_H_
#define SPLITVEIL_LABEL_PARTY_PROTECTION_NOISY_PROTECTION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/crypto/secure_gaussian.h"
#include "common/matrix/matrix.h"
#include "label_party/protection/class_moments.h"
#include "label_party/protection/gradient_protection.h"
#include "label_party/protection/row_noise.h"

namespace splitveil {

// PerturbWithin is the same for all: estimate the batch's moments, let the method add its noise, and remember the batch
// when the next one comes. What a method may fall back on is the same however often a batch is perturbed, so that
// perturbing it once more gives the same bytes.
class NoisyProtection : public GradientProtection {
 public:
  explicit NoisyProtection(std::unique_ptr<SecureGaussian> gaussian);

  absl::Status PrimeMoments(ConstMatrixView gradients, absl::Span<const uint8_t> labels) final;
  std::optional<ClassMoments> Moments() const final;
  void RestoreMoments(const ClassMoments& moments) final { running_.RestoreMoments(moments); }
  absl::StatusOr<ProtectionReport> PerturbWithin(ConstMatrixView gradients, absl::Span<const uint8_t> labels,
                                                 const NoisePosition& position, double max_sum_kl, Matrix& out) final;

 protected:
  // One batch under way. Borrows everything; lives for one call of Perturb.
  struct Batch {
    ConstMatrixView gradients;
    absl::Span<const uint8_t> labels;
    const NoisePosition& position;
    const ClassMoments& moments;
    double max_sum_kl;
    Matrix& out;
  };

  // Writes batch.out. The caller sees to the errors of a max_sum_kl that is not kept.
  virtual absl::StatusOr<ProtectionReport> AddNoise(const Batch& batch) = 0;

  // N(0, (total_power / d) I) on every row, or of more power where max_sum_kl asks for it. The report's divergence is
  // that of the batch's own classes, else of the running estimates, else NaN.
  absl::StatusOr<ProtectionReport> AddIsotropicNoise(const Batch& batch, const std::string& method, double total_power);

  absl::Status AddRowNoise(const Batch& batch, absl::Span<const float> direction,
                           absl::FunctionRef<RowNoise(int64_t)> noise_of_row);

  const RunningMoments& running() const { return running_; }

 private:
  std::unique_ptr<SecureGaussian> gaussian_;
  RunningMoments running_;  // Of the batches before the latest.
  NoisePosition latest_position_;
  ClassMoments latest_;  // Not informative before the first batch.
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_PROTECTION_NOISY_PROTECTION_H_
