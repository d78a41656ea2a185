// Cells of a tab-separated line. No quoting and no escapes: a cell holds any bytes but tab and line end.
#ifndef SPLITVEIL_COMMON_DATASET_TSV_H_
#define SPLITVEIL_COMMON_DATASET_TSV_H_

#include <vector>

#include "absl/strings/string_view.h"

namespace splitveil {

// Replaces `cells` by the cells of `line`, at least one; they borrow its bytes. The vector is the caller's so that a
// loop over rows does not allocate.
inline void SplitTabs(absl::string_view line, std::vector<absl::string_view>* cells) {
  cells->clear();
  size_t tab;
  while ((tab = line.find('\t')) != absl::string_view::npos) {
    cells->push_back(line.substr(0, tab));
    line.remove_prefix(tab + 1);
  }
  cells->push_back(line);
}

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_DATASET_TSV_H_
