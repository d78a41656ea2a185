#include "deploy/operator/init/table_sample.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "absl/hash/hash.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "deploy/operator/preparation/line_reader.h"
#include "deploy/operator/preparation/table_files.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr size_t kLayoutLines = 200;

absl::StatusOr<std::vector<std::string>> FirstLinesOf(const std::string& path) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<LineReader> reader, LineReader::Open(path));
  std::vector<std::string> lines;
  absl::string_view line;
  while (lines.size() < kLayoutLines) {
    SPLITVEIL_ASSIGN_OR_RETURN(const bool more, reader->Next(&line));
    if (!more) {
      break;
    }
    SPLITVEIL_RETURN_IF_ERROR(reader->CheckNoZeroByte(line));
    lines.emplace_back(line);
  }
  return lines;
}

}  // namespace

void ColumnSummary::Add(const std::string& cell, int64_t line) {
  ++rows_;
  if (cell.empty()) {
    ++empty_;
    return;
  }
  if (MeansMissing(cell)) {
    ++markers_[cell];
    return;
  }
  if (IsNumber(cell)) {
    ++numbers_;
    if (double number = 0; absl::SimpleAtod(cell, &number) && std::isfinite(number)) {
      sample_.Add(number);
    }
    integers_ += cell.find_first_of(".eE") == std::string::npos ? 1 : 0;
    padded_ += cell.size() > 1 && cell[0] == '0' && absl::ascii_isdigit(cell[1]) ? 1 : 0;
  }
  dates_ += IsDate(cell) ? 1 : 0;
  const bool is_new = hashes_.insert(absl::Hash<std::string>()(cell)).second;
  if (rows_ <= kSurveyedRows || distinct() == rows_ || ids_.HasLostDigits()) {
    ids_.Add(cell, line);
  }
  if (hashes_.size() > kMaxTexts) {
    counts_.clear();
  } else if (is_new || !counts_.empty()) {
    Occurrences& found = counts_[cell];
    found.first_line = found.rows == 0 ? line : found.first_line;
    ++found.rows;
  }
}

int64_t ColumnSummary::marked() const {
  int64_t count = 0;
  for (const auto& [text, cells] : markers_) {
    count += cells;
  }
  return count;
}

namespace {

// That the header line of a later part is that of the first.
absl::Status CheckSameHeader(const LineReader& reader, const std::vector<absl::string_view>& cells,
                             const TableSample& sample, const std::string& first_file) {
  const std::vector<std::string>& names = sample.layout.names;
  return std::equal(cells.begin(), cells.end(), names.begin(), names.end())
             ? absl::OkStatus()
             : reader.ErrorAt(1, absl::StrCat("expected the same header line as in ", first_file,
                                              ", found a different one: every part of a table needs it"));
}

// Sets `whole` to whether all of the file was looked at.
absl::Status AddFile(const std::vector<std::string>& files, size_t index, const LayoutFlags& flags,
                     TableSample& sample) {
  // From the start again: its line numbers are those of what it gives.
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<LineReader> reader, LineReader::Open(files[index]));
  CellSplitter splitter(sample.layout.separator, sample.layout.quotes, sample.layout.trim);
  std::vector<absl::string_view> cells;
  bool is_header = sample.layout.header;
  absl::string_view line;
  while (true) {
    SPLITVEIL_ASSIGN_OR_RETURN(const bool more, reader->Next(&line));
    if (more && splitter.IsBlank(line)) {
      continue;
    }
    sample.whole = !more;
    if (sample.whole || sample.rows == kMaxSampledRows || sample.bytes >= kMaxSampledBytes) {
      return absl::OkStatus();
    }
    const bool is_split = splitter.Split(line, cells);
    if (is_header) {
      is_header = false;
      SPLITVEIL_RETURN_IF_ERROR(index == 0 ? absl::OkStatus() : CheckSameHeader(*reader, cells, sample, files.front()));
      continue;
    }
    if (!is_split || cells.size() != sample.columns.size()) {
      ++sample.odd_lines;
      if (flags.skip_bad_rows) {
        continue;  // `prepare` judges how many there may be.
      }
      return reader->ErrorAt(1,
                             absl::StrCat("expected ", sample.columns.size(),
                                          " cells as in the lines before, found a different number, or a quoted cell "
                                          "that does not end on its line; --skip_bad_rows leaves such lines out"));
    }
    for (size_t column = 0; column < cells.size(); ++column) {
      sample.columns[column].Add(std::string(cells[column]), reader->line_number());
    }
    ++sample.rows;
    sample.bytes += static_cast<int64_t>(line.size());
  }
}

}  // namespace

absl::StatusOr<TableSample> SampleTable(const std::string& path, const LayoutFlags& flags) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<std::string> files, TableFiles({path}));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<std::string> first, FirstLinesOf(files.front()));
  TableSample sample;
  SPLITVEIL_ASSIGN_OR_RETURN(sample.layout, FindLayout(path, first, flags));
  for (const std::string& name : sample.layout.names) {
    sample.columns.emplace_back(name);
  }
  for (size_t i = 0; i < files.size() && sample.whole; ++i) {
    SPLITVEIL_RETURN_IF_ERROR(AddFile(files, i, flags, sample));
  }
  if (sample.rows == 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected rows below the header line, found none"));
  }
  return sample;
}

std::string SampleText(const std::string& path, const TableSample& sample) {
  const TableLayout& layout = sample.layout;
  return absl::StrCat(path, ": ", sample.rows, sample.whole ? " rows, all of the file" : " rows looked at, not all",
                      "; separator ", SeparatorName(layout.separator),
                      layout.header ? ", header line" : ", no header line", layout.quotes ? "" : ", quotes are text",
                      layout.trim ? ", blanks around cells" : "",
                      sample.odd_lines > 0 ? absl::StrCat(", ", sample.odd_lines, " lines left out") : "", "\n");
}

}  // namespace splitveil
