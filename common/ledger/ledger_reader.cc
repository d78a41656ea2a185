#include "common/ledger/ledger_reader.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "common/ledger/ledger_rows.h"
#include "common/ledger/schema.h"
#include "common/status/status_context.h"
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

int64_t LastSummarised(const std::vector<StepSummaryRow>& summaries) {
  int64_t last = -1;
  for (const StepSummaryRow& row : summaries) {
    last = std::max(last, row.last_step);
  }
  return last;
}

// The figures of the series, with the steps that were removed of it. For these only sum, squares and the worst AUC are
// known: the p95 takes the worst for each of them, an upper limit, and p95_at_least takes 0.5, a lower one.
void Summarise(const LeakSummaryRow& removed, LeakSeries& series) {
  series.summary = SummarizeLeak(series.aucs);
  if (removed.steps == 0) {
    return;
  }
  std::vector<double> at_most(static_cast<size_t>(removed.steps), removed.worst_auc);
  std::vector<double> at_least(static_cast<size_t>(removed.steps), 0.5);
  double sum = removed.sum, squares = removed.squares;
  for (const double auc : series.aucs) {
    const double leak = InvertedAuc(auc);
    at_most.push_back(leak);
    at_least.push_back(leak);
    sum += leak;
    squares += leak * leak;
  }
  const auto steps = static_cast<int64_t>(at_most.size());
  const double mean = sum / static_cast<double>(steps);
  series.summary = {mean, MeanInterval95(std::max(0.0, squares - sum * mean), steps),
                    NearestRankQuantile(std::move(at_most), 0.95), steps};
  series.p95_at_least = NearestRankQuantile(std::move(at_least), 0.95);
}

}  // namespace

LedgerReader::LedgerReader(std::unique_ptr<SqliteDatabase> database) : database_(std::move(database)) {}
LedgerReader::~LedgerReader() = default;

absl::StatusOr<std::unique_ptr<LedgerReader>> LedgerReader::Open(const std::string& path) {
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> connection,
                             SqliteDatabase::Open(path, SqliteDatabase::Mode::kReadOnly));
  // Any program may have written the file, so it is checked before any row is believed.
  SPLITVEIL_RETURN_IF_ERROR(Within(path, CheckSchema(*connection)));
  return std::unique_ptr<LedgerReader>(new LedgerReader(std::move(connection)));
}

absl::StatusOr<std::vector<RunRecord>> LedgerReader::Runs() {
  absl::StatusOr<SqliteStatement> row = database_->Prepare(
      "SELECT run_id, role, agreement_sha256, protection, config_json, started_at, finished_at, status, resumed_from, "
      "data_sha256, label_set, account, max_lifetime_auc_bound FROM run ORDER BY started_at, run_id");
  SPLITVEIL_RETURN_IF_ERROR(AsDamage(row.status()));
  std::vector<RunRecord> runs;
  while (true) {
    SPLITVEIL_ASSIGN_OR_RETURN(const bool more, row->Next());
    if (!more) {
      return runs;
    }
    runs.push_back({{row->Text(0), row->Text(1), row->Text(2), row->Text(3), row->Text(4), row->Text(8), row->Text(9),
                     row->Text(10), row->Text(11), row->Double(12)},
                    row->Text(5),
                    row->Text(6),
                    row->Text(7)});
  }
}

template <typename Row>
absl::StatusOr<std::vector<Row>> LedgerReader::ReadSteps(const std::string& run_id, const char* order) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<StepSummaryRow> summaries, StepSummaries(run_id));
  SPLITVEIL_ASSIGN_OR_RETURN(std::vector<Row> rows, ReadRows<Row>(*database_, run_id, order));
  const int64_t last = LastSummarised(summaries);
  // A continued run may have recorded steps again that are summarised already: they must not count twice.
  rows.erase(std::remove_if(rows.begin(), rows.end(), [last](const Row& row) { return row.step <= last; }), rows.end());
  return rows;
}

absl::StatusOr<std::vector<StepSummaryRow>> LedgerReader::StepSummaries(const std::string& run_id) {
  return ReadRows<StepSummaryRow>(*database_, run_id, "first_step, method, gate");
}

absl::StatusOr<std::vector<PrivacyLossSummaryRow>> LedgerReader::PrivacyLossSummaries(const std::string& run_id) {
  return ReadRows<PrivacyLossSummaryRow>(*database_, run_id, "attribute");
}

absl::StatusOr<std::vector<LabelReleaseRow>> LedgerReader::LabelReleases(const std::string& run_id) {
  return ReadRows<LabelReleaseRow>(*database_, run_id, "noise, sigma_units");
}

absl::StatusOr<std::vector<StepRow>> LedgerReader::Steps(const std::string& run_id) {
  return ReadSteps<StepRow>(run_id, "step");
}

absl::StatusOr<std::vector<StepTimeRow>> LedgerReader::StepTimes(const std::string& run_id) {
  return ReadSteps<StepTimeRow>(run_id, "step");
}

absl::StatusOr<std::vector<ProtectionRow>> LedgerReader::Protections(const std::string& run_id) {
  return ReadSteps<ProtectionRow>(run_id, "step");
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
  return ReadSteps<PrivacyLossRow>(run_id, "attribute, step");
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
  constexpr char kOrder[] = "observer, layer <> 'cut', layer, attack";
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<LeakRow> rows,
                             ReadSteps<LeakRow>(run_id, absl::StrCat(kOrder, ", step").c_str()));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<LeakSummaryRow> removed,
                             ReadRows<LeakSummaryRow>(*database_, run_id, kOrder));
  using Key = std::tuple<std::string, bool, std::string, std::string>;  // In kOrder.
  const auto key = [](const auto& of) { return Key(of.observer, of.layer != "cut", of.layer, of.attack); };
  std::map<Key, LeakSeries> all;
  for (const LeakRow& row : rows) {
    LeakSeries& series = all.try_emplace(key(row), LeakSeries{row.observer, row.layer, row.attack}).first->second;
    // A batch of one class has no AUC; it is a step without a point, not one of 0.5.
    if (std::isfinite(row.auc)) {
      series.steps.push_back(row.step);
      series.aucs.push_back(row.auc);
    }
  }
  // A series whose steps were all removed exists only as a summary.
  std::map<Key, const LeakSummaryRow*> summaries;
  for (const LeakSummaryRow& row : removed) {
    summaries[key(row)] = &row;
    all.try_emplace(key(row), LeakSeries{row.observer, row.layer, row.attack});
  }
  std::vector<LeakSeries> sorted;
  for (auto& [of, series] : all) {
    const auto found = summaries.find(of);
    Summarise(found != summaries.end() ? *found->second : LeakSummaryRow(), series);
    sorted.push_back(std::move(series));
  }
  return sorted;
}

}  // namespace splitveil
