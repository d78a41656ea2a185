// Predictions, and what came true of them later.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_SCORE_OUTCOMES_H_
#define SPLITVEIL_DEPLOY_OPERATOR_SCORE_OUTCOMES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

#include "common/dataset/task.h"

namespace splitveil {

// As `splitveil predict --out` writes them (label_party/session/run_prediction.h).
struct PredictionTable {
  Task::Kind kind = Task::Kind::kBinary;
  std::vector<std::string> classes;               // Of several classes: their texts.
  absl::flat_hash_map<std::string, size_t> rows;  // By id.
  std::vector<double> values;                     // [rows, width]
  size_t width = 1;
};

// Errors: those of NamedTable; InvalidArgument for other columns, and for rows that cannot be read or come twice, by
// their lines.
absl::StatusOr<PredictionTable> ReadPredictions(const std::string& path);

// Predictions with what came true, of a day or of all.
struct Outcomes {
  std::vector<double> values;   // [rows, width]
  std::vector<uint8_t> labels;  // Of classes,
  std::vector<double> targets;  // and of numbers.

  size_t rows() const { return labels.size() + targets.size(); }
};

// By day, "" without dates; and how many labels there were.
struct JoinedOutcomes {
  std::map<std::string, Outcomes> days;
  int64_t labels = 0, joined = 0;
};

// A table of labels: which of its columns are read, and what the labels of two classes are written as.
struct LabelTable {
  std::string path, id = "id", label = "label";
  std::string date;  // Empty: none is read.
  std::vector<std::string> positive = {"1"}, negative = {"0"};
};

// Joins by id; ids on one side alone are left out. Errors: those of NamedTable; InvalidArgument for a text that is both
// positive and negative, for rows that cannot be read or come twice, by their lines and never with what stands there,
// and where no id is on both sides. `predictions_path`: for messages.
absl::StatusOr<JoinedOutcomes> JoinLabels(const LabelTable& labels, const PredictionTable& predictions,
                                          const std::string& predictions_path);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_SCORE_OUTCOMES_H_
