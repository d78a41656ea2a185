#include "deploy/operator/preparation/row_source.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/config/agreement.h"
#include "common/crypto/sha256.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

// The fault of most of the rows that were left out.
RowFault MostFrequentFault(const FaultCounts& skipped) {
  return static_cast<RowFault>(std::max_element(skipped.begin(), skipped.end()) - skipped.begin());
}

constexpr size_t kIdBytes = 16;

std::string LittleEndian(uint64_t value) {
  std::string bytes(sizeof(value), '\0');
  for (char& byte : bytes) {
    byte = static_cast<char>(value & 0xff);
    value >>= 8;
  }
  return bytes;
}

absl::uint128 FirstHalfOfHash(absl::string_view id) {
  const Digest digest = Sha256(id);
  absl::uint128 half;
  std::memcpy(&half, digest.data(), sizeof(half));
  return half;
}

}  // namespace

std::string LeftOutText(const FaultCounts& skipped, size_t files) {
  std::string text;
  for (size_t fault = 1; fault < skipped.size(); ++fault) {
    if (skipped[fault] > 0) {
      // Of a damaged file it is not known how many rows were behind the damage.
      absl::StrAppend(
          &text, "left out: ", kRowFaultNames[fault], ": ",
          static_cast<RowFault>(fault) == RowFault::kFile
              ? absl::StrCat("all from the damage on, in ", skipped[fault], " of ", files, " files\n")
              : absl::StrCat(skipped[fault], " rows",
                             static_cast<RowFault>(fault) == RowFault::kRepeatedId ? " (the first of each id is kept)\n"
                                                                                   : "\n"));
    }
  }
  return text;
}

absl::Status CheckUsableRows(const UsableRowsOptions& options, const std::string& table, int64_t usable,
                             const RowSource& source) {
  const FaultCounts& skipped = source.skipped();
  if (skipped[static_cast<size_t>(RowFault::kFile)] > 0 && options.expected_rows == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        source.first_error(RowFault::kFile).message(),
        "; the number of lost rows is unknown: get the whole file, or give the table's row count with --rows"));
  }
  const int64_t read = std::accumulate(skipped.begin(), skipped.end(), usable);
  const int64_t total = std::max(options.expected_rows, read);
  if (static_cast<double>(usable) >= options.min_usable_share * static_cast<double>(total)) {
    return absl::OkStatus();
  }
  std::string error = absl::StrFormat("%s: expected at least %g%% of the %d rows to be usable, found %d", table,
                                      100 * options.min_usable_share, total, usable);
  if (read > usable) {
    const RowFault fault = MostFrequentFault(skipped);
    absl::StrAppend(&error, "; most often ", kRowFaultNames[static_cast<size_t>(fault)], ", first ",
                    source.first_error(fault).message());
  }
  return absl::InvalidArgumentError(absl::StrCat(error, "; --min_usable_share sets the share"));
}

absl::Status CheckTrainingLabels(const std::string& table, const LabelVariety& training) {
  const absl::Status status = training.Check("training rows");
  return status.ok() ? status
                     : absl::InvalidArgumentError(absl::StrCat(
                           table, ": ", status.message(),
                           "; see whether the table was filtered by its label, and whether the schema says which texts "
                           "the labels are (positive, negative)"));
}

absl::Status CheckHeldOutLabels(const std::string& table, absl::string_view part, const std::string& kept_by,
                                const LabelVariety& labels) {
  const absl::Status status = labels.Check(absl::StrCat(part, " rows"));
  return status.ok() ? status
                     : absl::InvalidArgumentError(
                           absl::StrCat(table, ": ", status.message(), ", which ", kept_by, " keeps for ",
                                        part == "test" ? "testing" : "validation", "; use a larger table",
                                        absl::StartsWith(kept_by, "test_after")
                                            ? " or another time"
                                            : absl::StrCat(", a larger ", part, "_fraction or ", part, "_fraction 0")));
}

RowSource::RowSource(std::unique_ptr<TableReader> table, std::unique_ptr<ImageReader> images, const Options& options)
    : table_(std::move(table)),
      images_(std::move(images)),
      columns_(table_->columns()),
      skip_bad_rows_(options.skip_bad_rows),
      id_key_(Sha256(absl::StrCat("splitveil.prepare.row_id.v1", LittleEndian(options.seed)))) {
  for (const v1::TableSchema::Column& column : options.schema.columns()) {
    const std::set<v1::IdForm> forms = FormsIn(column.id_form());
    id_form_note_ += forms.count(v1::CASE_FOLD) + forms.count(v1::INTEGER) + forms.count(v1::DIGITS) > 0
                         ? " in the form that id_form gives them"
                         : "";
  }
  if (images_ != nullptr) {
    columns_.image = images_->shape();
    columns_.image_holder = options.schema.images().holder();
  }
}

absl::StatusOr<std::unique_ptr<RowSource>> RowSource::Open(const Options& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<TableReader> table,
                             TableReader::Open(options.input_paths, options.schema, options.allowed_changes));
  table->set_profile(options.profile);
  IdPattern pattern;
  for (const v1::TableSchema::Column& column : options.schema.columns()) {
    if (column.kind() == v1::TableSchema::ID) {
      SPLITVEIL_ASSIGN_OR_RETURN(pattern, IdPattern::Create(column.id_pattern()));
    }
  }
  std::unique_ptr<ImageReader> images;
  if (options.schema.has_images()) {
    ImageReader::Options image_options{options.schema.images(), options.images_path, /*named=*/false,
                                       options.image_size};
    for (const v1::TableSchema::Column& column : options.schema.columns()) {
      image_options.named = image_options.named || column.kind() == v1::TableSchema::IMAGE_FILE;
    }
    SPLITVEIL_ASSIGN_OR_RETURN(images, ImageReader::Open(image_options));
  } else if (!options.images_path.empty()) {
    return absl::InvalidArgumentError("images: expected images in the table's schema, found none");
  }
  auto rows = std::unique_ptr<RowSource>(new RowSource(std::move(table), std::move(images), options));
  rows->pattern_ = std::move(pattern);
  return rows;
}

absl::StatusOr<bool> RowSource::Next(TableRow& row) {
  while (true) {
    SPLITVEIL_ASSIGN_OR_RETURN(const bool more, table_->Next(row));
    if (!more) {
      const absl::Status finished = images_ == nullptr ? absl::OkStatus() : images_->Finish(table_->rows_read());
      return finished.ok() ? absl::StatusOr<bool>(false) : finished;
    }
    if (row.fault == RowFault::kNone) {
      SetId(row);
    }
    if (row.fault == RowFault::kNone && images_ != nullptr) {
      if (absl::Status status = images_->Read(row_number(), row.image_name, row.pixels); !status.ok()) {
        table_->SetFault(RowFault::kImage, table_->column_of(v1::TableSchema::IMAGE_FILE), status.message(), row);
      }
    }
    if (row.fault == RowFault::kNone) {
      return true;
    }
    if (!skip_bad_rows_) {
      return row.error;
    }
    const auto fault = static_cast<size_t>(row.fault);
    ++skipped_[fault];
    first_errors_[fault].Update(row.error);
  }
}

void RowSource::SetId(TableRow& row) {
  if (!columns().has_id) {
    // Key and number have fixed lengths, so that no input of the hash extends another.
    const Digest digest = Sha256(absl::StrCat(AsBytes(id_key_), LittleEndian(static_cast<uint64_t>(row_number()))));
    made_id_ = absl::BytesToHexString(AsBytes(digest).substr(0, kIdBytes));
    row.id = made_id_;
    return;
  }
  // Half a hash costs 16 bytes a row, whatever the ids' length; 2^64 rows would be needed for a collision.
  const absl::uint128 half = FirstHalfOfHash(row.id);
  if (!seen_ids_.insert(half).second) {
    table_->SetFault(RowFault::kRepeatedId, table_->column_of(v1::TableSchema::ID),
                     absl::StrCat("expected distinct ids", id_form_note_, ", found one again",
                                  skip_bad_rows_ ? "" : FirstPlaceOf(half)),
                     row);
    return;
  }
  ids_.Add(row.id, table_->line_number());
  pattern_.Add(row.id, table_->line_number());
}

std::string RowSource::FirstPlaceOf(absl::uint128 half) const {
  // Read again, because the place of every id would cost memory for an error that is rare.
  const absl::StatusOr<std::unique_ptr<TableReader>> table = table_->Again();
  TableRow row;
  while (table.ok() && (*table)->Next(row).value_or(false)) {
    if (row.fault == RowFault::kNone && FirstHalfOfHash(row.id) == half) {
      return absl::StrCat("; first in ", (*table)->place());
    }
  }
  return "";  // The file has changed meanwhile.
}

namespace {

// What no agreement takes, no data need to be prepared for.
absl::Status CheckFractions(const RowSplit::Options& options) {
  for (const auto& [name, share] : {std::pair("test_fraction", options.test_fraction),
                                    {"auxiliary_fraction", options.auxiliary_fraction},
                                    {"validation_fraction", options.validation_fraction}}) {
    if (!(share >= 0 && share <= kMaxPartFraction)) {  // Written so that NaN fails too.
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": expected a number from 0 to ", kMaxPartFraction, ", found ", share));
    }
  }
  // With test_after the dates decide how much is for testing.
  const double test = options.test_after.empty() ? options.test_fraction : 0;
  return test + options.auxiliary_fraction + options.validation_fraction <= kMaxHeldOutFraction
             ? absl::OkStatus()
             : absl::InvalidArgumentError(absl::StrCat(
                   "test_fraction, auxiliary_fraction, validation_fraction: expected at most ", kMaxHeldOutFraction,
                   " together, found ", test, ", ", options.auxiliary_fraction, " and ", options.validation_fraction));
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
  // A date and a number have no order: the rows would be split by chance.
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
