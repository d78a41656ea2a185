// What the known attacks make of a batch before it leaves, for the release gate.
#ifndef SPLITVEIL_LABEL_PARTY_AUDIT_MEASURED_LEAK_H_
#define SPLITVEIL_LABEL_PARTY_AUDIT_MEASURED_LEAK_H_

#include "common/matrix/matrix.h"
#include "label_party/audit/label_side_audit.h"

namespace splitveil {

// Largest 0.5 + |AUC - 0.5| of the norm and the cosine attack on `gradients` [batch, cut_width], protected but not yet
// released, of which `clean` is the same before; 0.5 where the batch has no AUC. Thread-safe.
double MeasuredLeak(ConstMatrixView gradients, ConstMatrixView clean, const ReleasedBatch& batch);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_AUDIT_MEASURED_LEAK_H_
