#include "label_party/storage/label_history.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/crypto/digest.h"
#include "common/crypto/label_noise.h"
#include "common/ledger/ledger_reader.h"
#include "common/privacy/label_privacy.h"
#include "common/process/exit_code.h"
#include "common/status/status_macros.h"
#include "label_party/label_privacy/label_targets.h"

namespace splitveil {
namespace {

// Null if there is no ledger yet: a first run has no history, which is no error.
absl::StatusOr<std::unique_ptr<LedgerReader>> OpenIfThere(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) ? LedgerReader::Open(path)
                                                : absl::StatusOr<std::unique_ptr<LedgerReader>>(nullptr);
}

// Whether any row of the run was sent. Old steps are kept only as summaries (ledger_retained_steps), so both tables
// count.
// A frozen or halted step has a row, but its gradients were not sent.
absl::StatusOr<bool> HasReleased(LedgerReader& ledger, const std::string& run_id) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<StepSummaryRow> removed, ledger.StepSummaries(run_id));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<ProtectionRow> steps, ledger.Protections(run_id));
  const auto is_released = [](const auto& row) {
    return !row.method.empty() && row.gate != v1::FREEZE_BOTTOM && row.gate != v1::HALT;
  };
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<EventRow> events, ledger.Events(run_id));
  return std::any_of(removed.begin(), removed.end(), is_released) ||
         std::any_of(steps.begin(), steps.end(), is_released) ||
         std::any_of(events.begin(), events.end(), [](const EventRow& row) { return row.kind == kFirstSliceSent; });
}

}  // namespace

void DescribeLabels(const v1::LabelPartyConfig& config, const Dataset& data, const std::string& account_id,
                    RunRow& row) {
  // What identifies labels across runs: an audit adds up runs that share the table, the label set or the account.
  row.data_sha256 = absl::BytesToHexString(AsBytes(data.digest()));
  row.label_set = config.privacy_account().label_set();
  row.account = account_id;
  row.max_lifetime_auc_bound = config.privacy_account().max_lifetime_auc_bound();
}

std::vector<LabelReleaseRow> LabelReleaseRows(const v1::LabelReleases& releases, const Task& task) {
  std::vector<LabelReleaseRow> rows;
  if (releases.flip_epsilon() > 0) {  // With an account, it counts them as this noise.
    return {{"flip", releases.noise().empty() ? 0 : releases.noise(0).sigma_units(), 1, releases.flip_epsilon()}};
  }
  for (const v1::LabelReleases::Noise& noise : releases.noise()) {
    // Claimed mu of one draw: sensitivity over sigma (Gaussian mechanism; Dong et al., "Gaussian differential privacy",
    // 2022). Sigma is kept in units of the grid of the noise, so that it is exact.
    const double sigma = std::ldexp(static_cast<double>(noise.sigma_units()), -kLabelGridBits);
    rows.push_back({"gaussian", noise.sigma_units(), noise.draws(), LabelSensitivity(LabelKindOf(task)) / sigma});
  }
  return rows;
}

absl::StatusOr<std::string> OtherAccount(const std::string& ledger_path, const RunRow& run) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<LedgerReader> ledger, OpenIfThere(ledger_path));
  std::string other;
  if (ledger == nullptr || run.label_set.empty()) {
    return other;
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<RunRecord> runs, ledger->Runs());
  for (const RunRecord& earlier : runs) {
    const RunRow& of = earlier.run;
    // The same table under a new label_set, or the same label_set with more rows: both may hold the same labels, so
    // either is enough.
    if (of.account.empty() || (of.data_sha256 != run.data_sha256 && of.label_set != run.label_set)) {
      continue;
    }
    // One earlier run under this account settles it: its operator has accepted the change then.
    if (of.account == run.account) {
      return std::string();
    }
    other = of.account;
  }
  return other;
}

absl::Status CheckSameAccount(const std::string& ledger_path, const RunRow& run, bool new_account) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::string other, OtherAccount(ledger_path, run));
  return other.empty() || new_account
             ? absl::OkStatus()
             : absl::InvalidArgumentError(absl::StrCat(
                   "path: expected the account that counted the earlier runs on these labels, ", other, " by ",
                   ledger_path, ", found ", run.account.empty() ? "none, so that a new one would be made" : run.account,
                   ": restore that account; or set new_account: true, and what was released before is unknown to the "
                   "account from now on"));
}

absl::Status CheckNotOlder(const std::string& ledger_path, const RunRow& run, bool new_account,
                           PrivacyAccount& account) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<LedgerReader> ledger, OpenIfThere(ledger_path));
  if (ledger == nullptr) {
    return absl::OkStatus();
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<RunRecord> records, ledger->Runs());
  for (const RunRecord& record : records) {
    const RunRow& of = record.run;
    if (of.account != run.account || of.label_set != run.label_set ||
        (new_account && of.data_sha256 == run.data_sha256)) {
      continue;
    }
    // Written once all of its examples are counted.
    SPLITVEIL_ASSIGN_OR_RETURN(const std::optional<AllRunsRow> counted, ledger->AllRuns(of.run_id));
    SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<LabelReleaseRow> releases, ledger->LabelReleases(of.run_id));
    for (const LabelReleaseRow& release : releases) {
      const auto units = static_cast<uint32_t>(release.sigma_units);
      SPLITVEIL_ASSIGN_OR_RETURN(const int64_t known, units == 0 ? 0 : account.ExamplesWith(units));
      if (counted.has_value() && units > 0 && known < counted->examples) {
        return absl::InvalidArgumentError(absl::StrCat(
            "path: this account has counted fewer examples of label_set \"", run.label_set, "\" than run ", of.run_id,
            " of ", ledger_path, " released, so it is an older copy: put the latest in its place; or ",
            of.data_sha256 == run.data_sha256
                ? "set new_account: true, and what was released since is unknown to the account from now on"
                : "choose a label_set of another name, since this table may have other labels than that run's"));
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<AllRunsBound> BoundWithLedger(const std::string& ledger_path, const LabelRun& planned) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<LedgerReader> ledger, OpenIfThere(ledger_path));
  if (ledger == nullptr || planned.releases.empty()) {
    return AllRunsBound();
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<RunRecord> records, ledger->Runs());
  std::vector<LabelRun> runs;
  for (const RunRecord& record : records) {
    // A run that continues has its own rows there already.
    if (record.run.run_id == planned.run.run_id || AreOnSameLabels(record.run, planned.run) != SameLabels::kYes) {
      continue;
    }
    // A run that ended before its first answer released nothing, whatever it had planned. One that was killed may have
    // released all of it in the second before: its last rows are lost.
    SPLITVEIL_ASSIGN_OR_RETURN(const bool released, HasReleased(*ledger, record.run.run_id));
    LabelRun& run = runs.emplace_back();
    run.run = record.run;
    run.released =
        released || record.finished_at.empty() ? LabelRun::Released::kSomething : LabelRun::Released::kNothing;
    SPLITVEIL_ASSIGN_OR_RETURN(run.releases, ledger->LabelReleases(record.run.run_id));
    SPLITVEIL_ASSIGN_OR_RETURN(run.counted, ledger->AllRuns(record.run.run_id));
  }
  // With the planned run as if it were complete: the refusal has to come before its first release.
  runs.push_back(planned);
  return BoundOfAllRuns(runs);
}

absl::Status CheckLifetime(const AllRunsBound& bound) {
  if (bound.known <= bound.limit) {
    return absl::OkStatus();
  }
  return AsHalt(absl::ResourceExhaustedError(absl::StrFormat(
      "privacy_account.max_lifetime_auc_bound: expected at most %.6g for all runs on these labels, found "
      "%.6g with this run by the ledger, whichever account counted them: nothing is released",
      bound.limit, bound.known)));
}

}  // namespace splitveil
