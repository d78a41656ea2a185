// Which party holds which column of a table.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_COLUMN_HOLDERS_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_COLUMN_HOLDERS_H_

#include "absl/status/status.h"
#include "deploy/operator/preparation/table_row.h"

#include "splitveil/v1/table_schema.pb.h"

namespace splitveil {

// Whether the columns are what `parties` need: a label (which rows that earlier preprocessing is applied to,
// `only_applies`, may lack), an id in one party's own table, a holder of every feature of a table that is split (BOTH).
// Attributes of the latter, and the features that they are, become the non-label party's. Error: InvalidArgument with
// the column, what was expected of it and what was found. Thread-safe.
absl::Status SettleHolders(v1::TableSchema::Holder parties, bool only_applies, TableColumns& columns);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_COLUMN_HOLDERS_H_
