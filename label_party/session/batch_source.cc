#include "label_party/session/batch_source.h"

#include <algorithm>
#include <utility>

namespace splitveil {
namespace {

bool HasOneClass(const std::vector<uint8_t>& labels) {
  return std::count(labels.begin(), labels.end(), labels.front()) == static_cast<int64_t>(labels.size());
}

}  // namespace

BatchSource::BatchSource(TrainingData data, const Options& options) : data_(std::move(data)), options_(options) {}

LocalBatch BatchSource::Gather(uint32_t epoch, uint32_t batch) {
  const absl::Span<const uint32_t> positions = data_.schedule.BatchRows(epoch, batch);
  LocalBatch own;
  own.released.epoch = epoch;
  own.released.batch = batch;
  own.released.positions.assign(positions.begin(), positions.end());
  own.released.labels = LabelsOf(positions);
  own.cuts = BatchSlices(static_cast<int64_t>(positions.size()), options_.in_flight_batches);
  own.primes = options_.primes_moments && !both_classes_seen_ && HasOneClass(own.released.labels);
  own.is_whole = options_.needs_whole_batch || own.primes;
  for (const RowRange& rows : own.cuts.Computed(own.is_whole)) {
    own.features.push_back(data_.features->Gather(positions.subspan(rows.first, rows.rows)));
  }
  own.targets.reserve(positions.size());
  for (uint32_t position : positions) {
    own.targets.push_back(data_.targets[position]);
  }
  return own;
}

const LocalBatch& BatchSource::Gathered(uint32_t epoch, uint32_t batch) {
  if (!gathered_.has_value() || gathered_->released.epoch != epoch || gathered_->released.batch != batch) {
    gathered_ = Gather(epoch, batch);
  }
  return *gathered_;
}

LocalBatch BatchSource::Take(uint32_t epoch, uint32_t batch) {
  (void)Gathered(epoch, batch);
  LocalBatch own = *std::move(gathered_);
  gathered_.reset();
  both_classes_seen_ = both_classes_seen_ || !own.primes;
  return own;
}

void BatchSource::Prefetch(uint32_t epoch, uint32_t batch) {
  if (batch < batches_per_epoch()) {
    (void)Gathered(epoch, batch);
  }
}

int64_t BatchSource::test_rows(uint32_t batch) const {
  return std::clamp<int64_t>(test_examples() - int64_t{batch} * options_.batch_size, 0, options_.batch_size);
}

FeatureBatch BatchSource::TestFeatures(uint32_t batch) const {
  const auto first = static_cast<size_t>(int64_t{batch} * options_.batch_size);
  return data_.features->Gather(absl::MakeConstSpan(data_.test).subspan(first, static_cast<size_t>(test_rows(batch))));
}

std::vector<uint8_t> BatchSource::LabelsOf(absl::Span<const uint32_t> positions) const {
  std::vector<uint8_t> labels;
  labels.reserve(positions.size());
  for (uint32_t position : positions) {
    labels.push_back(data_.labels[position]);
  }
  return labels;
}

}  // namespace splitveil
