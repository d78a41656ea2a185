#include "deploy/operator/init/column_summary.h"

#include "absl/hash/hash.h"
#include "absl/strings/ascii.h"
#include "deploy/operator/init/table_layout.h"

namespace splitveil {

void ColumnSummary::Add(const std::string& cell, int64_t line) {
  ++rows_;
  if (cell.empty()) {
    ++empty_;
    return;
  }
  if (MeansMissing(cell)) {
    ++markers_[cell];
    return;
  }
  if (IsNumber(cell)) {
    ++numbers_;
    integers_ += cell.find_first_of(".eE") == std::string::npos ? 1 : 0;
    padded_ += cell.size() > 1 && cell[0] == '0' && absl::ascii_isdigit(cell[1]) ? 1 : 0;
  }
  dates_ += IsDate(cell) ? 1 : 0;
  const bool is_new = hashes_.insert(absl::Hash<std::string>()(cell)).second;
  if (hashes_.size() > kMaxTexts) {
    counts_.clear();
  } else if (is_new || !counts_.empty()) {
    Occurrences& found = counts_[cell];
    found.first_line = found.rows == 0 ? line : found.first_line;
    ++found.rows;
  }
}

int64_t ColumnSummary::marked() const {
  int64_t count = 0;
  for (const auto& [text, cells] : markers_) {
    count += cells;
  }
  return count;
}

}  // namespace splitveil
