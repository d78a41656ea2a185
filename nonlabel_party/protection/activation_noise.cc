#include "nonlabel_party/protection/activation_noise.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <openssl/crypto.h>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"

#include "common/crypto/secure_random.h"
#include "common/crypto/sha256.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

double Norm(absl::Span<const float> row) {
  double squares = 0;
  for (const float value : row) {
    squares += static_cast<double>(value) * value;
  }
  return std::sqrt(squares);
}

template <typename T>
absl::string_view BytesOf(const T* values, int64_t count) {
  return {reinterpret_cast<const char*>(values), static_cast<size_t>(count) * sizeof(T)};
}

// All that the noise is added to and scaled by.
Digest ContextOf(ConstMatrixView activations, double sigma) {
  const int64_t shape[] = {activations.rows(), activations.cols()};
  Sha256Hasher hasher;
  hasher.Update("splitveil activation noise");
  hasher.Update(BytesOf(shape, 2));
  hasher.Update(BytesOf(&sigma, 1));
  hasher.Update(BytesOf(activations.data(), activations.size()));
  return hasher.Finish();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ActivationNoise>> ActivationNoise::Create(double sigma, double clip_norm) {
  std::unique_ptr<ActivationNoise> noise(new ActivationNoise(sigma, clip_norm));
  noise->key_ = SecretKey::Generate().bytes();
  SPLITVEIL_RETURN_IF_ERROR(noise->Rekey());
  return noise;
}

ActivationNoise::~ActivationNoise() { OPENSSL_cleanse(key_.data(), key_.size()); }

absl::Status ActivationNoise::Rekey() {
  SPLITVEIL_ASSIGN_OR_RETURN(gaussian_, SecureGaussian::Create(SecretKey(key_), SecureGaussian::KeyLife::kManyRuns));
  return absl::OkStatus();
}

void ActivationNoise::Clip(Matrix& activations) const {
  for (int64_t i = 0; clips() && i < activations.rows(); ++i) {
    const absl::Span<float> row = activations.row(i);
    const double norm = Norm(row);
    if (norm > clip_norm_) {
      std::transform(row.begin(), row.end(), row.begin(),
                     [&](float value) { return static_cast<float>(value * clip_norm_ / norm); });
    }
  }
}

absl::Status ActivationNoise::Apply(Matrix& activations) {
  if (is_identity()) {
    return absl::OkStatus();
  }
  // Clipping would make 0 or NaN of an infinite row and hide that the training has diverged.
  for (int64_t i = 0; i < activations.rows(); ++i) {
    if (!std::isfinite(Norm(activations.row(i)))) {
      return absl::InternalError("activations: expected finite numbers: the training has diverged");
    }
  }
  Clip(activations);
  if (sigma_ > 0) {
    // A batch that is repeated in its place gets the same noise: there is nothing to average.
    gaussian_->Bind(ContextOf(activations, sigma_));
    std::vector<float> noise(static_cast<size_t>(activations.size()));
    gaussian_->Fill(position_, 0, absl::MakeSpan(noise));
    std::transform(noise.begin(), noise.end(), activations.data(), activations.data(),
                   [&](float draw, float value) { return static_cast<float>(value + sigma_ * draw); });
  }
  return absl::OkStatus();
}

void ActivationNoise::Backpropagate(ConstMatrixView before, Matrix& gradients) const {
  for (int64_t i = 0; clips() && i < before.rows(); ++i) {
    const absl::Span<const float> row = before.row(i);
    const double norm = Norm(row);
    if (norm <= clip_norm_) {
      continue;
    }
    // The Jacobian of f -> clip_norm f / ||f|| is clip_norm / ||f|| (I - u u'), u = f / ||f||.
    const absl::Span<float> gradient = gradients.row(i);
    double along = 0;
    for (size_t k = 0; k < row.size(); ++k) {
      along += gradient[k] * row[k] / norm;
    }
    for (size_t k = 0; k < row.size(); ++k) {
      gradient[k] = static_cast<float>((gradient[k] - along * row[k] / norm) * clip_norm_ / norm);
    }
  }
}

std::string ActivationNoise::Id() const {
  Sha256Hasher hasher;
  hasher.Update("splitveil activation noise id");
  hasher.Update(BytesOf(key_.data(), static_cast<int64_t>(key_.size())));
  return absl::BytesToHexString(AsBytes(hasher.Finish()));
}

double ActivationNoise::Mu(int64_t releases) const {
  return clips() && sigma_ > 0 ? 2 * clip_norm_ / sigma_ * std::sqrt(static_cast<double>(releases))
                               : std::numeric_limits<double>::infinity();
}

}  // namespace splitveil
