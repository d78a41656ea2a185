#include "common/ledger/ledger_reader.h"

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "common/ledger/ledger_rows.h"
#include "common/ledger/schema.h"
#include "common/status/status_macros.h"
#include "common/storage/sqlite_database.h"

namespace splitveil {
namespace {

// The only row of a run, or none.
template <typename Row>
absl::StatusOr<std::optional<Row>> ReadRow(SqliteDatabase& database, const std::string& run_id) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<Row> rows, ReadRows<Row>(database, run_id, "run_id"));
  return rows.empty() ? std::optional<Row>() : rows.front();
}

}  // namespace

LedgerReader::LedgerReader(std::unique_ptr<SqliteDatabase> database) : database_(std::move(database)) {}
LedgerReader::~LedgerReader() = default;

absl::StatusOr<std::unique_ptr<LedgerReader>> LedgerReader::Open(const std::string& path) {
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> connection,
                             SqliteDatabase::Open(path, SqliteDatabase::Mode::kReadOnly));
  // Any program may have written the file: it is checked before a row is believed.
  absl::Status checked = CheckSchema(*connection);
  if (!checked.ok()) {
    return absl::Status(checked.code(), absl::StrCat(path, ": ", checked.message()));
  }
  return std::unique_ptr<LedgerReader>(new LedgerReader(std::move(connection)));
}

absl::StatusOr<std::vector<RunRecord>> LedgerReader::Runs() {
  absl::StatusOr<SqliteStatement> row = database_->Prepare(
      "SELECT run_id, role, agreement_sha256, protection, config_json, started_at, finished_at, status, resumed_from "
      "FROM run ORDER BY started_at, run_id");
  SPLITVEIL_RETURN_IF_ERROR(AsDamage(row.status()));
  std::vector<RunRecord> runs;
  while (true) {
    SPLITVEIL_ASSIGN_OR_RETURN(const bool more, row->Next());
    if (!more) {
      return runs;
    }
    runs.push_back({{row->Text(0), row->Text(1), row->Text(2), row->Text(3), row->Text(4), row->Text(8)},
                    row->Text(5),
                    row->Text(6),
                    row->Text(7)});
  }
}

absl::StatusOr<std::vector<StepRow>> LedgerReader::Steps(const std::string& run_id) {
  return ReadRows<StepRow>(*database_, run_id, "step");
}

absl::StatusOr<std::vector<StepTimeRow>> LedgerReader::StepTimes(const std::string& run_id) {
  return ReadRows<StepTimeRow>(*database_, run_id, "step");
}

absl::StatusOr<std::vector<ProtectionRow>> LedgerReader::Protections(const std::string& run_id) {
  return ReadRows<ProtectionRow>(*database_, run_id, "step");
}

absl::StatusOr<std::vector<EvaluationRow>> LedgerReader::Evaluations(const std::string& run_id) {
  return ReadRows<EvaluationRow>(*database_, run_id, "step, split");
}

absl::StatusOr<std::vector<EpochLeakRow>> LedgerReader::EpochLeaks(const std::string& run_id) {
  return ReadRows<EpochLeakRow>(*database_, run_id, "layer <> 'cut', layer, attack, observer, epoch");
}

absl::StatusOr<std::vector<DistributionRow>> LedgerReader::Distributions(const std::string& run_id) {
  return ReadRows<DistributionRow>(*database_, run_id, "epoch, quantity, class, bin");
}

absl::StatusOr<std::vector<AttributeLeakRow>> LedgerReader::AttributeLeaks(const std::string& run_id) {
  return ReadRows<AttributeLeakRow>(*database_, run_id, "attribute, attack, examples, epoch");
}

absl::StatusOr<std::vector<PrivacyLossRow>> LedgerReader::PrivacyLosses(const std::string& run_id) {
  return ReadRows<PrivacyLossRow>(*database_, run_id, "attribute, step");
}

absl::StatusOr<std::vector<EventRow>> LedgerReader::Events(const std::string& run_id) {
  return ReadRows<EventRow>(*database_, run_id, "rowid");
}

absl::StatusOr<std::optional<ClaimCheckRow>> LedgerReader::ClaimCheck(const std::string& run_id) {
  return ReadRow<ClaimCheckRow>(*database_, run_id);
}

absl::StatusOr<std::optional<AllRunsRow>> LedgerReader::AllRuns(const std::string& run_id) {
  return ReadRow<AllRunsRow>(*database_, run_id);
}

absl::StatusOr<std::optional<ActivationBoundRow>> LedgerReader::ActivationBound(const std::string& run_id) {
  return ReadRow<ActivationBoundRow>(*database_, run_id);
}

absl::StatusOr<std::vector<LeakSeries>> LedgerReader::Leaks(const std::string& run_id) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<LeakRow> rows,
                             ReadRows<LeakRow>(*database_, run_id, "observer, layer <> 'cut', layer, attack, step"));
  std::vector<LeakSeries> all;
  for (const LeakRow& row : rows) {
    // Rows come sorted by series, so a change of any of the three begins the next one.
    if (all.empty() || all.back().observer != row.observer || all.back().layer != row.layer ||
        all.back().attack != row.attack) {
      all.push_back({row.observer, row.layer, row.attack, {}, {}, {}});
    }
    // A batch of one class has no AUC; it is a step without a point, not one of 0.5.
    if (std::isfinite(row.auc)) {
      all.back().steps.push_back(row.step);
      all.back().aucs.push_back(row.auc);
    }
  }
  for (LeakSeries& series : all) {
    series.summary = SummarizeLeak(series.aucs);
  }
  return all;
}

}  // namespace splitveil
