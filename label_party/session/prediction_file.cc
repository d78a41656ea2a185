#include "label_party/session/prediction_file.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"

#include "common/status/status_macros.h"
#include "common/storage/file_system.h"
#include "common/storage/pending_file.h"

namespace splitveil {
namespace {

std::string Cell(absl::string_view text) {
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

// exp of each over their sum, less the largest first, so that none overflows.
std::vector<double> Softmax(absl::Span<const float> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> probabilities;
  double sum = 0;
  for (const float logit : logits) {
    probabilities.push_back(std::exp(logit - largest));
    sum += probabilities.back();
  }
  for (double& probability : probabilities) {
    probability /= sum;
  }
  return probabilities;
}

// What a person reads of one example's outputs.
std::vector<double> Predictions(const Dataset& data, absl::Span<const float> outputs) {
  switch (data.task().kind) {
    case Task::Kind::kBinary:
      return {1 / (1 + std::exp(-double{outputs[0]}))};
    case Task::Kind::kMultiClass:
      return Softmax(outputs);
    case Task::Kind::kRegression:
      break;
  }
  const v1::TargetScaling& target = data.preprocessing().target();
  return {target.minimum() + std::clamp(double{outputs[0]}, 0.0, 1.0) * (target.maximum() - target.minimum())};
}

}  // namespace

absl::Status WritePredictions(const std::string& path, const Dataset& data, absl::Span<const uint32_t> rows,
                              absl::Span<const float> outputs) {
  const auto width = static_cast<size_t>(data.task().outputs());
  if (outputs.size() != rows.size() * width) {
    return absl::InternalError(
        absl::StrCat("predictions: expected ", rows.size() * width, " outputs, found ", outputs.size()));
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckPredictionPath(path, data));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<PendingFile> file, PendingFile::Create(path));
  SPLITVEIL_RETURN_IF_ERROR(file->Append(Header(data)));
  std::string line;
  for (size_t i = 0; i < rows.size(); ++i) {
    line = Cell(data.ids()[rows[i]]);
    for (const double prediction : Predictions(data, outputs.subspan(i * width, width))) {
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
