#include "deploy/operator/init/table_profile.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "deploy/operator/preparation/line_reader.h"
#include "deploy/operator/preparation/profile_queue.h"
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

absl::Status AddFile(const std::string& file, const std::string& first_file, const LayoutFlags& flags,
                     ProfiledTable& table, ProfileQueue& queue) {
  // From the start again: its line numbers are those of what it gives.
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<LineReader> reader, LineReader::Open(file));
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
      SPLITVEIL_RETURN_IF_ERROR(CheckSameHeader(*reader, cells, table.layout.names, first_file));
      continue;
    }
    if (!is_split || cells.size() != table.profile.columns.size()) {
      ++table.odd_lines;
      if (flags.skip_bad_rows) {
        continue;  // `prepare` judges how many there may be.
      }
      return reader->ErrorAt(
          1, absl::StrCat(is_split ? absl::StrCat("expected ", table.profile.columns.size(),
                                                  " cells as in the lines before, found ", cells.size())
                                   : "expected a quoted cell that ends on its line, found one that does "
                                     "not; a quote in a text is written twice, in quotes",
                          "; --skip_bad_rows leaves such lines out"));
    }
    queue.Add(cells, reader->line_number());
    ++table.rows;
  }
}

}  // namespace

absl::StatusOr<ProfiledTable> ProfileTable(const std::vector<std::string>& paths, const LayoutFlags& flags) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<std::string> files, TableFiles(paths));
  SPLITVEIL_ASSIGN_OR_RETURN(std::vector<std::string> first, FirstLinesOf(files.front()));
  size_t first_file = 0;
  // Some programs write parts that have a header line alone.
  while (first.size() < 2 && first_file + 1 < files.size()) {
    SPLITVEIL_ASSIGN_OR_RETURN(first, FirstLinesOf(files[++first_file]));
  }
  ProfiledTable table;
  table.files = files.size();
  SPLITVEIL_ASSIGN_OR_RETURN(table.layout, FindLayout(files[first_file], first, flags));
  for (const std::string& name : table.layout.names) {
    table.profile.columns.emplace_back(name, ColumnProfile::Declared{std::nullopt, flags.missing, {}});
  }
  std::vector<size_t> places(table.profile.columns.size());
  std::iota(places.begin(), places.end(), 0);
  ProfileQueue queue(&table.profile, std::move(places));
  for (const std::string& file : files) {
    SPLITVEIL_RETURN_IF_ERROR(AddFile(file, files[first_file], flags, table, queue));
  }
  queue.Finish();
  if (table.rows == 0) {
    return absl::InvalidArgumentError(absl::StrCat(paths.front(), ": expected rows below the header line, found none"));
  }
  return table;
}

const ColumnProfile* FindColumn(const ProfiledTable& table, const std::string& name) {
  const auto found = std::find_if(table.profile.columns.begin(), table.profile.columns.end(),
                                  [&](const ColumnProfile& column) { return column.name() == name; });
  return found == table.profile.columns.end() ? nullptr : &*found;
}

std::string ProfileHead(const std::string& path, const ProfiledTable& table) {
  const TableLayout& layout = table.layout;
  return absl::StrCat(path, ": ", table.rows, " rows",
                      table.files > 1 ? absl::StrCat(" in ", table.files, " files") : "", "; separator ",
                      SeparatorName(layout.separator), layout.header ? ", header line" : ", no header line",
                      layout.quotes ? "" : ", quotes are text", layout.trim ? ", blanks around cells" : "",
                      table.odd_lines > 0 ? absl::StrCat(", ", table.odd_lines, " lines left out") : "", "\n");
}

}  // namespace splitveil
