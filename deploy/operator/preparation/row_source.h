// The examples of a table: its usable rows, each with an id and an image if the table has any; and in which part of the
// split each of them is.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_ROW_SOURCE_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_ROW_SOURCE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "deploy/operator/preparation/id_form.h"
#include "deploy/operator/preparation/image_reader.h"
#include "deploy/operator/preparation/table_reader.h"
#include "deploy/operator/preparation/table_row.h"

#include "common/config/id_pattern.h"
#include "common/config/row_time.h"
#include "common/crypto/digest.h"
#include "common/dataset/label_variety.h"
#include "common/dataset/task.h"
#include "common/schedule/train_test_split.h"

#include "splitveil/v1/preprocessing.pb.h"
#include "splitveil/v1/table_schema.pb.h"

namespace splitveil {

// Rows left out so far, by RowFault.
using FaultCounts = std::array<int64_t, kRowFaultNames.size()>;

// Constant memory, unless the table names its rows: then 16 to 40 bytes per row, to find repeated ids. Not
// thread-safe.
class RowSource {
 public:
  struct Options {
    std::vector<std::string> input_paths;
    v1::TableSchema schema;
    // If the table has no ids, a row's id is 32 hexadecimal digits of a hash of its number, keyed by this. They hold
    // nothing of the row; someone who knows the seed can recompute the numbers.
    uint64_t seed = 1;
    // If the schema has images: ImageReader::Options.
    std::string images_path;
    int64_t image_size = 0;
    // Leaves out rows that cannot be used instead of ending with an error.
    bool skip_bad_rows = false;
    // Features that may differ from the training, or be missing from the header line: TableReader::MayLack.
    TableReader::MayLack allowed_changes;
    // What every row goes into, usable or not (EmptyProfile). Null: none. Not owned; must outlive the source.
    TableProfile* profile = nullptr;
  };
  // Errors: as TableReader::Open.
  static absl::StatusOr<std::unique_ptr<RowSource>> Open(const Options& options);

  const TableColumns& columns() const { return columns_; }
  // The next usable row, which borrows until the next call; false at the end. Errors: InvalidArgument with file, line
  // and column for a row that cannot be used, unless those are left out; as TableReader::Next.
  absl::StatusOr<bool> Next(TableRow& row);

  // How the ids of the usable rows so far are written; of none, if the table has no ids.
  const IdSurvey& ids() const { return ids_; }
  // TableSchema.Column.id_pattern, with what it found in them.
  const IdPattern& pattern() const { return pattern_; }
  // Number of the latest row among all, from 0.
  int64_t row_number() const { return table_->rows_read() - 1; }
  size_t files() const { return table_->files(); }
  const FaultCounts& skipped() const { return skipped_; }
  // What was wrong with the first row that was left out for `fault`; OK if none was.
  const absl::Status& first_error(RowFault fault) const { return first_errors_[static_cast<size_t>(fault)]; }

 private:
  RowSource(std::unique_ptr<TableReader> table, std::unique_ptr<ImageReader> images, const Options& options);
  void SetId(TableRow& row);
  // "; first in FILE:LINE" of the id whose hash begins with `half`, found by reading the table again.
  std::string FirstPlaceOf(absl::uint128 half) const;

  std::unique_ptr<TableReader> table_;
  std::unique_ptr<ImageReader> images_;  // Null: none.
  TableColumns columns_;
  bool skip_bad_rows_;
  Digest id_key_;
  std::string made_id_, id_form_note_;
  IdSurvey ids_;
  IdPattern pattern_;
  absl::flat_hash_set<absl::uint128> seen_ids_;  // The first half of each id's SHA-256.
  FaultCounts skipped_ = {};
  std::array<absl::Status, kRowFaultNames.size()> first_errors_;
};

// A line for each fault that left rows out of a table of so many files.
std::string LeftOutText(const FaultCounts& skipped, size_t files);

struct UsableRowsOptions {
  // Least share of the rows that must be usable, in [0, 1].
  double min_usable_share = 0;
  // How many rows the table has; 0: not known.
  int64_t expected_rows = 0;
};

// Whether enough of the table was read: `usable` rows; `source`, which is at its end, counts those left out. A
// truncated file hides how many rows it had, so without `expected_rows` it is refused, whatever the share. Error:
// InvalidArgument with both figures and the first row left out.
absl::Status CheckUsableRows(const UsableRowsOptions& options, const std::string& table, int64_t usable,
                             const RowSource& source);

// Whether the labels of the party that holds them differ in the training part. Errors: InvalidArgument that says what
// to look at.
absl::Status CheckTrainingLabels(const std::string& table, const LabelVariety& training);
// The same in another part: "test" or "validation", which `kept_by` keeps rows for ("test_fraction 0.1").
absl::Status CheckHeldOutLabels(const std::string& table, absl::string_view part, const std::string& kept_by,
                                const LabelVariety& labels);

// By SplitRule, of the id, or of the group if the table has one; where it has times, rows at or after one of them
// are the test part, and the others are split by their ids. Thread-safe.
class RowSplit {
 public:
  // RunAgreement's fields of these names, and its attribute_audit's.
  struct Options {
    double test_fraction = 0;
    double auxiliary_fraction = 0;
    double validation_fraction = 0;
    std::string split_salt;
    std::string test_after;
  };
  // Errors: InvalidArgument for fractions outside [0, 1) or that leave nothing to train on, and where there is a
  // test_after and no times or the other way round.
  static absl::StatusOr<RowSplit> Create(const Options& options, const TableColumns& columns);

  // Error: InvalidArgument if the row's time is a date and test_after a number or the other way round.
  absl::StatusOr<SplitPart> PartOf(const TableRow& row) const;

  // Whether the id does not tell the part: then prepared data keep it.
  bool by_tables() const { return by_group_ || test_after_.has_value(); }
  // What keeps rows for testing, such as "test_fraction 0.1"; "" if nothing does.
  std::string TestRule() const;
  // The same of validation.
  std::string ValidationRule() const;
  // Fills in the fields of the split.
  void Describe(v1::Preprocessing& preprocessing) const;

 private:
  RowSplit(const Options& options, bool by_group, std::optional<RowTime> test_after);

  Options options_;
  SplitRule rule_;
  bool by_group_;
  std::optional<RowTime> test_after_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_ROW_SOURCE_H_
