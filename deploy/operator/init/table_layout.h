// How a table is written: separator, quotes, header line, names of the columns.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_INIT_TABLE_LAYOUT_H_
#define SPLITVEIL_DEPLOY_OPERATOR_INIT_TABLE_LAYOUT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace splitveil {

struct TableLayout {
  char separator = ',';
  bool quotes = true;  // A cell may stand in double quotes.
  bool trim = false;   // Cells have blanks around them.
  bool header = true;
  std::vector<std::string> names;  // "column_1", ... without a header line.
};

// What the user has said of it; empty: to be found out.
struct LayoutFlags {
  std::string separator;  // One byte.
  std::string header;     // "yes" or "no".
  // Lines that cannot be used may be among them, up to kOddLineShare: they are passed over.
  bool skip_bad_rows = false;
  // Texts that stand for missing, besides the usual ones.
  std::vector<std::string> missing = {};
};

inline constexpr double kOddLineShare = 0.05;

// From the first lines of a file; those without a cell that is not empty do not count. The separator is the one of
// comma, semicolon, tab and bar by which all lines have the same number of cells, the largest. A first line is a header
// if its cells are distinct, none is a number, and some column below is of numbers or of few texts that do not have the
// header's among them. Errors: InvalidArgument "NAME: ..." where that leaves a choice, with the flag that settles it.
// No message holds a cell of a line that may be a row.
absl::StatusOr<TableLayout> FindLayout(const std::string& name, const std::vector<std::string>& lines,
                                       const LayoutFlags& flags);

// "comma", "tab", ... for people.
std::string SeparatorName(char separator);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_INIT_TABLE_LAYOUT_H_
