// Columns of the label party's own that tell its labels: what is sent shows them, whatever is done to the labels.
#ifndef SPLITVEIL_LABEL_PARTY_LABEL_PRIVACY_LABEL_REVEALING_COLUMNS_H_
#define SPLITVEIL_LABEL_PARTY_LABEL_PRIVACY_LABEL_REVEALING_COLUMNS_H_

#include <string>

#include "common/dataset/dataset.h"

namespace splitveil {

// A column that ranks labels as well as this is probably made from them (a date of the event that the label says).
inline constexpr double kTellingAuc = 0.95;

// "column balance_after_default alone ranks the labels at AUC 0.998 ...": what tells the most among the feature columns
// of `data`, and what that means, where its AUC, or 1 - AUC, is kTellingAuc or more; else empty. Tried in this order,
// and the first that finds something is described:
//
//   - each column: a number by its rank, a category by the share of positives it has among the other half of the rows,
//     so that one that occurs once tells nothing;
//   - each number value by value, or in 64 ranges, like a category: a status code, a U shape;
//   - the difference of any two of the first 64 numbers;
//   - all together: 50 shallow trees, fitted on one half of the rows and tried on the other.
//
// Several classes: each against all others (the last two: the four most frequent); numbers: above their median, and
// farther from it than half of them. All but
// the first need 20 rows of either answer. Rows are evenly spaced and at most 65,536; 2,048 for differences; 16,384 for
// trees, fewer if there are many classes or columns: a second or two. The same data have the same result. Starts a
// thread and joins it. Thread-safe.
std::string DescribeLabelRevealingColumns(const Dataset& data);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_LABEL_PRIVACY_LABEL_REVEALING_COLUMNS_H_
