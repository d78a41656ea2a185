#include "deploy/operator/score/outcomes.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "deploy/operator/preparation/cell_form.h"
#include "deploy/operator/preparation/named_table.h"

#include "common/config/id_pattern.h"
#include "common/config/row_time.h"
#include "common/evaluation/evaluation.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr size_t kMostClasses = 256;

}  // namespace

absl::StatusOr<PredictionTable> ReadPredictions(const std::string& path) {
  SPLITVEIL_ASSIGN_OR_RETURN(NamedTable table, NamedTable::Open(path, {"id"}, "column of predictions"));
  const std::vector<std::string> names(table.names().begin() + 1, table.names().end());
  PredictionTable predictions;
  predictions.width = names.size();
  predictions.kind = names == std::vector<std::string>{"prediction"} ? Task::Kind::kRegression
                     : names.size() > 2                              ? Task::Kind::kMultiClass
                                                                     : Task::Kind::kBinary;
  if (table.names()[0] != "id" || names.size() > kMostClasses ||
      (predictions.kind == Task::Kind::kBinary && names != std::vector<std::string>{"probability"})) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        ":1: expected predictions as `splitveil predict --out` writes them (id,probability; id,prediction; or id "
        "and a column for each class), found other columns"));
  }
  if (const std::set<std::string> distinct(names.begin(), names.end()); distinct.size() < names.size()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ":1: expected each class once, found one in two columns"));
  }
  predictions.classes = predictions.kind == Task::Kind::kMultiClass ? names : std::vector<std::string>();
  FaultyRows unreadable, repeated;
  while (true) {
    SPLITVEIL_ASSIGN_OR_RETURN(const bool more, table.Next());
    if (!more) {
      break;
    }
    bool readable = true;
    for (const absl::string_view cell : table.cells().subspan(1)) {
      double value = Evaluation::kNone;
      const bool is_number = ReadNumber(cell, NumberFormat(), value);
      readable = readable && is_number && (predictions.kind == Task::Kind::kRegression || (value >= 0 && value <= 1));
      predictions.values.push_back(value);
    }
    const bool is_new = predictions.rows.emplace(table.cells()[0], predictions.rows.size()).second;
    if (!readable || !is_new) {
      (readable ? repeated : unreadable).Add(table.line());
    }
  }
  if (unreadable.any()) {
    return unreadable.Error(path, predictions.kind == Task::Kind::kRegression
                                      ? "without a finite number"
                                      : "with a cell that is no probability from 0 to 1");
  }
  return repeated.any() ? repeated.Error(path, "with an id that an earlier row has: remove them")
                        : absl::StatusOr<PredictionTable>(std::move(predictions));
}

namespace {

class LabelJoiner {
 public:
  LabelJoiner(const LabelTable& table, const PredictionTable& predictions)
      : table_(table), predictions_(predictions), taken_(predictions.rows.size()) {
    const std::vector<std::string>& classes = predictions.classes;
    for (size_t i = 0; i < classes.size(); ++i) {
      labels_.emplace(classes[i], static_cast<uint8_t>(i));
    }
    if (predictions.kind == Task::Kind::kBinary) {
      for (const auto& [texts, label] : {std::pair(&table.positive, 1), {&table.negative, 0}}) {
        for (const std::string& text : *texts) {
          labels_.emplace(text, static_cast<uint8_t>(label));
        }
      }
    }
  }

  absl::StatusOr<JoinedOutcomes> Join() {
    std::vector<std::string> columns = {table_.id, table_.label};
    if (!table_.date.empty()) {
      columns.push_back(table_.date);
    }
    SPLITVEIL_ASSIGN_OR_RETURN(NamedTable table, NamedTable::Open(table_.path, columns, "column"));
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
    if (!table_.date.empty()) {
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
    if (predictions_.kind == Task::Kind::kRegression ? !ReadNumber(table.cell(1), NumberFormat(), target)
                                                     : label == labels_.end()) {
      unlabelled_.Add(table.line());
      return;
    }
    if (predictions_.kind == Task::Kind::kRegression) {
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
      return repeated_.Error(table_.path, "with an id that an earlier row has: remove them");
    }
    if (undated_.any()) {
      return undated_.Error(table_.path, absl::StrCat("without a date such as 2024-06-01 in ", table_.date));
    }
    if (unlabelled_.any()) {
      return unlabelled_.Error(
          table_.path, predictions_.kind == Task::Kind::kRegression
                           ? absl::StrCat("without a finite number in ", table_.label)
                       : predictions_.kind == Task::Kind::kMultiClass
                           ? absl::StrCat("whose ", table_.label, " is no class of the predictions")
                           : absl::StrCat("whose ", table_.label, " is neither ", absl::StrJoin(table_.positive, ", "),
                                          " (--positive) nor ", absl::StrJoin(table_.negative, ", "), " (--negative)"));
    }
    return absl::OkStatus();
  }

  const LabelTable& table_;
  const PredictionTable& predictions_;
  std::vector<bool> taken_;
  absl::flat_hash_map<std::string, uint8_t> labels_;  // By their texts.
  JoinedOutcomes joined_;
  FaultyRows repeated_, undated_, unlabelled_;
};

}  // namespace

absl::StatusOr<JoinedOutcomes> JoinLabels(const LabelTable& labels, const PredictionTable& predictions,
                                          const std::string& predictions_path) {
  for (const std::string& text : labels.positive) {
    if (std::find(labels.negative.begin(), labels.negative.end(), text) != labels.negative.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", text, "\" is both --positive and --negative: give --negative as well"));
    }
  }
  SPLITVEIL_ASSIGN_OR_RETURN(JoinedOutcomes joined, LabelJoiner(labels, predictions).Join());
  return joined.joined > 0
             ? absl::StatusOr<JoinedOutcomes>(std::move(joined))
             : absl::InvalidArgumentError(absl::StrCat(labels.path, ": expected ids of ", predictions_path,
                                                       " in column ", labels.id, ", found ", joined.labels,
                                                       " rows and none of them: see whether both write ids alike"));
}

}  // namespace splitveil
