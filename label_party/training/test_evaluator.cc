#include "label_party/training/test_evaluator.h"

#include "common/crypto/sha256.h"
#include "common/status/status_macros.h"
#include "common/transport/tensor_codec.h"

namespace splitveil {

absl::StatusOr<Matrix> TestEvaluator::Read(const v1::CutActivations& request, const TestEvaluation& evaluation) const {
  const int64_t rows = source_->test_rows(evaluation.next_batch);
  if (rows == 0) {
    return absl::FailedPreconditionError("evaluation: expected no more test examples, found a further batch");
  }
  return DecodeMatrix(request.activations(), {"activations", wire_dtype_, rows, cut_width_, kCutMagnitudeLimit});
}

absl::Status TestEvaluator::Predict(ConstMatrixView activations, TestEvaluation& evaluation) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<float> predicted,
                             model_->Predict(activations, source_->TestFeatures(evaluation.next_batch)));
  evaluation.outputs.insert(evaluation.outputs.end(), predicted.begin(), predicted.end());
  Sha256Hasher digest;
  digest.Update(AsBytes(evaluation.activations));
  digest.Update(
      {reinterpret_cast<const char*>(activations.data()), static_cast<size_t>(activations.size()) * sizeof(float)});
  evaluation.activations = digest.Finish();
  ++evaluation.next_batch;
  return absl::OkStatus();
}

absl::Status TestEvaluator::Finish(int64_t epoch, const TestEvaluation& evaluation) {
  return recorder_->RecordEvaluation(epoch, source_->task(), {evaluation.outputs, source_->TestLabels()},
                                     source_->validation_examples());
}

}  // namespace splitveil
