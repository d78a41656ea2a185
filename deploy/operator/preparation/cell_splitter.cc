#include "deploy/operator/preparation/cell_splitter.h"

#include "absl/strings/ascii.h"

namespace splitveil {
namespace {

// Blanks that `trim` drops; never the separator, so that empty cells between tabs stay.
absl::string_view StripBlanks(absl::string_view text, char separator) {
  const auto is_blank = [&](char byte) { return (byte == ' ' || byte == '\t') && byte != separator; };
  while (!text.empty() && is_blank(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && is_blank(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

}  // namespace

bool CellSplitter::TakeQuoted(absl::string_view& line, absl::string_view& cell) {
  const size_t begin = unquoted_.size();
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '"') {
      unquoted_.push_back(line[i]);
    } else if (i + 1 < line.size() && line[i + 1] == '"') {
      unquoted_.push_back('"');
      ++i;
    } else {
      cell = absl::string_view(unquoted_).substr(begin);
      line.remove_prefix(i + 1);
      return true;
    }
  }
  return false;
}

bool CellSplitter::Split(absl::string_view line, std::vector<absl::string_view>& cells) {
  cells.clear();
  unquoted_.clear();
  unquoted_.reserve(line.size());  // Never grows below, so that cells stay where they are.
  while (true) {
    const absl::string_view start = trim_ ? StripBlanks(line, separator_) : line;
    if (quotes_ && !start.empty() && start.front() == '"') {
      absl::string_view cell;
      line = start.substr(1);
      if (!TakeQuoted(line, cell)) {
        return false;
      }
      const size_t end = line.find(separator_);
      const absl::string_view rest = line.substr(0, end);
      if (!(trim_ ? StripBlanks(rest, separator_) : rest).empty()) {
        return false;
      }
      cells.push_back(cell);
      if (end == absl::string_view::npos) {
        return true;
      }
      line.remove_prefix(end + 1);
      continue;
    }
    const size_t end = line.find(separator_);
    const absl::string_view cell = line.substr(0, end);
    cells.push_back(trim_ ? StripBlanks(cell, separator_) : cell);
    if (end == absl::string_view::npos) {
      return true;
    }
    line.remove_prefix(end + 1);
  }
}

}  // namespace splitveil
