#include "label_party/top/two_headed_top_model.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr char kReleasePrefix[] = "release_head.";

class TwoHeadedTopModel final : public TopModel {
 public:
  TwoHeadedTopModel(std::unique_ptr<TopModel> release_head, std::unique_ptr<TopModel> prediction_head)
      : release_(std::move(release_head)), prediction_(std::move(prediction_head)) {}

  bool needs_whole_batch() const override { return release_->needs_whole_batch() || prediction_->needs_whole_batch(); }

  absl::StatusOr<TopStep> ForwardBackward(ConstMatrixView activations, const FeatureBatch& own,
                                          absl::Span<const uint8_t> labels, absl::Span<const float> targets) override {
    if (targets.size() != labels.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("targets of the release head: expected ", labels.size(), ", found ", targets.size()));
    }
    absl::StatusOr<TopStep> head = release_->ForwardBackward(activations, own, labels, targets);
    if (head.ok()) {
      awaiting_.push_back({activations, &own, {labels.begin(), labels.end()}});
    } else {
      awaiting_.clear();
    }
    return head;
  }

  absl::Status Update() override {
    const std::vector<Slice> slices = std::move(awaiting_);
    awaiting_.clear();
    SPLITVEIL_RETURN_IF_ERROR(release_->Update());
    for (const Slice& slice : slices) {
      SPLITVEIL_RETURN_IF_ERROR(
          prediction_->ForwardBackward(slice.activations, *slice.own, slice.labels, /*targets=*/{}).status());
    }
    return prediction_->Update();
  }

  absl::StatusOr<Matrix> ProbeCutGradient(ConstMatrixView activations, const FeatureBatch& own,
                                          absl::Span<const uint8_t> labels) override {
    return release_->ProbeCutGradient(activations, own, labels);
  }

  absl::StatusOr<std::vector<float>> Predict(ConstMatrixView activations, const FeatureBatch& own) override {
    return prediction_->Predict(activations, own);
  }

  NamedParameters Parameters() const override { return prediction_->Parameters(); }
  absl::Status SetParameters(const NamedParameters& parameters) override {
    return prediction_->SetParameters(parameters);
  }

  NamedParameters TrainingState() const override {
    NamedParameters state = prediction_->TrainingState();
    for (auto& [name, values] : release_->TrainingState()) {
      state.emplace_back(absl::StrCat(kReleasePrefix, name), std::move(values));
    }
    return state;
  }

  absl::Status SetTrainingState(const NamedParameters& state) override {
    NamedParameters releasing;
    NamedParameters predicting;
    for (const auto& [name, values] : state) {
      absl::string_view bare = name;
      const bool releases = absl::ConsumePrefix(&bare, kReleasePrefix);
      (releases ? releasing : predicting).emplace_back(std::string(bare), values);
    }
    if (releasing.empty()) {
      return absl::InvalidArgumentError(
          "checkpoint: expected the release head of a run with gaussian_label_dp, found a model with one head, which "
          "has learned from the labels themselves");
    }
    const NamedParameters before = release_->TrainingState();
    SPLITVEIL_RETURN_IF_ERROR(release_->SetTrainingState(releasing));
    absl::Status status = prediction_->SetTrainingState(predicting);
    if (!status.ok()) {
      status.Update(release_->SetTrainingState(before));
    }
    return status;
  }

  absl::Status ExportTo(const std::string& folder) const override { return prediction_->ExportTo(folder); }

 private:
  // What the prediction head is to learn from. Borrowed until Update, but for the labels.
  struct Slice {
    ConstMatrixView activations;
    const FeatureBatch* own;
    std::vector<uint8_t> labels;
  };

  const std::unique_ptr<TopModel> release_, prediction_;
  std::vector<Slice> awaiting_;  // Since the last Update.
};

}  // namespace

std::unique_ptr<TopModel> MakeTwoHeadedTopModel(std::unique_ptr<TopModel> release_head,
                                                std::unique_ptr<TopModel> prediction_head) {
  return std::make_unique<TwoHeadedTopModel>(std::move(release_head), std::move(prediction_head));
}

}  // namespace splitveil
