#include "deploy/operator/sweep/bottom_gain.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace splitveil {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Quantiles 0.975 of Student's t with 1 to 30 degrees of freedom; beyond, the last, which is a little wide.
constexpr double kStudentT[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                                2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
                                2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};

// Half the width of the 95% interval of the mean; NaN for fewer than two values.
double HalfWidth(const std::vector<double>& values, double mean) {
  if (values.size() < 2) {
    return kNone;
  }
  double squares = 0;
  for (const double value : values) {
    squares += (value - mean) * (value - mean);
  }
  const size_t degrees = values.size() - 1;
  // Student's t and not the normal quantile: of three seeds the latter would make the interval less than half as wide.
  const double quantile = kStudentT[std::min(degrees, std::size(kStudentT)) - 1];
  return quantile * std::sqrt(squares / static_cast<double>(degrees) / static_cast<double>(values.size()));
}

double QualityOf(const QualitiesBySeed& qualities, uint64_t seed) {
  const auto found = qualities.find(seed);
  return found != qualities.end() ? found->second : kNone;
}

}  // namespace

BottomGain::BottomGain(const QualitiesBySeed& none, const QualitiesBySeed& frozen, std::string quality_name)
    : none_(none), frozen_(frozen), quality_name_(std::move(quality_name)) {
  std::vector<double> gains;
  for (const auto& [seed, none_quality] : none_) {
    const double frozen_quality = QualityOf(frozen_, seed);
    // Paired by seed: both runs share test examples and initial weights, whose noise the difference is free of.
    if (std::isfinite(none_quality - frozen_quality)) {
      seeds_[seed] = {none_quality, frozen_quality};
      gains.push_back(none_quality - frozen_quality);
    }
  }
  gain_ = SpreadOf(gains);
  const double half_width = HalfWidth(gains, gain_.mean);
  gain_low_ = gain_.mean - half_width;
  gain_high_ = gain_.mean + half_width;
  if (!gains.empty()) {
    // One seed has no interval: a positive gain counts, and Words says how little that is.
    const bool above = gains.size() == 1 ? gain_.mean > 0 : gain_low_ > 0;
    state_ = !above ? GainState::kWithinNoise : gains.size() == 1 ? GainState::kOneSeed : GainState::kMeasured;
  }
}

double BottomGain::NoneQuality(uint64_t seed) const { return QualityOf(none_, seed); }

double BottomGain::FrozenQuality(uint64_t seed) const { return QualityOf(frozen_, seed); }

double BottomGain::ShareKept(uint64_t seed, double quality) const {
  const auto found = seeds_.find(seed);
  // A quotient of two numbers that are both noise would look like a finding.
  if (state_ == GainState::kWithinNoise || found == seeds_.end()) {
    return kNone;
  }
  const auto& [none, frozen] = found->second;
  return none > frozen ? (quality - frozen) / (none - frozen) : kNone;
}

KeptGain BottomGain::KeptBy(const QualitiesBySeed& qualities) const {
  std::vector<double> none_qualities, frozen_qualities, shares;
  double kept = 0, gain = 0;
  for (const auto& [seed, quality] : qualities) {
    const auto found = seeds_.find(seed);
    if (found == seeds_.end() || !std::isfinite(quality)) {
      continue;
    }
    const auto& [none, frozen] = found->second;
    none_qualities.push_back(none);
    frozen_qualities.push_back(frozen);
    // The same seeds as the gain, or the share would compare different test examples.
    shares.push_back(ShareKept(seed, quality));
    kept += quality - frozen;
    gain += none - frozen;
  }
  KeptGain result{SpreadOf(frozen_qualities), SpreadOf(none_qualities), SpreadOf(shares)};
  if (std::isfinite(result.share.mean)) {
    // A ratio of sums, because a seed that gains next to nothing would decide a mean of ratios.
    result.share.mean = gain > 0 ? kept / gain : kNone;
  }
  return result;
}

std::string BottomGain::Words() const {
  if (state_ == GainState::kNotMeasured) {
    return "What training the bottom model gains is not known yet: no seed has finished both none and frozen with a "
           "figure for the model's quality.";
  }
  std::vector<double> none_qualities, frozen_qualities;
  for (const auto& [seed, references] : seeds_) {
    none_qualities.push_back(references.none);
    frozen_qualities.push_back(references.frozen);
  }
  std::string figures =
      absl::StrFormat("test %s %.4f frozen at its start, %.4f without protection, a gain of %.4f", quality_name_,
                      SpreadOf(frozen_qualities).mean, SpreadOf(none_qualities).mean, gain_.mean);
  if (seeds_.size() > 1) {
    absl::StrAppendFormat(&figures, ", 95%% interval %.4f to %.4f over %d seeds", gain_low_, gain_high_, seeds_.size());
  }
  switch (state_) {
    case GainState::kOneSeed:
      return absl::StrCat("Training the bottom model: ", figures,
                          ". One seed: how much of that is chance is not known; take three or more before you believe "
                          "a share of it.");
    case GainState::kWithinNoise:
      return absl::StrCat("Training the bottom model gains nothing that these seeds tell from noise: ", figures,
                          ". A share of it means nothing and is left out. Take more seeds; where the gain stays small, "
                          "hardly anything can be lost here, whatever the protection.");
    default:
      return absl::StrCat("Training the bottom model: ", figures, ". The gain kept is (", quality_name_,
                          " - frozen) / (none - frozen).");
  }
}

Spread SpreadOf(const std::vector<double>& values) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  Spread spread{kNone, kNone, kNone};
  double sum = 0;
  int count = 0;
  for (const double value : values) {
    // Runs without a figure are left out and not counted as 0.
    if (std::isfinite(value)) {
      spread.min = count == 0 ? value : std::min(spread.min, value);
      spread.max = count == 0 ? value : std::max(spread.max, value);
      sum += value;
      ++count;
    }
  }
  if (count > 0) {
    // Rounding must not put the mean of equal values outside them.
    spread.mean = std::clamp(sum / count, spread.min, spread.max);
  }
  return spread;
}

}  // namespace splitveil
