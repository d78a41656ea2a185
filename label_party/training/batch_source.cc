#include "label_party/training/batch_source.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "absl/status/statusor.h"

#include "common/crypto/invariant.h"
#include "common/crypto/label_noise.h"

namespace splitveil {

BatchSource::BatchSource(TrainingData data, const Options& options) : data_(std::move(data)), options_(options) {
  if (!options_.keeps_targets) {
    return;
  }
  const auto outputs = static_cast<size_t>(data_.task.outputs());
  const std::vector<uint32_t> positions = training_positions();
  // One draw for the whole run: kept, it costs a float per example; drawn again in every epoch, it costs the time of a
  // batch.
  const std::vector<float> drawn = DrawTargets(/*epoch=*/0, positions, data_.LabelsAt(positions));
  kept_targets_.assign(outputs * static_cast<size_t>(examples()), std::numeric_limits<float>::quiet_NaN());
  for (size_t i = 0; i < positions.size(); ++i) {
    std::copy_n(&drawn[outputs * i], outputs, &kept_targets_[outputs * positions[i]]);
  }
}

LocalBatch BatchSource::Gather(uint32_t epoch, uint32_t batch, absl::Span<const uint32_t> positions) const {
  LocalBatch own;
  own.released.epoch = epoch;
  own.released.batch = batch;
  own.released.positions.assign(positions.begin(), positions.end());
  // Gathered before the batch arrives: labels, features and noise depend on the schedule alone.
  own.released.labels = AuditedLabelsOf(positions);
  AddCandidates(own.released);
  own.cuts = BatchSlices(static_cast<int64_t>(positions.size()), options_.in_flight_batches);
  for (const RowRange& rows : own.cuts.Computed(options_.needs_whole_batch)) {
    own.features.push_back(data_.features->Gather(positions.subspan(rows.first, rows.rows)));
  }
  own.labels = data_.LabelsAt(positions);
  if (data_.targets != nullptr) {
    own.target_noise = data_.targets->target_noise(epoch);
    own.targets = TargetsOf(own);
  }
  return own;
}

std::vector<float> BatchSource::DrawTargets(uint32_t epoch, absl::Span<const uint32_t> positions,
                                            absl::Span<const float> labels) const {
  std::vector<NoiseRow> examples;
  examples.reserve(positions.size());
  for (const uint32_t position : positions) {
    // By id, so that another order of the table gives no second draw.
    examples.push_back(NoiseRow::OfId(data_.features->id(position)));
  }
  absl::StatusOr<std::vector<float>> drawn = data_.targets->TrainingTargets(examples, labels, epoch);
  CheckInvariant(drawn.ok(), "LabelTargets: once the run is counted, no draw fails");
  return *std::move(drawn);
}

std::vector<float> BatchSource::TargetsOf(const LocalBatch& batch) const {
  const std::vector<uint32_t>& positions = batch.released.positions;
  if (!options_.keeps_targets) {
    return DrawTargets(batch.released.epoch, positions, batch.labels);
  }
  const auto outputs = static_cast<size_t>(data_.task.outputs());
  std::vector<float> targets;
  targets.reserve(outputs * positions.size());
  for (const uint32_t position : positions) {
    const auto first = kept_targets_.begin() + static_cast<std::ptrdiff_t>(outputs * position);
    targets.insert(targets.end(), first, first + static_cast<std::ptrdiff_t>(outputs));
  }
  return targets;
}

void BatchSource::AddCandidates(ReleasedBatch& batch) const {
  if (data_.task.kind == Task::Kind::kBinary) {
    return;
  }
  // Leak figures need two sides: for several classes, or numbers, the true label and one other candidate.
  for (const uint32_t position : batch.positions) {
    const float label = data_.LabelAt(position);
    batch.candidates.push_back(CandidatesOf(data_.task, label, position));
    batch.is_higher.push_back(label == batch.candidates.back().high ? 1 : 0);
  }
}

const LocalBatch& BatchSource::Gathered(uint32_t epoch, uint32_t batch) {
  if (!gathered_.has_value() || gathered_->released.epoch != epoch || gathered_->released.batch != batch) {
    // A resumed run may ask for a different batch than the one that was prepared; it is then gathered here.
    const bool is_ahead = ahead_.has_value() && ahead_->epoch == epoch && ahead_->batch == batch;
    gathered_ = is_ahead ? ahead_->gathered.get() : Gather(epoch, batch, PositionsOf(epoch, batch));
    ahead_.reset();
  }
  return *gathered_;
}

LocalBatch BatchSource::Take(uint32_t epoch, uint32_t batch) {
  (void)Gathered(epoch, batch);
  LocalBatch own = *std::move(gathered_);
  gathered_.reset();
  const bool ends_epoch = int64_t{batch} + 1 == batches_per_epoch();
  GatherAhead(epoch + (ends_epoch ? 1 : 0), ends_epoch ? 0 : batch + 1);
  return own;
}

void BatchSource::GatherAhead(uint32_t epoch, uint32_t batch) {
  if (int64_t{epoch} >= data_.schedule.epochs()) {
    return;
  }
  // Without a thread to be had, it is gathered when it is asked for.
  ahead_ = {epoch, batch, std::async([this, epoch, batch, order = data_.schedule.DrawAhead(epoch)] {
              return Gather(epoch, batch, data_.schedule.RowsIn(order, batch));
            })};
}

int64_t BatchSource::test_rows(uint32_t batch) const {
  return std::clamp<int64_t>(test_examples() - int64_t{batch} * options_.batch_size, 0, options_.batch_size);
}

FeatureBatch BatchSource::TestFeatures(uint32_t batch) const {
  const auto first = static_cast<size_t>(int64_t{batch} * options_.batch_size);
  return data_.features->Gather(absl::MakeConstSpan(data_.test).subspan(first, static_cast<size_t>(test_rows(batch))));
}

std::vector<uint8_t> BatchSource::AuditedLabelsOf(absl::Span<const uint32_t> positions) const {
  std::vector<uint8_t> labels;
  labels.reserve(positions.size());
  for (const uint32_t position : positions) {
    labels.push_back(data_.audited.Of(data_.LabelAt(position)));
  }
  return labels;
}

}  // namespace splitveil
