// The evaluations of a run at the label party: outputs for test examples, batch by batch.
#ifndef SPLITVEIL_LABEL_PARTY_TRAINING_TEST_EVALUATOR_H_
#define SPLITVEIL_LABEL_PARTY_TRAINING_TEST_EVALUATOR_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/crypto/digest.h"
#include "common/matrix/matrix.h"
#include "label_party/top/top_model.h"
#include "label_party/training/batch_source.h"
#include "label_party/training/step_recorder.h"

#include "splitveil/v1/split_training.pb.h"

namespace splitveil {

// Outputs for the test examples of one Evaluate stream, before they count.
struct TestEvaluation {
  uint32_t epoch = 0;
  uint32_t next_batch = 0;
  bool repeated = false;       // It has counted before; nothing of this one is looked at.
  std::vector<float> outputs;  // TopPredictor::Predict of the examples so far.
  Digest activations = {};     // Of theirs: SHA-256 of that of the batches before and the latest one's.
};

// Not thread-safe.
class TestEvaluator {
 public:
  // `source`, `model`, `recorder`: not owned; must outlive this.
  TestEvaluator(int64_t cut_width, v1::DataType wire_dtype, BatchSource* source, TopPredictor* model,
                StepRecorder* recorder)
      : cut_width_(cut_width), wire_dtype_(wire_dtype), source_(source), model_(model), recorder_(recorder) {}

  // The activations of evaluation.next_batch, which `request` is said to be. Errors: FailedPrecondition where all test
  // examples have come; those of DecodeMatrix.
  absl::StatusOr<Matrix> Read(const v1::CutActivations& request, const TestEvaluation& evaluation) const;

  // Adds its outputs. Errors: those of the model.
  absl::Status Predict(ConstMatrixView activations, TestEvaluation& evaluation);

  // How many examples it has outputs for.
  int64_t examples(const TestEvaluation& evaluation) const {
    return static_cast<int64_t>(evaluation.outputs.size()) / source_->task().outputs();
  }

  // Metrics of a whole evaluation, recorded. `epoch` -1: before the first. Errors: as
  // StepRecorder::RecordEvaluation.
  absl::Status Finish(int64_t epoch, const TestEvaluation& evaluation);

 private:
  const int64_t cut_width_;
  const v1::DataType wire_dtype_;
  BatchSource* const source_;
  TopPredictor* const model_;
  StepRecorder* const recorder_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_TRAINING_TEST_EVALUATOR_H_
