#include "common/dataset/prepare_criteo.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "common/crypto/sha256.h"
#include "common/dataset/line_reader.h"
#include "common/storage/pending_file.h"
#include "common/dataset/seeded_draws.h"
#include "common/dataset/tsv.h"

namespace splitveil {
namespace {

constexpr size_t kIdBytes = 16;
constexpr size_t kCategoryDigits = 8;

// Streams of the seed's draws; the ids have a key of their own.
constexpr uint64_t kMembershipStream = 1;
constexpr uint64_t kLabelOrderStream = 2;
constexpr uint64_t kNonlabelOrderStream = 3;

std::string LittleEndian(uint64_t value) {
  std::string bytes(sizeof(value), '\0');
  for (char& byte : bytes) {
    byte = static_cast<char>(value & 0xff);
    value >>= 8;
  }
  return bytes;
}

// SHA-256(key || row) with key and row of fixed length, so that no input extends another.
class RowIds {
 public:
  explicit RowIds(uint64_t seed) : key_(Sha256(absl::StrCat("splitveil.prepare.row_id.v1", LittleEndian(seed)))) {}

  std::string Id(int64_t row) const {
    const Digest digest = Sha256(absl::StrCat(AsBytes(key_), LittleEndian(static_cast<uint64_t>(row))));
    return absl::BytesToHexString(AsBytes(digest).substr(0, kIdBytes));
  }

 private:
  Digest key_;
};

// Writes rows in another order with a fixed number of them in memory: each row that arrives at a full buffer takes the
// place of a random one, which is written.
class ShuffledRows {
 public:
  ShuffledRows(PendingFile* file, int64_t buffer_rows, SeededDraws draws)
      : file_(file), buffer_rows_(static_cast<size_t>(buffer_rows)), draws_(draws) {}

  absl::Status Add(std::string row) {
    if (rows_.size() < buffer_rows_) {
      rows_.push_back(std::move(row));
      return absl::OkStatus();
    }
    std::swap(rows_[draws_.Below(rows_.size())], row);
    return file_->Append(row);
  }

  absl::Status Flush() {
    while (!rows_.empty()) {
      std::swap(rows_[draws_.Below(rows_.size())], rows_.back());
      absl::Status appended = file_->Append(rows_.back());
      if (!appended.ok()) {
        return appended;
      }
      rows_.pop_back();
    }
    return absl::OkStatus();
  }

 private:
  PendingFile* file_;  // Not owned; must outlive this.
  size_t buffer_rows_;
  SeededDraws draws_;
  std::vector<std::string> rows_;
};

absl::Status CheckOptions(const PrepareCriteoOptions& options) {
  // Written so that NaN fails too.
  const auto is_fraction = [](double value) { return value >= 0 && value < 1; };
  if (!is_fraction(options.only_label_fraction) || !is_fraction(options.only_nonlabel_fraction) ||
      !is_fraction(options.only_label_fraction + options.only_nonlabel_fraction)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "only_label_fraction, only_nonlabel_fraction: expected each in [0, 1) and together below 1, found ",
        options.only_label_fraction, " and ", options.only_nonlabel_fraction));
  }
  if (options.shuffle_buffer_rows < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("shuffle_buffer_rows: expected at least 1, found ", options.shuffle_buffer_rows));
  }
  return absl::OkStatus();
}

bool IsInteger(absl::string_view cell) {
  // SimpleAtoi forgives surrounding white space and a plus sign.
  const bool starts_well = absl::ascii_isdigit(cell.front()) || cell.front() == '-';
  int64_t value;
  return starts_well && absl::ascii_isdigit(cell.back()) && absl::SimpleAtoi(cell, &value);
}

bool IsCategory(absl::string_view cell) {
  return cell.size() == kCategoryDigits && std::all_of(cell.begin(), cell.end(), absl::ascii_isxdigit);
}

absl::Status CheckRow(const LineReader& lines, const std::vector<absl::string_view>& cells) {
  if (cells.size() != kCriteoColumns) {
    return lines.ErrorAt(static_cast<int64_t>(std::min<size_t>(cells.size(), kCriteoColumns + 1)),
                         absl::StrCat("expected ", kCriteoColumns, " columns, found ", cells.size()));
  }
  if (cells[0] != "0" && cells[0] != "1") {
    return lines.ErrorAt(1, "label: expected 0 or 1");
  }
  for (int i = 1; i < kCriteoColumns; ++i) {
    const bool numeric = i <= kCriteoNumeric;
    if (!cells[i].empty() && !(numeric ? IsInteger(cells[i]) : IsCategory(cells[i]))) {
      return lines.ErrorAt(
          i + 1, numeric ? absl::StrCat("I", i, ": expected an integer or nothing")
                         : absl::StrCat("C", i - kCriteoNumeric, ": expected 8 hexadecimal digits or nothing"));
    }
  }
  return absl::OkStatus();
}

std::string Header(absl::string_view first_columns) {
  std::string header(first_columns);
  for (int i = 1; i <= kCriteoNumeric; ++i) {
    absl::StrAppend(&header, "\tnumeric:I", i);
  }
  for (int i = 1; i <= kCriteoCategorical; ++i) {
    absl::StrAppend(&header, "\tcategorical:C", i);
  }
  return header + "\n";
}

// Reads every row of `lines`, counts it in `result` and hands it to the parties that hold it.
absl::Status SplitRows(const PrepareCriteoOptions& options, LineReader* lines, ShuffledRows* label_rows,
                       ShuffledRows* nonlabel_rows, PrepareCriteoResult* result) {
  const RowIds ids(options.seed);
  SeededDraws membership(options.seed, kMembershipStream);
  std::vector<absl::string_view> cells;
  std::array<int64_t, kCriteoFeatures> missing = {};
  absl::string_view line;
  while (true) {
    absl::StatusOr<bool> more = lines->Next(&line);
    if (!more.ok() || !*more) {
      if (result->rows > 0) {
        std::transform(missing.begin(), missing.end(), result->missing_rates.begin(),
                       [&](int64_t count) { return static_cast<double>(count) / static_cast<double>(result->rows); });
      }
      return more.status();
    }
    SplitTabs(line, &cells);
    absl::Status status = CheckRow(*lines, cells);
    const std::string id = ids.Id(result->rows);
    const double draw = membership.Uniform();
    const bool at_nonlabel = draw >= options.only_label_fraction;
    const bool at_label = !at_nonlabel || draw >= options.only_label_fraction + options.only_nonlabel_fraction;
    if (status.ok() && at_label) {
      status = label_rows->Add(absl::StrCat(id, "\t", line, "\n"));
    }
    if (status.ok() && at_nonlabel) {
      status = nonlabel_rows->Add(absl::StrCat(id, line.substr(cells[0].size()), "\n"));
    }
    if (!status.ok()) {
      return status;
    }
    ++result->rows;
    result->positives += cells[0] == "1" ? 1 : 0;
    result->label_rows += at_label ? 1 : 0;
    result->nonlabel_rows += at_nonlabel ? 1 : 0;
    result->common_rows += at_label && at_nonlabel ? 1 : 0;
    for (int i = 0; i < kCriteoFeatures; ++i) {
      missing[i] += cells[i + 1].empty() ? 1 : 0;
    }
  }
}

absl::Status WriteParties(const PrepareCriteoOptions& options, LineReader* lines, PrepareCriteoResult* result) {
  absl::StatusOr<std::unique_ptr<PendingFile>> label = PendingFile::Create(result->label_path);
  if (!label.ok()) {
    return label.status();
  }
  absl::StatusOr<std::unique_ptr<PendingFile>> nonlabel = PendingFile::Create(result->nonlabel_path);
  if (!nonlabel.ok()) {
    return nonlabel.status();
  }
  ShuffledRows label_rows(label->get(), options.shuffle_buffer_rows, SeededDraws(options.seed, kLabelOrderStream));
  ShuffledRows nonlabel_rows(nonlabel->get(), options.shuffle_buffer_rows,
                             SeededDraws(options.seed, kNonlabelOrderStream));
  absl::Status status = (*label)->Append(Header("id\tlabel"));
  status.Update((*nonlabel)->Append(Header("id")));
  if (status.ok()) {
    status = SplitRows(options, lines, &label_rows, &nonlabel_rows, result);
  }
  if (status.ok() && result->rows == 0) {
    status = absl::InvalidArgumentError(absl::StrCat(options.input_path, ": expected rows, found an empty file"));
  }
  if (!status.ok()) {
    return status;
  }
  status.Update(label_rows.Flush());
  status.Update(nonlabel_rows.Flush());
  status.Update(status.ok() ? PendingFile::Publish({label->get(), nonlabel->get()}) : absl::OkStatus());
  return status;
}

}  // namespace

absl::StatusOr<PrepareCriteoResult> PrepareCriteo(const PrepareCriteoOptions& options) {
  absl::Status valid = CheckOptions(options);
  if (!valid.ok()) {
    return valid;
  }
  absl::StatusOr<std::unique_ptr<LineReader>> lines = LineReader::Open(options.input_path);
  if (!lines.ok()) {
    return lines.status();
  }
  std::error_code error;
  std::filesystem::create_directories(options.out_dir, error);
  if (error) {
    return absl::InvalidArgumentError(absl::StrCat(options.out_dir, ": cannot be made a folder: ", error.message()));
  }
  const std::filesystem::path folder(options.out_dir);
  PrepareCriteoResult result;
  result.label_path = folder / "label_party.tsv";
  result.nonlabel_path = folder / "nonlabel_party.tsv";
  absl::Status written = WriteParties(options, lines->get(), &result);
  if (!written.ok()) {
    return written;
  }
  return result;
}

}  // namespace splitveil
