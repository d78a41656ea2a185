// Whether rows can be prepared as earlier data were: what a model has learnt of those must mean the same in these.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_EXTENDED_DATA_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_EXTENDED_DATA_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "deploy/operator/preparation/table_row.h"

#include "common/dataset/dataset.h"

#include "splitveil/v1/preprocessing.pb.h"

namespace splitveil {

// The error of data that cannot be extended by the rows at hand. Thread-safe, as all here.
absl::Status DoesNotExtend(const Dataset& old, absl::string_view how);

// Whether the same is predicted: the kind of label, the classes in their order, the range of a target. `own`: of the
// rows that `label` belongs to. Error: InvalidArgument with the file of `old` and what differs, as the next.
absl::Status CheckSameTask(const std::optional<TableColumns::Label>& label, const v1::Preprocessing& own,
                           const Dataset& old);

// Whether attributes with their values, categorical columns with their buckets, and images are alike. Numeric columns
// are not compared.
absl::Status CheckSameColumns(const v1::Preprocessing& own, const Dataset& old);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_EXTENDED_DATA_H_
