#include "label_party/training/own_features.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <random>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/matrix/matrix.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr size_t kMostRows = 200'000;  // Seconds, whatever the run takes.

// `positions`, a batch at a time: `use` takes the batch and its features.
template <typename Use>
absl::Status EachBatch(const TrainingData& data, absl::Span<const uint32_t> positions, int64_t batch_size,
                       const Use& use) {
  for (size_t first = 0; first < positions.size(); first += static_cast<size_t>(batch_size)) {
    const absl::Span<const uint32_t> batch = positions.subspan(first, static_cast<size_t>(batch_size));
    SPLITVEIL_RETURN_IF_ERROR(use(batch, data.features->Gather(batch)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> TrainAndPredict(const TopModelOptions& options, const TrainingData& data,
                                                   int64_t batch_size, int64_t epochs) {
  // The very head of the run on activations of zero: what it reaches is what the own columns say without the peer.
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<TopModel> model, TopModel::Create(options));
  std::vector<uint32_t> positions = data.schedule.positions();
  std::mt19937_64 order(options.seed);
  const int64_t passes = std::clamp<int64_t>(static_cast<int64_t>(kMostRows / positions.size()), 1, epochs);
  for (int64_t pass = 0; pass < passes; ++pass) {
    std::shuffle(positions.begin(), positions.end(), order);
    positions.resize(std::min(positions.size(), kMostRows));
    SPLITVEIL_RETURN_IF_ERROR(EachBatch(
        data, positions, batch_size, [&](absl::Span<const uint32_t> batch, const FeatureBatch& own) -> absl::Status {
          const Matrix zeros(static_cast<int64_t>(batch.size()), options.cut_width);
          SPLITVEIL_RETURN_IF_ERROR(model->ForwardBackward(zeros, own, data.LabelsAt(batch), {}).status());
          return model->Update();
        }));
  }
  std::vector<float> outputs;
  SPLITVEIL_RETURN_IF_ERROR(EachBatch(data, TestedPositions(data), batch_size,
                                      [&](absl::Span<const uint32_t> batch, const FeatureBatch& own) -> absl::Status {
                                        const Matrix zeros(static_cast<int64_t>(batch.size()), options.cut_width);
                                        SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<float> predicted,
                                                                   model->Predict(zeros, own));
                                        outputs.insert(outputs.end(), predicted.begin(), predicted.end());
                                        return absl::OkStatus();
                                      }));
  return outputs;
}

}  // namespace

std::optional<std::vector<float>> PredictFromOwnFeatures(const TopModelOptions& options, const TrainingData& data,
                                                         int64_t batch_size, int64_t epochs) {
  if (options.features.numeric + options.features.categorical == 0 || TestedPositions(data).empty()) {
    return std::nullopt;
  }
  TopModelOptions alone = options;
  // A figure for the report only: if it cannot be had, the run goes on without it.
  alone.cut_gradient = false;  // Nobody reads it.
  absl::StatusOr<std::vector<float>> outputs = TrainAndPredict(alone, data, batch_size, epochs);
  // Nor if training diverges: it is of true labels, which decide that, and the peer would see that Start fails.
  const bool is_usable =
      outputs.ok() && std::all_of(outputs->begin(), outputs->end(), [](float output) { return std::isfinite(output); });
  return is_usable ? std::optional(*std::move(outputs)) : std::nullopt;
}

std::vector<uint32_t> TestedPositions(const TrainingData& data) {
  const size_t tests = data.test.size() - static_cast<size_t>(data.validation_examples);
  return {data.test.begin(), data.test.begin() + static_cast<std::ptrdiff_t>(std::min(tests, kMostRows))};
}

}  // namespace splitveil
