// A run with mode PREDICT at the label party: outputs of the trained model for every shared example, as a file; or what
// they are computed from, as a version for `label_party serve`.
#ifndef SPLITVEIL_LABEL_PARTY_SESSION_RUN_PREDICTION_H_
#define SPLITVEIL_LABEL_PARTY_SESSION_RUN_PREDICTION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/stored_version.h"
#include "common/dataset/dataset.h"
#include "common/dataset/feature_table.h"
#include "common/ledger/ledger.h"
#include "common/matrix/matrix.h"
#include "label_party/audit/leak_auditor.h"
#include "label_party/session/run.h"
#include "label_party/top/top_model.h"
#include "label_party/training/step_recorder.h"

namespace splitveil {

//   Evaluate  activations of the shared examples, in the aligned order, batch_size rows a message
//   (end)     predictions_path and the next of versions_path are written; with labels at hand, metrics go to ledger and
//             report
//   Close
//
// No gradient is computed and no label is used in an answer: the peer learns nothing but which examples are shared. A
// stream that broke is sent again from its start. Not thread-safe.
class RunPrediction final : public RunWork {
 public:
  struct Inputs {
    std::string run_id;
    absl::Span<const uint32_t> rows;            // This party's row of each aligned position; must outlive the run.
    std::string alignment;                      // AlignmentName.
    std::shared_ptr<const Checkpoint> trained;  // Of both heads, or of one.
    Ledger* ledger = nullptr;                   // Not owned; must outlive this.
  };

  // `run`: not owned; must outlive this. Errors: InvalidArgument if the checkpoint does not fit the model.
  static absl::StatusOr<std::unique_ptr<RunPrediction>> Create(Run* run, Inputs inputs);

  absl::Status Evaluate(const v1::CutActivations& request, TestEvaluation& evaluation) override;
  // Errors: FailedPrecondition unless every shared example has come; those of WritePredictions and VersionWriter, which
  // end the run.
  absl::StatusOr<v1::EvaluateResponse> FinishEvaluation(const TestEvaluation& evaluation) override;
  absl::Status Complete() override;

  void Ended(const char* ended) override { recorder_->result().ended = ended; }

  const ModelState& model() const override { return *model_; }
  RunFigures figures() const override;

 private:
  RunPrediction(Run* run, Inputs inputs, std::unique_ptr<TopModel> model);

  // Rows of batch `batch`: none after the last.
  int64_t BatchRows(uint32_t batch) const;
  // Of a batch. The peer may choose activations for which the outputs are not finite if, and only if, the head has
  // learned one label rather than the other. So the run goes on and ends like any other, the cells in question say
  // nothing, and only this party reports a failure (RunEnd::SetOwnVerdict).
  std::vector<float> Outputs(ConstMatrixView activations, const FeatureBatch& own);
  // Into the version, where one is written: it begins with batch 0, again where the stream does.
  absl::Status Store(uint32_t batch, ConstMatrixView activations);
  absl::Status Keep(const std::vector<float>& outputs);
  // Which of the rows the model was trained on; none if these are not the data of the training.
  std::vector<size_t> TrainedOn() const;
  // Makes the version one that can be served.
  absl::Status Publish(absl::Span<const float> outputs, const std::vector<size_t>& trained_on);
  // What answers of the stored version on training rows tell of their labels, by `outputs` and `labels` of all rows.
  absl::Status RecordTrainingPart(absl::Span<const float> outputs, absl::Span<const float> labels,
                                  const std::vector<size_t>& trained_on);

  Run* const run_;
  const Inputs inputs_;
  const FeatureTable features_;  // Own ones.
  const std::unique_ptr<TopModel> model_;
  const LeakAuditor auditor_;  // Of no attack: nothing is released.
  const std::unique_ptr<StepRecorder> recorder_;
  std::unique_ptr<VersionWriter> version_;  // Null: none is written, or not yet.
  bool predicted_ = false;
};

// Writes `path` as CSV (RFC 4180), readable by its owner alone, complete or not at all: the id of each of `rows`
// [examples] of `data` as the table writes it, and of its `outputs` [examples * data.task().outputs()], as
// TopPredictor::Predict has them,
//   "id,probability": of the positive label;
//   "id,CLASS,...": the probability of each class of the schema, in its order;
//   "id,prediction": the number, in the unit of the table, within the schema's target range.
// Errors: AlreadyExists if `path` is of another file than an earlier table with the same first line; those of
// PendingFile. Thread-safe.
absl::Status WritePredictions(const std::string& path, const Dataset& data, absl::Span<const uint32_t> rows,
                              absl::Span<const float> outputs);

// Whether WritePredictions may replace what `path` is of, if anything: AlreadyExists if it may not.
absl::Status CheckPredictionPath(const std::string& path, const Dataset& data);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SESSION_RUN_PREDICTION_H_
