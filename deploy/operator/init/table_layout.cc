#include "deploy/operator/init/table_layout.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "deploy/operator/preparation/cell_form.h"
#include "deploy/operator/preparation/line_reader.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr char kSeparators[] = {',', ';', '\t', '|'};
constexpr size_t kFewTexts = 30;

using Cells = std::vector<std::vector<std::string>>;

// Those that hold more than separators and blanks, with their numbers in the file, from 1.
struct FirstLines {
  std::vector<std::string> texts;
  std::vector<size_t> numbers;
};
// In any form.
bool HoldsNumber(absl::string_view cell) { return ScanCell(cell).form < CellForm::kDate; }

// How the lines are cut into cells.
struct Cut {
  char separator;
  bool quotes, trim;
  size_t odd_lines;  // That may be passed over.
};

// The lines' cells; none where more lines than `odd_lines` have another number of cells than the first, or a quoted
// cell that does not end.
std::optional<Cells> SplitAll(const std::vector<std::string>& lines, const Cut& cut) {
  CellSplitter splitter(cut.separator, cut.quotes, cut.trim);
  Cells all;
  std::vector<absl::string_view> cells;
  for (const std::string& line : lines) {
    if (splitter.Split(line, cells) && (all.empty() || cells.size() == all.front().size())) {
      all.emplace_back(cells.begin(), cells.end());
    } else if (all.empty()) {
      return std::nullopt;
    }
  }
  return lines.size() - all.size() <= cut.odd_lines ? std::optional<Cells>(std::move(all)) : std::nullopt;
}

// Whether a cell of the line stands in quotes, from one separator to the next.
bool HasQuotedCell(const std::string& line, char separator) {
  CellSplitter splitter(separator, /*quotes=*/true, /*trim=*/true);
  std::vector<absl::string_view> cells;
  if (!splitter.Split(line, cells)) {
    return false;
  }
  std::vector<absl::string_view> raw;
  CellSplitter plain(separator, /*quotes=*/false, /*trim=*/true);
  plain.Split(line, raw);
  return cells != raw;
}

// With quotes where they can be read so, as RFC 4180 has it. Quotes are text only if no cell at all stands in a pair of
// them: a single stray one must not leave the quotes on all other cells.
std::optional<Cells> SplitBy(const std::vector<std::string>& lines, char separator, size_t odd_lines,
                             TableLayout& layout) {
  layout.separator = separator;
  for (const bool quotes : {true, false}) {
    layout.quotes = quotes;
    if (!quotes && std::any_of(lines.begin(), lines.end(),
                               [&](const std::string& line) { return HasQuotedCell(line, separator); })) {
      return std::nullopt;
    }
    // Blanks around cells, as in "a, b", hide quotes and numbers.
    std::optional<Cells> cells = SplitAll(lines, {separator, quotes, /*trim=*/true, odd_lines});
    if (cells.has_value()) {
      // Trimming is proposed only if it changes a cell.
      const std::optional<Cells> raw = SplitAll(lines, {separator, quotes, /*trim=*/false, odd_lines});
      layout.trim = !raw.has_value() || *raw != *cells;
      return cells;
    }
  }
  return std::nullopt;
}

size_t OddLines(const std::vector<std::string>& lines, const LayoutFlags& flags) {
  return flags.skip_bad_rows ? static_cast<size_t>(kOddLineShare * static_cast<double>(lines.size())) : 0;
}

// As RFC 4180 has it; 0 if a quoted cell does not end.
size_t CellsBy(const std::string& line, char separator) {
  CellSplitter splitter(separator, /*quotes=*/true, /*trim=*/true);
  std::vector<absl::string_view> cells;
  return splitter.Split(line, cells) ? cells.size() : 0;
}

// The separator that cuts the line into most cells.
char MostCells(const std::string& line) {
  return *std::max_element(std::begin(kSeparators), std::end(kSeparators),
                           [&](char a, char b) { return CellsBy(line, a) < CellsBy(line, b); });
}

// What to say where a separator does not fit: the first line that differs from the first, which may be all that is
// wrong.
absl::Status Misfit(const std::string& name, const FirstLines& lines, char separator, absl::string_view problem) {
  const size_t expected = CellsBy(lines.texts.front(), separator);
  for (size_t i = 1; expected > 1 && i < lines.texts.size(); ++i) {
    const size_t found = CellsBy(lines.texts[i], separator);
    if (found == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ":", lines.numbers[i],
                       ": expected a quoted cell that ends on its line, found one that does not; a quote in a text is "
                       "written twice, "
                       "in quotes (\"5\"\" disk\"). --skip_bad_rows leaves such lines out"));
    }
    if (found != expected) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": ", problem, "; by ", SeparatorName(separator),
                                                     " the first has ", expected, ", and line ", lines.numbers[i],
                                                     " has ", found, ": --skip_bad_rows leaves such lines out"));
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", problem));
}

// Of a first line that no separator cuts: a title above the header line, or a table of one column.
absl::Status OneCell(const std::string& name, const FirstLines& lines) {
  for (size_t i = 1; i < lines.texts.size(); ++i) {
    if (const size_t cells = CellsBy(lines.texts[i], MostCells(lines.texts[i])); cells > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ":", lines.numbers.front(),
                       ": expected a header line with the names of the columns, found a single "
                       "cell, and ",
                       cells, " in line ", lines.numbers[i],
                       ": remove the lines above the header, such as a title; or "
                       "set --separator=BYTE (tab: \"\\t\")"));
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat(name,
                   ": expected at least two columns, an id and something to learn from, found one by comma, "
                   "semicolon, tab and bar. Set --separator=BYTE if another byte separates them"));
}

absl::StatusOr<Cells> FindSeparator(const std::string& name, const FirstLines& lines, const LayoutFlags& flags,
                                    TableLayout& layout) {
  std::optional<Cells> best;
  bool tie = false;
  for (const char separator : kSeparators) {
    TableLayout tried;
    std::optional<Cells> cells = SplitBy(lines.texts, separator, OddLines(lines.texts, flags), tried);
    if (!cells.has_value() || cells->front().size() < 2) {
      continue;
    }
    // Two separators that fit equally well are not guessed between: the wrong one would scramble every column.
    tie = best.has_value() &&
          (cells->front().size() == best->front().size() || (tie && cells->front().size() < best->front().size()));
    if (!best.has_value() || cells->front().size() > best->front().size()) {
      best = std::move(cells);
      layout = tried;
    }
  }
  if (tie) {
    return absl::InvalidArgumentError(
        absl::StrCat(name,
                     ": cannot tell the separator: two of comma, semicolon, tab and bar give each line the same "
                     "number of cells. Set --separator=BYTE (tab: \"\\t\")"));
  }
  if (!best.has_value() && CellsBy(lines.texts.front(), MostCells(lines.texts.front())) == 1) {
    return OneCell(name, lines);
  }
  if (!best.has_value()) {
    return Misfit(
        name, lines, MostCells(lines.texts.front()),
        "cannot tell the separator: with comma, semicolon, tab or bar, lines have different numbers of cells. "
        "Set --separator=BYTE (tab: \"\\t\")");
  }
  return *std::move(best);
}

absl::StatusOr<Cells> SplitByFlag(const std::string& name, const FirstLines& lines, const LayoutFlags& flags,
                                  TableLayout& layout) {
  const std::string separator = flags.separator == "\\t" ? "\t" : flags.separator;
  if (separator.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("command line: --separator: expected one byte, found \"", flags.separator, "\""));
  }
  std::optional<Cells> cells = SplitBy(lines.texts, separator[0], OddLines(lines.texts, flags), layout);
  if (!cells.has_value() || cells->front().size() < 2) {
    return Misfit(name, lines, separator[0],
                  absl::StrCat("every line needs the same number of cells, at least two. They differ with separator ",
                               SeparatorName(separator[0])));
  }
  return *std::move(cells);
}

// Whether what stands in a column below the first line tells it from that line.
bool UnlikeFirst(const Cells& cells, size_t column) {
  std::set<std::string> texts;
  bool numbers = true, any = false;
  for (size_t row = 1; row < cells.size(); ++row) {
    const std::string& cell = cells[row][column];
    any = any || HoldsNumber(cell);
    numbers = numbers && (cell.empty() || MeansMissing(cell) || HoldsNumber(cell));
    texts.insert(cell);
  }
  return (numbers && any) ||
         (texts.size() <= kFewTexts && 2 * texts.size() < cells.size() && texts.count(cells.front()[column]) == 0);
}

bool LooksLikeHeader(const Cells& cells) {
  const std::vector<std::string>& first = cells.front();
  std::set<std::string> names(first.begin(), first.end());
  if (names.size() != first.size() || std::any_of(first.begin(), first.end(), [](const std::string& cell) {
        return cell.empty() || ScanCell(cell).form < CellForm::kUnit;  // "12 months" may be a name.
      })) {
    return false;
  }
  for (size_t column = 0; column < first.size(); ++column) {
    if (cells.size() > 1 && UnlikeFirst(cells, column)) {
      return true;
    }
  }
  return false;
}

// Two cells of the line that are the same, counted from 1; zeros where all differ.
std::pair<size_t, size_t> SameCells(const std::vector<std::string>& line) {
  for (size_t cell = 0; cell < line.size(); ++cell) {
    const auto first = std::find(line.begin(), line.end(), line[cell]) - line.begin();
    if (static_cast<size_t>(first) < cell) {
      return {first + 1, cell + 1};
    }
  }
  return {0, 0};
}

// The columns that have a name.
Cells WithNames(const Cells& cells) {
  Cells named(cells.size());
  for (size_t row = 0; row < cells.size(); ++row) {
    for (size_t column = 0; column < cells[row].size(); ++column) {
      if (!cells.front()[column].empty()) {
        named[row].push_back(cells[row][column]);
      }
    }
  }
  return named;
}

absl::Status TakeNames(const std::string& name, const Cells& cells, const LayoutFlags& flags, TableLayout& layout) {
  layout.header = flags.header.empty() ? LooksLikeHeader(cells) : flags.header == "yes";
  const std::vector<std::string>& first = cells.front();
  const auto [one, other] = SameCells(first);
  const auto unnamed = std::find(first.begin(), first.end(), "") - first.begin();
  if (flags.header.empty() && static_cast<size_t>(unnamed) < first.size() && LooksLikeHeader(WithNames(cells))) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ":1: expected a name for every column, found none of column ", unnamed + 1,
        unnamed == 0 ? ": data frames write their row numbers so. Write the table without them (pandas: index=False)"
                     : ": a line that ends with a separator has one more, empty cell. Write the table without it",
        ", or name the column"));
  }
  // Taken for a header, a row would be printed: names of columns are, cells are not.
  if (flags.header.empty() && !layout.header) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ":1: expected a header line with the names of the columns, found one that may be a row",
        other > 0 ? absl::StrCat(", as its cells ", one, " and ", other, " are the same: rename one if they are names")
                  : "",
        "; --header=yes says that it is a header, --header=no that the file has none"));
  }
  for (size_t column = 0; column < first.size(); ++column) {
    layout.names.push_back(layout.header ? first[column] : absl::StrCat("column_", column + 1));
  }
  const auto empty = std::find(layout.names.begin(), layout.names.end(), "") - layout.names.begin();
  const bool has_empty = static_cast<size_t>(empty) < layout.names.size();
  if (has_empty || (layout.header && other > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ":1: expected a header line with distinct names, found ",
                     has_empty ? absl::StrCat("none of column ", empty + 1)
                               : absl::StrCat("\"", first[one - 1], "\" for columns ", one, " and ", other),
                     "; rename the columns, or --header=no where this is a row"));
  }
  return absl::OkStatus();
}

}  // namespace

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
  FirstLines used;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].find_first_not_of(",;\t| \"") != std::string::npos) {
      used.texts.push_back(lines[i]);
      used.numbers.push_back(i + 1);
    }
  }
  if (used.texts.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": expected a table, found ", lines.empty() ? "an empty file" : "no line with a cell that is not empty"));
  }
  if (const std::string& first = used.texts.front(); first.size() == 5 && absl::StartsWithIgnoreCase(first, "sep=")) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ":", used.numbers.front(),
                     ": expected a header line, found \"sep=\", by which Excel knows the separator: remove this line"));
  }
  TableLayout layout;
  SPLITVEIL_ASSIGN_OR_RETURN(const Cells cells, flags.separator.empty() ? FindSeparator(name, used, flags, layout)
                                                                        : SplitByFlag(name, used, flags, layout));
  SPLITVEIL_RETURN_IF_ERROR(TakeNames(name, cells, flags, layout));
  return layout;
}

}  // namespace splitveil
