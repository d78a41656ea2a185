// Clipping and Gaussian noise of the activations that leave: z ~ N(f(x), sigma^2).
#ifndef SPLITVEIL_NONLABEL_PARTY_PROTECTION_ACTIVATION_NOISE_H_
#define SPLITVEIL_NONLABEL_PARTY_PROTECTION_ACTIVATION_NOISE_H_

#include <array>
#include <cereal/access.hpp>
#include <cereal/types/array.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/crypto/secure_gaussian.h"
#include "common/matrix/matrix.h"

namespace splitveil {

// The noise is bound to the activations it is added to and to their place in the run, under a secret key of the run:
// the same activations at the same place leave as the same bytes, also in a run that is continued from a checkpoint,
// which keeps the key; all else gets independent noise (SecureGaussian::KeyLife::kManyRuns). So nothing can be averaged
// that is not another release; and equal bytes never tell that two releases were of equal activations. Not thread-safe.
class ActivationNoise {
 public:
  // `sigma`, `clip_norm` >= 0, 0: none.
  static absl::StatusOr<std::unique_ptr<ActivationNoise>> Create(double sigma, double clip_norm);
  ~ActivationNoise();  // Wipes the key.

  // Where in the run what is applied next belongs.
  void SetPosition(const NoisePosition& position) { position_ = position; }

  // Scales longer rows down to clip_norm: the mean of what is sent.
  void Clip(Matrix& activations) const;
  // Clip, then adds the noise. `activations`: finite. Errors: Internal where they are not.
  absl::Status Apply(Matrix& activations);
  // What gradients at the clipped activations, with noise or without, are at the activations before, [rows, width]
  // each: those of rows that were scaled down lose their part along the row (v - (v'u) u, u = f / ||f||) and are scaled
  // alike.
  void Backpropagate(ConstMatrixView before, Matrix& gradients) const;

  bool is_identity() const { return sigma_ == 0 && clip_norm_ == 0; }
  bool clips() const { return clip_norm_ > 0; }
  double sigma() const { return sigma_; }

  // Names the key without showing it, for a privacy account: 64 hexadecimal digits.
  std::string Id() const;

  // mu of Gaussian differential privacy of `releases` releases of an example's whole input: 2 clip_norm / sigma
  // sqrt(releases) (architecture rule 10); infinite without either. Of one key's: another run has another key, and what
  // it releases adds to this.
  double Mu(int64_t releases) const;

 private:
  friend class cereal::access;
  template <typename Archive>
  void save(Archive& archive) const {
    archive(key_);
  }
  template <typename Archive>
  void load(Archive& archive) {
    archive(key_);
    Rekey().IgnoreError();  // Fails for want of memory alone, and Apply then aborts.
  }

  ActivationNoise(double sigma, double clip_norm) : sigma_(sigma), clip_norm_(clip_norm) {}
  absl::Status Rekey();

  const double sigma_;
  const double clip_norm_;
  std::array<uint8_t, 32> key_ = {};
  std::unique_ptr<SecureGaussian> gaussian_;
  NoisePosition position_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_PROTECTION_ACTIVATION_NOISE_H_
