// What guessing reaches by chance.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_RECORDS_GUESSING_H_
#define SPLITVEIL_DEPLOY_OPERATOR_RECORDS_GUESSING_H_

#include "deploy/operator/records/run_records.h"

namespace splitveil {

// The 95% quantile of 0.5 + |AUC - 0.5| of a random score over this many positives and negatives: what an attack that
// knows nothing reaches in one batch of twenty. The AUC of a random score is the Mann-Whitney statistic over
// positives * negatives, with mean 1/2 and variance (positives + negatives + 1) / (12 positives negatives) (Mann and
// Whitney, Annals of Mathematical Statistics 1947); taken as normal, which is off by less than 0.005 from 10 of each
// class on. At most 1; 1 where a class is empty.
double GuessingAucP95(double positives, double negatives);

// The same for the run's batches: the median batch size and the mean share of positives. NaN where the ledgers tell
// neither the share (the label party's alone does) nor a size.
double GuessingAucP95(const RunRecords& run);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_RECORDS_GUESSING_H_
