// The label party's data of a run, made of its prepared data once the aligned rows are known.
#ifndef SPLITVEIL_LABEL_PARTY_TRAINING_TRAINING_DATA_H_
#define SPLITVEIL_LABEL_PARTY_TRAINING_TRAINING_DATA_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/dataset/dataset.h"
#include "common/dataset/feature_table.h"
#include "common/dataset/task.h"
#include "common/schedule/schedule.h"
#include "label_party/label_privacy/label_targets.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {

// The party's data of a run, in aligned order.
struct TrainingData {
  std::unique_ptr<FeatureTable> features;  // Own ones.
  Task task;
  std::vector<float> labels;              // 0 or 1, a class, or a number in [0, 1].
  std::vector<uint8_t> audited_labels;    // ReleasedBatch.labels.
  std::shared_ptr<LabelTargets> targets;  // What h trains on instead; has counted the training. Null: the labels.
  Schedule schedule;
  // Positions that are evaluated: TrainTestSplit::Evaluated; all, under progressive_validation.
  std::vector<uint32_t> test;
  int64_t validation_examples = 0;  // The last so many of them.
};

// Splits and schedules the aligned `rows` of `dataset`, as the agreement says and `seed` decides, and copies their
// labels; features are read as they are needed. `targets`: null where the labels themselves are trained on. Memory: 5
// bytes and one position an example. Error: InvalidArgument if too few examples are left to train on.
absl::StatusOr<TrainingData> MakeTrainingData(const v1::RunAgreement& agreement, const v1::LabelSideAudit& audit,
                                              const JointSeed& seed, const std::shared_ptr<const Dataset>& dataset,
                                              absl::Span<const uint32_t> rows, std::shared_ptr<LabelTargets> targets);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_TRAINING_TRAINING_DATA_H_
