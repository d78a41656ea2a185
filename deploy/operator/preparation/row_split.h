// In which part of the split a table's rows are.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_ROW_SPLIT_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_ROW_SPLIT_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "deploy/operator/preparation/table_row.h"

#include "common/config/row_time.h"
#include "common/dataset/task.h"
#include "common/schedule/train_test_split.h"

#include "splitveil/v1/preprocessing.pb.h"

namespace splitveil {

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

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_ROW_SPLIT_H_
