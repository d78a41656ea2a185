#include "deploy/operator/align/id_table.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "deploy/operator/preparation/id_form.h"
#include "deploy/operator/preparation/line_reader.h"

#include "common/config/id_pattern.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

// Reads the keys of one file, row by row.
class KeyReader {
 public:
  static absl::StatusOr<KeyReader> Open(const IdTable::Options& options) {
    if (!options.patterns.empty() && options.patterns.size() != options.key.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat(options.path, ": --key: expected as many columns as the agreement's ",
                       "alignment.id_pattern describes, ", options.patterns.size(), ", found ", options.key.size()));
    }
    std::vector<IdPattern> patterns;
    for (const std::string& pattern : options.patterns) {
      SPLITVEIL_ASSIGN_OR_RETURN(patterns.emplace_back(), IdPattern::Create(pattern));
    }
    SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<LineReader> lines, LineReader::Open(options.path));
    absl::string_view header;
    SPLITVEIL_ASSIGN_OR_RETURN(const bool found, lines->Next(&header));
    if (!found) {
      return absl::InvalidArgumentError(absl::StrCat(options.path, ": expected a header line, found an empty file"));
    }
    for (const char separator : {'\t', ',', ';'}) {
      CellSplitter splitter(separator, /*quotes=*/true, /*trim=*/true);
      std::vector<absl::string_view> names;
      if (!splitter.Split(header, names)) {
        continue;
      }
      std::vector<size_t> columns;
      for (const std::string& name : options.key) {
        const auto column = std::find(names.begin(), names.end(), name);
        if (column != names.end() && std::find(column + 1, names.end(), name) == names.end()) {
          columns.push_back(static_cast<size_t>(column - names.begin()));
        }
      }
      if (columns.size() == options.key.size()) {
        KeyReader reader(options, std::move(lines), std::move(splitter), std::move(columns), names.size());
        reader.patterns_ = std::move(patterns);
        return reader;
      }
    }
    return absl::InvalidArgumentError(
        absl::StrCat(options.path, ":1: expected a header line that names each key column once (",
                     absl::StrJoin(options.key, ", "), "), with tabs, commas or semicolons between the names"));
  }

  // The next row's key, which borrows until the next call; nullopt at the end, "" of a row without one.
  absl::StatusOr<std::optional<absl::string_view>> Next() {
    absl::string_view line;
    do {
      SPLITVEIL_ASSIGN_OR_RETURN(const bool more, lines_->Next(&line));
      if (!more) {
        return std::nullopt;
      }
    } while (splitter_.IsBlank(line));
    if (!splitter_.Split(line, cells_) || cells_.size() != width_) {
      return lines_->ErrorAt(1, absl::StrCat("expected ", width_, " cells, as the header line has, found ",
                                             cells_.size(), " or bad quotes"));
    }
    return Key();
  }

  int64_t line() const { return lines_->line_number(); }

  // Whether the rows so far all had a key, written in one way.
  absl::Status Check() const {
    if (empty_.any()) {
      return empty_.Error(options_.path, "without a key");
    }
    if (undecodable_.any()) {
      return undecodable_.Error(options_.path, "with a key that is not UTF-8, which the agreed id_form needs");
    }
    for (size_t i = 0; i < surveys_.size(); ++i) {
      SPLITVEIL_RETURN_IF_ERROR(surveys_[i].Check(options_.path, options_.key[i], options_.forms));
      SPLITVEIL_RETURN_IF_ERROR(patterns_.empty() ? absl::OkStatus() : patterns_[i].Check(options_.path));
    }
    return absl::OkStatus();
  }

 private:
  KeyReader(const IdTable::Options& options, std::unique_ptr<LineReader> lines, CellSplitter splitter,
            std::vector<size_t> columns, size_t width)
      : options_(options),
        lines_(std::move(lines)),
        splitter_(std::move(splitter)),
        columns_(std::move(columns)),
        width_(width),
        form_(options.forms),
        surveys_(columns_.size()) {}

  absl::string_view Key() {
    key_.clear();
    for (size_t i = 0; i < columns_.size(); ++i) {
      const absl::string_view cell = cells_[columns_[i]];
      const std::optional<absl::string_view> id = form_.Of(cell);
      if (!id.has_value() || id->empty()) {
        (id.has_value() ? empty_ : undecodable_).Add(line());
        return "";
      }
      surveys_[i].Add(cell, line());
      if (!patterns_.empty()) {
        patterns_[i].Add(*id, line());
      }
      if (columns_.size() > 1) {
        absl::StrAppend(&key_, id->size(), ":");
      }
      absl::StrAppend(&key_, *id);
    }
    return key_;
  }

  const IdTable::Options& options_;
  std::unique_ptr<LineReader> lines_;
  CellSplitter splitter_;
  std::vector<size_t> columns_;  // Of the key, in its order.
  size_t width_;
  IdNormalForm form_;
  std::vector<IdSurvey> surveys_;    // Of the key's columns.
  std::vector<IdPattern> patterns_;  // Of the same, or empty.
  FaultyRows empty_, undecodable_;
  std::vector<absl::string_view> cells_;
  std::string key_;
};

// Which rows have the key of an earlier one, or of a later one, in their order. By sorting, as a hash table takes three
// times the memory.
std::vector<bool> RowsToDrop(const IdList& ids, RepeatedKeys repeated) {
  std::vector<std::pair<uint64_t, uint32_t>> rows(ids.size());
  for (uint32_t row = 0; row < rows.size(); ++row) {
    rows[row] = {absl::HashOf(ids[row]), row};
  }
  std::sort(rows.begin(), rows.end(), [&](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first
                              : std::pair(ids[a.second], a.second) < std::pair(ids[b.second], b.second);
  });
  std::vector<bool> dropped(rows.size());
  for (size_t i = 1; i < rows.size(); ++i) {
    if (rows[i - 1].first == rows[i].first && ids[rows[i - 1].second] == ids[rows[i].second]) {
      dropped[rows[repeated == RepeatedKeys::kLast ? i - 1 : i].second] = true;
    }
  }
  return dropped;
}

}  // namespace

absl::StatusOr<IdTable> IdTable::Read(const Options& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(KeyReader reader, KeyReader::Open(options));
  IdTable table;
  // From which row on, by how much the line exceeds the row: a number or two, as few tables have blank lines.
  std::vector<std::pair<uint32_t, int64_t>> lines;
  while (true) {
    SPLITVEIL_ASSIGN_OR_RETURN(const std::optional<absl::string_view> key, reader.Next());
    if (!key.has_value()) {
      break;
    }
    if (table.ends_.size() == std::numeric_limits<uint32_t>::max()) {
      return absl::InvalidArgumentError(absl::StrCat(options.path, ": too many rows: at most 2^32 - 1"));
    }
    const auto row = static_cast<uint32_t>(table.ends_.size());
    if (lines.empty() || lines.back().second != reader.line() - row) {
      lines.emplace_back(row, reader.line() - row);
    }
    absl::StrAppend(&table.bytes_, *key);
    table.ends_.push_back(table.bytes_.size());
  }
  SPLITVEIL_RETURN_IF_ERROR(reader.Check());
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
  if (repeated.any()) {
    table.Drop(dropped);
  }
  return table;
}

void IdTable::Drop(const std::vector<bool>& dropped) {
  IdTable kept;
  for (uint32_t row = 0; row < dropped.size(); ++row) {
    if (!dropped[row]) {
      absl::StrAppend(&kept.bytes_, ids()[row]);
      kept.ends_.push_back(kept.bytes_.size());
      kept.numbers_.push_back(row);
    }
  }
  kept.left_out_ = static_cast<int64_t>(dropped.size() - kept.numbers_.size());
  *this = std::move(kept);
}

}  // namespace splitveil
