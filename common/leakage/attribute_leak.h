// How well guesses at a sensitive attribute hit it.
#ifndef SPLITVEIL_COMMON_LEAKAGE_ATTRIBUTE_LEAK_H_
#define SPLITVEIL_COMMON_LEAKAGE_ATTRIBUTE_LEAK_H_

#include <cstdint>
#include <limits>

#include "absl/types/span.h"

namespace splitveil {

class ConstMatrixView;

// Of the examples whose value is known. NaN where there are none.
struct AttributeLeak {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

  int64_t examples = 0;
  double accuracy = kNone;  // Share whose highest score is that of the true value; of equal scores the first counts.
  // Ends of its 95% interval (Clopper and Pearson).
  double accuracy_low = kNone, accuracy_high = kNone;
  // Share of the most common value: what guessing it always would reach.
  double floor = kNone;
  // Of two values the leak AUC of the difference of their scores; of several the mean AUC of each value's score against
  // the rest, over the values that occur. NaN where one value alone occurs.
  double auc = kNone;
};

// `scores`: [examples, values], finite; larger means "this value". `truth`: as many, each below values or
// kUnknownAttribute. Thread-safe.
AttributeLeak MeasureAttributeLeak(ConstMatrixView scores, absl::Span<const uint8_t> truth);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_ATTRIBUTE_LEAK_H_
