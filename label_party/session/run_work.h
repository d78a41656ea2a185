// What a run of the label party does between Start and Close, and what is left to do once it has ended.
#ifndef SPLITVEIL_LABEL_PARTY_SESSION_RUN_WORK_H_
#define SPLITVEIL_LABEL_PARTY_SESSION_RUN_WORK_H_

#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/model/model_state.h"
#include "label_party/session/result_json.h"
#include "label_party/session/run.h"
#include "label_party/training/step_recorder.h"

#include "splitveil/v1/split_training.pb.h"

namespace splitveil {

// RunTraining or RunPrediction. The methods named like LabelSession's do what it says of them. Not thread-safe.
class RunWork {
 public:
  virtual ~RunWork() = default;

  virtual absl::Status Evaluate(const v1::CutActivations& request, TestEvaluation& evaluation) = 0;
  virtual absl::StatusOr<v1::EvaluateResponse> FinishEvaluation(const TestEvaluation& evaluation) = 0;
  // Finishes a step whose gradients were sent.
  virtual absl::Status Learn() { return absl::OkStatus(); }
  // Finishes the last step. Errors: FailedPrecondition while messages of the run are still due.
  virtual absl::Status Complete() = 0;

  // Once the run has ended: writes the last rows, while the ledger is still open.
  virtual absl::Status FinishRecords() { return absl::OkStatus(); }
  // After that. `ended`: RunResult::ended.
  virtual void Ended(const char* ended) = 0;

  virtual const ModelState& model() const = 0;
  virtual RunFigures figures() const = 0;
};

// Not thread-safe.
class RunClosing {
 public:
  // Keeps the figures of a run that has ended.
  using KeepReport = std::function<absl::Status(const RunFigures&)>;

  // `keep_report`: null: nowhere. `run`: not owned; must outlive this.
  RunClosing(KeepReport keep_report, Run* run);

  // Last figures, export, ledger, report; the first call does it. `work`: null if it never began. Returns the
  // run's outcome, which is an error, too, where one of these fails.
  absl::Status Finish(RunWork* work);

 private:
  absl::Status FinishLedger(RunWork* work);
  absl::Status Export(const RunWork* work) const;

  const KeepReport keep_report_;
  Run* const run_;
  std::optional<absl::Status> finished_;  // What Finish has returned.
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SESSION_RUN_WORK_H_
