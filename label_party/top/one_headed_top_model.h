// One head that computes what leaves and predicts, and never sees a label.
#ifndef SPLITVEIL_LABEL_PARTY_TOP_ONE_HEADED_TOP_MODEL_H_
#define SPLITVEIL_LABEL_PARTY_TOP_ONE_HEADED_TOP_MODEL_H_

#include <memory>

#include "label_party/top/top_model.h"

namespace splitveil {

// `head`, which learns from targets alone: a ForwardBackward without any is InvalidArgument. All that it computes, its
// predictions and parameters too, is a function of targets, activations and own features; TopStep.mean_loss is that of
// the labels, which only this party reads. Its TrainingState is that of the release head of a TwoHeadedTopModel without
// the other one, and either takes what the other has kept: SetTrainingState leaves a prediction head out, and refuses a
// model that has learned from labels.
std::unique_ptr<TopModel> MakeOneHeadedTopModel(std::unique_ptr<TopModel> head);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_TOP_ONE_HEADED_TOP_MODEL_H_
