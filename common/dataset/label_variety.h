// Whether labels differ at all.
#ifndef SPLITVEIL_COMMON_DATASET_LABEL_VARIETY_H_
#define SPLITVEIL_COMMON_DATASET_LABEL_VARIETY_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace splitveil {

// Labels, classes or targets of some examples. From examples that are all alike nothing is learnt, and no AUC, leak or
// R^2 of them exists: a run on such examples would end well and mean nothing. Not thread-safe.
class LabelVariety {
 public:
  void Add(double label) {
    ++examples_;
    lowest_ = std::min(lowest_, label);
    highest_ = std::max(highest_, label);
  }

  int64_t examples() const { return examples_; }
  // Whether two of the labels differ.
  bool varied() const { return lowest_ < highest_; }
  // InvalidArgument unless `varied`. `part`: whose labels, such as "training rows". The message says
  // how many they are, and not which label all of them have.
  absl::Status Check(absl::string_view part) const {
    if (varied()) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat("expected labels that differ among the ", part, ", found ",
                                                   examples_, examples_ == 0 ? "" : " with one and the same label"));
  }

 private:
  int64_t examples_ = 0;
  double lowest_ = std::numeric_limits<double>::infinity();
  double highest_ = -std::numeric_limits<double>::infinity();
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_DATASET_LABEL_VARIETY_H_
