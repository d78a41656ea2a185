// Clipping of each example's gradient.
#ifndef SPLITVEIL_LABEL_PARTY_PROTECTION_ROW_CLIPPING_H_
#define SPLITVEIL_LABEL_PARTY_PROTECTION_ROW_CLIPPING_H_

#include "common/matrix/matrix.h"

namespace splitveil {

// Scales every row of `gradients` that is longer (Euclidean norm) than `max_norm` > 0 down to it (Abadi et al., "Deep
// learning with differential privacy", CCS 2016, Algorithm 1). It bounds what one example can do to the other party's
// model; it hides no label. A row that is not finite stays so.
void ClipRows(double max_norm, Matrix& gradients);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_PROTECTION_ROW_CLIPPING_H_
