#include "deploy/operator/preparation/named_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/status/status_macros.h"

namespace splitveil {

absl::StatusOr<NamedTable> NamedTable::Open(const std::string& path, const std::vector<std::string>& columns,
                                            absl::string_view what) {
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<LineReader> lines, LineReader::Open(path));
  absl::string_view header;
  SPLITVEIL_ASSIGN_OR_RETURN(const bool found, lines->Next(&header));
  if (!found) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected a header line, found an empty file"));
  }
  std::vector<std::string> lacking = columns;  // With the separator that gives most of them.
  for (const char separator : {'\t', ',', ';'}) {
    CellSplitter splitter(separator, /*quotes=*/true, /*trim=*/true);
    std::vector<absl::string_view> names;
    if (!splitter.Split(header, names)) {
      continue;
    }
    std::vector<size_t> places;
    std::vector<std::string> others;
    for (const std::string& name : columns) {
      const auto column = std::find(names.begin(), names.end(), name);
      if (column != names.end() && std::find(column + 1, names.end(), name) == names.end()) {
        places.push_back(static_cast<size_t>(column - names.begin()));
      } else {
        others.push_back(name);
      }
    }
    if (places.size() == columns.size()) {
      std::vector<std::string> kept(names.begin(), names.end());
      NamedTable table(std::move(lines), std::move(splitter));
      table.names_ = std::move(kept);
      table.places_ = std::move(places);
      return table;
    }
    if (others.size() < lacking.size()) {
      lacking = std::move(others);
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, ":1: expected a header line that names each ", what, " once (", absl::StrJoin(columns, ", "),
                   "), with tabs, commas or semicolons between the names, found none, or more "
                   "than one, of ",
                   absl::StrJoin(lacking, ", ")));
}

absl::StatusOr<bool> NamedTable::Next() {
  absl::string_view line;
  do {
    SPLITVEIL_ASSIGN_OR_RETURN(const bool more, lines_->Next(&line));
    if (!more) {
      return false;
    }
  } while (splitter_.IsBlank(line));
  if (!splitter_.Split(line, cells_) || cells_.size() != names_.size()) {
    return lines_->ErrorAt(1, absl::StrCat("expected ", names_.size(), " cells, as the header line has, found ",
                                           cells_.size(), " or bad quotes"));
  }
  return true;
}

}  // namespace splitveil
