#include "label_party/top/two_headed_top_model.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "common/status/status_macros.h"
#include "common/telemetry/log.h"

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
    if (!diverged_) {
      Note(TrainPrediction(slices));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Matrix> ProbeCutGradient(ConstMatrixView activations, const FeatureBatch& own,
                                          absl::Span<const uint8_t> labels) override {
    return release_->ProbeCutGradient(activations, own, labels);
  }

  absl::StatusOr<std::vector<float>> Predict(ConstMatrixView activations, const FeatureBatch& own) override {
    if (!diverged_) {
      absl::StatusOr<std::vector<float>> logits = prediction_->Predict(activations, own);
      if (logits.ok() &&
          !std::all_of(logits->begin(), logits->end(), [](float logit) { return std::isfinite(logit); })) {
        logits = absl::InternalError("a logit is not finite");
      }
      Note(logits.status());
      if (!diverged_) {
        return logits;
      }
    }
    return std::vector<float>(static_cast<size_t>(activations.rows()), 0);
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

  absl::Status TrainPrediction(const std::vector<Slice>& slices) {
    for (const Slice& slice : slices) {
      SPLITVEIL_RETURN_IF_ERROR(
          prediction_->ForwardBackward(slice.activations, *slice.own, slice.labels, /*targets=*/{}).status());
    }
    return prediction_->Update();
  }

  // That a run ends, or goes on, must not tell of labels: this head's failures are for this party's log alone.
  void Note(const absl::Status& status) {
    if (!status.ok()) {
      diverged_ = true;
      LogWarning("the prediction head learns no more, and predicts 0.5 from here on: ", status.message());
    }
  }

  const std::unique_ptr<TopModel> release_, prediction_;
  bool diverged_ = false;        // The prediction head.
  std::vector<Slice> awaiting_;  // Since the last Update.
};

}  // namespace

std::unique_ptr<TopModel> MakeTwoHeadedTopModel(std::unique_ptr<TopModel> release_head,
                                                std::unique_ptr<TopModel> prediction_head) {
  return std::make_unique<TwoHeadedTopModel>(std::move(release_head), std::move(prediction_head));
}

}  // namespace splitveil
