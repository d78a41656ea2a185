#include "label_party/serving/open_inference.h"

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

#include "common/ledger/ledger.h"
#include "common/monitoring/version_metrics.h"
#include "common/process/runtime.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "label_party/serving/request_tensors.h"

namespace splitveil {
namespace {

using inference::ModelInferRequest;
using inference::ModelInferResponse;

constexpr char kFound[] = "found";

const char* ValuesName(const Task& task) { return task.kind == Task::Kind::kRegression ? "prediction" : "probability"; }

// [rows], or [rows, classes].
std::vector<int64_t> ShapeOf(const Task& task, int64_t rows) {
  return task.kind == Task::Kind::kMultiClass ? std::vector<int64_t>{rows, task.classes} : std::vector<int64_t>{rows};
}

template <typename Element>
std::string RawOf(const std::vector<Element>& elements) {
  return std::string(reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(Element));
}

// The outputs that were asked for, raw where the input was.
absl::Status AddOutputs(const ModelInferRequest& request, const Task& task, const Answers& answers,
                        ModelInferResponse& response) {
  std::vector<std::string> names;
  for (const auto& output : request.outputs()) {
    names.push_back(output.name());
  }
  if (names.empty()) {
    names = {ValuesName(task), kFound};
  }
  // Each once: an answer must not be a million times as long as its request.
  if (names.size() > 2 || (names.size() == 2 && names[0] == names[1])) {
    return absl::InvalidArgumentError("outputs: an output is asked for twice: name each once");
  }
  const bool raw = request.raw_input_contents_size() > 0;
  const auto rows = static_cast<int64_t>(answers.found.size());
  for (const std::string& name : names) {
    ModelInferResponse::InferOutputTensor& output = *response.add_outputs();
    output.set_name(name);
    const bool is_found = name == kFound;
    if (!is_found && name != ValuesName(task)) {
      return absl::InvalidArgumentError(
          absl::StrCat("outputs: this model has \"", ValuesName(task), "\" and \"", kFound, "\", and no other"));
    }
    const std::vector<int64_t> shape = is_found ? std::vector<int64_t>{rows} : ShapeOf(task, rows);
    output.mutable_shape()->Add(shape.begin(), shape.end());
    output.set_datatype(is_found ? "BOOL" : "FP32");
    if (raw) {
      *response.add_raw_output_contents() =
          is_found ? RawOf(std::vector<uint8_t>(answers.found.begin(), answers.found.end())) : RawOf(answers.values);
    } else if (is_found) {
      output.mutable_contents()->mutable_bool_contents()->Add(answers.found.begin(), answers.found.end());
    } else {
      output.mutable_contents()->mutable_fp32_contents()->Add(answers.values.begin(), answers.values.end());
    }
  }
  return absl::OkStatus();
}

void AddTensor(const char* name, const char* datatype, const std::vector<int64_t>& shape,
               google::protobuf::RepeatedPtrField<inference::ModelMetadataResponse::TensorMetadata>& tensors) {
  auto& tensor = *tensors.Add();
  tensor.set_name(name);
  tensor.set_datatype(datatype);
  tensor.mutable_shape()->Add(shape.begin(), shape.end());
}

}  // namespace

absl::StatusOr<std::shared_ptr<ServedVersion>> OpenInference::FindVersion(const std::string& name,
                                                                          const std::string& version) const {
  if (name != options_.model_name) {
    return absl::NotFoundError(absl::StrCat("model: this server has only \"", options_.model_name, "\""));
  }
  int64_t number = 0;
  const bool is_number = absl::SimpleAtoi(version, &number);
  std::shared_ptr<ServedVersion> found = version.empty() ? versions_->Find()
                                         : is_number     ? versions_->Find(number)
                                                         : nullptr;
  if (found != nullptr) {
    return found;
  }
  return version.empty()
             ? absl::UnavailableError("no version of the model can be used yet: try again later")
             : absl::NotFoundError(absl::StrCat("version: there is no such version: ask for one of [",
                                                absl::StrJoin(versions_->Numbers(), ", "), "], or name none"));
}

absl::StatusOr<inference::ModelReadyResponse> OpenInference::ModelReady(const inference::ModelReadyRequest& request,
                                                                        const Callers::Caller& /*caller*/) const {
  const absl::Status found = FindVersion(request.name(), request.version()).status();
  if (absl::IsNotFound(found)) {
    return found;
  }
  inference::ModelReadyResponse response;
  response.set_ready(found.ok() && !stopping_);
  return response;
}

inference::ServerMetadataResponse OpenInference::ServerMetadata(const Callers::Caller& /*caller*/) {
  inference::ServerMetadataResponse response;
  response.set_name("splitveil");
  response.set_version(Version());
  return response;
}

absl::StatusOr<inference::ModelMetadataResponse> OpenInference::ModelMetadata(
    const inference::ModelMetadataRequest& request, const Callers::Caller& /*caller*/) const {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::shared_ptr<ServedVersion> version,
                             FindVersion(request.name(), request.version()));
  inference::ModelMetadataResponse response;
  response.set_name(options_.model_name);
  for (const int64_t number : versions_->Numbers()) {
    response.add_versions(absl::StrCat(number));
  }
  response.set_platform("splitveil");
  const Task& task = version->data().task();
  AddTensor("id", "BYTES", {-1}, *response.mutable_inputs());
  // Own columns are not named: clients take all that is named for required.
  AddTensor(ValuesName(task), "FP32", ShapeOf(task, -1), *response.mutable_outputs());
  AddTensor(kFound, "BOOL", {-1}, *response.mutable_outputs());
  return response;
}

absl::StatusOr<ModelInferResponse> OpenInference::ModelInfer(const ModelInferRequest& request, Callers::Caller& caller,
                                                             SteadyTime deadline) {
  const SteadyTime arrived = SteadyNow();
  int64_t version = 0;
  absl::StatusOr<ModelInferResponse> response = Infer(request, caller, deadline, version);
  metrics_->CountRequest(response.status().code(), version, SecondsSince(arrived));
  return response;
}

absl::StatusOr<ModelInferResponse> OpenInference::Infer(const ModelInferRequest& request, Callers::Caller& caller,
                                                        SteadyTime deadline, int64_t& number) {
  if (stopping_) {
    return absl::UnavailableError("the server is stopping");
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const std::shared_ptr<ServedVersion> version,
                             FindVersion(request.model_name(), request.model_version()));
  const bool is_unproved = caller.outside && !version->has_learned_from_noised_labels();
  if (is_unproved && (!options_.unproved.has_value() || !version->knows_held_out())) {
    return absl::PermissionDeniedError("this version has learned from labels that this caller may not see");
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const RequestTensors tensors, ReadTensors(request, queue_->max_batch_rows()));
  // A caller that may try values of a row's columns finds the stored ones: those whose answer is that of the row.
  if (caller.outside && !tensors.columns.empty()) {
    return absl::PermissionDeniedError(
        "inputs: only the label party's own callers may give columns: give \"id\" alone");
  }
  AnswerTerms terms;
  SPLITVEIL_ASSIGN_OR_RETURN(terms.replaced, version->Replace(tensors.columns));
  if (is_unproved) {
    terms.held_out = true;
    terms.decimals = options_.unproved->decimals();
  }
  ModelInferResponse response;
  const Task& task = version->data().task();
  SPLITVEIL_RETURN_IF_ERROR(AddOutputs(request, task, Answers(), response));  // Before anything is counted.
  const auto rows = static_cast<int64_t>(tensors.ids.size());
  SPLITVEIL_RETURN_IF_ERROR(callers_->Charge(caller, rows));
  // Before anything is computed or asked of the peer, and for good: how long it takes, and whether it succeeds, tells
  // of an id whether it is answered.
  if (is_unproved) {
    if (absl::Status counted = CountUnproved(*version, caller.name, rows); !counted.ok()) {
      callers_->GiveBack(caller, rows);
      return counted;
    }
  }
  number = version->number();
  absl::StatusOr<Answers> answers = queue_->Ask(version, {tensors.ids, &terms}, deadline, caller.name);
  if (!answers.ok()) {
    // Not to others: where the other party is gone, whether a request fails tells which ids are shared.
    if (!caller.outside) {
      callers_->GiveBack(caller, rows);
    }
    return answers.status();
  }
  response.Clear();
  response.set_model_name(options_.model_name);
  response.set_model_version(absl::StrCat(number));
  response.set_id(request.id());
  SPLITVEIL_RETURN_IF_ERROR(AddOutputs(request, task, *answers, response));
  return response;
}

absl::Status OpenInference::CountUnproved(const ServedVersion& version, const std::string& caller, int64_t rows) {
  // All ids asked for, also those without an answer: what is left must not tell which these are.
  absl::Status counted =
      RecordUnprovedAnswers(options_.ledger_path, version.trained_by(), caller, rows, options_.unproved->daily());
  if (counted.ok() || absl::IsResourceExhausted(counted)) {
    return counted;
  }
  LogWarning("answers could not be counted, and were not sent: ", counted.message());
  return absl::UnavailableError("the answers could not be counted: try again later");
}

absl::StatusOr<std::string> OpenInference::Drift(const Callers::Caller& caller) const {
  return caller.outside ? absl::PermissionDeniedError("drift is shown to the label party's own callers")
                        : absl::StatusOr<std::string>(DriftTable(FiguresOf(*versions_)));
}

absl::StatusOr<std::string> OpenInference::Metrics(const Callers::Caller& caller) const {
  // How often the others ask is no outside caller's business.
  return caller.outside ? absl::PermissionDeniedError("metrics are for the label party's own callers")
                        : absl::StatusOr<std::string>(AllMetrics());
}

std::string OpenInference::AllMetrics() const {
  return absl::StrCat(metrics_->Text(), VersionMetrics(FiguresOf(*versions_)),
                      options_.live == nullptr ? "" : options_.live->Text());
}

}  // namespace splitveil
