// Columns of the label party's own that tell its labels: what leaves shows them, whatever is done to the labels.
#ifndef SPLITVEIL_LABEL_PARTY_LABEL_PRIVACY_LABEL_REVEALING_COLUMNS_H_
#define SPLITVEIL_LABEL_PARTY_LABEL_PRIVACY_LABEL_REVEALING_COLUMNS_H_

#include <string>

#include "common/dataset/dataset.h"

namespace splitveil {

// A column that ranks labels as well as this is probably made from them (a date of the event that the label says).
inline constexpr double kTellingAuc = 0.95;

// "balance_after_default ranks the labels at AUC 0.998 by itself ...": the feature column of `data` that alone tells
// the most, and what that means, where its AUC, or 1 - AUC, is kTellingAuc or more; else empty. On at most 65,536 rows,
// evenly spaced, fewer where there are many classes. A category ranks by the share of its labels among the other half
// of these rows, so that one that occurs once tells nothing. Several classes: each against all others; numbers: above
// their median. Columns that tell only together are not found. Thread-safe.
std::string DescribeLabelRevealingColumn(const Dataset& data);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_LABEL_PRIVACY_LABEL_REVEALING_COLUMNS_H_
