// Rows to numbers: scales and vocabularies, fitted on the training part of a party's table.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_PREPROCESSOR_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_PREPROCESSOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "deploy/operator/preparation/category_writings.h"
#include "deploy/operator/preparation/dataset_writer.h"
#include "deploy/operator/preparation/number_scaling.h"
#include "deploy/operator/preparation/table_row.h"

#include "common/dataset/dataset.h"
#include "common/dataset/vocabulary.h"

#include "splitveil/v1/preprocessing.pb.h"

namespace splitveil {

// The preprocessing of Li et al., ICLR 2022, A.6.1, fitted on the training part alone, but for the range of numbers
// where the schema leaves it at ROBUST: numbers are scaled to [0, 1] and clipped (TableSchema.Scaling); every category
// seen often enough in training gets an index of its own, all others share one of their column; no value at all is a
// category like others. What each column has is counted, so that later data can be compared. Attributes stay the
// numbers they are. Or, without a vocabulary, a category's index is a hash of it. A target is scaled from the range
// that the schema names, and clipped. Fit every row, FinishFit, then Encode and Count each, FinishCounts. Costs the
// vocabularies (vocabulary.h), 4 bytes for each embedding row, and a sample of each numeric column (number_scaling.h).
// Not thread-safe.
class Preprocessor {
 public:
  struct Options {
    // Whose features and attributes: all but those that the other party alone holds; BOTH takes all. Labels are the
    // label party's.
    v1::TableSchema::Holder holder = v1::TableSchema::BOTH;
    // Buckets per column; 0: a vocabulary. At most 2^31 - 1 over all columns.
    int64_t hash_buckets = 0;
    // TableSchema.rare_below, of vocabularies; values of `extends` stay.
    int64_t rare_below = 1;
    // Overrides the columns'; SCALING_UNSPECIFIED: theirs.
    v1::TableSchema::Scaling scaling = v1::TableSchema::SCALING_UNSPECIFIED;
    // Data whose scales and indices are kept; values new in these rows get rows at the end of the embedding table.
    // Null: all is fitted.
    std::shared_ptr<const Dataset> extends;
    // With `extends`: nothing is learnt from these rows, and rows need no labels. Values that it lacks are unseen ones,
    // unless they are a number that it has in another writing, such as 3.0 for 3.
    bool only_applies = false;
    // Columns that may differ from the training: Preprocessing.allowed_changes.
    std::vector<std::string> allowed_changes;
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
  // After FinishFit: counts what the row has, for preprocessing(). `encoded`: what Encode made of it.
  void Count(const TableRow& row, const EncodedRow& encoded);
  // After the last Count.
  void FinishCounts();
  // After FinishFit: what was fitted, without the split.
  const v1::Preprocessing& preprocessing() const { return preprocessing_; }
  // After FinishCounts: of categories that are one value in several writings, a line for each column.
  const std::vector<std::string>& writing_warnings() const { return writing_warnings_; }
  // One per categorical column.
  absl::Span<const Vocabulary> vocabularies() const { return vocabularies_; }

 private:
  Preprocessor() = default;
  absl::Status Extend(const Dataset& old);
  bool IsRegression() const { return label_.has_value() && label_->task.kind == Task::Kind::kRegression; }
  // Adds the input that says where the numbers of this party's column `column` are missing.
  void AddIndicator(size_t column);
  // That of `theirs`, data to extend, the first numeric inputs are this party's columns and the others say where
  // numbers of these are missing: takes them over.
  bool TakeNumeric(const v1::Preprocessing& theirs);
  // Where numeric input `input` is found in a row.
  size_t SourceOf(size_t input) const;
  // Takes the rare ones among the values after the first `kept` out of a column's vocabulary.
  void DropRare(size_t column, int64_t kept);
  absl::Status AddBlock(int64_t rows, v1::CategoryIndex& index);
  int32_t NumberOf(size_t column, absl::string_view value) const;
  int32_t EmbeddingRow(size_t column, absl::string_view value) const;

  std::vector<size_t> numeric_, categorical_, attributes_;  // Of the table, those of this party.
  std::optional<TableColumns::Label> label_;                // Nullopt: this party has none.
  bool has_image_ = false;
  bool extends_ = false;
  bool only_applies_ = false;
  std::vector<v1::TableSchema::Scaling> scalings_;  // Of each numeric column.
  std::vector<ColumnSample> samples_;               // Of each one's training part; empty if scales are kept.
  std::vector<bool> lacks_some_;                    // Of each numeric column: in training.
  std::vector<size_t> indicated_;                   // Of each indicator: which of this party's columns.
  v1::Preprocessing preprocessing_;
  std::vector<Vocabulary> vocabularies_;
  int64_t rare_below_ = 1;
  std::vector<std::vector<int64_t>>
      value_rows_;  // With rare_below: training rows of each vocabulary's values, by number.
  // Of each categorical column, with only_applies: the vocabulary's numbers that are not in their plainest writing, by
  // that.
  std::vector<absl::flat_hash_map<std::string, int32_t>> rewritten_;
  std::vector<KnownWritings> known_writings_;  // The same of all writings.
  std::vector<int64_t> lookalikes_;            // Rows with an unseen value that these have.
  std::vector<std::string> writing_warnings_;
  std::vector<uint32_t> embedding_row_counts_;  // Of training rows with a value.
};

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_PREPROCESSOR_H_
