// What guessing reaches by chance in a run.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_RECORDS_GUESSING_H_
#define SPLITVEIL_DEPLOY_OPERATOR_RECORDS_GUESSING_H_

#include "deploy/operator/records/run_records.h"

#include "common/leakage/guessing.h"

namespace splitveil {

// Over the run's batches: their mean size and mean share of positives. NaN where the ledgers tell neither the share
// (the label party's alone does) nor a size.
Guessing GuessingOf(const RunRecords& run);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_RECORDS_GUESSING_H_
