#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "deploy/operator/commands.h"
#include "deploy/operator/preparation/cell_form.h"
#include "deploy/operator/preparation/named_table.h"
#include "deploy/operator/records/figure_cells.h"

#include "common/config/id_pattern.h"
#include "common/config/row_time.h"
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
constexpr size_t kBins = 10, kMostClasses = 256;
constexpr char kBeginning[] = "{\n  \"of\": \"splitveil score\",";

struct ScoreFlags {
  std::string predictions, labels, id = "id", label = "label", date, out;
  std::vector<std::string> positive = {"1"}, negative = {"0"};
};

// A table of predictions (label_party/session/run_prediction.h).
struct PredictionTable {
  Kind kind = Kind::kBinary;
  std::vector<std::string> classes;               // Of several classes: their texts.
  absl::flat_hash_map<std::string, size_t> rows;  // By id.
  std::vector<double> values;                     // [rows, width]
  size_t width = 1;
};

// Predictions with what came true, of a day or of all.
struct Outcomes {
  std::vector<double> values;   // [rows, width]
  std::vector<uint8_t> labels;  // Of classes,
  std::vector<double> targets;  // and of numbers.

  size_t rows() const { return labels.size() + targets.size(); }
};

absl::StatusOr<PredictionTable> ReadPredictions(const std::string& path) {
  SPLITVEIL_ASSIGN_OR_RETURN(NamedTable table, NamedTable::Open(path, {"id"}, "column of predictions"));
  const std::vector<std::string> names(table.names().begin() + 1, table.names().end());
  PredictionTable predictions;
  predictions.width = names.size();
  predictions.kind = names == std::vector<std::string>{"prediction"} ? Kind::kRegression
                     : names.size() > 2                              ? Kind::kMultiClass
                                                                     : Kind::kBinary;
  if (table.names()[0] != "id" || names.size() > kMostClasses ||
      (predictions.kind == Kind::kBinary && names != std::vector<std::string>{"probability"})) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        ":1: expected predictions as `splitveil predict --out` writes them (id,probability; id,prediction; or id "
        "and a column for each class), found other columns"));
  }
  predictions.classes = predictions.kind == Kind::kMultiClass ? names : std::vector<std::string>();
  FaultyRows unreadable, repeated;
  while (true) {
    SPLITVEIL_ASSIGN_OR_RETURN(const bool more, table.Next());
    if (!more) {
      break;
    }
    bool readable = true;
    for (const absl::string_view cell : table.cells().subspan(1)) {
      double value = kNone;
      const bool is_number = ReadNumber(cell, NumberFormat(), value);
      readable = readable && is_number && (predictions.kind == Kind::kRegression || (value >= 0 && value <= 1));
      predictions.values.push_back(value);
    }
    const bool is_new = predictions.rows.emplace(table.cells()[0], predictions.rows.size()).second;
    if (!readable || !is_new) {
      (readable ? repeated : unreadable).Add(table.line());
    }
  }
  if (unreadable.any()) {
    return unreadable.Error(path, predictions.kind == Kind::kRegression
                                      ? "without a finite number"
                                      : "with a cell that is no probability from 0 to 1");
  }
  return repeated.any() ? repeated.Error(path, "with an id that an earlier row has: remove them")
                        : absl::StatusOr<PredictionTable>(std::move(predictions));
}

// By day, "" without dates; and how many labels there were.
struct JoinedOutcomes {
  std::map<std::string, Outcomes> days;
  int64_t labels = 0, joined = 0;
};

class LabelJoiner {
 public:
  LabelJoiner(const ScoreFlags& flags, const PredictionTable& predictions)
      : flags_(flags), predictions_(predictions), taken_(predictions.rows.size()) {
    const std::vector<std::string>& classes = predictions.classes;
    for (size_t i = 0; i < classes.size(); ++i) {
      labels_.emplace(classes[i], static_cast<uint8_t>(i));
    }
    if (predictions.kind == Kind::kBinary) {
      for (const auto& [texts, label] : {std::pair(&flags.positive, 1), {&flags.negative, 0}}) {
        for (const std::string& text : *texts) {
          labels_.emplace(text, static_cast<uint8_t>(label));
        }
      }
    }
  }

  absl::StatusOr<JoinedOutcomes> Join() {
    std::vector<std::string> columns = {flags_.id, flags_.label};
    if (!flags_.date.empty()) {
      columns.push_back(flags_.date);
    }
    SPLITVEIL_ASSIGN_OR_RETURN(NamedTable table, NamedTable::Open(flags_.labels, columns, "column"));
    while (true) {
      SPLITVEIL_ASSIGN_OR_RETURN(const bool more, table.Next());
      if (!more) {
        break;
      }
      Add(table);
    }
    SPLITVEIL_RETURN_IF_ERROR(Check());
    return std::move(joined_);
  }

 private:
  void Add(const NamedTable& table) {
    ++joined_.labels;
    const auto found = predictions_.rows.find(table.cell(0));
    if (found == predictions_.rows.end()) {
      return;
    }
    const size_t row = found->second;
    if (taken_[row]) {
      repeated_.Add(table.line());
      return;
    }
    taken_[row] = true;
    std::string day;
    if (!flags_.date.empty()) {
      const std::optional<RowTime> time = ParseRowTime(table.cell(2));
      if (!time.has_value() || !time->is_date) {
        undated_.Add(table.line());
        return;
      }
      day = absl::FormatTime("%Y-%m-%d", absl::FromUnixSeconds(static_cast<int64_t>(std::floor(time->value))),
                             absl::UTCTimeZone());
    }
    Outcomes& outcomes = joined_.days[day];
    double target = 0;
    const auto label = labels_.find(table.cell(1));
    if (predictions_.kind == Kind::kRegression ? !ReadNumber(table.cell(1), NumberFormat(), target)
                                               : label == labels_.end()) {
      unlabelled_.Add(table.line());
      return;
    }
    if (predictions_.kind == Kind::kRegression) {
      outcomes.targets.push_back(target);
    } else {
      outcomes.labels.push_back(label->second);
    }
    const auto first = predictions_.values.begin() + static_cast<int64_t>(row * predictions_.width);
    outcomes.values.insert(outcomes.values.end(), first, first + static_cast<int64_t>(predictions_.width));
    ++joined_.joined;
  }

  absl::Status Check() const {
    if (repeated_.any()) {
      return repeated_.Error(flags_.labels, "with an id that an earlier row has: remove them");
    }
    if (undated_.any()) {
      return undated_.Error(flags_.labels, absl::StrCat("without a date such as 2024-06-01 in ", flags_.date));
    }
    if (unlabelled_.any()) {
      return unlabelled_.Error(
          flags_.labels,
          predictions_.kind == Kind::kRegression ? absl::StrCat("without a finite number in ", flags_.label)
          : predictions_.kind == Kind::kMultiClass
              ? absl::StrCat("whose ", flags_.label, " is no class of the predictions")
              : absl::StrCat("whose ", flags_.label, " is neither ", absl::StrJoin(flags_.positive, ", "),
                             " (--positive) nor ", absl::StrJoin(flags_.negative, ", "), " (--negative)"));
    }
    return joined_.joined > 0
               ? absl::OkStatus()
               : absl::InvalidArgumentError(absl::StrCat(flags_.labels, ": expected ids of ", flags_.predictions,
                                                         " in column ", flags_.id, ", found ", joined_.labels,
                                                         " rows and none of them: see whether both write ids alike"));
  }

  const ScoreFlags& flags_;
  const PredictionTable& predictions_;
  std::vector<bool> taken_;
  absl::flat_hash_map<std::string, uint8_t> labels_;  // By their texts.
  JoinedOutcomes joined_;
  FaultyRows repeated_, undated_, unlabelled_;
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
  for (const std::string& text : flags.positive) {
    if (std::find(flags.negative.begin(), flags.negative.end(), text) != flags.negative.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", text, "\" is both --positive and --negative: give --negative as well"));
    }
  }
  SPLITVEIL_RETURN_IF_ERROR(flags.out.empty() ? absl::OkStatus() : CheckOwnTable(flags.out, kBeginning));
  SPLITVEIL_ASSIGN_OR_RETURN(const PredictionTable predictions, ReadPredictions(flags.predictions));
  SPLITVEIL_ASSIGN_OR_RETURN(const JoinedOutcomes joined, LabelJoiner(flags, predictions).Join());
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
  AddValue(command, "--labels=FILE", flags->labels,
           "Table of ids and labels with a header line, plain or packed; other columns are not read.")
      ->required();
  AddValue(command, "--id=COLUMN", flags->id, "Its column of ids, written as in the predictions.")
      ->capture_default_str();
  AddValue(command, "--label=COLUMN", flags->label, "Its column of labels: classes, or numbers in the table's unit.")
      ->capture_default_str();
  AddValue(command, "--date=COLUMN", flags->date, "Its column of dates, to compare day by day (UTC).")
      ->default_str("none: all rows together");
  AddValue(command, "--positive=TEXT", flags->positive,
           "Of two classes: label that the probability is of; 1 unless given.");
  AddValue(command, "--negative=TEXT", flags->negative, "Of two classes: the other label; 0 unless given.");
  AddValue(command, "--out=FILE", flags->out,
           "JSON file for the figures, readable only by its owner. Overwrites only earlier ones.")
      ->default_str("none");
}

}  // namespace splitveil
