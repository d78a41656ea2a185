// How the columns of new rows differ from the training, for people and for other programs.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_DRIFT_DRIFT_TABLE_H_
#define SPLITVEIL_DEPLOY_OPERATOR_DRIFT_DRIFT_TABLE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "deploy/operator/preparation/column_drift.h"

namespace splitveil {

// One aligned line for each column, and below them a warning for each that shifted and a note for each that moved. ""
// without columns.
std::string DriftText(const std::vector<ColumnDrift>& drifts);

// Whether WriteDriftTable may replace what `path` is, if anything: an earlier table. Error: AlreadyExists.
absl::Status CheckDriftTablePath(const std::string& path);
// Writes `path` as CSV (RFC 4180), readable by its owner alone, complete or not at all: column, verdict, psi and the
// shares of missing and of clipped or unseen values in the training and here, with empty cells where they are not
// known. Errors: those of CheckDriftTablePath and PendingFile.
absl::Status WriteDriftTable(const std::string& path, const std::vector<ColumnDrift>& drifts);

// The indices that are known as gauges splitveil_prediction_drift_psi{party,column}, in the text format of Prometheus:
// for the textfile collector of its node exporter, as no process of a prediction lives on to be asked. `party`: a role.
// Readable by its owner's group, too. Errors: as WriteDriftTable.
absl::Status WriteDriftMetrics(const std::string& path, absl::string_view party,
                               const std::vector<ColumnDrift>& drifts);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_DRIFT_DRIFT_TABLE_H_
