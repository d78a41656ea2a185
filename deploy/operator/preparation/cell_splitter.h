// Cells of a line of a table with separators and quotes.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_CELL_SPLITTER_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_CELL_SPLITTER_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace splitveil {

// As RFC 4180 has it, for any separator; a quoted cell ends on its own line. Cells are any bytes. Not thread-safe.
class CellSplitter {
 public:
  // `quotes`: a cell that begins with " reaches to the closing one, and "" in it stands for ". `trim`: drops the blanks
  // around every cell, outside its quotes.
  CellSplitter(char separator, bool quotes, bool trim) : separator_(separator), quotes_(quotes), trim_(trim) {}

  // Replaces `cells` by the cells of `line`, at least one; they borrow its bytes or this object's, until the next call.
  // False if a quoted cell does not end on the line or something follows its closing quote: `cells` are those
  // before.
  bool Split(absl::string_view line, std::vector<absl::string_view>& cells);

 private:
  // Takes a cell off `line` that starts behind an opening quote.
  bool TakeQuoted(absl::string_view& line, absl::string_view& cell);

  char separator_;
  bool quotes_, trim_;
  std::string unquoted_;  // Cells with doubled quotes, back to back.
};

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_CELL_SPLITTER_H_
