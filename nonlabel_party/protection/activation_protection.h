// How the configuration protects activations, and the noise of `gaussian`.
#ifndef SPLITVEIL_NONLABEL_PARTY_PROTECTION_ACTIVATION_PROTECTION_H_
#define SPLITVEIL_NONLABEL_PARTY_PROTECTION_ACTIVATION_PROTECTION_H_

#include <array>
#include <cereal/access.hpp>
#include <cereal/types/array.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/crypto/secure_gaussian.h"
#include "common/matrix/matrix.h"

#include "splitveil/v1/activation_protection.pb.h"
#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/model.pb.h"
#include "splitveil/v1/preprocessing.pb.h"

namespace splitveil {

// A column of FeatureBatch::attributes that is protected.
struct ProtectedAttribute {
  std::string name;
  size_t column = 0;
  int64_t values = 0;
};

// The attributes of `protection` in `data`. Errors: InvalidArgument with field, expected and found: an attribute that
// the data do not have, a method that needs attributes or noise without them, pareto with more than six attributes or
// several batches in flight, noise_sigma below 0.001 if L_p needs it, `gaussian` without clipping, a TorchScript
// model beside a method whose steps have several gradients.
absl::StatusOr<std::vector<ProtectedAttribute>> CheckActivationProtection(const v1::ActivationProtection& protection,
                                                                          const v1::Preprocessing& data,
                                                                          const v1::RunAgreement& agreement,
                                                                          const v1::ModelSpec& model);

// That a run which began under `begun` goes on under `now`: what is known of its activations is of one protection.
// `begun`: null where an earlier version of the program did not keep it. Error: InvalidArgument, with both.
absl::Status CheckSameProtection(const v1::ActivationProtection* begun, const v1::ActivationProtection& now);

// "pareto(threshold=0.005, slack=0.5, noise_sigma=1)", for ledgers and reports; "none".
std::string ActivationProtectionName(const v1::ActivationProtection& protection);

// How often an example's activations are sent in a run, at most: once in a prediction; each training example once in an
// epoch and, under progressive_validation, once before the first. Test examples are evaluated once an epoch, auxiliary
// ones embedded at most once an epoch. What is sent again in a continued run is the same bytes (ActivationNoise).
int64_t ActivationReleases(const v1::RunAgreement& agreement);

// Whether it adds to the bottom model's objective.
bool HasObjective(const v1::ActivationProtection& protection);

// The noise is bound to the activations it is added to and to their place in the run, under a secret key of the run:
// the same activations at the same place are sent as the same bytes, even in a run continued from a checkpoint,
// which keeps the key; all else gets independent noise (SecureGaussian::KeyLife::kManyRuns). So a repeated step gives
// nothing new to average, and equal bytes never reveal that two releases had equal activations. Not thread-safe.
class ActivationNoise {
 public:
  // `sigma`, `clip_norm` >= 0, 0: none.
  static absl::StatusOr<std::unique_ptr<ActivationNoise>> Create(double sigma, double clip_norm);
  ~ActivationNoise();  // Wipes the key.

  // Where in the run what is applied next belongs.
  void SetPosition(const NoisePosition& position) { position_ = position; }

  // Scales rows longer than clip_norm down to it. The result is the mean of what is sent.
  void Clip(Matrix& activations) const;
  // Clip, then adds the noise. A row that is not finite counts as 0 if Mu is finite: a peer that learned from the end
  // of the run that it was not would learn something of the features. Else, errors: Internal.
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
  bool has_overflowed_ = false;
};

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_PROTECTION_ACTIVATION_PROTECTION_H_
