// Rows to numbers: scales and vocabularies, fitted on the training part of a party's table.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_PREPROCESSOR_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_PREPROCESSOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "deploy/operator/preparation/dataset_writer.h"
#include "deploy/operator/preparation/seeded_draws.h"
#include "deploy/operator/preparation/table_row.h"

#include "common/dataset/dataset.h"
#include "common/dataset/vocabulary.h"

#include "splitveil/v1/preprocessing.pb.h"

namespace splitveil {

// Of the numbers added. The least and the greatest are exact; quantiles are those of a sample.
struct NumberSummary {
  double least = 0, lower_quantile = 0, median = 0, upper_quantile = 0, greatest = 0;
  // From where to where a scale goes that single values far out do not move: ColumnSample::Summarize.
  double robust_minimum = 0, robust_maximum = 0;
};

// Keeps a uniform sample of up to kSize numbers (Vitter, "Random sampling with a reservoir", ACM TOMS 1985, algorithm
// R), 256 KiB: all of them as long as there are no more; then a quantile's rank is off by 0.06% of the numbers at 1%
// and 99%, and by 0.3% at the median (one standard deviation). The same numbers in the same order give the same sample.
// Not thread-safe.
class ColumnSample {
 public:
  static constexpr size_t kSize = 32768;
  static constexpr double kLowerQuantile = 0.01, kUpperQuantile = 1 - kLowerQuantile;

  // `column`: number of the column; no two share their draws.
  explicit ColumnSample(uint64_t column);

  // `number`: finite.
  void Add(double number);
  bool empty() const { return count_ == 0; }

  // Not of an empty one. A quantile is the innermost number of the sample beyond which no more than that share of it
  // lies: of three numbers or more, never the one that is farthest out. The robust range is from the lower to the upper
  // quantile; where these are equal, a column that is nearly constant, its other numbers count: from that value to
  // their quantiles, so that a column of zeros with a few ones has 0 to 1.
  NumberSummary Summarize() const;

 private:
  SeededDraws draws_;
  uint64_t count_ = 0;
  double least_ = 0, greatest_ = 0;
  std::vector<double> sample_;
};

// Whether this numeric input is no column, but says where the numbers of one are missing.
bool IsMissingIndicator(const v1::NumericScaling& scaling);

// The preprocessing of Li et al., ICLR 2022, A.6.1, fitted on the training part alone, but for the range of numbers
// where the schema leaves it at ROBUST: numbers are scaled to [0, 1] and clipped (TableSchema.Scaling); every category
// seen in training gets an index of its own, all others share one of their column; no value at all is a category like
// others. Attributes stay the numbers they are. Or, without a vocabulary, a category's index is a hash of it. A target
// is scaled from the range that the schema names, and clipped. Fit every row, FinishFit, then Encode them. Costs the
// vocabularies (vocabulary.h) and a sample of each numeric column (column_sample.h). Not thread-safe.
class Preprocessor {
 public:
  struct Options {
    // Whose features and attributes: all but those that the other party alone holds; BOTH takes all. Labels are the
    // label party's.
    v1::TableSchema::Holder holder = v1::TableSchema::BOTH;
    // Buckets per column; 0: a vocabulary. At most 2^31 - 1 over all columns.
    int64_t hash_buckets = 0;
    v1::TableSchema::Scaling scaling = v1::TableSchema::ROBUST;
    // Data whose scales and indices are kept; values new in these rows get rows at the end of the embedding table.
    // Null: all is fitted.
    std::shared_ptr<const Dataset> extends;
    // With `extends`: nothing is learnt from these rows. Values that it lacks are unseen ones, and rows need no labels.
    bool only_applies = false;
  };
  // InvalidArgument if `extends` has other columns, buckets, images, attributes, classes or a target of another
  // range.
  static absl::StatusOr<Preprocessor> Create(const TableColumns& columns, const Options& options);

  // Takes a row in. InvalidArgument if a column has more than 2^31 - 1 values.
  absl::Status Fit(const TableRow& row, bool training);
  // InvalidArgument if no row was of the training part or embedding rows run out.
  absl::Status FinishFit();

  // What this party's data are of; nullopt: no labels.
  std::optional<Task> task() const { return label_.has_value() ? std::optional<Task>(label_->task) : std::nullopt; }

  // After FinishFit: fills all of `encoded` but its id and its part.
  void Encode(const TableRow& row, EncodedRow& encoded) const;
  // After FinishFit: counts the row's numbers that are clipped, for preprocessing().
  void CountClipped(const TableRow& row);
  // After FinishFit: what was fitted, without the split.
  const v1::Preprocessing& preprocessing() const { return preprocessing_; }
  // One per categorical column.
  absl::Span<const Vocabulary> vocabularies() const { return vocabularies_; }

 private:
  Preprocessor() = default;
  absl::Status Extend(const Dataset& old);
  absl::Status CheckSameTask(const Dataset& old) const;
  // Rows without labels, of data with some.
  void TakeTask(const v1::Preprocessing& theirs);
  absl::Status CheckSameAttributes(const Dataset& old) const;
  bool IsRegression() const { return label_.has_value() && label_->task.kind == Task::Kind::kRegression; }
  void FinishScales();
  // Adds the input that says where the numbers of this party's column `column` are missing.
  void AddIndicator(size_t column);
  // That of `theirs`, data to extend, the first numeric inputs are this party's columns and the others say where
  // numbers of these are missing: takes them over.
  bool TakeNumeric(const v1::Preprocessing& theirs);
  // Where numeric input `input` is found in a row.
  size_t SourceOf(size_t input) const;
  absl::Status AddBlock(int64_t rows, v1::CategoryIndex& index);
  int32_t EmbeddingRow(size_t column, absl::string_view value) const;

  std::vector<size_t> numeric_, categorical_, attributes_;  // Of the table, those of this party.
  std::optional<TableColumns::Label> label_;                // Nullopt: this party has none.
  bool has_image_ = false;
  bool extends_ = false;
  bool only_applies_ = false;
  v1::TableSchema::Scaling scaling_ = v1::TableSchema::ROBUST;
  std::vector<ColumnSample> samples_;  // Of each numeric column's training part; empty if scales are kept.
  std::vector<bool> lacks_some_;       // Of each numeric column: in training.
  std::vector<size_t> indicated_;      // Of each indicator: which of this party's columns.
  v1::Preprocessing preprocessing_;
  std::vector<Vocabulary> vocabularies_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_PREPROCESSOR_H_
