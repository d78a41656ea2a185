#include "deploy/operator/init/table_profile.h"

#include <algorithm>
#include <memory>

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

// That the header line of a later part is that of the first.
absl::Status CheckSameHeader(const LineReader& reader, const std::vector<absl::string_view>& cells,
                             const std::vector<std::string>& names, const std::string& first_file) {
  return std::equal(cells.begin(), cells.end(), names.begin(), names.end())
             ? absl::OkStatus()
             : reader.ErrorAt(1, absl::StrCat("expected the same header line as in ", first_file,
                                              ", found a different one: every part of a table needs it"));
}

absl::Status AddFile(const std::vector<std::string>& files, size_t index, const LayoutFlags& flags,
                     ProfiledTable& table) {
  // From the start again: its line numbers are those of what it gives.
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<LineReader> reader, LineReader::Open(files[index]));
  CellSplitter splitter(table.layout.separator, table.layout.quotes, table.layout.trim);
  std::vector<absl::string_view> cells;
  bool is_header = table.layout.header;
  absl::string_view line;
  while (true) {
    SPLITVEIL_ASSIGN_OR_RETURN(const bool more, reader->Next(&line));
    if (!more) {
      return absl::OkStatus();
    }
    if (splitter.IsBlank(line)) {
      continue;
    }
    const bool is_split = splitter.Split(line, cells);
    if (is_header) {
      is_header = false;
      SPLITVEIL_RETURN_IF_ERROR(index == 0 ? absl::OkStatus()
                                           : CheckSameHeader(*reader, cells, table.layout.names, files.front()));
      continue;
    }
    if (!is_split || cells.size() != table.profile.columns.size()) {
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
}

}  // namespace

absl::StatusOr<ProfiledTable> ProfileTable(const std::string& path, const LayoutFlags& flags) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<std::string> files, TableFiles({path}));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<std::string> first, FirstLinesOf(files.front()));
  ProfiledTable table;
  SPLITVEIL_ASSIGN_OR_RETURN(table.layout, FindLayout(path, first, flags));
  for (const std::string& name : table.layout.names) {
    table.profile.columns.emplace_back(name, ColumnProfile::Declared{std::nullopt, flags.missing, {}});
  }
  for (size_t i = 0; i < files.size(); ++i) {
    SPLITVEIL_RETURN_IF_ERROR(AddFile(files, i, flags, table));
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
