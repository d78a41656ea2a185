// Figures over the seeds of a sweep; and what is there to lose: what training the bottom model gains, and the share of
// it that a protection keeps.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_SWEEP_BOTTOM_GAIN_H_
#define SPLITVEIL_DEPLOY_OPERATOR_SWEEP_BOTTOM_GAIN_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace splitveil {

// One figure over the seeds that measured it. All NaN where none did.
struct Spread {
  double mean = 0, min = 0, max = 0;
};

// Of the finite ones among `values`.
Spread SpreadOf(const std::vector<double>& values);

// Best test AUC of the runs of one protection, by seed; of regressions R^2.
using QualitiesBySeed = std::map<uint64_t, double>;

enum class GainState {
  kNotMeasured,  // No seed has finished both references.
  kOneSeed,      // Measured, but how much of it is chance is not known.
  kWithinNoise,  // Not told from the seeds' noise: a share of it means nothing.
  kMeasured,
};

// What a protection keeps, over the seeds that finished it and both references. All NaN where none did, or where a
// share means nothing.
struct KeptGain {
  Spread frozen_quality, none_quality;
  // mean: sum of (quality - frozen) over sum of (none - frozen), so that a seed that gains next to nothing decides
  // nothing; min, max: of single seeds. Below 0 where a protection trains worse than no training at all.
  Spread share;
};

// A test AUC (of regressions R^2) beside that of no protection flatters: where a bottom model left at its random start
// already does well, no protection can cost much. The gain of a seed is the quality of its run without protection less
// that of its run whose bottom model is frozen at the start; both share test examples and initial weights. Immutable;
// thread-safe.
class BottomGain {
 public:
  // `quality_name`: "AUC" or "R^2".
  BottomGain(const QualitiesBySeed& none, const QualitiesBySeed& frozen, std::string quality_name = "AUC");

  // kMeasured where the 95% interval of the mean gain lies above 0.
  GainState state() const { return state_; }
  // Over the seeds with both references.
  const Spread& gain() const { return gain_; }
  // 95% interval of the mean gain: mean +- t sd / sqrt(n), Student's t with n - 1 degrees of freedom. NaN for fewer
  // than two seeds.
  double gain_low() const { return gain_low_; }
  double gain_high() const { return gain_high_; }

  // NaN where the reference of this seed is not there.
  double NoneQuality(uint64_t seed) const;
  double FrozenQuality(uint64_t seed) const;
  // (quality - frozen) / (none - frozen) of one run. NaN where it means nothing: a reference is missing, none is not
  // above frozen, or the gain is kWithinNoise.
  double ShareKept(uint64_t seed, double quality) const;
  KeptGain KeptBy(const QualitiesBySeed& qualities) const;

  // For people: what the gain is, from what, and what follows where it is too small or of one seed only.
  std::string Words() const;

 private:
  struct References {
    double none, frozen;
  };

  std::map<uint64_t, References> seeds_;  // With both, each finite.
  QualitiesBySeed none_, frozen_;
  std::string quality_name_;
  GainState state_ = GainState::kNotMeasured;
  Spread gain_;
  double gain_low_, gain_high_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_SWEEP_BOTTOM_GAIN_H_
