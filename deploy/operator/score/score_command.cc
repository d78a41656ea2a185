#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "deploy/operator/commands.h"
#include "deploy/operator/records/figure_cells.h"
#include "deploy/operator/score/outcomes.h"

#include "common/dataset/task.h"
#include "common/evaluation/evaluation.h"
#include "common/leakage/leak_figures.h"
#include "common/matrix/matrix.h"
#include "common/status/status_macros.h"
#include "common/storage/file_system.h"

namespace splitveil {
namespace {

using Json = nlohmann::ordered_json;
using Kind = Task::Kind;

constexpr double kNone = Evaluation::kNone;
// Nine digits, as predictions are written, cannot tell a probability nearer to 1.
constexpr double kLeastDistance = 5e-10;
constexpr size_t kBins = 10;
constexpr char kBeginning[] = "{\n  \"of\": \"splitveil score\",";

struct ScoreFlags {
  std::string predictions, out;
  LabelTable labels;
};

// The place of each value among all, equal ones sharing theirs: an AUC asks for no more, and a float of the value
// itself would make some equal.
std::vector<float> RanksOf(const std::vector<double>& values) {
  std::vector<double> distinct = values;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  std::vector<float> ranks;
  for (const double value : values) {
    ranks.push_back(static_cast<float>(std::lower_bound(distinct.begin(), distinct.end(), value) - distinct.begin()));
  }
  return ranks;
}

// Around the mean of the targets and in units of the largest difference, as floats hold few digits of a large number.
absl::StatusOr<Json> FiguresOfNumbers(const Outcomes& outcomes) {
  double center = 0, scale = 0;
  for (const double target : outcomes.targets) {
    center += target / static_cast<double>(outcomes.rows());
  }
  for (const std::vector<double>* all : {&outcomes.values, &outcomes.targets}) {
    for (const double value : *all) {
      scale = std::max(scale, std::abs(value - center));
    }
  }
  std::vector<float> predicted, targets;
  for (const auto& [from, to] : {std::pair(&outcomes.values, &predicted), {&outcomes.targets, &targets}}) {
    for (const double value : *from) {
      to->push_back(static_cast<float>(scale > 0 ? (value - center) / scale : 0));
    }
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const Evaluation evaluation, EvaluateRegression(predicted, targets));
  return Json{{"rmse", evaluation.rmse * scale}, {"r_squared", evaluation.r_squared}};
}

// Of one day, or of all: what a table prints and the file has, in this order. NaN: null.
absl::StatusOr<Json> FiguresOf(Kind kind, const Outcomes& outcomes) {
  const auto rows = static_cast<int64_t>(outcomes.rows());
  Json figures = Json::object();
  figures["rows"] = rows;
  if (kind == Kind::kRegression) {
    SPLITVEIL_ASSIGN_OR_RETURN(const Json of_numbers, FiguresOfNumbers(outcomes));
    figures.update(of_numbers);
    return figures;
  }
  std::vector<float> logits;
  for (const double probability : outcomes.values) {
    const double p = std::clamp(probability, std::numeric_limits<double>::min(), 1 - kLeastDistance);
    // The softmax of logarithms of probabilities is these probabilities.
    logits.push_back(static_cast<float>(std::log(p) - (kind == Kind::kBinary ? std::log1p(-p) : 0)));
  }
  if (kind == Kind::kMultiClass) {
    SPLITVEIL_ASSIGN_OR_RETURN(
        const Evaluation evaluation,
        EvaluateClasses({logits.data(), rows, static_cast<int64_t>(logits.size()) / rows}, outcomes.labels));
    figures.update({{"auc", evaluation.auc}, {"accuracy", evaluation.accuracy}, {"log_loss", evaluation.log_loss}});
    return figures;
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const Evaluation evaluation, Evaluate(logits, outcomes.labels));
  // A day whose labels are all alike has no AUC.
  const Estimate auc =
      MeasureLeak(RanksOf(outcomes.values), outcomes.labels).value_or(LeakFigures{{kNone, kNone, kNone}}).auc;
  double observed = 0, predicted = 0, squares = 0;
  for (size_t i = 0; i < outcomes.rows(); ++i) {
    const double label = outcomes.labels[i];
    observed += label;
    predicted += outcomes.values[i];
    squares += (outcomes.values[i] - label) * (outcomes.values[i] - label);
  }
  const auto all = static_cast<double>(rows);
  figures.update({{"base_rate", observed / all},
                  {"mean_predicted", predicted / all},
                  {"auc", auc.value},
                  {"auc_low", auc.low},
                  {"auc_high", auc.high},
                  {"log_loss", evaluation.log_loss},
                  {"brier_score", squares / all},
                  {"calibration_error", evaluation.calibration_error}});
  return figures;
}

// Of tenths of the rows by their probability; equal ones are in one bin.
Json CalibrationOf(const Outcomes& outcomes) {
  std::vector<std::pair<double, uint8_t>> ranked;
  for (size_t i = 0; i < outcomes.labels.size(); ++i) {
    ranked.emplace_back(outcomes.values[i], outcomes.labels[i]);
  }
  std::sort(ranked.begin(), ranked.end());
  Json bins = Json::array();
  for (size_t begin = 0, bin = 1; begin < ranked.size(); ++bin) {
    double predicted = 0, observed = 0;
    size_t end = begin;
    for (; end < ranked.size() && (end * kBins < bin * ranked.size() || ranked[end].first == ranked[end - 1].first);
         ++end) {
      predicted += ranked[end].first;
      observed += ranked[end].second;
    }
    if (const auto rows = static_cast<double>(end - begin); rows > 0) {
      bins.push_back({{"rows", end - begin}, {"predicted", predicted / rows}, {"observed", observed / rows}});
    }
    begin = end;
  }
  return bins;
}

// A line for each object; its names are the columns.
std::string TableOf(const std::vector<Json>& objects) {
  std::vector<std::vector<std::string>> table(1);
  for (const Json& object : objects) {
    std::vector<std::string>& cells = table.emplace_back();
    for (const auto& [name, value] : object.items()) {
      if (table.size() == 2) {
        table[0].push_back(absl::StrCat(cells.empty() ? "  " : "", absl::StrReplaceAll(name, {{"_", " "}})));
      }
      cells.push_back(absl::StrCat(cells.empty() ? "  " : "", value.is_string()         ? value.get<std::string>()
                                                              : value.is_number_float() ? FixedCell(value, 4)
                                                                                        : value.dump()));
    }
  }
  return AlignedTable(table);
}

absl::StatusOr<ExitCode> Score(const ScoreFlags& flags) {
  SPLITVEIL_RETURN_IF_ERROR(flags.out.empty() ? absl::OkStatus() : CheckOwnTable(flags.out, kBeginning));
  SPLITVEIL_ASSIGN_OR_RETURN(const PredictionTable predictions, ReadPredictions(flags.predictions));
  SPLITVEIL_ASSIGN_OR_RETURN(const JoinedOutcomes joined, JoinLabels(flags.labels, predictions, flags.predictions));
  const auto without_label = static_cast<int64_t>(predictions.rows.size()) - joined.joined;
  const int64_t without_prediction = joined.labels - joined.joined;
  std::printf("%lld predictions with a label; %lld without one; %lld labels without a prediction\n",
              static_cast<long long>(joined.joined), static_cast<long long>(without_label),
              static_cast<long long>(without_prediction));
  Outcomes all;
  std::vector<Json> days;
  for (const auto& [day, outcomes] : joined.days) {
    all.values.insert(all.values.end(), outcomes.values.begin(), outcomes.values.end());
    all.labels.insert(all.labels.end(), outcomes.labels.begin(), outcomes.labels.end());
    all.targets.insert(all.targets.end(), outcomes.targets.begin(), outcomes.targets.end());
    if (!day.empty()) {
      SPLITVEIL_ASSIGN_OR_RETURN(const Json figures, FiguresOf(predictions.kind, outcomes));
      days.push_back(Json::object({{"day", day}}));
      days.back().update(figures);
    }
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const Json figures, FiguresOf(predictions.kind, all));
  Json json = {{"of", "splitveil score"},
               {"predictions_without_label", without_label},
               {"labels_without_prediction", without_prediction}};
  json.update(figures);
  json["days"] = days;
  days.insert(days.begin(), Json::object({{"day", "all"}}));
  days.front().update(figures);
  std::fputs(TableOf(days).c_str(), stdout);
  if (predictions.kind == Kind::kBinary) {
    json["calibration"] = CalibrationOf(all);
    std::printf("calibration, by tenths of the predictions:\n%s", TableOf(json["calibration"]).c_str());
  }
  if (!flags.out.empty()) {
    SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<PendingFile> file, PendingFile::Create(flags.out));
    SPLITVEIL_RETURN_IF_ERROR(file->Append(json.dump(2) + "\n"));
    PendingFile* const files[] = {file.get()};
    SPLITVEIL_RETURN_IF_ERROR(PendingFile::Publish(files));
  }
  return ExitCode::kDone;
}

}  // namespace

void AddScoreCommand(CommandLine& line) {
  const auto flags = std::make_shared<ScoreFlags>();
  CLI::App& command = line.AddCommand(
      {"score", "Compare predictions with the labels that came later: AUC and calibration, also by day.",
       "splitveil score --predictions=predictions.csv --labels=labels.csv --date=day", "After a run"},
      [flags] { return Score(*flags); });
  AddValue(command, "--predictions=FILE", flags->predictions, "Predictions, as splitveil predict --out writes them.")
      ->required();
  AddValue(command, "--labels=FILE", flags->labels.path,
           "Table of ids and labels with a header line, plain or packed; other columns are not read.")
      ->required();
  AddValue(command, "--id=COLUMN", flags->labels.id, "Its column of ids, written as in the predictions.")
      ->capture_default_str();
  AddValue(command, "--label=COLUMN", flags->labels.label,
           "Its column of labels: classes, or numbers in the table's unit.")
      ->capture_default_str();
  AddValue(command, "--date=COLUMN", flags->labels.date, "Its column of dates, to compare day by day (UTC).")
      ->default_str("none: all rows together");
  AddValue(command, "--positive=TEXT", flags->labels.positive,
           "Of two classes: label that the probability is of; 1 unless given.");
  AddValue(command, "--negative=TEXT", flags->labels.negative, "Of two classes: the other label; 0 unless given.");
  AddValue(command, "--out=FILE", flags->out,
           "JSON file for the figures, readable only by its owner. Overwrites only earlier ones.")
      ->default_str("none");
}

}  // namespace splitveil
