#include "deploy/operator/init/table_layout.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/charconv.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "common/preparation/cell_splitter.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr char kSeparators[] = {',', ';', '\t', '|'};
// No number is among them.
constexpr const char* kMissing[] = {"NA", "N/A", "NaN", "nan", "na", "n/a", "null", "NULL", "Null", "?", "\\N", "#N/A"};
constexpr size_t kFewTexts = 30;

using Cells = std::vector<std::vector<std::string>>;

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

// What to say where no separator fits: of the one that cuts the first line into most cells, the first line that
// differs.
std::string OddLine(const std::vector<std::string>& lines) {
  const auto cells_by = [](const std::string& line, char separator) {
    return std::count(line.begin(), line.end(), separator) + 1;
  };
  const char best = *std::max_element(std::begin(kSeparators), std::end(kSeparators), [&](char a, char b) {
    return cells_by(lines.front(), a) < cells_by(lines.front(), b);
  });
  const auto expected = cells_by(lines.front(), best);
  for (size_t line = 1; expected > 1 && line < lines.size(); ++line) {
    if (cells_by(lines[line], best) != expected) {
      return absl::StrCat("; by ", SeparatorName(best), " the first has ", expected, ", and line ", line + 1, " has ",
                          cells_by(lines[line], best), ": --skip_bad_rows leaves such lines out");
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
    tie = best.has_value() &&
          (cells->front().size() == best->front().size() || (tie && cells->front().size() < best->front().size()));
    if (!best.has_value() || cells->front().size() > best->front().size()) {
      best = std::move(cells);
      layout = tried;
    }
  }
  if (!best.has_value() || tie) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": expected lines of as many cells each, found ",
                     tie ? "two separators that give them" : "none of comma, semicolon, tab and bar that gives them",
                     "; --separator=TEXT says which it is (tab: \"\\t\")", tie ? "" : OddLine(lines)));
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
        absl::StrCat(name, ": expected lines of as many cells each, two or more, found others with separator ",
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
    any = any || IsNumber(cell);
    numbers = numbers && (cell.empty() || MeansMissing(cell) || IsNumber(cell));
    texts.insert(cell);
  }
  return (numbers && any) ||
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

bool MeansMissing(const std::string& cell) {
  return std::find(std::begin(kMissing), std::end(kMissing), cell) != std::end(kMissing);
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
  SPLITVEIL_ASSIGN_OR_RETURN(const Cells cells, flags.separator.empty() ? FindSeparator(name, lines, flags, layout)
                                                                        : SplitByFlag(name, lines, flags, layout));
  SPLITVEIL_RETURN_IF_ERROR(TakeNames(name, cells, flags, layout));
  return layout;
}

}  // namespace splitveil
