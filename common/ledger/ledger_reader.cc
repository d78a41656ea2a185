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

// Every row of `sql` with `values` bound, as read by `read_row(statement)`.
// A ledger of this version has every table and column that is read: one without is damaged.
absl::StatusOr<SqliteStatement> AsDamage(absl::StatusOr<SqliteStatement> statement) {
  if (absl::IsInternal(statement.status()) && absl::StrContains(statement.status().message(), "no such ")) {
    return absl::DataLossError(statement.status().message());
  }
  return statement;
}

template <typename ReadRow, typename... Values>
auto ReadAll(SqliteDatabase& database, const char* sql, ReadRow read_row, const Values&... values)
    -> absl::StatusOr<std::vector<decltype(read_row(std::declval<const SqliteStatement&>()))>> {
  SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement statement, AsDamage(database.Prepare(sql)));
  SPLITVEIL_RETURN_IF_ERROR(statement.Bind(values...));
  std::vector<decltype(read_row(statement))> rows;
  while (true) {
    SPLITVEIL_ASSIGN_OR_RETURN(bool more, statement.Next());
    if (!more) {
      return rows;
    }
    rows.push_back(read_row(statement));
  }
}

}  // namespace

struct LedgerReader::Database {
  std::unique_ptr<SqliteDatabase> connection;
};

LedgerReader::LedgerReader(std::unique_ptr<Database> database) : database_(std::move(database)) {}
LedgerReader::~LedgerReader() = default;

absl::StatusOr<std::unique_ptr<LedgerReader>> LedgerReader::Open(const std::string& path) {
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> connection,
                             SqliteDatabase::Open(path, SqliteDatabase::Mode::kReadOnly));
  absl::Status checked = CheckSchema(*connection);
  if (!checked.ok()) {
    return absl::Status(checked.code(), absl::StrCat(path, ": ", checked.message()));
  }
  auto database = std::make_unique<Database>();
  database->connection = std::move(connection);
  return std::unique_ptr<LedgerReader>(new LedgerReader(std::move(database)));
}

absl::StatusOr<std::vector<RunRecord>> LedgerReader::Runs() {
  return ReadAll(
      *database_->connection,
      "SELECT run_id, role, agreement_sha256, protection, config_json, started_at, finished_at, status, resumed_from "
      "FROM run ORDER BY started_at, run_id",
      [](const SqliteStatement& row) {
        RunRecord record;
        record.run = {row.Text(0), row.Text(1), row.Text(2), row.Text(3), row.Text(4), row.Text(8)};
        record.started_at = row.Text(5);
        record.finished_at = row.Text(6);
        record.status = row.Text(7);
        return record;
      });
}

absl::StatusOr<std::vector<StepRow>> LedgerReader::Steps(const std::string& run_id) {
  return ReadAll(
      *database_->connection,
      "SELECT step, epoch, batch, examples, loss, seconds, bytes_sent, bytes_received FROM step "
      "WHERE run_id = ?1 ORDER BY step",
      [](const SqliteStatement& row) {
        return StepRow{row.Int64(0),  row.Int64(1),  row.Int64(2), row.Int64(3),
                       row.Double(4), row.Double(5), row.Int64(6), row.Int64(7)};
      },
      run_id);
}

absl::StatusOr<std::vector<StepTimeRow>> LedgerReader::StepTimes(const std::string& run_id) {
  return ReadAll(
      *database_->connection,
      "SELECT step, data, forward, serialise, wire, wait, backward, protection, update_seconds, attacks FROM step_time "
      "WHERE run_id = ?1 ORDER BY step",
      [](const SqliteStatement& row) {
        return StepTimeRow{row.Int64(0),  row.Double(1), row.Double(2), row.Double(3), row.Double(4),
                           row.Double(5), row.Double(6), row.Double(7), row.Double(8), row.Double(9)};
      },
      run_id);
}

absl::StatusOr<std::vector<ProtectionRow>> LedgerReader::Protections(const std::string& run_id) {
  return ReadAll(
      *database_->connection,
      "SELECT step, method, u, v, g, p, power, lambda1_neg, lambda2_neg, lambda1_pos, lambda2_pos, sum_kl, "
      "auc_bound, gate FROM protection WHERE run_id = ?1 ORDER BY step",
      [](const SqliteStatement& row) {
        return ProtectionRow{row.Int64(0),   row.Text(1),
                             row.Double(2),  row.Double(3),
                             row.Double(4),  row.Double(5),
                             row.Double(6),  row.Double(7),
                             row.Double(8),  row.Double(9),
                             row.Double(10), row.Double(11),
                             row.Double(12), GateActionOf(row.Text(13))};
      },
      run_id);
}

absl::StatusOr<std::vector<EvaluationRow>> LedgerReader::Evaluations(const std::string& run_id) {
  return ReadAll(
      *database_->connection,
      "SELECT step, split, log_loss, auc, accuracy, calibration_error, rmse, r_squared FROM evaluation WHERE run_id = "
      "?1 "
      "ORDER BY step, split",
      [](const SqliteStatement& row) {
        return EvaluationRow{row.Int64(0),  row.Text(1),   row.Double(2), row.Double(3),
                             row.Double(4), row.Double(5), row.Double(6), row.Double(7)};
      },
      run_id);
}

absl::StatusOr<std::vector<EpochLeakRow>> LedgerReader::EpochLeaks(const std::string& run_id) {
  return ReadAll(
      *database_->connection,
      "SELECT epoch, observer, layer, attack, examples, positives, auc, auc_low, auc_high, tpr_1pct, tpr_1pct_low, "
      "tpr_1pct_high, tpr_01pct, tpr_01pct_low, tpr_01pct_high, gaussian_auc_bound, auc_bound FROM epoch_leak "
      "WHERE run_id = ?1 ORDER BY layer <> 'cut', layer, attack, observer, epoch",
      [](const SqliteStatement& row) {
        return EpochLeakRow{row.Int64(0),   row.Text(1),    row.Text(2),    row.Text(3),    row.Int64(4),
                            row.Int64(5),   row.Double(6),  row.Double(7),  row.Double(8),  row.Double(9),
                            row.Double(10), row.Double(11), row.Double(12), row.Double(13), row.Double(14),
                            row.Double(15), row.Double(16)};
      },
      run_id);
}

absl::StatusOr<std::vector<DistributionRow>> LedgerReader::Distributions(const std::string& run_id) {
  return ReadAll(
      *database_->connection,
      "SELECT epoch, quantity, class, bin, low, high, examples FROM distribution WHERE run_id = ?1 "
      "ORDER BY epoch, quantity, class, bin",
      [](const SqliteStatement& row) {
        return DistributionRow{row.Int64(0),  row.Text(1),   row.Int64(2), row.Int64(3),
                               row.Double(4), row.Double(5), row.Int64(6)};
      },
      run_id);
}

absl::StatusOr<std::optional<ClaimCheckRow>> LedgerReader::ClaimCheck(const std::string& run_id) {
  SPLITVEIL_ASSIGN_OR_RETURN(
      const std::vector<ClaimCheckRow> rows,
      ReadAll(
          *database_->connection,
          "SELECT claimed_mu, claimed_epsilon, mu_lower, epsilon_lower, delta, confidence, test, examples, positives, "
          "true_positive_rate_low, false_positive_rate_high, failing_mu_lower, failing_confidence, "
          "half_noise_mu_lower FROM claim_check WHERE run_id = ?1",
          [](const SqliteStatement& row) {
            return ClaimCheckRow{row.Double(0),  row.Double(1),  row.Double(2),  row.Double(3), row.Double(4),
                                 row.Double(5),  row.Text(6),    row.Int64(7),   row.Int64(8),  row.Double(9),
                                 row.Double(10), row.Double(11), row.Double(12), row.Double(13)};
          },
          run_id));
  return rows.empty() ? std::optional<ClaimCheckRow>() : rows.front();
}

absl::StatusOr<std::optional<AllRunsRow>> LedgerReader::AllRuns(const std::string& run_id) {
  SPLITVEIL_ASSIGN_OR_RETURN(
      const std::vector<AllRunsRow> rows,
      ReadAll(
          *database_->connection, "SELECT account, examples, auc_bound FROM all_runs WHERE run_id = ?1",
          [](const SqliteStatement& row) {
            return AllRunsRow{row.Text(0), row.Int64(1), row.Double(2)};
          },
          run_id));
  return rows.empty() ? std::optional<AllRunsRow>() : rows.front();
}

absl::StatusOr<std::vector<AttributeLeakRow>> LedgerReader::AttributeLeaks(const std::string& run_id) {
  return ReadAll(
      *database_->connection,
      "SELECT epoch, attack, attribute, examples, rows, accuracy, accuracy_low, accuracy_high, floor, auc FROM "
      "attribute_leak WHERE run_id = ?1 ORDER BY attribute, attack, examples, epoch",
      [](const SqliteStatement& row) {
        return AttributeLeakRow{row.Int64(0),  row.Text(1),   row.Text(2),   row.Text(3),   row.Int64(4),
                                row.Double(5), row.Double(6), row.Double(7), row.Double(8), row.Double(9)};
      },
      run_id);
}

absl::StatusOr<std::vector<PrivacyLossRow>> LedgerReader::PrivacyLosses(const std::string& run_id) {
  return ReadAll(
      *database_->connection,
      "SELECT step, attribute, privacy_loss, threshold, weight, utility_weight, correction_steps, at_front FROM "
      "privacy_loss WHERE run_id = ?1 ORDER BY attribute, step",
      [](const SqliteStatement& row) {
        return PrivacyLossRow{row.Int64(0),  row.Text(1),   row.Double(2), row.Double(3),
                              row.Double(4), row.Double(5), row.Int64(6),  row.Int64(7) != 0};
      },
      run_id);
}

absl::StatusOr<std::optional<ActivationBoundRow>> LedgerReader::ActivationBound(const std::string& run_id) {
  SPLITVEIL_ASSIGN_OR_RETURN(
      const std::vector<ActivationBoundRow> rows,
      ReadAll(
          *database_->connection, "SELECT releases, mu, auc_bound FROM activation_bound WHERE run_id = ?1",
          [](const SqliteStatement& row) {
            return ActivationBoundRow{row.Int64(0), row.Double(1), row.Double(2)};
          },
          run_id));
  return rows.empty() ? std::optional<ActivationBoundRow>() : rows.front();
}

absl::StatusOr<std::vector<EventRecord>> LedgerReader::Events(const std::string& run_id) {
  return ReadAll(
      *database_->connection, "SELECT at, kind, detail FROM event WHERE run_id = ?1 ORDER BY rowid",
      [](const SqliteStatement& row) {
        return EventRecord{row.Text(0), row.Text(1), row.Text(2)};
      },
      run_id);
}

absl::StatusOr<std::vector<LeakSeries>> LedgerReader::Leaks(const std::string& run_id) {
  SPLITVEIL_ASSIGN_OR_RETURN(std::vector<LeakRow> rows,
                             ReadAll(
                                 *database_->connection,
                                 "SELECT step, observer, layer, attack, auc, examples FROM leak WHERE run_id = ?1 "
                                 "ORDER BY observer, layer <> 'cut', layer, attack, step",
                                 [](const SqliteStatement& row) {
                                   return LeakRow{row.Int64(0), row.Text(1),   row.Text(2),
                                                  row.Text(3),  row.Double(4), row.Int64(5)};
                                 },
                                 run_id));
  std::vector<LeakSeries> all;
  for (const LeakRow& row : rows) {
    if (all.empty() || all.back().observer != row.observer || all.back().layer != row.layer ||
        all.back().attack != row.attack) {
      all.push_back({row.observer, row.layer, row.attack, {}, {}, {}});
    }
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
