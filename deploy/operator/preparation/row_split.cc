#include "deploy/operator/preparation/row_split.h"

#include "absl/strings/str_cat.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

// Written so that NaN fails too.
bool IsFraction(double value) { return value >= 0 && value < 1; }

absl::Status CheckFractions(const RowSplit::Options& options) {
  if (!IsFraction(options.test_fraction)) {
    return absl::InvalidArgumentError(
        absl::StrCat("test_fraction: expected a number in [0, 1), found ", options.test_fraction));
  }
  if (!IsFraction(options.auxiliary_fraction) || !IsFraction(options.test_fraction + options.auxiliary_fraction)) {
    return absl::InvalidArgumentError(
        absl::StrCat("auxiliary_fraction: expected a number in [0, 1) that is below 1 with test_fraction, found ",
                     options.auxiliary_fraction));
  }
  if (!IsFraction(options.validation_fraction) ||
      !IsFraction(options.test_fraction + options.auxiliary_fraction + options.validation_fraction)) {
    return absl::InvalidArgumentError(
        absl::StrCat("validation_fraction: expected a number in [0, 1) that is below 1 with test_fraction and "
                     "auxiliary_fraction, found ",
                     options.validation_fraction));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<RowTime>> TestAfter(const RowSplit::Options& options, const TableColumns& columns) {
  if (columns.has_time && options.test_after.empty()) {
    return absl::InvalidArgumentError(
        "test_after: expected a time, from which on rows are for testing, as the schema has a column of kind TIME, "
        "found "
        "none");
  }
  if (!columns.has_time && !options.test_after.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "test_after: needs a column of kind TIME, and the schema has none, found \"", options.test_after, "\""));
  }
  if (options.test_after.empty()) {
    return std::nullopt;
  }
  const std::optional<RowTime> time = ParseRowTime(options.test_after);
  return time.has_value() ? absl::StatusOr<std::optional<RowTime>>(time)
                          : absl::InvalidArgumentError(absl::StrCat("test_after: expected ", kRowTimeWords,
                                                                    ", found \"", options.test_after, "\""));
}

}  // namespace

RowSplit::RowSplit(const Options& options, bool by_group, std::optional<RowTime> test_after)
    : options_(options),
      rule_(options.split_salt, test_after.has_value() ? 0 : options.test_fraction, options.auxiliary_fraction,
            options.validation_fraction),
      by_group_(by_group),
      test_after_(test_after) {}

absl::StatusOr<RowSplit> RowSplit::Create(const Options& options, const TableColumns& columns) {
  SPLITVEIL_RETURN_IF_ERROR(CheckFractions(options));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::optional<RowTime> test_after, TestAfter(options, columns));
  return RowSplit(options, columns.has_group, test_after);
}

absl::StatusOr<SplitPart> RowSplit::PartOf(const TableRow& row) const {
  if (!test_after_.has_value()) {
    return rule_.PartOf(by_group_ ? row.group : row.id);
  }
  if (row.time.is_date != test_after_->is_date) {
    return absl::InvalidArgumentError(absl::StrCat("test_after: expected a ", row.time.is_date ? "date" : "number",
                                                   ", as the column of kind TIME has, found \"", options_.test_after,
                                                   "\""));
  }
  return row.time.value >= test_after_->value ? SplitPart::kTest : rule_.PartOf(row.id);
}

std::string RowSplit::TestRule() const {
  if (test_after_.has_value()) {
    return absl::StrCat("test_after ", options_.test_after);
  }
  return options_.test_fraction > 0 ? absl::StrCat("test_fraction ", options_.test_fraction) : "";
}

std::string RowSplit::ValidationRule() const {
  return options_.validation_fraction > 0 ? absl::StrCat("validation_fraction ", options_.validation_fraction) : "";
}

void RowSplit::Describe(v1::Preprocessing& preprocessing) const {
  preprocessing.set_test_fraction(options_.test_fraction);
  preprocessing.set_split_salt(options_.split_salt);
  if (options_.auxiliary_fraction > 0) {
    preprocessing.set_auxiliary_fraction(options_.auxiliary_fraction);
  }
  if (options_.validation_fraction > 0) {
    preprocessing.set_validation_fraction(options_.validation_fraction);
  }
  if (by_group_) {
    preprocessing.set_split_by_group(true);
  }
  if (test_after_.has_value()) {
    preprocessing.set_test_after(options_.test_after);
  }
}

}  // namespace splitveil
