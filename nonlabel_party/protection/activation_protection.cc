#include "nonlabel_party/protection/activation_protection.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <openssl/crypto.h>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

#include "common/crypto/noise_grid.h"
#include "common/crypto/secure_random.h"
#include "common/crypto/sha256.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"

namespace splitveil {
namespace {

using v1::ActivationProtection;

constexpr char kField[] = "protection";
// Below, covariances of activations of common sizes are singular to the precision of doubles.
constexpr double kLeastSigma = 1e-3;
constexpr int kMostParetoAttributes = 6;  // FindParetoDirection looks at 3^7 faces then.

absl::Status Expected(absl::string_view field, absl::string_view expected, absl::string_view found) {
  return absl::InvalidArgumentError(absl::StrCat(kField, ".", field, ": expected ", expected, ", found ", found));
}

bool NeedsNoise(const ActivationProtection& protection) {
  // These measure a divergence of noised activations, or promise a bound on them; neither exists without noise.
  return protection.has_linear() || protection.has_infocensor() || protection.has_pareto() || protection.has_gaussian();
}

absl::StatusOr<ProtectedAttribute> Find(const std::string& name, const v1::Preprocessing& data) {
  const auto& columns = data.attributes();
  const auto found = std::find_if(columns.begin(), columns.end(),
                                  [&](const v1::AttributeValues& column) { return column.name() == name; });
  if (found == columns.end()) {
    const std::string known = absl::StrJoin(
        columns, ", ", [](std::string* out, const v1::AttributeValues& column) { out->append(column.name()); });
    return Expected("attributes", columns.empty() ? "none, as the data have no column of kind ATTRIBUTE" : known, name);
  }
  return ProtectedAttribute{name, static_cast<size_t>(found - columns.begin()), found->values_size()};
}

absl::Status CheckMethod(const ActivationProtection& protection, const v1::RunAgreement& agreement,
                         const v1::ModelSpec& model) {
  // There would be nothing to lower.
  if (HasObjective(protection) && protection.attributes().empty()) {
    return Expected("attributes", "at least one column of kind ATTRIBUTE", "none");
  }
  if (!HasObjective(protection) && !protection.attributes().empty()) {
    return Expected("attributes", "none, as the method is the same for every attribute", protection.attributes(0));
  }
  // L_p is the divergence of noised activations: without noise it is infinite or a matter of rounding.
  if (NeedsNoise(protection) && protection.noise_sigma() < kLeastSigma) {
    return Expected("noise_sigma", absl::StrCat("at least ", kLeastSigma), absl::StrCat(protection.noise_sigma()));
  }
  if (protection.has_gaussian() && protection.clip_norm() == 0) {
    return Expected("clip_norm", "above 0: noise on activations of any length has no bound", "0");
  }
  // Refused rather than ignored: the user expects what the file sets to be applied.
  if (protection.has_none() && (protection.noise_sigma() > 0 || protection.clip_norm() > 0)) {
    return Expected("none", "no noise and no clipping, or gaussian in its place", "some");
  }
  if (HasObjective(protection) && !model.torchscript_path().empty()) {
    return Expected("method", "none beside a TorchScript model, whose steps have one gradient",
                    ActivationProtectionName(protection));
  }
  // The gate promises that no batch above the threshold is sent by the model as it is at that moment.
  if (protection.has_pareto() && agreement.in_flight_batches() != 1) {
    return Expected("pareto", "in_flight_batches: 1, as each step must be taken before the next batch is looked at",
                    absl::StrCat(agreement.in_flight_batches()));
  }
  if (protection.has_pareto() && protection.attributes_size() > kMostParetoAttributes) {
    return Expected("attributes", absl::StrCat("at most ", kMostParetoAttributes, " for pareto"),
                    absl::StrCat(protection.attributes_size()));
  }
  return absl::OkStatus();
}

// The method's name and its own parameter.
std::string MethodName(const ActivationProtection& protection) {
  switch (protection.method_case()) {
    case ActivationProtection::kGaussian:
      return absl::StrCat("gaussian(clip_norm=", protection.clip_norm());
    case ActivationProtection::kLinear:
      return absl::StrCat("linear(lambda=", protection.linear().lambda());
    case ActivationProtection::kAdversarial:
      return absl::StrCat("adversarial(omega=", protection.adversarial().omega());
    case ActivationProtection::kAdversarialLabelFlip:
      return absl::StrCat("adversarial_label_flip(omega=", protection.adversarial_label_flip().omega());
    case ActivationProtection::kInfocensor:
      return absl::StrCat("infocensor(lambda=", protection.infocensor().lambda());
    case ActivationProtection::kPareto:
      return absl::StrCat("pareto(threshold=", protection.pareto().threshold(),
                          ", slack=", protection.pareto().slack());
    case ActivationProtection::kNone:
    case ActivationProtection::METHOD_NOT_SET:
      break;
  }
  return "";
}

}  // namespace

absl::StatusOr<std::vector<ProtectedAttribute>> CheckActivationProtection(const ActivationProtection& protection,
                                                                          const v1::Preprocessing& data,
                                                                          const v1::RunAgreement& agreement,
                                                                          const v1::ModelSpec& model) {
  if (absl::Status status = CheckMethod(protection, agreement, model); !status.ok()) {
    return status;
  }
  // The data must know every attribute: one that is misspelt would stay unprotected.
  std::vector<ProtectedAttribute> attributes;
  for (const std::string& name : protection.attributes()) {
    absl::StatusOr<ProtectedAttribute> attribute = Find(name, data);
    if (!attribute.ok()) {
      return attribute.status();
    }
    attributes.push_back(*std::move(attribute));
  }
  return attributes;
}

absl::Status CheckSameProtection(const v1::ActivationProtection* begun, const v1::ActivationProtection& now) {
  // Whether its defaults are written out or not.
  const auto bytes = [](v1::ActivationProtection protection) {
    if (protection.has_none()) {
      protection.clear_none();
    }
    protection.set_noise_sigma(protection.noise_sigma());
    protection.set_clip_norm(protection.clip_norm());
    return protection.SerializeAsString();
  };
  if (begun == nullptr) {
    return absl::InvalidArgumentError(
        "protection: the interrupted run began with an earlier version of this program, which did not keep how its "
        "activations are protected: set party.restart for a new run");
  }
  return bytes(*begun) == bytes(now)
             ? absl::OkStatus()
             : absl::InvalidArgumentError(absl::StrCat(
                   "protection: the interrupted run began with ", ActivationProtectionName(*begun), ", and now it is ",
                   ActivationProtectionName(now),
                   ": what is known of its activations holds only if this stays the same for the whole run. Restore "
                   "the earlier setting, or set party.restart for a new run"));
}

std::string ActivationProtectionName(const ActivationProtection& protection) {
  const std::string method = MethodName(protection);
  return method.empty() ? "none" : absl::StrCat(method, ", noise_sigma=", protection.noise_sigma(), ")");
}

int64_t ActivationReleases(const v1::RunAgreement& agreement) {
  if (agreement.mode() == v1::RunAgreement::PREDICT) {
    return 1;  // Canonicalize has cleared the epochs, whose default is more.
  }
  // At most: early stopping makes it fewer, and a repeated step sends the same bytes.
  return int64_t{agreement.epochs()} + (agreement.progressive_validation() ? 1 : 0);
}

bool HasObjective(const ActivationProtection& protection) {
  return protection.method_case() != ActivationProtection::METHOD_NOT_SET && !protection.has_none() &&
         !protection.has_gaussian();
}

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
// Bound to the activations: after a crash the same position may hold different ones, and a difference of two sums with
// the same noise would be free of it.
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
  // Not from the run's seed, which the peer has a part in.
  noise->key_ = SecretKey::Generate().bytes();
  SPLITVEIL_RETURN_IF_ERROR(noise->Rekey());
  return noise;
}

ActivationNoise::~ActivationNoise() { OPENSSL_cleanse(key_.data(), key_.size()); }

absl::Status ActivationNoise::Rekey() {
  SPLITVEIL_ASSIGN_OR_RETURN(gaussian_, SecureGaussian::Create(SecretKey(key_), SecureGaussian::KeyLife::kManyRuns));
  return absl::OkStatus();
}

// Bounds the sensitivity: any two rows are at most 2 clip_norm apart, whatever the features.
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
  for (int64_t i = 0; i < activations.rows(); ++i) {
    const absl::Span<float> row = activations.row(i);
    if (std::isfinite(Norm(row))) {
      continue;
    }
    if (!std::isfinite(Mu(1))) {
      return absl::InternalError("activations: expected finite numbers: the training has diverged");
    }
    // The peer's gradients made the weights. If the run ended here, it could make them such that this tells a feature
    // of the row, beside all noise; so the row is sent like any other, as noise about 0.
    std::fill(row.begin(), row.end(), 0.0F);
    if (!has_overflowed_) {
      LogWarning(
          "an activation is not a finite number, and is sent as noise alone (the peer is not told): the weights ",
          "have diverged");
      has_overflowed_ = true;
    }
  }
  Clip(activations);
  if (sigma_ > 0) {
    // A batch that is repeated in its place gets the same noise: there is nothing to average.
    gaussian_->Bind(ContextOf(activations, sigma_));
    std::vector<float> noise(static_cast<size_t>(activations.size()));
    gaussian_->Fill(position_, 0, absl::MakeSpan(noise));
    // The low bits of a sum of floats would show the activation.
    const NoiseGrid grid(NoiseGrid::kSpacing * sigma_);
    std::transform(noise.begin(), noise.end(), activations.data(), activations.data(),
                   [&](float draw, float value) { return static_cast<float>(grid.Nearest(value + sigma_ * draw)); });
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
    if (!std::isfinite(norm)) {  // A constant was sent in its place.
      const absl::Span<float> none = gradients.row(i);
      std::fill(none.begin(), none.end(), 0.0F);
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
  // Independent noise in each release, so mu^2 adds up.
  return clips() && sigma_ > 0 ? 2 * clip_norm_ / sigma_ * std::sqrt(static_cast<double>(releases))
                               : std::numeric_limits<double>::infinity();
}

}  // namespace splitveil
