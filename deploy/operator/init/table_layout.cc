#include "deploy/operator/init/table_layout.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

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

// With quotes where they can be read so, as RFC 4180 has it.
std::optional<Cells> SplitBy(const std::vector<std::string>& lines, char separator, size_t odd_lines,
                             TableLayout& layout) {
  layout.separator = separator;
  for (const bool quotes : {true, false}) {
    layout.quotes = quotes;
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

// What to say where a separator does not fit: the first line that differs from the first.
std::string OddLine(const std::vector<std::string>& lines, char separator) {
  const size_t expected = CellsBy(lines.front(), separator);
  for (size_t line = 1; expected > 1 && line < lines.size(); ++line) {
    const size_t found = CellsBy(lines[line], separator);
    if (found != expected) {
      return absl::StrCat("; by ", SeparatorName(separator), " the first has ", expected, ", and line ", line + 1,
                          found == 0 ? " has a quoted cell that does not end on it" : absl::StrCat(" has ", found),
                          ": --skip_bad_rows leaves such lines out");
    }
  }
  return "";
}

absl::StatusOr<Cells> FindSeparator(const std::string& name, const std::vector<std::string>& lines,
                                    const LayoutFlags& flags, TableLayout& layout) {
  std::optional<Cells> best;
  bool tie = false;
  for (const char separator : kSeparators) {
    TableLayout tried;
    std::optional<Cells> cells = SplitBy(lines, separator, OddLines(lines, flags), tried);
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
  if (!best.has_value() || tie) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": cannot tell the separator: ",
                     tie ? "two of comma, semicolon, tab and bar give each line the same number of cells"
                         : "with comma, semicolon, tab or bar, lines have different numbers of cells",
                     ". Set --separator=BYTE (tab: \"\\t\")", tie ? "" : OddLine(lines, MostCells(lines.front()))));
  }
  return *std::move(best);
}

absl::StatusOr<Cells> SplitByFlag(const std::string& name, const std::vector<std::string>& lines,
                                  const LayoutFlags& flags, TableLayout& layout) {
  const std::string separator = flags.separator == "\\t" ? "\t" : flags.separator;
  if (separator.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("command line: --separator: expected one byte, found \"", flags.separator, "\""));
  }
  std::optional<Cells> cells = SplitBy(lines, separator[0], OddLines(lines, flags), layout);
  if (!cells.has_value() || cells->front().size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": every line needs the same number of cells, at least two. They differ with separator ",
                     SeparatorName(separator[0]), OddLine(lines, separator[0])));
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

absl::Status TakeNames(const std::string& name, const Cells& cells, const LayoutFlags& flags, TableLayout& layout) {
  layout.header = flags.header.empty() ? LooksLikeHeader(cells) : flags.header == "yes";
  const std::vector<std::string>& first = cells.front();
  const auto [one, other] = SameCells(first);
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
  TableLayout layout;
  SPLITVEIL_ASSIGN_OR_RETURN(const Cells cells, flags.separator.empty() ? FindSeparator(name, lines, flags, layout)
                                                                        : SplitByFlag(name, lines, flags, layout));
  SPLITVEIL_RETURN_IF_ERROR(TakeNames(name, cells, flags, layout));
  return layout;
}

}  // namespace splitveil
