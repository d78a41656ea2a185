// What the columns of prepared data are like, for a person who looks for what is wrong with a table.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARE_COLUMN_TABLES_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARE_COLUMN_TABLES_H_

#include <string>

#include "splitveil/v1/preprocessing.pb.h"

namespace splitveil {

// One aligned line for each numeric column: share of the rows in which it is missing, least, quantiles and greatest of
// the training part, the range it is scaled from, and the share of the rows that lie outside and were clipped; then a
// line for each column of which a few values far out press all others together. "" where there is none.
std::string NumericTable(const v1::Preprocessing& preprocessing);

// The same for each categorical column: share missing, and rows of the embedding table, with a line for the sum. ""
// where there is none.
std::string CategoricalTable(const v1::Preprocessing& preprocessing);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARE_COLUMN_TABLES_H_
