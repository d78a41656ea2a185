#include "deploy/operator/init/table_layout.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/charconv.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "common/preparation/cell_splitter.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr char kSeparators[] = {',', ';', '\t', '|'};
constexpr size_t kFewTexts = 30;

using Cells = std::vector<std::vector<std::string>>;

// The lines' cells; none where a quoted cell does not end or the lines differ in their number of cells.
std::optional<Cells> SplitAll(const std::vector<std::string>& lines, char separator, bool quotes, bool trim) {
  CellSplitter splitter(separator, quotes, trim);
  Cells all;
  std::vector<absl::string_view> cells;
  for (const std::string& line : lines) {
    if (!splitter.Split(line, cells) || (!all.empty() && cells.size() != all.front().size())) {
      return std::nullopt;
    }
    all.emplace_back(cells.begin(), cells.end());
  }
  return all;
}

// With quotes where they can be read so, as RFC 4180 has it.
std::optional<Cells> SplitBy(const std::vector<std::string>& lines, char separator, TableLayout& layout) {
  layout.separator = separator;
  for (const bool quotes : {true, false}) {
    layout.quotes = quotes;
    // Blanks around cells, as in "a, b", hide quotes and numbers.
    std::optional<Cells> cells = SplitAll(lines, separator, quotes, /*trim=*/true);
    if (cells.has_value()) {
      const std::optional<Cells> raw = SplitAll(lines, separator, quotes, /*trim=*/false);
      layout.trim = !raw.has_value() || *raw != *cells;
      return cells;
    }
  }
  return std::nullopt;
}

std::optional<Cells> SplitAsIs(const std::string& name, const std::vector<std::string>& lines, TableLayout& layout,
                               std::string& error) {
  std::optional<Cells> best;
  TableLayout best_layout;
  bool tie = false;
  for (const char separator : kSeparators) {
    TableLayout tried;
    const std::optional<Cells> cells = SplitBy(lines, separator, tried);
    if (!cells.has_value() || cells->front().size() < 2) {
      continue;
    }
    tie = best.has_value() && cells->front().size() == best->front().size();
    if (!best.has_value() || cells->front().size() > best->front().size()) {
      best = cells;
      best_layout = tried;
    }
  }
  if (!best.has_value() || tie) {
    error =
        absl::StrCat(name, ": expected lines of as many cells each, found ",
                     tie ? "two separators that give them" : "none of comma, semicolon, tab and bar that gives them",
                     "; --separator=TEXT says which it is (tab: \"\\t\")");
    return std::nullopt;
  }
  layout = best_layout;
  return best;
}

// Whether what stands in a column below the first line tells it from that line.
bool UnlikeFirst(const Cells& cells, size_t column) {
  std::set<std::string> texts;
  bool numbers = true;
  for (size_t row = 1; row < cells.size(); ++row) {
    const std::string& cell = cells[row][column];
    numbers = numbers && (cell.empty() || IsNumber(cell));
    texts.insert(cell);
  }
  return numbers ||
         (texts.size() <= kFewTexts && 2 * texts.size() < cells.size() && texts.count(cells.front()[column]) == 0);
}

bool LooksLikeHeader(const Cells& cells) {
  const std::vector<std::string>& first = cells.front();
  std::set<std::string> names(first.begin(), first.end());
  if (names.size() != first.size() ||
      std::any_of(first.begin(), first.end(), [](const std::string& cell) { return cell.empty() || IsNumber(cell); })) {
    return false;
  }
  for (size_t column = 0; column < first.size(); ++column) {
    if (cells.size() > 1 && UnlikeFirst(cells, column)) {
      return true;
    }
  }
  return false;
}

absl::Status TakeNames(const std::string& name, const Cells& cells, const LayoutFlags& flags, TableLayout& layout) {
  layout.header = flags.header.empty() ? LooksLikeHeader(cells) : flags.header == "yes";
  if (flags.header.empty() && !layout.header) {
    return absl::InvalidArgumentError(
        absl::StrCat(name,
                     ":1: expected a header line with the names of the columns, found one that may be a row; "
                     "--header=yes says that it is a header, --header=no that the file has none"));
  }
  const std::vector<std::string>& first = cells.front();
  for (size_t column = 0; column < first.size(); ++column) {
    layout.names.push_back(layout.header ? first[column] : absl::StrCat("column_", column + 1));
  }
  const std::set<std::string> distinct(layout.names.begin(), layout.names.end());
  if (distinct.size() != layout.names.size() || distinct.count("") > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name,
                     ":1: expected a header line with distinct names, found an empty one or one twice; rename "
                     "the columns, or --header=no where this is a row"));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsNumber(const std::string& cell) {
  double number = 0;
  const char* const end = cell.data() + cell.size();
  const absl::from_chars_result result = absl::from_chars(cell.data(), end, number);
  return !cell.empty() && result.ec == std::errc() && result.ptr == end && std::isfinite(number) &&
         cell.find_first_of("xX") == std::string::npos;
}

std::string SeparatorName(char separator) {
  switch (separator) {
    case ',':
      return "comma";
    case ';':
      return "semicolon";
    case '\t':
      return "tab";
    case '|':
      return "bar";
    default:
      return absl::StrCat("\"", std::string(1, separator), "\"");
  }
}

absl::StatusOr<TableLayout> FindLayout(const std::string& name, const std::vector<std::string>& lines,
                                       const LayoutFlags& flags) {
  TableLayout layout;
  std::optional<Cells> cells;
  if (flags.separator.empty()) {
    std::string error;
    cells = SplitAsIs(name, lines, layout, error);
    if (!cells.has_value()) {
      return absl::InvalidArgumentError(error);
    }
  } else {
    const std::string separator = flags.separator == "\\t" ? "\t" : flags.separator;
    if (separator.size() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("command line: --separator: expected one byte, found \"", flags.separator, "\""));
    }
    cells = SplitBy(lines, separator[0], layout);
    if (!cells.has_value() || cells->front().size() < 2) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": expected lines of as many cells each, two or more, found others with separator ",
                       SeparatorName(separator[0])));
    }
  }
  SPLITVEIL_RETURN_IF_ERROR(TakeNames(name, *cells, flags, layout));
  return layout;
}

}  // namespace splitveil
