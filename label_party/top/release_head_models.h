// Top models of gaussian_label_dp: a release head learns from noised labels and computes all that is sent.
#ifndef SPLITVEIL_LABEL_PARTY_TOP_RELEASE_HEAD_MODELS_H_
#define SPLITVEIL_LABEL_PARTY_TOP_RELEASE_HEAD_MODELS_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/model/model_state.h"
#include "label_party/top/top_model.h"

namespace splitveil {

// TrainingState of each head; empty if there is none.
struct HeadStates {
  NamedParameters releasing, predicting;
};

// One state: the prediction head's, and the release head's under "release_head.NAME".
NamedParameters JoinHeads(HeadStates heads);
// The way back. Error: InvalidArgument if there is no release head: parameters that have learned from labels must
// not release.
absl::StatusOr<HeadStates> SplitHeads(const NamedParameters& state);
// The parameters that predict: of `state` itself where there is one head; else of the prediction head, unless the
// release head also predicts or the prediction head has diverged.
NamedParameters PredictingHead(const NamedParameters& state);

// Of two models for the same activations and own features. The release head learns from the targets alone: cut
// gradients, residuals, probabilities and OutputDirections are its own, so that all that is sent is a function of the
// targets, of activations and of own features. The prediction head learns from the labels, after Update and thus once
// the gradients were sent; Predict, Parameters and the export are its. TopStep.mean_loss is the release head's loss of
// the labels, which only this party reads.
//
// Update copies the batch and hands it to a thread of the prediction head's, so that the next batch need not wait for
// it. Whatever asks the prediction head, the next Update and the destructor wait for that thread; it makes the calls in
// the order in which one thread would, and the numbers are the same. If a batch must
// come whole (TorchScript, which draws from a generator that all threads of the process share) Update waits for it,
// too.
//
// A prediction head that diverges, in training or prediction, is no error, since the end of a run would reveal labels:
// it stops learning, Predict gives outputs of 0, and a warning in the log says so. The export is as it diverged.
//
// TrainingState holds both; what is the release head's under "release_head.NAME". That of a prediction head that has
// diverged is left out: no checkpoint holds a number of its that is not finite. A state without it, SetTrainingState
// takes, and the prediction head stays as it is: a run that resumes from such a checkpoint starts it from fresh
// weights. SetTrainingState refuses a state without the release head's, such as a checkpoint of a run with one head:
// parameters that have learned from labels must not release.
//
// `outputs`: Task.outputs() of both. Errors: Internal if no thread can be started.
absl::StatusOr<std::unique_ptr<TopModel>> MakeTwoHeadedTopModel(std::unique_ptr<TopModel> release_head,
                                                                std::unique_ptr<TopModel> prediction_head,
                                                                int64_t outputs);

// `head`, which learns from targets alone: a ForwardBackward without any is InvalidArgument. All that it computes, its
// predictions and parameters too, is a function of targets, activations and own features. Only TopStep.mean_loss is
// computed from the labels; only this party reads it. One-headed and two-headed models take each other's TrainingState:
// it is the two-headed one's without the prediction head, which SetTrainingState ignores. SetTrainingState refuses a
// model that has learned from labels.
std::unique_ptr<TopModel> MakeOneHeadedTopModel(std::unique_ptr<TopModel> head);

// Has the release head of a fresh model of either kind begin with these outputs for whatever example, but for what its
// random weights make of it: "logit.bias" [outputs]. A TorchScript model has none, and stays as it is. Errors: as
// SetTrainingState.
absl::Status BeginWithOutputs(absl::Span<const float> outputs, TopModel& model);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_TOP_RELEASE_HEAD_MODELS_H_
