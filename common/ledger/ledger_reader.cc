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

// Steps that are still in the file, as step_summary has those that are not. By bound, too: a quantile of them is then
// known to the width of a bin. A figure that is not known counts as the worst: 9e999 is infinite.
constexpr double kBoundBin = 1.0 / 65536;  // As the next has it.
constexpr char kStepsInSummary[] = R"sql(
WITH summarised AS (
  SELECT step, method, gate, epoch, examples, coalesce(auc_bound, 9e999) AS auc_bound, coalesce(sum_kl, 9e999) AS sum_kl
  FROM protection LEFT JOIN step USING (run_id, step) WHERE run_id = ?1 AND step > ?2 AND step <= ?3
  UNION ALL
  SELECT step, '', '', epoch, examples, 9e999, 9e999 FROM step WHERE run_id = ?1 AND step > ?2 AND step <= ?3 AND
    NOT EXISTS (SELECT 1 FROM protection WHERE protection.run_id = ?1 AND protection.step = step.step))
SELECT ?1, method, gate, count(*), min(step), max(step), coalesce(max(epoch), -1), coalesce(sum(examples), 0),
  nullif(max(auc_bound), 9e999), nullif(max(sum_kl), 9e999), min(step)
FROM summarised GROUP BY method, gate, CAST(auc_bound * 65536 AS INTEGER)
)sql";

// The same for privacy_loss_summary. With a single max(), SQLite takes `step` from the row with the maximum.
constexpr char kLossesInSummary[] = R"sql(
SELECT ?1, attribute, count(*), nullif(max(coalesce(privacy_loss, 9e999)), 9e999), step
FROM privacy_loss WHERE run_id = ?1 AND step > ?2 AND step <= ?3 GROUP BY attribute
)sql";

// What is added up of a series while its rows are read.
struct LeakSums {
  LeakSums(const std::string& observer, const std::string& layer, const std::string& attack)
      : series({observer, layer, attack}) {}

  LeakSeries series;
  StepSeries aucs;
  double sum = 0, squares = 0;  // Of the AUCs, inverted.
};

// The figures of the series, with the steps that were removed of it. For these only sum, squares and the worst AUC are
// known: the p95 takes the worst for each of them, an upper limit, and p95_at_least takes 0.5, a lower one.
LeakSeries Finished(LeakSums sums, const LeakSummaryRow& removed) {
  sums.series.summary = sums.aucs.LeakOf();
  if (removed.steps == 0) {
    return std::move(sums.series);
  }
  StepSeries at_least = sums.aucs;
  sums.aucs.Add(removed.worst_auc, removed.steps);
  at_least.Add(0.5, removed.steps);
  const double sum = removed.sum + sums.sum;
  const int64_t steps = sums.aucs.size();
  const double mean = sum / static_cast<double>(steps);
  sums.series.summary = {mean, MeanInterval95(std::max(0.0, removed.squares + sums.squares - sum * mean), steps),
                         sums.aucs.LeakOf().p95, steps};
  sums.series.p95_at_least = at_least.LeakOf().p95;
  return std::move(sums.series);
}

}  // namespace

LedgerReader::LedgerReader(std::unique_ptr<SqliteDatabase> database, int64_t most_steps)
    : database_(std::move(database)), most_steps_(most_steps) {}
LedgerReader::~LedgerReader() = default;

absl::StatusOr<std::unique_ptr<LedgerReader>> LedgerReader::Open(const std::string& path, int64_t most_steps) {
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> connection,
                             SqliteDatabase::Open(path, SqliteDatabase::Mode::kReadOnly));
  // Any program may have written the file, so it is checked before any row is believed.
  SPLITVEIL_RETURN_IF_ERROR(Within(path, CheckSchema(*connection)));
  return std::unique_ptr<LedgerReader>(new LedgerReader(std::move(connection), most_steps));
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

absl::StatusOr<LedgerReader::Summarised> LedgerReader::SummarisedOf(const std::string& run_id) {
  if (const auto known = summarised_.find(run_id); known != summarised_.end()) {
    return known->second;
  }
  absl::StatusOr<SqliteStatement> found = database_->Prepare(
      "SELECT coalesce((SELECT max(last_step) FROM step_summary WHERE run_id = ?1), -1), "
      "coalesce((SELECT max(step) FROM step WHERE run_id = ?1), -1)");
  SPLITVEIL_RETURN_IF_ERROR(AsDamage(found.status()));
  SPLITVEIL_RETURN_IF_ERROR(found->Bind(run_id));
  SPLITVEIL_RETURN_IF_ERROR(found->Next().status());
  const int64_t in_file = found->Int64(0);
  return summarised_[run_id] = {in_file, std::max(in_file, found->Int64(1) - most_steps_)};
}

template <typename Row>
absl::StatusOr<std::vector<Row>> LedgerReader::ReadSteps(const std::string& run_id, const char* order) {
  // A continued run may have recorded steps again that are summarised already: they must not count twice.
  SPLITVEIL_ASSIGN_OR_RETURN(const Summarised summarised, SummarisedOf(run_id));
  return SelectRows<Row>(
      *database_, absl::StrCat("SELECT * FROM ", Row::kTable, " WHERE run_id = ?1 AND step > ?2 ORDER BY ", order),
      run_id, summarised.last);
}

absl::StatusOr<std::vector<StepSummaryRow>> LedgerReader::StepSummaries(const std::string& run_id) {
  SPLITVEIL_ASSIGN_OR_RETURN(const Summarised summarised, SummarisedOf(run_id));
  SPLITVEIL_ASSIGN_OR_RETURN(std::vector<StepSummaryRow> rows,
                             ReadRows<StepSummaryRow>(*database_, run_id, "first_step, method, gate"));
  if (summarised.last > summarised.in_file) {
    SPLITVEIL_ASSIGN_OR_RETURN(
        const std::vector<StepSummaryRow> more,
        SelectRows<StepSummaryRow>(*database_, kStepsInSummary, run_id, summarised.in_file, summarised.last));
    for (const StepSummaryRow& row : more) {
      rows.push_back(row);
      rows.back().least_auc_bound = std::isnan(row.worst_auc_bound) ? 1 : row.worst_auc_bound - kBoundBin;
    }
    std::stable_sort(rows.begin(), rows.end(), [](const StepSummaryRow& a, const StepSummaryRow& b) {
      return std::tie(a.first_step, a.method, a.gate) < std::tie(b.first_step, b.method, b.gate);
    });
  }
  return rows;
}

absl::StatusOr<std::vector<PrivacyLossSummaryRow>> LedgerReader::PrivacyLossSummaries(const std::string& run_id) {
  SPLITVEIL_ASSIGN_OR_RETURN(const Summarised summarised, SummarisedOf(run_id));
  SPLITVEIL_ASSIGN_OR_RETURN(std::vector<PrivacyLossSummaryRow> rows,
                             ReadRows<PrivacyLossSummaryRow>(*database_, run_id, "attribute"));
  SPLITVEIL_ASSIGN_OR_RETURN(
      const std::vector<PrivacyLossSummaryRow> more,
      SelectRows<PrivacyLossSummaryRow>(*database_, kLossesInSummary, run_id, summarised.in_file, summarised.last));
  rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

absl::StatusOr<std::vector<LabelReleaseRow>> LedgerReader::LabelReleases(const std::string& run_id) {
  return ReadRows<LabelReleaseRow>(*database_, run_id, "noise, sigma_units");
}

absl::StatusOr<std::vector<StepRow>> LedgerReader::Steps(const std::string& run_id) {
  return ReadSteps<StepRow>(run_id, "step");
}

absl::StatusOr<std::vector<EpochStepsRow>> LedgerReader::EpochSteps(const std::string& run_id) {
  return SelectRows<EpochStepsRow>(
      *database_,
      "SELECT ?1, epoch, count(*), min(step), max(step), coalesce(sum(examples), 0), coalesce(sum(seconds), 0), "
      "coalesce(sum(bytes_sent), 0), coalesce(sum(bytes_received), 0) FROM step WHERE run_id = ?1 GROUP BY epoch "
      "ORDER BY epoch",
      run_id);
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
  SPLITVEIL_ASSIGN_OR_RETURN(const Summarised summarised, SummarisedOf(run_id));
  using Key = std::tuple<std::string, bool, std::string, std::string>;  // In kOrder.
  const auto key = [](const auto& of) { return Key(of.observer, of.layer != "cut", of.layer, of.attack); };
  std::map<Key, LeakSums> all;
  const auto sums_of = [&](const auto& row) -> LeakSums& {
    return all.try_emplace(key(row), row.observer, row.layer, row.attack).first->second;
  };
  // Row by row, in the order of the table's key, which is that of steps: a long run has billions of bytes of them.
  SPLITVEIL_RETURN_IF_ERROR(EachRow<LeakRow>(
      *database_, "SELECT * FROM leak WHERE run_id = ?1 AND step > ?2 ORDER BY step",
      [&](const LeakRow& row) {
        LeakSums& sums = sums_of(row);
        // A batch of one class has no AUC; it is a step without a point, not one of 0.5.
        if (!std::isfinite(row.auc)) {
          return;
        }
        const double leak = InvertedAuc(row.auc);
        sums.aucs.Add(row.auc);
        sums.sum += leak;
        sums.squares += leak * leak;
        if (row.step > summarised.last) {
          sums.series.steps.push_back(row.step);
          sums.series.aucs.push_back(row.auc);
        }
      },
      run_id, summarised.in_file));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<LeakSummaryRow> removed,
                             ReadRows<LeakSummaryRow>(*database_, run_id, kOrder));
  // A series whose steps were all removed exists only as a summary.
  std::map<Key, const LeakSummaryRow*> summaries;
  for (const LeakSummaryRow& row : removed) {
    summaries[key(row)] = &row;
    sums_of(row);
  }
  std::vector<LeakSeries> sorted;
  for (auto& [of, sums] : all) {
    const auto found = summaries.find(of);
    sorted.push_back(Finished(std::move(sums), found != summaries.end() ? *found->second : LeakSummaryRow()));
  }
  return sorted;
}

}  // namespace splitveil
