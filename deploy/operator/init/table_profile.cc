#include "deploy/operator/init/table_profile.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "deploy/operator/preparation/line_reader.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr size_t kLayoutLines = 200;

// The first lines that are not empty.
absl::StatusOr<std::vector<std::string>> FirstLines(const std::string& path) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<LineReader> reader, LineReader::Open(path));
  std::vector<std::string> lines;
  absl::string_view line;
  while (lines.size() < kLayoutLines) {
    SPLITVEIL_ASSIGN_OR_RETURN(const bool more, reader->Next(&line));
    if (!more) {
      break;
    }
    SPLITVEIL_RETURN_IF_ERROR(reader->CheckNoZeroByte(line));
    if (!line.empty()) {
      lines.emplace_back(line);
    }
  }
  return lines;
}

}  // namespace

absl::StatusOr<ProfiledTable> ProfileTable(const std::string& path, const LayoutFlags& flags) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<std::string> first, FirstLines(path));
  if (first.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected a table, found an empty file"));
  }
  ProfiledTable table;
  SPLITVEIL_ASSIGN_OR_RETURN(table.layout, FindLayout(path, first, flags));
  for (const std::string& name : table.layout.names) {
    table.profile.columns.emplace_back(name, ColumnProfile::Declared{std::nullopt, flags.missing, {}});
  }
  // From the start again: its line numbers are those of what it gives.
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<LineReader> reader, LineReader::Open(path));
  CellSplitter splitter(table.layout.separator, table.layout.quotes, table.layout.trim);
  std::vector<absl::string_view> cells;
  bool is_header = table.layout.header;
  absl::string_view line;
  while (true) {
    SPLITVEIL_ASSIGN_OR_RETURN(const bool more, reader->Next(&line));
    if (more && (line.empty() || is_header)) {
      is_header = is_header && line.empty();
      continue;
    }
    if (!more) {
      break;
    }
    if (!splitter.Split(line, cells) || cells.size() != table.profile.columns.size()) {
      ++table.odd_lines;
      if (flags.skip_bad_rows) {
        continue;  // `prepare` judges how many there may be.
      }
      return reader->ErrorAt(1,
                             absl::StrCat("expected ", table.profile.columns.size(),
                                          " cells as in the lines before, found a different number, or a quoted cell "
                                          "that does not end on its line; --skip_bad_rows leaves such lines out"));
    }
    for (size_t column = 0; column < cells.size(); ++column) {
      table.profile.columns[column].Add(cells[column], reader->line_number());
    }
    ++table.rows;
  }
  if (table.rows == 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected rows below the header line, found none"));
  }
  return table;
}

std::string ProfileHead(const std::string& path, const ProfiledTable& table) {
  const TableLayout& layout = table.layout;
  return absl::StrCat(path, ": ", table.rows, " rows; separator ", SeparatorName(layout.separator),
                      layout.header ? ", header line" : ", no header line", layout.quotes ? "" : ", quotes are text",
                      layout.trim ? ", blanks around cells" : "",
                      table.odd_lines > 0 ? absl::StrCat(", ", table.odd_lines, " lines left out") : "", "\n");
}

}  // namespace splitveil
