#include "label_party/noise/noise_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>

#include "absl/strings/string_view.h"

#include "common/crypto/sha256.h"

namespace splitveil {
namespace {

void CopyRows(ConstMatrixView gradients, Matrix& out) {
  if (out.rows() != gradients.rows() || out.cols() != gradients.cols()) {
    out = Matrix::ToOverwrite(gradients.rows(), gradients.cols());
  }
  std::copy(gradients.data(), gradients.data() + gradients.size(), out.data());
}

template <typename Value>
absl::string_view BytesOf(const Value* values, size_t count) {
  return {reinterpret_cast<const char*>(values), count * sizeof(Value)};
}

// Of the values that `noise` is added to and of what it is scaled by: with equal ones the sum is the same, and with any
// other the noise must be.
Digest ContextOf(ConstMatrixView gradients, const GaussianNoise& noise) {
  static_assert(sizeof(RowNoise) == 3 * sizeof(double), "without gaps, whose bytes would be any");
  const uint64_t sizes[] = {static_cast<uint64_t>(gradients.rows()), static_cast<uint64_t>(gradients.cols()),
                            noise.direction.size()};
  Sha256Hasher context;
  context.Update(BytesOf(sizes, std::size(sizes)));
  context.Update(BytesOf(gradients.data(), static_cast<size_t>(gradients.size())));
  context.Update(BytesOf(noise.direction.data(), noise.direction.size()));
  context.Update(BytesOf(noise.of_row.data(), noise.of_row.size()));
  return context.Finish();
}

// One for each kind of change.
struct Applier {
  ConstMatrixView gradients;
  const NoisePosition& position;
  SecureGaussian* gaussian;
  Matrix& out;

  absl::Status operator()(const NoChange&) const {
    CopyRows(gradients, out);
    return absl::OkStatus();
  }

  absl::Status operator()(const GaussianNoise& noise) const {
    if (gaussian->needs_binding()) {
      gaussian->Bind(ContextOf(gradients, noise));
    }
    return WritePerturbedRows(gradients, noise.direction, noise.of_row, position, *gaussian, out);
  }

  absl::Status operator()(const KeepLargest& kept) const {
    CopyRows(gradients, out);
    int64_t equals = kept.equals;
    std::for_each(out.data(), out.data() + out.size(), [&](float& component) {
      const float magnitude = std::abs(component);
      if (magnitude < kept.least || (magnitude == kept.least && equals-- <= 0)) {
        component = 0;
      }
    });
    return absl::OkStatus();
  }

  absl::Status operator()(const RoundToBins& bins) const {
    CopyRows(gradients, out);
    std::for_each(out.data(), out.data() + out.size(), [&](float& component) {
      const double bin = std::clamp(std::round((component - bins.lowest) / bins.spacing), 0.0, bins.bins - 1.0);
      component = static_cast<float>(bins.lowest + bin * bins.spacing);
    });
    return absl::OkStatus();
  }
};

}  // namespace

absl::Status ApplyPlan(const NoisePlan& plan, ConstMatrixView gradients, const NoisePosition& position,
                       SecureGaussian* gaussian, Matrix& out) {
  return std::visit(Applier{gradients, position, gaussian, out}, plan.change);
}

}  // namespace splitveil
