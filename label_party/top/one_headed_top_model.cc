#include "label_party/top/one_headed_top_model.h"

#include <string>
#include <utility>
#include <vector>

#include "common/status/status_macros.h"
#include "label_party/top/release_head_state.h"

namespace splitveil {
namespace {

class OneHeadedTopModel final : public TopModel {
 public:
  explicit OneHeadedTopModel(std::unique_ptr<TopModel> head) : head_(std::move(head)) {}

  bool needs_whole_batch() const override { return head_->needs_whole_batch(); }

  absl::StatusOr<TopStep> ForwardBackward(ConstMatrixView activations, const FeatureBatch& own,
                                          absl::Span<const float> labels, const TrainingTargets& targets) override {
    return targets.values.empty() ? absl::InvalidArgumentError("targets of the release head: expected them, found none")
                                  : head_->ForwardBackward(activations, own, labels, targets);
  }

  absl::StatusOr<Matrix> OutputDirections() const override { return head_->OutputDirections(); }
  absl::Status Update() override { return head_->Update(); }
  absl::StatusOr<Matrix> ProbeCutGradient(ConstMatrixView activations, const FeatureBatch& own,
                                          absl::Span<const float> labels) override {
    return head_->ProbeCutGradient(activations, own, labels);
  }

  absl::StatusOr<std::vector<float>> Predict(ConstMatrixView activations, const FeatureBatch& own) override {
    return head_->Predict(activations, own);
  }

  NamedParameters Parameters() const override { return head_->Parameters(); }
  absl::Status SetParameters(const NamedParameters& parameters) override { return head_->SetParameters(parameters); }
  NamedParameters TrainingState() const override { return JoinHeads({head_->TrainingState(), {}}); }
  absl::Status SetTrainingState(const NamedParameters& state) override {
    SPLITVEIL_ASSIGN_OR_RETURN(const HeadStates heads, SplitHeads(state));
    return head_->SetTrainingState(heads.releasing);
  }
  absl::Status ExportTo(const std::string& folder) const override { return head_->ExportTo(folder); }

 private:
  const std::unique_ptr<TopModel> head_;
};

}  // namespace

std::unique_ptr<TopModel> MakeOneHeadedTopModel(std::unique_ptr<TopModel> head) {
  return std::make_unique<OneHeadedTopModel>(std::move(head));
}

}  // namespace splitveil
