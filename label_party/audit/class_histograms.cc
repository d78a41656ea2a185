#include "label_party/audit/class_histograms.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"

#include "common/leakage/attack_traits.h"
#include "common/leakage/scores.h"
#include "common/leakage/summary.h"
#include "label_party/audit/epoch_pool.h"

namespace splitveil {
namespace {

constexpr double kNormQuantile = 0.995;

// The upper end of the bins for norms: most of the values of both classes lie below. 1 where all are 0.
double NormRange(absl::Span<const float> negatives, absl::Span<const float> positives) {
  std::vector<double> all(negatives.begin(), negatives.end());
  all.insert(all.end(), positives.begin(), positives.end());
  const double range = NearestRankQuantile(std::move(all), kNormQuantile);
  return range > 0 ? range : 1;
}

// Null where the attack has not run.
const std::vector<float>* ScoresOf(v1::Attack attack, absl::Span<const BatchScores> own) {
  const auto found =
      std::find_if(own.begin(), own.end(), [&](const BatchScores& scores) { return scores.attack == attack; });
  return found == own.end() ? nullptr : &found->scores;
}

}  // namespace

void ClassHistograms::AddScores(const std::string& quantity, absl::Span<const float> scores,
                                const ReleasedBatch& batch) {
  const absl::Span<const uint32_t> left_out = RowsLeftOut(v1::COSINE, batch.hint_rows);
  Values& values = values_[quantity];
  for (size_t j = 0; j < scores.size(); ++j) {
    std::vector<float>& own = values[batch.labels[j]];
    if (std::isfinite(scores[j]) && own.size() < EpochPool::kMaxExamples &&
        std::find(left_out.begin(), left_out.end(), j) == left_out.end()) {
      own.push_back(scores[j]);
    }
  }
}

void ClassHistograms::Add(const ReleasedBatch& batch, const ReleaseEvidence& evidence,
                          absl::Span<const BatchScores> own) {
  const std::vector<float>* const norms = ScoresOf(v1::NORM, own);
  const std::vector<float>* const cosines = ScoresOf(v1::COSINE, own);
  const absl::Span<const float> clean_positive = batch.CleanPositive(evidence.clean);
  NormAndCosineScores computed;
  const bool scored = norms != nullptr && (cosines != nullptr || clean_positive.empty());
  if (!scored) {
    computed = ScoreNormsAndCosines(evidence.released, clean_positive);
  }
  const NormAndCosineScores clean = ScoreNormsAndCosines(evidence.clean, clean_positive);
  AddScores("norm", scored ? *norms : computed.norms, batch);
  AddScores("clean_norm", clean.norms, batch);
  if (!clean_positive.empty()) {
    AddScores("cosine", scored && cosines != nullptr ? *cosines : computed.cosines, batch);
    AddScores("clean_cosine", clean.cosines, batch);
  }
}

std::vector<DistributionRow> ClassHistograms::Finish(uint32_t epoch) {
  std::vector<DistributionRow> rows;
  for (const auto& [quantity, values] : values_) {
    const bool cosine = absl::StrContains(quantity, "cosine");
    const double low = cosine ? -1 : 0;
    const double high = cosine ? 1 : NormRange(values[0], values[1]);
    const double width = (high - low) / static_cast<double>(kBins);
    for (int64_t label = 0; label < 2; ++label) {
      std::array<int64_t, kBins> counts = {};
      for (float value : values[label]) {
        const auto bin = static_cast<int64_t>(std::floor((value - low) / width));
        ++counts[std::clamp<int64_t>(bin, 0, kBins - 1)];
      }
      for (int64_t bin = 0; bin < kBins; ++bin) {
        if (counts[bin] > 0) {
          const double begin = low + width * static_cast<double>(bin);
          rows.push_back({epoch, quantity, label, bin, begin, begin + width, counts[bin]});
        }
      }
    }
  }
  values_.clear();
  return rows;
}

}  // namespace splitveil
