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

#include "absl/status/status.h"
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
// Streams of one position: the numbers of different streams are independent.
constexpr uint32_t kIsotropicStream = 0;
constexpr uint32_t kScalarStream = 1;

struct Block {
  int64_t first_row = 0;
  int64_t rows = 0;
  absl::Span<const RowNoise> noise;           // [rows]
  std::array<float, 2 * kBlockRows> scalars;  // z_j at 2 j; the odd ones are not used.
};

// Numbers that no row needs are not drawn: positions, not the order of draws, decide what a row gets.
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
  // Rows start at even components: the generator makes normal numbers in pairs.
  // So a row's noise depends on its own number alone, and not on which other rows draw any.
  const uint64_t stride = static_cast<uint64_t>(out.cols() + out.cols() % 2);
  // With an even width the rows of a block follow each other without a gap, so one call can fill several.
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

// Bit 31 is set if and only if `value` is infinite or a NaN. Integer operations only, so that the loops below are
// vectorised.
uint32_t NotFiniteBit(float value) { return (BitsOf(value) & 0x7f800000u) + 0x00800000u; }

// out = scale g, rounded to `grid`; returns whether any component is not finite, as the three below.
SPLITVEIL_VECTOR_VARIANTS bool WriteScaled(const float* g, double scale, NoiseGrid grid, size_t d, float* out) {
  uint32_t not_finite = 0;
  for (size_t k = 0; k < d; ++k) {
    out[k] = static_cast<float>(grid.Nearest(scale * static_cast<double>(g[k])));
    not_finite |= NotFiniteBit(out[k]);
  }
  return (not_finite >> 31) != 0;
}

// out = g + along direction
SPLITVEIL_VECTOR_VARIANTS bool WriteAlong(const float* g, const float* direction, double along, NoiseGrid grid,
                                          size_t d, float* out) {
  uint32_t not_finite = 0;
  for (size_t k = 0; k < d; ++k) {
    out[k] = static_cast<float>(grid.Nearest(g[k] + along * direction[k]));
    not_finite |= NotFiniteBit(out[k]);
  }
  return (not_finite >> 31) != 0;
}

// out = g + across out
SPLITVEIL_VECTOR_VARIANTS bool WriteAcross(const float* g, double across, NoiseGrid grid, size_t d, float* out) {
  uint32_t not_finite = 0;
  for (size_t k = 0; k < d; ++k) {
    out[k] = static_cast<float>(grid.Nearest(g[k] + across * out[k]));
    not_finite |= NotFiniteBit(out[k]);
  }
  return (not_finite >> 31) != 0;
}

// out = g + along direction + across out
SPLITVEIL_VECTOR_VARIANTS bool WriteBoth(const float* g, const float* direction, double along, double across,
                                         NoiseGrid grid, absl::Span<float> out) {
  uint32_t not_finite = 0;
  for (size_t k = 0; k < out.size(); ++k) {
    out[k] = static_cast<float>(grid.Nearest(g[k] + (along * direction[k] + across * out[k])));
    not_finite |= NotFiniteBit(out[k]);
  }
  return (not_finite >> 31) != 0;
}

bool WriteRow(absl::Span<const float> g, const BatchNoise& batch, const RowNoise& noise, double z,
              absl::Span<float> out) {
  const double along = noise.along * z;
  // Four loops and not one with all terms: the commonest methods use one or two of them, and this runs for every number
  // sent.
  const float* const direction = batch.direction.data();
  if (noise.along != 0) {
    return noise.across != 0 ? WriteBoth(g.data(), direction, along, noise.across, batch.grid, out)
                             : WriteAlong(g.data(), direction, along, batch.grid, g.size(), out.data());
  }
  return noise.across != 0 ? WriteAcross(g.data(), noise.across, batch.grid, g.size(), out.data())
                           : WriteScaled(g.data(), 1 + noise.own * z, batch.grid, g.size(), out.data());
}

// For rows of both classes alike. Noise across gives every component some of its own; else that along a line is shared.
NoiseGrid GridOf(const GaussianNoise& noise, int64_t components) {
  // One grid for both classes: a spacing that followed a row's own noise would show its label.
  const double across = std::min(noise.of_negative.across, noise.of_positive.across);
  const double along = std::max(noise.of_negative.along, noise.of_positive.along),
               wider = std::max(noise.of_negative.across, noise.of_positive.across);
  return across > 0 ? NoiseGrid(NoiseGrid::kSpacing * across)
                    : NoiseGrid(NoiseGrid::kFineSpacing *
                                std::hypot(along / std::sqrt(static_cast<double>(components)), wider));
}

void CopyRows(ConstMatrixView gradients, Matrix& out) {
  if (out.rows() != gradients.rows() || out.cols() != gradients.cols()) {
    out = Matrix::ToOverwrite(gradients.rows(), gradients.cols());
  }
  std::copy(gradients.data(), gradients.data() + gradients.size(), out.data());
}

// As they lie in memory: two batches that differ in one bit must not share a context.
template <typename Value>
absl::string_view BytesOf(const Value* values, size_t count) {
  return {reinterpret_cast<const char*>(values), count * sizeof(Value)};
}

// Hashes gradients and noise scales: the same input repeats the same bytes, and any different input gets independent
// noise, since two sums of one draw would differ by the gradients alone.
Digest ContextOf(ConstMatrixView gradients, const BatchNoise& noise) {
  // Sizes first, so that no two inputs of different shape give the same bytes.
  static_assert(sizeof(RowNoise) == 3 * sizeof(double), "without gaps, whose bytes would be any");
  const uint64_t sizes[] = {static_cast<uint64_t>(gradients.rows()), static_cast<uint64_t>(gradients.cols()),
                            noise.direction.size()};
  const double spacing = noise.grid.spacing();
  Sha256Hasher context;
  context.Update(BytesOf(sizes, std::size(sizes)));
  context.Update(BytesOf(gradients.data(), static_cast<size_t>(gradients.size())));
  context.Update(BytesOf(noise.direction.data(), noise.direction.size()));
  context.Update(BytesOf(noise.of_row.data(), noise.of_row.size()));
  context.Update(BytesOf(&spacing, 1));
  return context.Finish();
}

// Before any draw, so that a refused batch leaves no noise behind.
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
      // Only here does a true label enter, to choose between two noises that were planned without it.
      of_row.push_back(label == 1 ? noise.of_positive : noise.of_negative);
    }
    return Perturb({noise.direction, of_row, GridOf(noise, batch.gradients.cols())});
  }

  absl::Status operator()(const EvenLengths& noise) const {
    // Li et al., ICLR 2022, section 4.1: noise along each gradient, so that its expected square is that of the longest
    // one.
    const double target = noise.longest * noise.longest,
                 component = noise.longest / std::sqrt(static_cast<double>(batch.gradients.cols()));
    // Noise along a row of zeros would be zero, and the row recognisable.
    const RowNoise of_zeros{0, 0, component};
    std::vector<RowNoise> of_row;
    for (const double squared : SquaredNorms(batch.gradients)) {
      of_row.push_back(squared == 0 ? of_zeros : RowNoise{std::sqrt(std::max(0.0, target / squared - 1)), 0, 0});
    }
    return Perturb({{}, of_row, NoiseGrid(NoiseGrid::kFineSpacing * component)});
  }

  absl::Status operator()(const KeepLargest& kept) const {
    CopyRows(batch.gradients, out);
    std::vector<float> magnitudes(out.data(), out.data() + out.size());
    std::transform(magnitudes.begin(), magnitudes.end(), magnitudes.begin(), [](float x) { return std::abs(x); });
    // Exactly that many are kept, also if magnitudes tie: the number of values that are sent must not depend on the
    // values.
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
    double squares = 0;  // About the mean: about zero they would cancel if all components are alike.
    std::for_each(out.data(), out.data() + out.size(), [&](float x) { squares += (x - mean) * (x - mean); });
    // Two standard deviations on either side: a range up to the extremes would let one long row decide all bins.
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
  absl::Status Perturb(const BatchNoise& noise) const {
    // A key that outlives a run may see the same position with different gradients: without the binding, the difference
    // of two releases would be free of noise (rule 2).
    if (gaussian->needs_binding()) {
      gaussian->Bind(ContextOf(batch.gradients, noise));
    }
    return WritePerturbedRows(batch.gradients, noise, position, *gaussian, out);
  }
};

}  // namespace

ProtectionReport EmptyReport(const std::string& method) {
  // NaN and not 0: a figure that a method does not state must not look like one that is small.
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
  // Expected squared length of the noise of a row: one direction along dg, d - 1 across it.
  report.power = moments.p * (noise.lambda1_pos + others * noise.lambda2_pos) +
                 (1 - moments.p) * (noise.lambda1_neg + others * noise.lambda2_neg);
  report.lambda1_neg = noise.lambda1_neg;
  report.lambda2_neg = noise.lambda2_neg;
  report.lambda1_pos = noise.lambda1_pos;
  report.lambda2_pos = noise.lambda2_pos;
  // Variances add: the spread within a class and the noise on it.
  report.sum_kl = SumKl({d, moments.dg_squared, noise.lambda1_neg + moments.u, noise.lambda2_neg + moments.u,
                         noise.lambda1_pos + moments.v, noise.lambda2_pos + moments.v});
  return report;
}

absl::Status WritePerturbedRows(ConstMatrixView gradients, const BatchNoise& noise, const NoisePosition& position,
                                SecureGaussian& gaussian, Matrix& out) {
  if (out.rows() != gradients.rows() || out.cols() != gradients.cols()) {
    out = Matrix::ToOverwrite(gradients.rows(), gradients.cols());
  }
  Block block{};
  for (int64_t first_row = 0; first_row < gradients.rows(); first_row += kBlockRows) {
    block.first_row = first_row;
    block.rows = std::min(kBlockRows, gradients.rows() - first_row);
    block.noise = noise.of_row.subspan(static_cast<size_t>(first_row), static_cast<size_t>(block.rows));
    DrawScalars(position, gaussian, block);
    DrawIsotropic(position, gaussian, block, out);
    for (int64_t j = 0; j < block.rows; ++j) {
      const int64_t row = first_row + j;
      if (WriteRow(gradients.row(row), noise, block.noise[j], block.scalars[2 * j], out.row(row))) {
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
