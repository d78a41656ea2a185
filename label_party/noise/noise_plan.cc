#include "label_party/noise/noise_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "common/crypto/sha256.h"
#include "common/leakage/bounds.h"
#include "common/leakage/linear_algebra.h"
#include "common/matrix/vector_variants.h"

namespace splitveil {
namespace {

// Rows handled together: enough to spread the cost of a call to the generator, few enough that the noise is still in
// cache when it is added.
constexpr int64_t kBlockRows = 64;
constexpr uint32_t kIsotropicStream = 0;
constexpr uint32_t kScalarStream = 1;

struct Block {
  int64_t first_row = 0;
  int64_t rows = 0;
  absl::Span<const RowNoise> noise;           // [rows]
  std::array<float, 2 * kBlockRows> scalars;  // z_j at 2 j; the odd ones are not used.
};

bool NeedsScalar(const RowNoise& noise) { return noise.own != 0 || noise.along != 0; }

void DrawScalars(const NoisePosition& position, SecureGaussian& gaussian, Block& block) {
  if (std::none_of(block.noise.begin(), block.noise.end(), NeedsScalar)) {
    return;
  }
  const NoisePosition scalars{position.epoch, position.batch, kScalarStream};
  gaussian.Fill(scalars, 2 * static_cast<uint64_t>(block.first_row),
                absl::MakeSpan(block.scalars).first(2 * block.rows));
}

// Draws eta_j for the block's rows that need it, into their place in `out`: no other memory holds it.
void DrawIsotropic(const NoisePosition& position, SecureGaussian& gaussian, const Block& block, Matrix& out) {
  const NoisePosition isotropic{position.epoch, position.batch, kIsotropicStream};
  const uint64_t stride = static_cast<uint64_t>(out.cols() + out.cols() % 2);
  const bool contiguous = out.cols() % 2 == 0;
  int64_t j = 0;
  while (j < block.rows) {
    if (block.noise[j].across == 0) {
      ++j;
      continue;
    }
    int64_t end = j + 1;
    while (contiguous && end < block.rows && block.noise[end].across != 0) {
      ++end;
    }
    const int64_t row = block.first_row + j;
    gaussian.Fill(isotropic, static_cast<uint64_t>(row) * stride,
                  absl::MakeSpan(out.row(row).data(), static_cast<size_t>((end - j) * out.cols())));
    j = end;
  }
}

uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Bit 31 is set exactly where the exponent is that of an infinity or a NaN; made of integer operations, so that the
// loops below stay vectors.
uint32_t NotFiniteBit(float value) { return (BitsOf(value) & 0x7f800000u) + 0x00800000u; }

// out = scale g; returns whether any component is not finite, as the three below.
SPLITVEIL_VECTOR_VARIANTS bool WriteScaled(const float* g, double scale, size_t d, float* out) {
  uint32_t not_finite = 0;
  for (size_t k = 0; k < d; ++k) {
    out[k] = static_cast<float>(scale * static_cast<double>(g[k]));
    not_finite |= NotFiniteBit(out[k]);
  }
  return (not_finite >> 31) != 0;
}

// out = g + along direction
SPLITVEIL_VECTOR_VARIANTS bool WriteAlong(const float* g, const float* direction, float along, size_t d, float* out) {
  uint32_t not_finite = 0;
  for (size_t k = 0; k < d; ++k) {
    out[k] = g[k] + along * direction[k];
    not_finite |= NotFiniteBit(out[k]);
  }
  return (not_finite >> 31) != 0;
}

// out = g + across out
SPLITVEIL_VECTOR_VARIANTS bool WriteAcross(const float* g, float across, size_t d, float* out) {
  uint32_t not_finite = 0;
  for (size_t k = 0; k < d; ++k) {
    out[k] = g[k] + across * out[k];
    not_finite |= NotFiniteBit(out[k]);
  }
  return (not_finite >> 31) != 0;
}

// out = g + along direction + across out
SPLITVEIL_VECTOR_VARIANTS bool WriteBoth(const float* g, const float* direction, float along, float across, size_t d,
                                         float* out) {
  uint32_t not_finite = 0;
  for (size_t k = 0; k < d; ++k) {
    out[k] = g[k] + (along * direction[k] + across * out[k]);
    not_finite |= NotFiniteBit(out[k]);
  }
  return (not_finite >> 31) != 0;
}

bool WriteRow(absl::Span<const float> g, absl::Span<const float> direction, const RowNoise& noise, float z,
              absl::Span<float> out) {
  const float along = static_cast<float>(noise.along * z);
  const float across = static_cast<float>(noise.across);
  if (noise.along != 0) {
    return noise.across != 0 ? WriteBoth(g.data(), direction.data(), along, across, g.size(), out.data())
                             : WriteAlong(g.data(), direction.data(), along, g.size(), out.data());
  }
  return noise.across != 0 ? WriteAcross(g.data(), across, g.size(), out.data())
                           : WriteScaled(g.data(), 1 + noise.own * z, g.size(), out.data());
}

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

// Hashes gradients and noise scales: the same input repeats the same bytes, and any different input gets independent
// noise, since two sums of one draw would differ by the gradients alone.
Digest ContextOf(ConstMatrixView gradients, absl::Span<const float> direction, absl::Span<const RowNoise> of_row) {
  static_assert(sizeof(RowNoise) == 3 * sizeof(double), "without gaps, whose bytes would be any");
  const uint64_t sizes[] = {static_cast<uint64_t>(gradients.rows()), static_cast<uint64_t>(gradients.cols()),
                            direction.size()};
  Sha256Hasher context;
  context.Update(BytesOf(sizes, std::size(sizes)));
  context.Update(BytesOf(gradients.data(), static_cast<size_t>(gradients.size())));
  context.Update(BytesOf(direction.data(), direction.size()));
  context.Update(BytesOf(of_row.data(), of_row.size()));
  return context.Finish();
}

absl::Status CheckBatch(const LabelledGradients& batch) {
  const ConstMatrixView gradients = batch.gradients;
  if (gradients.rows() < 1 || gradients.cols() < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("protection: empty batch, [", gradients.rows(), ", ", gradients.cols(), "]"));
  }
  if (batch.labels.size() != static_cast<size_t>(gradients.rows())) {
    return absl::InvalidArgumentError(
        absl::StrCat("protection: expected ", gradients.rows(), " labels, found ", batch.labels.size()));
  }
  if (std::any_of(batch.labels.begin(), batch.labels.end(), [](uint8_t label) { return label >= kClasses; })) {
    return absl::InvalidArgumentError("protection: a label is neither 0 nor 1");
  }
  for (int64_t j = 0; j < gradients.rows(); ++j) {
    if (!std::isfinite(SquaredNorm(gradients.row(j)))) {
      return absl::InternalError(absl::StrCat("protection: gradient row ", j, " is not finite"));
    }
  }
  return absl::OkStatus();
}

// One for each kind of change.
struct Applier {
  const LabelledGradients& batch;
  const NoisePosition& position;
  SecureGaussian* gaussian;
  Matrix& out;

  absl::Status operator()(const NoChange&) const {
    CopyRows(batch.gradients, out);
    return absl::OkStatus();
  }

  absl::Status operator()(const GaussianNoise& noise) const {
    std::vector<RowNoise> of_row;
    of_row.reserve(batch.labels.size());
    for (uint8_t label : batch.labels) {
      of_row.push_back(label == 1 ? noise.of_positive : noise.of_negative);
    }
    return Perturb(noise.direction, of_row);
  }

  absl::Status operator()(const EvenLengths& noise) const {
    const double target = noise.longest * noise.longest;
    // Noise along a row of zeros would leave it zero, and so visible.
    const RowNoise of_zeros{0, 0, std::sqrt(target / static_cast<double>(batch.gradients.cols()))};
    std::vector<RowNoise> of_row;
    for (const double squared : SquaredNorms(batch.gradients)) {
      of_row.push_back(squared == 0 ? of_zeros : RowNoise{std::sqrt(std::max(0.0, target / squared - 1)), 0, 0});
    }
    return Perturb({}, of_row);
  }

  absl::Status operator()(const KeepLargest& kept) const {
    CopyRows(batch.gradients, out);
    std::vector<float> magnitudes(out.data(), out.data() + out.size());
    std::transform(magnitudes.begin(), magnitudes.end(), magnitudes.begin(), [](float x) { return std::abs(x); });
    const auto count = static_cast<std::ptrdiff_t>(std::ceil(kept.share * static_cast<double>(magnitudes.size())));
    const auto least = magnitudes.begin() + (count - 1);
    std::nth_element(magnitudes.begin(), least, magnitudes.end(), std::greater<>());
    // Before `least` stand the larger ones and some of its equals: that many of them are kept.
    int64_t equals = 1 + std::count(magnitudes.begin(), least, *least);
    std::for_each(out.data(), out.data() + out.size(), [&](float& component) {
      const float magnitude = std::abs(component);
      if (magnitude < *least || (magnitude == *least && equals-- <= 0)) {
        component = 0;
      }
    });
    return absl::OkStatus();
  }

  absl::Status operator()(const RoundToBins& rounding) const {
    CopyRows(batch.gradients, out);
    const double n = static_cast<double>(out.size());
    const double mean = std::accumulate(out.data(), out.data() + out.size(), 0.0) / n;
    double squares = 0;  // About the mean: about zero they would cancel where all components are alike.
    std::for_each(out.data(), out.data() + out.size(), [&](float x) { squares += (x - mean) * (x - mean); });
    const double reach = 2 * std::sqrt(squares / n);
    if (reach > 0) {
      const double lowest = mean - reach, spacing = 2 * reach / (rounding.bins - 1);
      std::for_each(out.data(), out.data() + out.size(), [&](float& component) {
        const double bin = std::clamp(std::round((component - lowest) / spacing), 0.0, rounding.bins - 1.0);
        component = static_cast<float>(lowest + bin * spacing);
      });
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Perturb(absl::Span<const float> direction, const std::vector<RowNoise>& of_row) const {
    if (gaussian->needs_binding()) {
      gaussian->Bind(ContextOf(batch.gradients, direction, of_row));
    }
    return WritePerturbedRows(batch.gradients, direction, of_row, position, *gaussian, out);
  }
};

}  // namespace

ProtectionReport EmptyReport(const std::string& method) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  return {method, kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone};
}

ProtectionReport DescribeBatch(const std::string& method, const ClassMoments& moments) {
  ProtectionReport report = EmptyReport(method);
  report.u = moments.u;
  report.v = moments.v;
  report.g = moments.dg_squared;
  report.p = moments.p;
  return report;
}

ProtectionReport ReportOf(const std::string& method, const ClassMoments& moments, const ClassNoise& noise) {
  const int64_t d = static_cast<int64_t>(moments.mean_difference.size());
  const double others = static_cast<double>(d - 1);
  ProtectionReport report = DescribeBatch(method, moments);
  report.power = moments.p * (noise.lambda1_pos + others * noise.lambda2_pos) +
                 (1 - moments.p) * (noise.lambda1_neg + others * noise.lambda2_neg);
  report.lambda1_neg = noise.lambda1_neg;
  report.lambda2_neg = noise.lambda2_neg;
  report.lambda1_pos = noise.lambda1_pos;
  report.lambda2_pos = noise.lambda2_pos;
  report.sum_kl = SumKl({d, moments.dg_squared, noise.lambda1_neg + moments.u, noise.lambda2_neg + moments.u,
                         noise.lambda1_pos + moments.v, noise.lambda2_pos + moments.v});
  return report;
}

absl::Status WritePerturbedRows(ConstMatrixView gradients, absl::Span<const float> direction,
                                absl::Span<const RowNoise> noise_of_row, const NoisePosition& position,
                                SecureGaussian& gaussian, Matrix& out) {
  if (out.rows() != gradients.rows() || out.cols() != gradients.cols()) {
    out = Matrix::ToOverwrite(gradients.rows(), gradients.cols());
  }
  Block block{};
  for (int64_t first_row = 0; first_row < gradients.rows(); first_row += kBlockRows) {
    block.first_row = first_row;
    block.rows = std::min(kBlockRows, gradients.rows() - first_row);
    block.noise = noise_of_row.subspan(static_cast<size_t>(first_row), static_cast<size_t>(block.rows));
    DrawScalars(position, gaussian, block);
    DrawIsotropic(position, gaussian, block, out);
    for (int64_t j = 0; j < block.rows; ++j) {
      const int64_t row = first_row + j;
      if (WriteRow(gradients.row(row), direction, block.noise[j], block.scalars[2 * j], out.row(row))) {
        out = Matrix();
        return absl::InternalError(absl::StrCat("protection: perturbed row ", row, " is not finite"));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ApplyPlan(const NoisePlan& plan, const LabelledGradients& batch, const NoisePosition& position,
                       SecureGaussian* gaussian, Matrix& out) {
  absl::Status status = CheckBatch(batch);
  if (status.ok()) {
    status = std::visit(Applier{batch, position, gaussian, out}, plan.change);
  }
  // Nothing half perturbed is handed out.
  if (!status.ok()) {
    out = Matrix();
  }
  return status;
}

}  // namespace splitveil
