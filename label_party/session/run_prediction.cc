#include "label_party/session/run_prediction.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"

#include "common/crypto/digest.h"
#include "common/dataset/drift_watch.h"
#include "common/process/runtime.h"
#include "common/schedule/train_test_split.h"
#include "common/status/status_macros.h"
#include "common/storage/file_system.h"
#include "common/telemetry/log.h"
#include "common/transport/tensor_codec.h"
#include "label_party/top/predicted_values.h"
#include "label_party/top/release_head_models.h"
#include "label_party/training/label_checks.h"
#include "label_party/training/training.h"

namespace splitveil {
namespace {

RunResult Beginnings(const RunContext& run, const RunPrediction::Inputs& inputs) {
  RunResult result;
  result.run_id = inputs.run_id;
  result.task = run.data->task();
  result.protection = "none";
  result.aligned_examples = static_cast<int64_t>(inputs.rows.size());
  result.resumed_from = inputs.trained->name();
  return result;
}

std::string Cell(absl::string_view text) {
  // RFC 4180 quotes on demand; readers drop outer spaces that are not quoted.
  const bool plain = text.find_first_of(",\"\r\n") == absl::string_view::npos && !absl::StartsWith(text, " ") &&
                     !absl::EndsWith(text, " ");
  return plain ? std::string(text) : absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

std::string Header(const Dataset& data) {
  switch (data.task().kind) {
    case Task::Kind::kBinary:
      return "id,probability\n";
    case Task::Kind::kRegression:
      return "id,prediction\n";
    case Task::Kind::kMultiClass:
      break;
  }
  std::string header = "id";
  for (const std::string& name : data.preprocessing().classes()) {
    absl::StrAppend(&header, ",", Cell(name));
  }
  return header + "\n";
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunPrediction>> RunPrediction::Create(Run* run, Inputs inputs) {
  if (inputs.trained == nullptr) {
    return absl::InvalidArgumentError("party.initial_checkpoint: a prediction needs the trained model: set its path");
  }
  TopModelOptions options = TopOptions(run->context.agreement, run->context.config, *run->context.data);
  // Nothing is released in a prediction, so no gradient at the cut is needed.
  options.cut_gradient = false;
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<TopModel> model, TopModel::Create(options));
  SPLITVEIL_ASSIGN_OR_RETURN(const NamedParameters state, inputs.trained->State());
  SPLITVEIL_RETURN_IF_ERROR(model->SetTrainingState(PredictingHead(state)));
  run->context.data->ReleaseMemory();  // The ids,
  ReturnFreeMemory();                  // and what the alignment used.
  run->context.status->Update([](v1::GetStatusResponse& status) { status.set_phase("predicting"); });
  return std::unique_ptr<RunPrediction>(new RunPrediction(run, std::move(inputs), std::move(model)));
}

RunPrediction::RunPrediction(Run* run, Inputs inputs, std::unique_ptr<TopModel> model)
    : run_(run),
      inputs_(std::move(inputs)),
      features_(run->context.data, std::vector<uint32_t>(inputs_.rows.begin(), inputs_.rows.end())),
      model_(std::move(model)),
      // For the figures' sake only: a prediction releases no gradient, and no attack runs.
      auditor_(run->context.agreement, run->context.config.label_side_audit(),
               ExampleSample(static_cast<int64_t>(inputs_.rows.size())), inputs_.ledger),
      recorder_(
          std::make_unique<StepRecorder>(Beginnings(run->context, inputs_), /*batches_per_epoch=*/1, inputs_.ledger)) {}

int64_t RunPrediction::BatchRows(uint32_t batch) const {
  const int64_t batch_size = run_->context.agreement.batch_size();
  // The last batch may be smaller: unlike in training, no example may be left out.
  return std::clamp<int64_t>(features_.rows() - int64_t{batch} * batch_size, 0, batch_size);
}

absl::Status RunPrediction::Evaluate(const v1::CutActivations& request, TestEvaluation& evaluation) {
  if (predicted_) {  // The answer was lost: any further stream gets the same one.
    evaluation.repeated = true;
    return absl::OkStatus();
  }
  const int64_t rows = BatchRows(evaluation.next_batch);
  // In order and once, so that row i of the file is example i of the alignment.
  if (request.epoch() != 0 || request.batch() != evaluation.next_batch || rows == 0) {
    return absl::FailedPreconditionError(absl::StrCat("prediction: expected batch ", evaluation.next_batch, " of ",
                                                      features_.rows(), " shared examples, found batch ",
                                                      request.batch(), " of epoch ", request.epoch()));
  }
  const v1::RunAgreement& agreement = run_->context.agreement;
  SPLITVEIL_ASSIGN_OR_RETURN(const Matrix activations,
                             DecodeMatrix(request.activations(), {"activations", agreement.wire_dtype(), rows,
                                                                  agreement.cut_width(), kCutMagnitudeLimit}));
  std::vector<uint32_t> positions(static_cast<size_t>(rows));
  std::iota(positions.begin(), positions.end(), evaluation.next_batch * static_cast<uint32_t>(agreement.batch_size()));
  SPLITVEIL_RETURN_IF_ERROR(Store(evaluation.next_batch, activations));
  const std::vector<float> outputs = Outputs(activations, features_.Gather(positions));
  evaluation.outputs.insert(evaluation.outputs.end(), outputs.begin(), outputs.end());
  ++evaluation.next_batch;
  return absl::OkStatus();
}

std::vector<float> RunPrediction::Outputs(ConstMatrixView activations, const FeatureBatch& own) {
  absl::StatusOr<std::vector<float>> outputs = model_->Predict(activations, own);
  absl::Status status = outputs.status();
  if (!outputs.ok()) {
    outputs.emplace(static_cast<size_t>(activations.rows() * run_->context.data->task().outputs()),
                    std::numeric_limits<float>::quiet_NaN());
  } else if (!std::all_of(outputs->begin(), outputs->end(), [](float output) { return std::isfinite(output); })) {
    status = absl::InvalidArgumentError(
        "an output of the model is not a finite number: its weights or the peer's activations are too large");
  }
  if (!status.ok() && run_->end.own_verdict().ok()) {
    LogWarning("this prediction will have no result (the peer is not told): ", status.message());
    run_->end.SetOwnVerdict(std::move(status));
  }
  return *std::move(outputs);
}

absl::StatusOr<v1::EvaluateResponse> RunPrediction::FinishEvaluation(const TestEvaluation& evaluation) {
  if (!predicted_) {
    if (BatchRows(evaluation.next_batch) > 0) {
      return absl::FailedPreconditionError(absl::StrCat("prediction: expected all ", features_.rows(),
                                                        " shared examples, found the first ", evaluation.next_batch,
                                                        " batches of them"));
    }
    // Written before the answer: a peer that was answered may close the run.
    SPLITVEIL_RETURN_IF_ERROR(run_->end.EndUnlessOk(Keep(evaluation.outputs)));
    predicted_ = true;
  }
  v1::EvaluateResponse response;
  response.set_examples(static_cast<uint64_t>(features_.rows()));
  response.set_stop_training(false);
  return response;
}

absl::Status RunPrediction::Store(uint32_t batch, ConstMatrixView activations) {
  const v1::LabelPartyConfig& config = run_->context.config;
  if (config.versions_path().empty()) {
    return absl::OkStatus();
  }
  if (batch == 0) {
    version_.reset();  // Of a stream that broke: its lock goes first.
    v1::VersionHeader header;
    header.set_run_id(inputs_.run_id);
    header.set_checkpoint(inputs_.trained->name());
    header.set_alignment(inputs_.alignment);
    header.set_cut_width(activations.cols());
    absl::StatusOr<std::unique_ptr<VersionWriter>> version = VersionWriter::Create(
        config.versions_path(), std::move(header), inputs_.trained->path(), *run_->context.data, inputs_.rows);
    SPLITVEIL_RETURN_IF_ERROR(run_->end.EndUnlessOk(version.status()));
    version_ = *std::move(version);
  }
  // A stream that broke may still have had a message on its way when the next one began.
  if (version_ == nullptr || version_->rows() != int64_t{batch} * run_->context.agreement.batch_size()) {
    return absl::FailedPreconditionError("prediction: a newer stream has replaced this one");
  }
  return run_->end.EndUnlessOk(version_->Append(activations));
}

absl::Status RunPrediction::Keep(const std::vector<float>& outputs) {
  const Dataset& data = *run_->context.data;
  if (const std::string& path = run_->context.config.predictions_path(); !path.empty()) {
    SPLITVEIL_RETURN_IF_ERROR(WritePredictions(path, data, inputs_.rows, outputs));
    LogInfo("predicted ", inputs_.rows.size(), " examples: ", path);
  }
  // The same work whether or not there is a result: the peer sees how long it takes.
  std::vector<float> finite = outputs;
  std::replace_if(
      finite.begin(), finite.end(), [](float output) { return !std::isfinite(output); }, 0.0F);
  // Published after the file of predictions: a version that is served is a run that was kept.
  const bool is_stored = version_ != nullptr;
  const std::vector<size_t> trained_on = is_stored ? TrainedOn() : std::vector<size_t>();
  SPLITVEIL_RETURN_IF_ERROR(is_stored ? Publish(finite, trained_on) : absl::OkStatus());
  // Labels are optional here. Their metrics stay in this party's ledger.
  if (!data.has_labels()) {
    return absl::OkStatus();
  }
  std::vector<float> labels;
  labels.reserve(inputs_.rows.size());
  for (const uint32_t row : inputs_.rows) {
    labels.push_back(LabelOf(data, row));
  }
  SPLITVEIL_RETURN_IF_ERROR(
      recorder_->RecordEvaluation(/*epoch=*/-1, data.task(), {finite, labels}, /*validation_examples=*/0));
  return trained_on.empty() ? absl::OkStatus() : RecordTrainingPart(finite, labels, trained_on);
}

std::vector<size_t> RunPrediction::TrainedOn() const {
  const Dataset& data = *run_->context.data;
  std::vector<size_t> trained_on;
  // Of other data the split does not say what was trained on.
  if (AsBytes(data.digest()) == inputs_.trained->header().dataset_sha256()) {
    const SplitRule rule(data.preprocessing());
    for (size_t i = 0; i < inputs_.rows.size(); ++i) {
      if (rule.PartOf(data, inputs_.rows[i]) == SplitPart::kTraining) {
        trained_on.push_back(i);
      }
    }
  }
  return trained_on;
}

absl::Status RunPrediction::Publish(absl::Span<const float> outputs, const std::vector<size_t>& trained_on) {
  const Dataset& data = *run_->context.data;
  const auto width = static_cast<size_t>(data.task().outputs());
  std::vector<float> scores;
  scores.reserve(trained_on.size());
  for (const size_t i : trained_on) {
    scores.push_back(WatchedScore(data, PredictedValues(data, outputs.subspan(i * width, width))));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const int64_t number, version_->Publish(CountScores(std::move(scores))));
  version_.reset();
  SPLITVEIL_RETURN_IF_ERROR(inputs_.ledger->RecordEvent(kStoredVersion, absl::StrCat(number)));
  LogInfo("stored version ", number, " of ", inputs_.rows.size(), " examples in ",
          run_->context.config.versions_path());
  return absl::OkStatus();
}

absl::Status RunPrediction::RecordTrainingPart(absl::Span<const float> outputs, absl::Span<const float> labels,
                                               const std::vector<size_t>& trained_on) {
  const Dataset& data = *run_->context.data;
  const auto width = static_cast<size_t>(data.task().outputs());
  std::vector<float> trained_outputs, trained_labels;
  for (const size_t i : trained_on) {
    const absl::Span<const float> of_row = outputs.subspan(i * width, width);
    trained_outputs.insert(trained_outputs.end(), of_row.begin(), of_row.end());
    trained_labels.push_back(labels[i]);
  }
  return recorder_->RecordTrainingPart(data.task(), {trained_outputs, trained_labels});
}

absl::Status RunPrediction::Complete() {
  return predicted_ ? absl::OkStatus()
                    : absl::FailedPreconditionError("Close: the shared examples have not been predicted yet");
}

RunFigures RunPrediction::figures() const {
  RunFigures figures = FiguresOf(recorder_->result(), auditor_);
  figures.only_predicts = true;
  // It releases nothing of the labels, and says nothing of what others did.
  figures.run_auc_bound.reset();
  figures.all_runs_auc_bound.reset();
  return figures;
}

absl::Status WritePredictions(const std::string& path, const Dataset& data, absl::Span<const uint32_t> rows,
                              absl::Span<const float> outputs) {
  const auto width = static_cast<size_t>(data.task().outputs());
  if (outputs.size() != rows.size() * width) {
    return absl::InternalError(
        absl::StrCat("predictions: expected ", rows.size() * width, " outputs, found ", outputs.size()));
  }
  // Checked at the start of the run, too; another program may have written the file since.
  SPLITVEIL_RETURN_IF_ERROR(CheckPredictionPath(path, data));
  if (const int64_t without = data.rows() - static_cast<int64_t>(rows.size()); without > 0) {
    LogWarning(without, " of ", data.rows(), " own rows have no prediction: the other party's data lack their ids");
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<PendingFile> file, PendingFile::Create(path));
  SPLITVEIL_RETURN_IF_ERROR(file->Append(Header(data)));
  // Line by line, so that millions of rows need no second copy in memory.
  std::string line;
  for (size_t i = 0; i < rows.size(); ++i) {
    line = Cell(data.ids()[rows[i]]);
    for (const double prediction : PredictedValues(data, outputs.subspan(i * width, width))) {
      // Nine digits give back every float.
      absl::StrAppendFormat(&line, ",%.9g", prediction);
    }
    line += '\n';
    SPLITVEIL_RETURN_IF_ERROR(file->Append(line));
  }
  PendingFile* const all[] = {file.get()};
  return PendingFile::Publish(all);
}

absl::Status CheckPredictionPath(const std::string& path, const Dataset& data) {
  return CheckOwnTable(path, Header(data));
}

}  // namespace splitveil
