// Top models of gaussian_label_dp: a release head learns from noised labels and computes all that is sent.
#ifndef SPLITVEIL_LABEL_PARTY_TOP_RELEASE_HEAD_MODELS_H_
#define SPLITVEIL_LABEL_PARTY_TOP_RELEASE_HEAD_MODELS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"

#include "common/model/model_state.h"
#include "label_party/top/top_model.h"

namespace splitveil {

// TrainingState of each head; empty where there is none.
struct HeadStates {
  NamedParameters releasing, predicting;
};

// One state: the prediction head's, and the release head's under "release_head.NAME".
NamedParameters JoinHeads(HeadStates heads);
// The way back. Error: InvalidArgument where there is no release head: parameters that have learned from labels must
// not release.
absl::StatusOr<HeadStates> SplitHeads(const NamedParameters& state);

// Of two models for the same activations and own features. The release head learns from the targets alone: cut
// gradients, residuals, probabilities and OutputDirections are its own, so that whatever leaves is a function of the
// targets, of activations and of own features. The prediction head learns from the labels, after Update and thus once
// the gradients were sent; Predict, Parameters and the export are its. TopStep.mean_loss is the release head's loss of
// the labels, which only this party reads.
//
// Update copies the batch and hands it to a thread of the prediction head's, so that the next batch need not wait for
// it. Whatever asks the prediction head, the next Update and the destructor wait for that thread; it makes the calls in
// the order in which one thread would, and the numbers are the same. Where a batch must
// come whole (TorchScript, which draws from a generator that all threads of the process share) Update waits for it,
// too.
//
// A prediction head that diverges, in training or prediction, is no error, since the end of a run would tell of labels:
// it stops learning, Predict gives outputs of 0, and a warning in the log says so. The export is as it diverged.
//
// TrainingState holds both; what is the release head's under "release_head.NAME". That of a prediction head that has
// diverged is left out: no checkpoint holds a number of its that is not finite. A state without it, SetTrainingState
// takes, and the prediction head stays as it is: a run that resumes from such a checkpoint starts it from fresh
// weights. SetTrainingState refuses a state without the release head's, such as a checkpoint of a run with one head:
// parameters that have learned from labels must not release.
//
// `outputs`: Task.outputs() of both. Errors: Internal where no thread can be started.
absl::StatusOr<std::unique_ptr<TopModel>> MakeTwoHeadedTopModel(std::unique_ptr<TopModel> release_head,
                                                                std::unique_ptr<TopModel> prediction_head,
                                                                int64_t outputs);

// `head`, which learns from targets alone: a ForwardBackward without any is InvalidArgument. All that it computes, its
// predictions and parameters too, is a function of targets, activations and own features; TopStep.mean_loss is that of
// the labels, which only this party reads. Its TrainingState is that of the release head of a TwoHeadedTopModel without
// the other one, and either takes what the other has kept: SetTrainingState leaves a prediction head out, and refuses a
// model that has learned from labels.
std::unique_ptr<TopModel> MakeOneHeadedTopModel(std::unique_ptr<TopModel> head);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_TOP_RELEASE_HEAD_MODELS_H_
