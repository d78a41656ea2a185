#include "common/ledger/ledger.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "common/ledger/ledger_database.h"
#include "common/ledger/ledger_rows.h"
#include "common/status/status_macros.h"
#include "common/storage/sqlite_database.h"
#include "common/telemetry/log.h"

namespace splitveil {
namespace {

constexpr int64_t kStepsBetweenTrims = 100;

}  // namespace

Ledger::Ledger(std::unique_ptr<LedgerDatabase> database, int64_t retained_steps)
    : database_(std::move(database)), retained_steps_(retained_steps) {}
Ledger::~Ledger() = default;

template <typename Row>
absl::Status Ledger::Told(absl::Status status, const Row& row) const {
  if (status.ok() && observer_ != nullptr) {
    observer_(&row);
  }
  return status;
}

absl::Status Ledger::Observe(LedgerObserver observer) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<EventRow> events, database_->Events());
  observer_ = std::move(observer);
  for (const EventRow& event : events) {
    observer_(&event);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Ledger>> Ledger::Open(const std::string& path, const RunRow& run,
                                                     const v1::LedgerPosition* position, int64_t retained_steps) {
  if (run.run_id.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": run_id: expected a name, found none"));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> connection,
                             SqliteDatabase::Open(path, SqliteDatabase::Mode::kCreate));
  auto database = std::make_unique<LedgerDatabase>(std::move(connection), path, run.run_id);
  SPLITVEIL_RETURN_IF_ERROR(database->Start(run, position));
  return std::unique_ptr<Ledger>(new Ledger(std::move(database), retained_steps));
}

absl::StatusOr<std::unique_ptr<Ledger>> Ledger::Create(const std::string& path, const RunRow& run,
                                                       int64_t retained_steps) {
  return Open(path, run, nullptr, retained_steps);
}

absl::StatusOr<std::unique_ptr<Ledger>> Ledger::Continue(const std::string& path, const RunRow& run,
                                                         const v1::LedgerPosition& position, int64_t retained_steps) {
  return Open(path, run, &position, retained_steps);
}

absl::Status Ledger::Record(const StepRow& row) {
  if (const int64_t first = row.step - retained_steps_;
      retained_steps_ > 0 && first > 0 && row.step % kStepsBetweenTrims == 0) {
    SPLITVEIL_RETURN_IF_ERROR(database_->Trim(first));
  }
  return Told(database_->Insert(LedgerDatabase::kStep, row.step, row.epoch, row.batch, row.examples, row.loss,
                                row.seconds, row.bytes_sent, row.bytes_received),
              row);
}

absl::Status Ledger::Record(const StepTimeRow& row) {
  return Told(database_->Insert(LedgerDatabase::kStepTime, row.step, row.data, row.forward, row.serialise, row.wire,
                                row.wait, row.backward, row.protection, row.update, row.attacks),
              row);
}

absl::Status Ledger::Record(const ProtectionRow& row) {
  return Told(database_->Insert(LedgerDatabase::kProtection, row.step, row.method, row.u, row.v, row.g, row.p,
                                row.power, row.lambda1_neg, row.lambda2_neg, row.lambda1_pos, row.lambda2_pos,
                                row.sum_kl, row.auc_bound, GateActionName(row.gate)),
              row);
}

absl::Status Ledger::Record(const LeakRow& row) {
  return Told(
      database_->Insert(LedgerDatabase::kLeak, row.step, row.observer, row.layer, row.attack, row.auc, row.examples),
      row);
}

absl::Status Ledger::Record(const EpochLeakRow& row) {
  return Told(database_->Insert(LedgerDatabase::kEpochLeak, row.epoch, row.observer, row.layer, row.attack,
                                row.examples, row.positives, row.auc, row.auc_low, row.auc_high, row.tpr_1pct,
                                row.tpr_1pct_low, row.tpr_1pct_high, row.tpr_01pct, row.tpr_01pct_low,
                                row.tpr_01pct_high, row.gaussian_auc_bound, row.auc_bound),
              row);
}

absl::Status Ledger::Record(const DistributionRow& row) {
  return database_->Insert(LedgerDatabase::kDistribution, row.epoch, row.quantity, row.label, row.bin, row.low,
                           row.high, row.examples);
}

absl::Status Ledger::Record(const EvaluationRow& row) {
  return Told(database_->Insert(LedgerDatabase::kEvaluation, row.step, row.split, row.log_loss, row.auc, row.accuracy,
                                row.calibration_error, row.rmse, row.r_squared),
              row);
}

absl::Status Ledger::Record(const ClaimCheckRow& row) {
  return database_->Insert(LedgerDatabase::kClaimCheck, row.claimed_mu, row.claimed_epsilon, row.mu_lower,
                           row.epsilon_lower, row.delta, row.confidence, row.test, row.examples, row.positives,
                           row.true_positive_rate_low, row.false_positive_rate_high, row.failing_mu_lower,
                           row.failing_confidence, row.half_noise_mu_lower);
}

absl::Status Ledger::Record(const AllRunsRow& row) {
  return database_->Insert(LedgerDatabase::kAllRuns, row.account, row.examples, row.auc_bound);
}

absl::Status Ledger::Record(const PrivacyLossRow& row) {
  return database_->Insert(LedgerDatabase::kPrivacyLoss, row.step, row.attribute, row.privacy_loss, row.threshold,
                           row.weight, row.utility_weight, row.correction_steps, int64_t{row.at_front});
}

absl::Status Ledger::Record(const ActivationBoundRow& row) {
  return database_->Insert(LedgerDatabase::kActivationBound, row.releases, row.mu, row.auc_bound);
}

absl::Status Ledger::Record(const AttributeLeakRow& row) {
  return database_->Insert(LedgerDatabase::kAttributeLeak, row.epoch, row.attack, row.attribute, row.examples, row.rows,
                           row.accuracy, row.accuracy_low, row.accuracy_high, row.floor, row.auc);
}

absl::Status Ledger::RecordEvent(absl::string_view kind, absl::string_view detail) {
  const EventRow row = {LedgerDatabase::UtcNow(), std::string(kind), OneLine(detail)};
  return Told(database_->Insert(LedgerDatabase::kEvent, row.at, row.kind, row.detail), row);
}

absl::StatusOr<int64_t> Ledger::CountEvents(absl::string_view kind) { return database_->CountEvents(kind); }

absl::StatusOr<int64_t> Ledger::CountEventsOfRun(absl::string_view kind, absl::string_view detail) {
  return database_->CountEventsOfRun(kind, OneLine(detail));
}

absl::Status Ledger::Commit() { return database_->Commit(); }

absl::StatusOr<int64_t> Ledger::LastEvent() { return database_->LastEvent(); }

absl::Status Ledger::Finish(absl::string_view status) {
  if (status != "completed" && status != "stopped" && status != "failed" && status != "halted") {
    return absl::InvalidArgumentError(
        absl::StrCat("run status: expected completed, stopped, failed or halted, found \"", status, "\""));
  }
  return database_->Finish(status);
}

}  // namespace splitveil
