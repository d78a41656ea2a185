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

// Which labels are the positives of an audit, which needs two classes.
struct AuditedSide {
  float value = 1;
  bool above = false;  // All above `value`; else those of this value.

  uint8_t Of(float label) const { return (above ? label > value : label == value) ? 1 : 0; }
};

// The party's data of a run, in aligned order. Labels and features are read where the prepared data are mapped.
struct TrainingData {
  std::unique_ptr<FeatureTable> features;  // Own ones.
  Task task;
  AuditedSide audited;                    // ReleasedBatch.labels.
  std::shared_ptr<LabelTargets> targets;  // What h trains on instead; has counted the training. Null: the labels.
  Schedule schedule;
  // Positions that are evaluated: TrainTestSplit::Evaluated; all, under progressive_validation.
  std::vector<uint32_t> test;
  int64_t validation_examples = 0;  // The last so many of them.

  // 0 or 1, a class, or a number in [0, 1].
  float LabelAt(uint32_t position) const;
  std::vector<float> LabelsAt(absl::Span<const uint32_t> positions) const;
};

// Splits and schedules the aligned `rows` of `dataset`, as the agreement says and `seed` decides. `rows`: not owned;
// must outlive the data. `targets`: null where the labels themselves are trained on. Memory: a position an example, and
// a bit. Error: InvalidArgument if too few examples are left to train on.
absl::StatusOr<TrainingData> MakeTrainingData(const v1::RunAgreement& agreement, const v1::LabelSideAudit& audit,
                                              const JointSeed& seed, const std::shared_ptr<const Dataset>& dataset,
                                              absl::Span<const uint32_t> rows, std::shared_ptr<LabelTargets> targets);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_TRAINING_TRAINING_DATA_H_
