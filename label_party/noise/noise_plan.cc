#include "label_party/noise/noise_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "common/crypto/sha256.h"
#include "common/leakage/bounds.h"
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

ProtectionReport EmptyReport(const std::string& method) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  return {method, kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone};
}

ProtectionReport ReportOf(const std::string& method, const ClassMoments& moments, const ClassNoise& noise) {
  const int64_t d = static_cast<int64_t>(moments.mean_difference.size());
  const double others = static_cast<double>(d - 1);
  ProtectionReport report = EmptyReport(method);
  report.u = moments.u;
  report.v = moments.v;
  report.g = moments.dg_squared;
  report.p = moments.p;
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

ProtectionReport DescribeBatch(const std::string& method, const ClassMoments& moments) {
  ProtectionReport report = EmptyReport(method);
  if (moments.informative()) {
    report.u = moments.u;
    report.v = moments.v;
    report.g = moments.dg_squared;
    report.p = moments.p;
  }
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

absl::Status ApplyPlan(const NoisePlan& plan, ConstMatrixView gradients, const NoisePosition& position,
                       SecureGaussian* gaussian, Matrix& out) {
  return std::visit(Applier{gradients, position, gaussian, out}, plan.change);
}

}  // namespace splitveil
