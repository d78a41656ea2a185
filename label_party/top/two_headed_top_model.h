// Two heads on the same activations: one computes what leaves and never sees a label, the other predicts.
#ifndef SPLITVEIL_LABEL_PARTY_TOP_TWO_HEADED_TOP_MODEL_H_
#define SPLITVEIL_LABEL_PARTY_TOP_TWO_HEADED_TOP_MODEL_H_

#include <memory>

#include "label_party/top/top_model.h"

namespace splitveil {

// Of two models for the same activations and own features. The release head learns from the targets alone: cut
// gradients, residuals, probabilities and ProbeCutGradient are its own, so that whatever leaves is a function of the
// targets, of activations and of own features. The prediction head learns from the labels, within Update and thus once
// the gradients have left; Predict, Parameters and the export are its. TopStep.mean_loss is the release head's loss of
// the labels, which only this party reads.
//
// A prediction head that diverges, in training or prediction, is no error, since the end of a run would tell of labels:
// it learns no more, Predict gives logits of 0, and a warning in the log says so.
//
// TrainingState holds both; what is the release head's under "release_head.NAME". SetTrainingState refuses a state
// without it, such as a checkpoint of a run with one head: parameters that have learned from labels must not release.
std::unique_ptr<TopModel> MakeTwoHeadedTopModel(std::unique_ptr<TopModel> release_head,
                                                std::unique_ptr<TopModel> prediction_head);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_TOP_TWO_HEADED_TOP_MODEL_H_
