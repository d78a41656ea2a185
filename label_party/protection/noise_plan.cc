#include "label_party/protection/noise_plan.h"

#include <algorithm>
#include <cmath>

namespace splitveil {
namespace {

void CopyRows(ConstMatrixView gradients, Matrix& out) {
  if (out.rows() != gradients.rows() || out.cols() != gradients.cols()) {
    out = Matrix::ToOverwrite(gradients.rows(), gradients.cols());
  }
  std::copy(gradients.data(), gradients.data() + gradients.size(), out.data());
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
