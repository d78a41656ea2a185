#include "deploy/operator/align/id_table.h"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "deploy/operator/preparation/id_form.h"
#include "deploy/operator/preparation/named_table.h"

#include "common/config/id_pattern.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

// Reads the keys of one file, row by row.
class KeyReader {
 public:
  static absl::StatusOr<KeyReader> Open(const IdTable::Options& options) {
    SPLITVEIL_RETURN_IF_ERROR(CheckColumns(options, "key_column", options.forms.size()));
    SPLITVEIL_RETURN_IF_ERROR(options.patterns.empty() ? absl::OkStatus()
                                                       : CheckColumns(options, "id_pattern", options.patterns.size()));
    std::vector<IdPattern> patterns;
    for (const std::string& pattern : options.patterns) {
      SPLITVEIL_ASSIGN_OR_RETURN(patterns.emplace_back(), IdPattern::Create(pattern));
    }
    SPLITVEIL_ASSIGN_OR_RETURN(NamedTable table, NamedTable::Open(options.path, options.key, "key column"));
    KeyReader reader(options, std::move(table));
    reader.patterns_ = std::move(patterns);
    return reader;
  }

  // The next row's key, which borrows until the next call; nullopt at the end, "" of a row without one.
  absl::StatusOr<std::optional<absl::string_view>> Next() {
    SPLITVEIL_ASSIGN_OR_RETURN(const bool more, table_.Next());
    if (!more) {
      return std::nullopt;
    }
    return Key();
  }

  int64_t line() const { return table_.line(); }

  // Whether the rows so far all had a key, written in one way.
  absl::Status Check() const {
    if (empty_.any()) {
      return empty_.Error(options_.path, "without a key");
    }
    if (undecodable_.any()) {
      return undecodable_.Error(options_.path, "with a key that is not UTF-8, which the agreed id_form needs");
    }
    for (size_t i = 0; i < surveys_.size(); ++i) {
      SPLITVEIL_RETURN_IF_ERROR(surveys_[i].Check(options_.path, options_.key[i], options_.forms[i]));
      SPLITVEIL_RETURN_IF_ERROR(patterns_.empty() ? absl::OkStatus() : patterns_[i].Check(options_.path));
    }
    return absl::OkStatus();
  }

 private:
  // `described`: columns that the agreement's alignment.`field` describes.
  static absl::Status CheckColumns(const IdTable::Options& options, absl::string_view field, size_t described) {
    return described == options.key.size()
               ? absl::OkStatus()
               : absl::InvalidArgumentError(
                     absl::StrCat(options.path, ": --key: expected as many columns as the agreement's alignment.",
                                  field, " describes, ", described, ", found ", options.key.size()));
  }

  KeyReader(const IdTable::Options& options, NamedTable table)
      : options_(options),
        table_(std::move(table)),
        forms_(options.forms.begin(), options.forms.end()),
        surveys_(options.key.size()) {}

  absl::string_view Key() {
    key_.clear();
    for (size_t i = 0; i < forms_.size(); ++i) {
      const absl::string_view cell = table_.cell(i);
      const std::optional<absl::string_view> id = forms_[i].Of(cell);
      if (!id.has_value() || id->empty()) {
        (id.has_value() ? empty_ : undecodable_).Add(line());
        return "";
      }
      surveys_[i].Add(cell, line());
      if (!patterns_.empty()) {
        patterns_[i].Add(*id, line());
      }
      if (forms_.size() > 1) {
        absl::StrAppend(&key_, id->size(), ":");
      }
      absl::StrAppend(&key_, *id);
    }
    return key_;
  }

  const IdTable::Options& options_;
  NamedTable table_;
  std::vector<IdNormalForm> forms_;  // Of the key's columns, as the next two.
  std::vector<IdSurvey> surveys_;
  std::vector<IdPattern> patterns_;  // Or empty.
  FaultyRows empty_, undecodable_;
  std::string key_;
};

// Which rows have the key of an earlier one, or of a later one, in their order. In shares, so that memory does not grow
// with the table: equal keys are in the same one.
std::vector<bool> RowsToDrop(const IdList& ids, RepeatedKeys repeated) {
  constexpr size_t kShare = size_t{1} << 22;
  const size_t shares = (ids.size() + kShare - 1) / kShare;
  std::vector<bool> dropped(ids.size());
  std::vector<std::pair<uint64_t, uint32_t>> rows;
  for (size_t share = 0; share < shares; ++share) {
    rows.clear();
    for (uint32_t row = 0; row < ids.size(); ++row) {
      if (const uint64_t hash = absl::HashOf(ids[row]); hash % shares == share) {
        rows.emplace_back(hash, row);
      }
    }
    std::sort(rows.begin(), rows.end(), [&](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first
                                : std::pair(ids[a.second], a.second) < std::pair(ids[b.second], b.second);
    });
    for (size_t i = 1; i < rows.size(); ++i) {
      if (rows[i - 1].first == rows[i].first && ids[rows[i - 1].second] == ids[rows[i].second]) {
        dropped[rows[repeated == RepeatedKeys::kLast ? i - 1 : i].second] = true;
      }
    }
  }
  return dropped;
}

template <typename Number>
absl::Span<const Number> NumbersIn(absl::string_view section) {
  return {reinterpret_cast<const Number*>(section.data()), section.size() / sizeof(Number)};
}

}  // namespace

// The file of a table, row by row.
class IdTable::Writer {
 public:
  static absl::StatusOr<Writer> Create(const std::string& spill_path) {
    Writer writer;
    writer.path_ = absl::StrCat(spill_path, ".", getpid(), ".ids");
    SPLITVEIL_ASSIGN_OR_RETURN(writer.file_, SectionFileWriter::Create(writer.path_, {"ids", "ends", "numbers"}));
    return writer;
  }

  absl::Status Append(absl::string_view id) {
    end_ += id.size();
    SPLITVEIL_RETURN_IF_ERROR(file_->Append(0, id));
    return file_->Append(1, {reinterpret_cast<const char*>(&end_), sizeof(end_)});
  }
  // Of the row that was appended last.
  absl::Status AppendNumber(uint32_t number) {
    return file_->Append(2, {reinterpret_cast<const char*>(&number), sizeof(number)});
  }

  absl::StatusOr<IdTable> Finish() {
    SPLITVEIL_RETURN_IF_ERROR(file_->Publish().status());
    IdTable table;
    absl::StatusOr<std::unique_ptr<SectionFile>> file = SectionFile::Open(path_, SectionFile::Check::kStructure);
    unlink(path_.c_str());  // What is mapped stays.
    SPLITVEIL_ASSIGN_OR_RETURN(table.file_, std::move(file));
    SPLITVEIL_ASSIGN_OR_RETURN(table.bytes_, table.file_->section("ids"));
    SPLITVEIL_ASSIGN_OR_RETURN(const absl::string_view ends, table.file_->section("ends"));
    SPLITVEIL_ASSIGN_OR_RETURN(const absl::string_view numbers, table.file_->section("numbers"));
    table.ends_ = NumbersIn<uint64_t>(ends);
    table.numbers_ = NumbersIn<uint32_t>(numbers);
    return table;
  }

 private:
  std::string path_;
  std::unique_ptr<SectionFileWriter> file_;
  uint64_t end_ = 0;
};

absl::StatusOr<IdTable> IdTable::Read(const Options& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(KeyReader reader, KeyReader::Open(options));
  SPLITVEIL_ASSIGN_OR_RETURN(Writer writer, Writer::Create(options.spill_path));
  // From which row on, by how much the line exceeds the row: a number or two, as few tables have blank lines.
  std::vector<std::pair<uint32_t, int64_t>> lines;
  for (uint32_t row = 0;; ++row) {
    SPLITVEIL_ASSIGN_OR_RETURN(const std::optional<absl::string_view> key, reader.Next());
    if (!key.has_value()) {
      break;
    }
    if (row == std::numeric_limits<uint32_t>::max()) {
      return absl::InvalidArgumentError(absl::StrCat(options.path, ": too many rows: at most 2^32 - 1"));
    }
    if (lines.empty() || lines.back().second != reader.line() - row) {
      lines.emplace_back(row, reader.line() - row);
    }
    SPLITVEIL_RETURN_IF_ERROR(writer.Append(*key));
  }
  SPLITVEIL_RETURN_IF_ERROR(reader.Check());
  SPLITVEIL_ASSIGN_OR_RETURN(IdTable table, writer.Finish());
  const std::vector<bool> dropped = RowsToDrop(table.ids(), options.repeated);
  FaultyRows repeated;
  auto at = lines.begin();
  for (uint32_t row = 0; row < dropped.size(); ++row) {
    at += at + 1 != lines.end() && at[1].first == row ? 1 : 0;
    if (dropped[row]) {
      repeated.Add(at->second + row);
    }
  }
  if (repeated.any() && options.repeated == RepeatedKeys::kRefuse) {
    return repeated.Error(options.path, "with a key that an earlier row has: remove them, or choose with --repeated");
  }
  return repeated.any() ? table.Without(dropped, options.spill_path) : std::move(table);
}

absl::StatusOr<IdTable> IdTable::Without(const std::vector<bool>& dropped, const std::string& spill_path) const {
  SPLITVEIL_ASSIGN_OR_RETURN(Writer writer, Writer::Create(spill_path));
  for (uint32_t row = 0; row < dropped.size(); ++row) {
    if (!dropped[row]) {
      SPLITVEIL_RETURN_IF_ERROR(writer.Append(ids()[row]));
      SPLITVEIL_RETURN_IF_ERROR(writer.AppendNumber(row));
    }
  }
  SPLITVEIL_ASSIGN_OR_RETURN(IdTable kept, writer.Finish());
  kept.left_out_ = static_cast<int64_t>(dropped.size() - kept.numbers_.size());
  return kept;
}

}  // namespace splitveil
