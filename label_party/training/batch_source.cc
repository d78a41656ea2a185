#include "label_party/training/batch_source.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "absl/memory/memory.h"

#include "common/crypto/invariant.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

template <typename Value>
std::vector<Value> Selected(const std::vector<Value>& values, absl::Span<const uint32_t> positions) {
  std::vector<Value> selected;
  selected.reserve(positions.size());
  for (const uint32_t position : positions) {
    selected.push_back(values[position]);
  }
  return selected;
}

}  // namespace

absl::StatusOr<std::unique_ptr<EpochTargets>> EpochTargets::Create(Options options) {
  const uint32_t first_epoch = options.first_epoch;
  auto targets = absl::WrapUnique(new EpochTargets(std::move(options)));
  SPLITVEIL_RETURN_IF_ERROR(targets->Draw(first_epoch));
  if (targets->options_.source->draws() == 1) {  // What later draws would be made of.
    targets->options_.examples = {};
    targets->options_.labels = {};
    targets->options_.positions = {};
  }
  return targets;
}

void EpochTargets::BeginEpoch(uint32_t epoch) {
  const uint32_t last = options_.source->draws() - 1;
  if (std::min(epoch, last) != std::min(epoch_, last)) {
    // Draws that have no targets of their own repeat the last one: a new draw would be a release that nobody counted.
    CheckInvariant(Draw(epoch).ok(), "LabelTargets: only the first targets of a run can fail");
  }
  epoch_ = epoch;
}

absl::Status EpochTargets::Draw(uint32_t epoch) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<float> drawn,
                             options_.source->TrainingTargets(options_.examples, options_.labels, epoch));
  epoch_ = epoch;
  const size_t outputs = options_.outputs;
  // NaN where nothing was drawn: a test example that is trained on by mistake fails at once.
  targets_.assign(outputs * options_.aligned, std::numeric_limits<float>::quiet_NaN());
  for (size_t i = 0; i < options_.positions.size(); ++i) {
    std::copy_n(drawn.begin() + static_cast<std::ptrdiff_t>(outputs * i), outputs,
                targets_.begin() + static_cast<std::ptrdiff_t>(outputs * options_.positions[i]));
  }
  return absl::OkStatus();
}

BatchSource::BatchSource(TrainingData data, const Options& options) : data_(std::move(data)), options_(options) {}

LocalBatch BatchSource::Gather(uint32_t epoch, uint32_t batch) {
  const absl::Span<const uint32_t> positions = data_.schedule.BatchRows(epoch, batch);
  LocalBatch own;
  own.released.epoch = epoch;
  own.released.batch = batch;
  own.released.positions.assign(positions.begin(), positions.end());
  own.released.labels = AuditedLabelsOf(positions);
  AddCandidates(own.released);
  own.cuts = BatchSlices(static_cast<int64_t>(positions.size()), options_.in_flight_batches);
  for (const RowRange& rows : own.cuts.Computed(options_.needs_whole_batch)) {
    own.features.push_back(data_.features->Gather(positions.subspan(rows.first, rows.rows)));
  }
  own.labels = Selected(data_.labels, positions);
  if (data_.targets != nullptr) {
    data_.targets->BeginEpoch(epoch);
    own.target_noise = data_.targets->noise();
    own.targets.reserve(static_cast<size_t>(data_.task.outputs()) * positions.size());
    for (uint32_t position : positions) {
      const absl::Span<const float> of_example = data_.targets->At(position);
      own.targets.insert(own.targets.end(), of_example.begin(), of_example.end());
    }
  }
  return own;
}

void BatchSource::AddCandidates(ReleasedBatch& batch) const {
  if (data_.task.kind == Task::Kind::kBinary) {
    return;
  }
  for (const uint32_t position : batch.positions) {
    const float label = data_.labels[position];
    batch.candidates.push_back(CandidatesOf(data_.task, label, position));
    batch.is_higher.push_back(label == batch.candidates.back().high ? 1 : 0);
  }
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
  return own;
}

void BatchSource::Prefetch(uint32_t epoch, uint32_t batch) {
  // Not across epochs: the next one has targets of its own, and may not come at all.
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

std::vector<float> BatchSource::TestLabels() const { return Selected(data_.labels, data_.test); }

std::vector<uint8_t> BatchSource::AuditedLabelsOf(absl::Span<const uint32_t> positions) const {
  return Selected(data_.audited_labels, positions);
}

}  // namespace splitveil
