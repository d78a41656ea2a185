#include "deploy/operator/sweep/bottom_gain.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <vector>

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
  const double quantile = kStudentT[std::min(degrees, std::size(kStudentT)) - 1];
  return quantile * std::sqrt(squares / static_cast<double>(degrees) / static_cast<double>(values.size()));
}

double AucOf(const AucsBySeed& aucs, uint64_t seed) {
  const auto found = aucs.find(seed);
  return found != aucs.end() ? found->second : kNone;
}

}  // namespace

BottomGain::BottomGain(const AucsBySeed& none, const AucsBySeed& frozen) : none_(none), frozen_(frozen) {
  std::vector<double> gains;
  for (const auto& [seed, none_auc] : none_) {
    const double frozen_auc = AucOf(frozen_, seed);
    if (std::isfinite(none_auc - frozen_auc)) {
      seeds_[seed] = {none_auc, frozen_auc};
      gains.push_back(none_auc - frozen_auc);
    }
  }
  gain_ = SpreadOf(gains);
  const double half_width = HalfWidth(gains, gain_.mean);
  gain_low_ = gain_.mean - half_width;
  gain_high_ = gain_.mean + half_width;
  if (!gains.empty()) {
    const bool above = gains.size() == 1 ? gain_.mean > 0 : gain_low_ > 0;
    state_ = !above ? GainState::kWithinNoise : gains.size() == 1 ? GainState::kOneSeed : GainState::kMeasured;
  }
}

double BottomGain::NoneTestAuc(uint64_t seed) const { return AucOf(none_, seed); }

double BottomGain::FrozenTestAuc(uint64_t seed) const { return AucOf(frozen_, seed); }

double BottomGain::ShareKept(uint64_t seed, double test_auc) const {
  const auto found = seeds_.find(seed);
  if (state_ == GainState::kWithinNoise || found == seeds_.end()) {
    return kNone;
  }
  const auto& [none, frozen] = found->second;
  return none > frozen ? (test_auc - frozen) / (none - frozen) : kNone;
}

KeptGain BottomGain::KeptBy(const AucsBySeed& aucs) const {
  std::vector<double> none_aucs, frozen_aucs, shares;
  double kept = 0, gain = 0;
  for (const auto& [seed, auc] : aucs) {
    const auto found = seeds_.find(seed);
    if (found == seeds_.end() || !std::isfinite(auc)) {
      continue;
    }
    const auto& [none, frozen] = found->second;
    none_aucs.push_back(none);
    frozen_aucs.push_back(frozen);
    shares.push_back(ShareKept(seed, auc));
    kept += auc - frozen;
    gain += none - frozen;
  }
  KeptGain result{SpreadOf(frozen_aucs), SpreadOf(none_aucs), SpreadOf(shares)};
  if (std::isfinite(result.share.mean)) {
    result.share.mean = gain > 0 ? kept / gain : kNone;
  }
  return result;
}

std::string BottomGain::Words() const {
  if (state_ == GainState::kNotMeasured) {
    return "What training the bottom model gains is not known yet: no seed has finished both none and frozen with a "
           "test AUC (numbers have none).";
  }
  std::vector<double> none_aucs, frozen_aucs;
  for (const auto& [seed, references] : seeds_) {
    none_aucs.push_back(references.none);
    frozen_aucs.push_back(references.frozen);
  }
  std::string figures = absl::StrFormat("test AUC %.4f frozen at its start, %.4f without protection, a gain of %.4f",
                                        SpreadOf(frozen_aucs).mean, SpreadOf(none_aucs).mean, gain_.mean);
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
      return absl::StrCat("Training the bottom model: ", figures,
                          ". The gain kept is (AUC - frozen) / (none - frozen).");
  }
}

}  // namespace splitveil
