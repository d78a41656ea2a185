#include "deploy/operator/init/column_summary.h"

#include <algorithm>
#include <iterator>

#include "absl/hash/hash.h"
#include "deploy/operator/init/table_layout.h"

namespace splitveil {
namespace {

// Texts that databases, spreadsheets and statistics programs write for "missing". No number is among them.
constexpr const char* kMarkers[] = {"NA", "N/A", "NaN", "nan", "na", "n/a", "null", "NULL", "Null", "?", "\\N", "#N/A"};

bool IsMarker(const std::string& cell) {
  return std::find(std::begin(kMarkers), std::end(kMarkers), cell) != std::end(kMarkers);
}

}  // namespace

void ColumnSummary::Add(const std::string& cell) {
  ++rows_;
  if (cell.empty()) {
    ++empty_;
    return;
  }
  if (IsMarker(cell)) {
    ++markers_[cell];
    return;
  }
  if (IsNumber(cell)) {
    ++numbers_;
    integers_ += cell.find_first_of(".eE") == std::string::npos ? 1 : 0;
  }
  const bool is_new = hashes_.insert(absl::Hash<std::string>()(cell)).second;
  if (hashes_.size() > kMaxTexts) {
    counts_.clear();
  } else if (is_new || !counts_.empty()) {
    ++counts_[cell];
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
