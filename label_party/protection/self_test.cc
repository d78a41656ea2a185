#include "label_party/protection/self_test.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "common/crypto/noise_grid.h"
#include "common/crypto/secure_random.h"
#include "common/status/status_macros.h"
#include "label_party/marvell/marvell_planner.h"
#include "label_party/noise/noise_plan.h"
#include "label_party/noise/noise_planner.h"
#include "label_party/protection/protection_factory.h"

namespace splitveil {
namespace {

constexpr int64_t kRows = SyntheticBatch::kRows;
constexpr int64_t kCols = SyntheticBatch::kCols;
constexpr uint32_t kDraws = 300;
constexpr double kDeviations = 6;
// Perturbed gradients are floats of order 1: if no noise is promised, this much is rounding.
constexpr double kRounding = 1e-5;

// The noise a row should get: variance `along` on the line of the unit vector `line`, `across` on each direction
// orthogonal to it.
struct Promise {
  std::vector<double> line;
  double along = 0;
  double across = 0;
};

std::vector<double> Normalized(std::vector<double> vector) {
  double squared = 0;
  for (double component : vector) {
    squared += component * component;
  }
  for (double& component : vector) {
    component /= std::sqrt(squared);
  }
  return vector;
}

double SquaredNormOf(absl::Span<const float> row) {
  double squared = 0;
  for (float component : row) {
    squared += static_cast<double>(component) * component;
  }
  return squared;
}

absl::StatusOr<std::vector<Promise>> PromisesOf(const v1::GradientProtection& config, uint32_t epoch,
                                                const SyntheticBatch& batch) {
  SPLITVEIL_ASSIGN_OR_RETURN(ClassMoments moments, ExpectedMoments(batch.label_free()));
  // From the configuration and the batch alone, not from the plan that is tested: a mistake in it would prove itself.
  std::vector<Promise> promises(kRows);
  // The optimum is solved again here: the test is about how noise is drawn from it. The solver has tests of its own.
  MarvellSolution marvell;
  IsoStrength iso;
  if (config.has_marvell()) {
    SPLITVEIL_ASSIGN_OR_RETURN(MarvellStrength strength, MarvellStrengthOf(config.marvell()));
    SPLITVEIL_ASSIGN_OR_RETURN(marvell, SolveMarvellFor(strength, epoch, GradientProtection::kAsConfigured, moments));
  } else if (config.has_iso()) {
    SPLITVEIL_ASSIGN_OR_RETURN(iso, IsoStrengthOf(config.iso()));
  }
  for (int64_t j = 0; j < kRows; ++j) {
    Promise& promise = promises[j];
    promise.line = Normalized(moments.mean_difference);
    if (config.has_marvell()) {
      promise.along = batch.labels[j] == 1 ? marvell.lambda1_pos : marvell.lambda1_neg;
      promise.across = batch.labels[j] == 1 ? marvell.lambda2_pos : marvell.lambda2_neg;
    } else if (config.has_iso()) {
      promise.along = promise.across = iso.t * moments.max_squared_norm / static_cast<double>(kCols);
    } else if (config.has_max_norm()) {
      const absl::Span<const float> row = std::as_const(batch.gradients).row(j);
      promise.line = Normalized({row.begin(), row.end()});
      // max_norm brings the expected square of each row to the largest one: the noise adds the difference.
      promise.along = moments.max_squared_norm - SquaredNormOf(row);
    }
  }
  return promises;
}

// Sums of one class's noise over rows and draws, each term standardised by its promise.
struct ClassEvidence {
  double line_terms = 0;                                      // Number of standardised numbers x below.
  double line_squares = 0;                                    // Sum of x^2.
  double across_terms = 0;                                    // Degrees of freedom across the line.
  double across_squares = 0;                                  // Sum of their squares.
  std::vector<double> sum = std::vector<double>(kCols);       // Of the noise, by component.
  std::vector<double> variance = std::vector<double>(kCols);  // Promised for that sum.
};

class Evidence {
 public:
  explicit Evidence(const SyntheticBatch& batch) : batch_(batch), previous_draw_(kRows) {}

  // Takes up one perturbed batch, which should hold to `promises`, one per row. Errors: Internal for noise if none
  // is promised.
  absl::Status Add(const Matrix& out, const std::vector<Promise>& promises) {
    // Rows are also rounded to the grid of their noise, by half of its spacing in each component at most (GridOf).
    double largest = 0;
    for (int64_t j = 0; j < kRows; ++j) {
      largest = std::max(largest, promises[j].along + kCols * promises[j].across +
                                      SquaredNormOf(std::as_const(batch_.gradients).row(j)));
    }
    rounding_ = kRounding + NoiseGrid::kFineSpacing * std::sqrt(largest);
    double previous_row = 0;
    for (int64_t j = 0; j < kRows; ++j) {
      const Promise& promise = promises[j];
      ClassEvidence& own = classes_[batch_.labels[j]];
      double on_line = 0;
      double squared = 0;
      for (int64_t k = 0; k < kCols; ++k) {
        const double noise = static_cast<double>(out.row(j)[k]) - batch_.gradients.row(j)[k];
        on_line += noise * promise.line[k];
        squared += noise * noise;
        own.sum[k] += noise;
        // Component k of noise with variance `along` on the line and `across` off it.
        own.variance[k] += promise.across + (promise.along - promise.across) * promise.line[k] * promise.line[k];
      }
      // Rounding can make the difference negative.
      const double off_line = std::max(0.0, squared - on_line * on_line);
      if (promise.across > 0) {
        own.across_terms += kCols - 1;
        own.across_squares += off_line / promise.across;
      } else if (std::sqrt(off_line) > rounding_ * (1 + std::sqrt(squared))) {
        return Broken("noise off the line it is promised to lie on");
      }
      if (promise.along == 0) {
        if (std::abs(on_line) > rounding_) {
          return Broken("noise on a row that should have none");
        }
        continue;
      }
      const double x = on_line / std::sqrt(promise.along);
      own.line_terms += 1;
      own.line_squares += x * x;
      // Products of independent standard normals have mean 0 and variance 1: a shared draw between rows, or between
      // positions, would show as a large sum.
      neighbours_ += previous_row * x;
      repeats_ += previous_draw_[j] * x;
      products_ += 1;
      previous_row = x;
      previous_draw_[j] = x;
    }
    return absl::OkStatus();
  }

  // Only sums over all draws are judged: a single row may be as far off as it likes.
  absl::Status Judge() const {
    for (const ClassEvidence& own : classes_) {
      if (!VarianceHolds(own.line_squares, own.line_terms)) {
        return Broken("the variance along the line is not the promised one");
      }
      if (!VarianceHolds(own.across_squares, own.across_terms)) {
        return Broken("the variance across the line is not the promised one");
      }
      for (int64_t k = 0; k < kCols; ++k) {
        if (std::abs(own.sum[k]) > kDeviations * std::sqrt(own.variance[k]) + rounding_ * kRows * kDraws) {
          return Broken("the noise is biased");
        }
      }
    }
    const double limit = kDeviations * std::sqrt(products_);
    if (std::abs(neighbours_) > limit) {
      return Broken("the noise of neighbouring rows is not independent");
    }
    if (std::abs(repeats_) > limit) {
      return Broken("the noise of different positions is not independent");
    }
    return absl::OkStatus();
  }

 private:
  // The sum of n squares of standard normals has mean n and variance 2 n.
  static bool VarianceHolds(double squares, double terms) {
    return std::abs(squares - terms) <= kDeviations * std::sqrt(2 * terms);
  }

  const SyntheticBatch& batch_;
  double rounding_ = kRounding;
  ClassEvidence classes_[2];
  std::vector<double> previous_draw_;
  double neighbours_ = 0;
  double repeats_ = 0;
  double products_ = 0;
};

bool SameBytes(const Matrix& a, ConstMatrixView b) {
  return a.rows() == b.rows() && a.cols() == b.cols() && std::equal(b.data(), b.data() + b.size(), a.data());
}

}  // namespace

ProtectionCandidate CandidateOf(const Protection& protection) {
  return {[&protection](const LabelFreeBatch& batch, const LabelledGradients& gradients, const NoisePosition& position,
                        Matrix& out) { return protection.gradients->Perturb(batch, gradients, position, out); },
          [&protection](absl::Span<const NoiseRow> examples, absl::Span<const uint8_t> labels, uint32_t epoch) {
            return protection.TrainingTargets(examples, std::vector<float>(labels.begin(), labels.end()), epoch);
          }};
}

SyntheticBatch MakeSyntheticBatch() {
  SyntheticBatch batch;
  for (int64_t j = 0; j < SyntheticBatch::kRows; ++j) {
    // Fixed, without a random generator: a failure here is the same on every machine.
    batch.labels[j] = j % 4 == 1 ? 1 : 0;
    batch.probabilities[j] = static_cast<float>(0.2 + 0.02 * static_cast<double>(j % 5));
    for (int64_t k = 0; k < SyntheticBatch::kCols; ++k) {
      const double wave = std::sin(12.9898 * static_cast<double>(j * SyntheticBatch::kCols + k + 1));
      batch.directions.row(j)[k] = static_cast<float>(-0.5 * (1 + 0.05 * static_cast<double>(k)) + 0.3 * wave);
      batch.gradients.row(j)[k] =
          (batch.probabilities[j] - static_cast<float>(batch.labels[j])) * batch.directions.row(j)[k];
    }
  }
  return batch;
}

absl::Status Broken(const std::string& property) {
  return absl::InternalError(absl::StrCat("protection self-test: ", property));
}

absl::Status ProveProtection(const v1::GradientProtection& config, const ProtectionCandidate& candidate) {
  if (!config.has_iso() && !config.has_max_norm() && !config.has_marvell()) {
    return ProveNoiseless(config, candidate);
  }
  // A few hundred draws make each variance known to some percent; six deviations then leave no room for a wrong factor.
  const SyntheticBatch batch = MakeSyntheticBatch();
  Evidence evidence(batch);
  Matrix out;
  for (uint32_t draw = 0; draw < kDraws; ++draw) {
    // Several epochs, since a run budget has a strength for each.
    const NoisePosition position{draw / 16, draw % 16, 0};
    SPLITVEIL_ASSIGN_OR_RETURN(std::vector<Promise> promises, PromisesOf(config, position.epoch, batch));
    SPLITVEIL_ASSIGN_OR_RETURN(ProtectionReport report,
                               candidate.perturb(batch.label_free(), batch.labelled(), position, out));
    if (report.method == "none" || SameBytes(out, batch.gradients)) {
      return Broken("the gradients leave as they are");
    }
    if (out.rows() != kRows || out.cols() != kCols) {
      return Broken("the shape of the gradients is changed");
    }
    SPLITVEIL_RETURN_IF_ERROR(evidence.Add(out, promises));
    // Once is enough: that positions repeat is a property of the generator and does not depend on the draw.
    Matrix again;
    if (draw == 0 &&
        (!candidate.perturb(batch.label_free(), batch.labelled(), position, again).ok() || !SameBytes(again, out))) {
      return Broken("the same position does not give the same noise");
    }
  }
  return evidence.Judge();
}

absl::Status SelfTestProtection(const v1::GradientProtection& config) {
  // A key of its own: the run's key must never draw at a position twice.
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<SecureGaussian> gaussian, SecureGaussian::Create(SecretKey::Generate()));
  SPLITVEIL_ASSIGN_OR_RETURN(const Protection protection, MakeProtection(config, std::move(gaussian)));
  return ProveProtection(config, CandidateOf(protection));
}

}  // namespace splitveil
