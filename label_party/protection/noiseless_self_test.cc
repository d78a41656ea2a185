#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <vector>

#include "common/status/status_macros.h"
#include "label_party/label_privacy/noised_labels.h"
#include "label_party/marvell/marvell_planner.h"
#include "label_party/protection/self_test.h"

namespace splitveil {
namespace {

// A normal figure is farther off than this with probability 2e-9, so a sound method practically never fails.
constexpr double kDeviations = 6;
constexpr double kRounding = 1e-5;  // Gradients are floats of order 1.

bool Same(ConstMatrixView a, ConstMatrixView b) { return a.values() == b.values(); }

// `none` must be what it says: the audit would take an unknown change for what clean gradients leak.
absl::Status ProveNone(const SyntheticBatch& batch, const ProtectionReport& report, const Matrix& out) {
  if (report.method != "none" || !Same(out, batch.gradients)) {
    return Broken("`none` is configured, but the gradients are changed");
  }
  return absl::OkStatus();
}

absl::Status ProveSparsify(double keep, const SyntheticBatch& batch, const Matrix& out) {
  // Compared component by component with what was sent in, since the method must not invent or move any number.
  int64_t kept = 0;
  float least_kept = std::numeric_limits<float>::infinity();
  float largest_gone = 0;
  for (int64_t i = 0; i < out.size(); ++i) {
    const float before = batch.gradients.data()[i];
    const float after = out.data()[i];
    if (after != 0 && after != before) {
      return Broken("a component that is kept is changed");
    }
    if (after != 0) {
      ++kept;
      least_kept = std::min(least_kept, std::abs(before));
    } else {
      largest_gone = std::max(largest_gone, std::abs(before));
    }
  }
  // The synthetic batch has no zeros, so that what is zero was set to it.
  if (static_cast<double>(kept) != std::ceil(keep * static_cast<double>(out.size()))) {
    return Broken("another number of components is kept than promised");
  }
  return least_kept < largest_gone ? Broken("a component is kept that is smaller than one that is gone")
                                   : absl::OkStatus();
}

absl::Status ProveDiscretize(int32_t bins, const SyntheticBatch& batch, const Matrix& out) {
  const absl::Span<const float> before = static_cast<ConstMatrixView>(batch.gradients).values();
  double sum = 0;
  double squares = 0;
  for (float component : before) {
    sum += component;
    squares += static_cast<double>(component) * component;
  }
  const double n = static_cast<double>(before.size());
  // The bins span two standard deviations on either side of the mean (RoundToBins). Computed here a second time, by a
  // different formula, so that a mistake there shows.
  const double reach = 2 * std::sqrt(squares / n - sum / n * (sum / n));
  // Bins are 2 reach / (bins - 1) apart: the nearest is at most half of that away.
  const double half_bin = reach / (bins - 1);
  std::set<float> values;
  for (int64_t i = 0; i < out.size(); ++i) {
    const double nearest = std::clamp<double>(before[i], sum / n - reach, sum / n + reach);
    if (std::abs(out.data()[i] - nearest) > half_bin + kRounding) {
      return Broken("a component is not in the nearest bin");
    }
    values.insert(out.data()[i]);
  }
  return static_cast<int64_t>(values.size()) > bins ? Broken("more values leave than there are bins")
                                                    : absl::OkStatus();
}

// Compares the targets of the labels that are `label` with flips of probability rho.
absl::Status ProveFlips(double rho, uint8_t label, absl::Span<const uint8_t> labels, absl::Span<const float> targets) {
  // Unbiased targets: their mean over the flips is the label.
  const auto untouched = static_cast<float>((label - rho) / (1 - 2 * rho));
  const auto flipped = static_cast<float>((1 - label - rho) / (1 - 2 * rho));
  // Class by class: flips that depended on the label would bias the targets.
  double count = 0;
  double flips = 0;
  double pairs = 0;  // Of flips that follow each other.
  bool last = false;
  for (size_t j = 0; j < labels.size(); ++j) {
    if (labels[j] != label) {
      continue;
    }
    if (targets[j] != untouched && targets[j] != flipped) {
      return Broken("a target is neither of the two that the flips allow");
    }
    const bool now = targets[j] == flipped;
    count += 1;
    flips += now;
    pairs += now && last;
    last = now;
  }
  // Six events more: a count whose mean is small has no normal tail.
  const auto beyond = [&](double found, double share) {
    return std::abs(found - count * share) > kDeviations * std::sqrt(count * share * (1 - share)) + kDeviations;
  };
  if (beyond(flips, rho)) {
    return Broken("the share of flipped labels is not the promised one");
  }
  // Pairs that overlap in a label depend on each other: their number varies by less than twice the mean.
  if (std::abs(pairs - count * rho * rho) > kDeviations * std::sqrt(2 * count * rho * rho) + kDeviations) {
    return Broken("the flips of neighbouring labels are not independent");
  }
  return absl::OkStatus();
}

absl::Status ProveLabelDp(double epsilon, const SyntheticBatch& batch, const ProtectionCandidate& candidate) {
  constexpr size_t kLabels = 200'000;
  std::vector<uint8_t> labels(kLabels);
  for (size_t j = 0; j < kLabels; ++j) {
    labels[j] = j % 2;
  }
  // Randomised response (Warner, JASA 1965). Computed here from epsilon, so that a method with a wrong rho fails.
  const double rho = 1 / (1 + std::exp(epsilon));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<float> targets,
                             candidate.training_targets(NumberedNoiseRows(kLabels), labels, /*epoch=*/0));
  if (targets.size() != labels.size()) {
    return Broken("another number of targets than of labels");
  }
  for (uint8_t label : {0, 1}) {
    SPLITVEIL_RETURN_IF_ERROR(ProveFlips(rho, label, labels, targets));
  }
  Matrix out;
  SPLITVEIL_ASSIGN_OR_RETURN(const ProtectionReport report,
                             candidate.perturb(batch.label_free(), batch.labelled(), NoisePosition{}, out));
  if (report.method != "label_dp" || !Same(out, batch.gradients)) {
    return Broken("the gradients of randomised labels are changed");
  }
  // The AUC of the best test of one flipped label, and noise that passes 1/2 as often, or a little more.
  const double sum_kl = SumKlForRunAuc(1 - rho);
  if (!(std::abs(report.sum_kl - sum_kl) <= kRounding * sum_kl && report.run_sum_kl <= 2 * sum_kl &&
        report.run_sum_kl >= 1.99 * sum_kl && report.flip_epsilon == epsilon)) {
    return Broken("the divergence of the randomised labels is not the promised one");
  }
  return absl::OkStatus();
}

// Compares what was added to labels, which alternate, with N(0, sigma^2).
absl::Status ProveLabelNoise(double sigma, absl::Span<const uint8_t> labels, absl::Span<const float> targets) {
  // Mean, variance and fourth moment: enough to notice a wrong sigma, an offset, a discrete or a truncated law.
  const double of_class = static_cast<double>(labels.size()) / 2;
  double sums[2] = {}, squares[2] = {}, fourth_powers[2] = {};  // Of the noise in units of sigma, by class.
  double products[2] = {};                                      // Of neighbours, and of neighbours in a class.
  double last[2] = {};
  for (size_t j = 0; j < labels.size(); ++j) {
    const double noise = (targets[j] - static_cast<double>(labels[j])) / sigma;
    sums[labels[j]] += noise;
    squares[labels[j]] += noise * noise;
    fourth_powers[labels[j]] += noise * noise * noise * noise;
    products[0] += noise * last[0];
    products[1] += noise * last[1];
    last[1] = last[0];
    last[0] = noise;
  }
  // Written so that NaN fails.
  const auto within = [](double found, double mean, double variance) {
    return std::abs(found - mean) <= kDeviations * std::sqrt(variance);
  };
  // Of standard normals x: x has mean 0 and variance 1, x^2 mean 1 and variance 2, x^4 mean 3 and variance 96.
  for (int label : {0, 1}) {
    if (!within(sums[label], 0, of_class)) {
      return Broken("the noise of a class of labels has a mean");
    }
    if (!within(squares[label], of_class, 2 * of_class)) {
      return Broken("the noise of a class of labels has another variance than promised");
    }
    if (!within(fourth_powers[label], 3 * of_class, 96 * of_class)) {
      return Broken("the noise of a class of labels is not Gaussian");
    }
  }
  return within(products[0], 0, 2 * of_class) && within(products[1], 0, 2 * of_class)
             ? absl::OkStatus()
             : Broken("the noise of neighbouring labels is not independent");
}

// Checks that the targets of the second epoch have noise of their own.
absl::Status ProveOtherDraw(const NoisedLabels& promised, absl::Span<const uint8_t> labels,
                            absl::Span<const float> first, absl::Span<const float> second) {
  if (second.size() != labels.size()) {
    return Broken("another number of targets than of labels");
  }
  SPLITVEIL_RETURN_IF_ERROR(ProveLabelNoise(promised.sigma(1), labels, second));
  // Noise of the first epoch repeated in the second would be counted as new evidence while it hides nothing more.
  double products = 0;
  for (size_t j = 0; j < labels.size(); ++j) {
    products += (first[j] - static_cast<double>(labels[j])) * (second[j] - static_cast<double>(labels[j])) /
                (promised.sigma(0) * promised.sigma(1));
  }
  return std::abs(products) <= kDeviations * std::sqrt(static_cast<double>(labels.size()))
             ? absl::OkStatus()
             : Broken("the noise of two epochs is not independent");
}

absl::Status ProveGaussianLabelDp(const v1::GradientProtection::GaussianLabelDp& config, const SyntheticBatch& batch,
                                  const ProtectionCandidate& candidate) {
  // So many that a sigma which is off by 2% fails, and still well below a second.
  constexpr size_t kLabels = 100'000;
  std::vector<uint8_t> labels(kLabels);
  for (size_t j = 0; j < kLabels; ++j) {
    labels[j] = j % 2;
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<float> targets,
                             candidate.training_targets(NumberedNoiseRows(kLabels), labels, /*epoch=*/0));
  if (targets.size() != labels.size()) {
    return Broken("another number of targets than of labels");
  }
  // The same plan under a different key: only its strengths and bounds are compared.
  SPLITVEIL_ASSIGN_OR_RETURN(const std::shared_ptr<NoisedLabels> promised,
                             NoisedLabels::Create(config, Task(), SecretKey::Generate()));
  SPLITVEIL_RETURN_IF_ERROR(ProveLabelNoise(promised->sigma(0), labels, targets));
  if (promised->draws() > 1) {
    SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<float> next,
                               candidate.training_targets(NumberedNoiseRows(kLabels), labels, /*epoch=*/1));
    SPLITVEIL_RETURN_IF_ERROR(ProveOtherDraw(*promised, labels, targets, next));
  }
  Matrix out;
  SPLITVEIL_ASSIGN_OR_RETURN(const ProtectionReport report,
                             candidate.perturb(batch.label_free(), batch.labelled(), NoisePosition{}, out));
  if (report.method != "gaussian_label_dp" || !Same(out, batch.gradients)) {
    return Broken("the gradients of noised labels are changed");
  }
  const double sum_kl = 1 / (promised->sigma(0) * promised->sigma(0));
  const double run_sum_kl = promised->privacy().mu() * promised->privacy().mu();
  if (!(std::abs(report.sum_kl - sum_kl) <= kRounding * sum_kl &&
        std::abs(report.run_sum_kl - run_sum_kl) <= kRounding * run_sum_kl)) {
    return Broken("the divergence of the noised labels is not the promised one");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ProveNoiseless(const v1::GradientProtection& config, const ProtectionCandidate& candidate) {
  // The configured method is run, not a copy of it: what is proved is what the run will use.
  const SyntheticBatch batch = MakeSyntheticBatch();
  if (config.has_label_dp()) {
    return ProveLabelDp(config.label_dp().epsilon(), batch, candidate);
  }
  if (config.has_gaussian_label_dp()) {
    return ProveGaussianLabelDp(config.gaussian_label_dp(), batch, candidate);
  }
  // Methods that protect gradients, or nothing, train on the labels as they are.
  SPLITVEIL_ASSIGN_OR_RETURN(
      const std::vector<float> targets,
      candidate.training_targets(NumberedNoiseRows(batch.labels.size()), batch.labels, /*epoch=*/0));
  if (!std::equal(targets.begin(), targets.end(), batch.labels.begin(), batch.labels.end())) {
    return Broken("the labels are changed");
  }
  Matrix out;
  SPLITVEIL_ASSIGN_OR_RETURN(const ProtectionReport report,
                             candidate.perturb(batch.label_free(), batch.labelled(), NoisePosition{}, out));
  if (config.has_none()) {
    return ProveNone(batch, report, out);
  }
  if (Same(out, batch.gradients)) {
    return Broken("the gradients leave as they are");
  }
  if (out.rows() != SyntheticBatch::kRows || out.cols() != SyntheticBatch::kCols) {
    return Broken("the shape of the gradients is changed");
  }
  return config.has_sparsify() ? ProveSparsify(config.sparsify().keep(), batch, out)
                               : ProveDiscretize(config.discretize().bins(), batch, out);
}

}  // namespace splitveil
