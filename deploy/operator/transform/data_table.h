// Prepared data as a table for other programs.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_TRANSFORM_DATA_TABLE_H_
#define SPLITVEIL_DEPLOY_OPERATOR_TRANSFORM_DATA_TABLE_H_

#include <string>

#include "absl/status/status.h"

#include "common/dataset/dataset.h"

#include "splitveil/v1/preprocessing.pb.h"

namespace splitveil {

// Writes `path` as CSV (RFC 4180), readable by its owner alone, complete or not at all: "id", the numeric columns as
// scaled, each categorical column as the row of the embedding table, and, where there are labels, "label": 0 or 1, the
// number of the class, or the number in [0, 1]. What an exported model takes (deploy/examples/bring_your_own). Images
// and attributes are left out. Errors: those of CheckDataTablePath and PendingFile.
absl::Status WriteDataTable(const std::string& path, const Dataset& data);

// Whether WriteDataTable may replace what `path` is of, if anything, with data of this preprocessing: an earlier table
// of the same columns, with the same first line. Error: AlreadyExists.
absl::Status CheckDataTablePath(const std::string& path, const v1::Preprocessing& preprocessing, bool has_labels);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_TRANSFORM_DATA_TABLE_H_
