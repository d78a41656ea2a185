#include "label_party/storage/label_history.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/algorithm/container.h"
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

// What the ledger records of the labels of an earlier run.
absl::StatusOr<LabelRun> ReadLabelRun(LedgerReader& ledger, const RunRecord& record) {
  const std::string& run_id = record.run.run_id;
  SPLITVEIL_ASSIGN_OR_RETURN(std::optional<AllRunsRow> counted, ledger.AllRuns(run_id));
  SPLITVEIL_ASSIGN_OR_RETURN(std::vector<LabelReleaseRow> releases, ledger.LabelReleases(run_id));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<EventRow> events, ledger.Events(run_id));
  StepDecisions decisions;
  if (!HasEvent(events, kFirstSliceSent)) {  // Else millions of rows would tell nothing new.
    SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<ProtectionRow> steps, ledger.Protections(run_id));
    SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<StepSummaryRow> removed, ledger.StepSummaries(run_id));
    decisions = DecisionsOf(steps, removed);
  }
  LabelRun run = LabelRunOf(record, std::move(releases), std::move(counted), events, decisions);
  // A limit has to hold whatever it was.
  run.released = run.released == LabelRun::Released::kUnknown ? LabelRun::Released::kSomething : run.released;
  return run;
}

// The starts of runs of which the operator has accepted before that the account does not know. Not the runs: one that
// went on later was counted again, which another older copy may have lost.
absl::StatusOr<std::set<std::string>> AcceptedStarts(LedgerReader& ledger, const std::vector<RunRecord>& records) {
  std::set<std::string> accepted;
  for (const RunRecord& record : records) {
    SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<EventRow> events, ledger.Events(record.run.run_id));
    for (const EventRow& event : events) {
      if (event.kind == kLostByAccount) {
        accepted.insert(event.detail);
      }
    }
  }
  return accepted;
}

// Of a run whose own bound is conditional: nothing bounds what others released that are, or may be, on its labels, but
// for what it carries on as the one that it resumes from.
AllRunsBound BoundWithout(const std::vector<LabelRun>& runs, const RunRow& planned) {
  AllRunsBound bound;
  std::string carried_on = planned.resumed_from;
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    if (run->run.run_id == carried_on) {
      carried_on = run->run.resumed_from;
    } else if (run->released != LabelRun::Released::kNothing) {
      bound.possible = 1;
    }
  }
  return bound;
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

PrivacyAccountOptions AccountOptions(const v1::PrivacyAccount& config, const Task& task) {
  return {config.path(), config.label_set(), config.max_lifetime_auc_bound(), LabelKindOf(task)};
}

absl::StatusOr<std::vector<std::string>> LostStarts(const std::string& ledger_path, const RunRow& run, bool new_account,
                                                    const PrivacyAccount& account) {
  std::vector<std::string> lost;
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<LedgerReader> ledger, OpenIfThere(ledger_path));
  if (ledger == nullptr) {
    return lost;
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<RunRecord> records, ledger->Runs());
  for (const RunRecord& record : records) {
    const RunRow& of = record.run;
    if (of.account != account.id()) {
      continue;
    }
    // Each time on the disk before the run released anything, and after the account knew that it begins or goes on.
    SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<EventRow> events, ledger->Events(of.run_id));
    std::vector<std::string> unknown = StartsIn(events);
    unknown.erase(std::remove_if(unknown.begin(), unknown.end(),
                                 [&](const std::string& start) { return account.remembered().count(start) > 0; }),
                  unknown.end());
    if (unknown.empty()) {
      continue;
    }
    const bool may_differ = of.label_set == run.label_set && of.data_sha256 != run.data_sha256;
    SPLITVEIL_ASSIGN_OR_RETURN(const std::set<std::string> accepted, AcceptedStarts(*ledger, records));
    const bool is_accepted =
        new_account || absl::c_all_of(unknown, [&](const std::string& start) { return accepted.count(start) > 0; });
    if (may_differ || !is_accepted) {
      return absl::InvalidArgumentError(absl::StrCat(
          "path: this account does not know all of run ", of.run_id, ", which it has counted by ", ledger_path,
          ", so it is an older copy: put the latest in its place; or, if that is lost, set new_account: true",
          may_differ ? " and another label_set, since this table may have other labels than that run's" : "",
          ", and the runs that this copy does not know of are added up from that ledger alone"));
    }
    absl::c_move(unknown, std::back_inserter(lost));
  }
  return lost;
}

absl::StatusOr<std::vector<std::string>> LostStartsNow(const std::string& ledger_path, const RunRow& run,
                                                       const v1::LabelPartyConfig& config, const Task& task) {
  std::vector<std::string> none;
  if (!config.has_privacy_account()) {
    return none;
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<PrivacyAccount> account,
                             PrivacyAccount::OpenToRead(AccountOptions(config.privacy_account(), task)));
  return account == nullptr ? none : LostStarts(ledger_path, run, config.privacy_account().new_account(), *account);
}

absl::StatusOr<double> LeastLimit(const std::string& ledger_path, const RunRow& run) {
  double least = run.max_lifetime_auc_bound;
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<LedgerReader> ledger, OpenIfThere(ledger_path));
  if (ledger == nullptr) {
    return least;
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<RunRecord> records, ledger->Runs());
  for (const RunRecord& record : records) {
    if (record.run.max_lifetime_auc_bound >= least || !ShareLimit(record.run, run)) {
      continue;
    }
    SPLITVEIL_ASSIGN_OR_RETURN(const LabelRun earlier, ReadLabelRun(*ledger, record));
    // One that released nothing has promised nothing.
    least = earlier.released == LabelRun::Released::kNothing ? least : record.run.max_lifetime_auc_bound;
  }
  return least;
}

absl::StatusOr<AllRunsBound> BoundWithLedger(const std::string& ledger_path, const LabelRun& planned) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<LedgerReader> ledger, OpenIfThere(ledger_path));
  if (ledger == nullptr) {
    return AllRunsBound();
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<RunRecord> records, ledger->Runs());
  std::vector<LabelRun> runs, all;  // `all`: also those on tables of which nobody knows whose labels they have.
  LabelRun own = planned;           // As if it were complete: the refusal has to come before its first release.
  bool takes_possible = !planned.lost.empty();
  for (const RunRecord& record : records) {
    if (record.run.run_id == planned.run.run_id) {  // It goes on: what others counted since contains its releases.
      SPLITVEIL_ASSIGN_OR_RETURN(const LabelRun begun, ReadLabelRun(*ledger, record));
      own.released_at = begun.released_at;
      continue;
    }
    const SameLabels same = AreOnSameLabels(record.run, planned.run);
    const bool is_lost = HasLost(planned.lost, record.run.run_id);
    // A table that grows, counted by two accounts under one name.
    const bool may_share =
        same == SameLabels::kUnknown && !planned.run.label_set.empty() && record.run.label_set == planned.run.label_set;
    // A prediction names no protection, and releases none of them.
    if (record.run.protection.empty() || (!is_lost && same == SameLabels::kNo)) {
      continue;
    }
    SPLITVEIL_ASSIGN_OR_RETURN(LabelRun run, ReadLabelRun(*ledger, record));
    if (is_lost || may_share || same == SameLabels::kYes) {
      takes_possible = takes_possible || may_share || !run.lost.empty();
      runs.push_back(run);
    }
    all.push_back(std::move(run));
  }
  if (planned.releases.empty()) {
    return BoundWithout(all, planned.run);
  }
  const bool has_unknown = all.size() > runs.size();
  runs.push_back(own);
  all.push_back(std::move(own));
  // What an account has counted of its own is exact, unless it has lost some; what else there is adds to it.
  const auto sum_of = [&](const AllRunsBound& bound) { return takes_possible ? bound.possible : bound.known; };
  const double stated = sum_of(BoundOfAllRuns(runs));
  for (LabelRun& run : runs) {
    // The account's figure of other runs may be of other examples. Those of this one it holds to the limit itself.
    if (&run != &runs.back() && run.counted.has_value() && run.run.account == planned.run.account &&
        !HasLost(planned.lost, run.run.run_id)) {
      run.counted->auc_bound = 0.5;
    }
  }
  AllRunsBound bound = BoundOfAllRuns(runs);
  bound.known = sum_of(bound);
  const AllRunsBound of_all = BoundOfAllRuns(all);
  // Beside a proved bound only a proved sum may stand.
  bound.possible = !of_all.not_proved.empty() ? 1 : has_unknown ? std::max(stated, of_all.possible) : stated;
  return bound;
}

absl::Status CheckLifetime(const AllRunsBound& bound) {
  if (bound.limit < 1 && !bound.not_proved.empty()) {
    return AsHalt(absl::ResourceExhaustedError(absl::StrCat(
        "privacy_account.max_lifetime_auc_bound: by the ledger ", bound.not_proved,
        " released of the same labels, or may have, and nothing proved bounds what: nothing is released; keep trials "
        "without a proved bound out of this ledger if the partner never had them, else no limit can be promised any "
        "more")));
  }
  if (bound.known <= bound.limit) {
    return absl::OkStatus();
  }
  return AsHalt(absl::ResourceExhaustedError(absl::StrFormat(
      "privacy_account.max_lifetime_auc_bound: expected at most %.6g for all runs on these labels, found "
      "%.6g with this run by the ledger, whichever account counted them: nothing is released",
      bound.limit, bound.known)));
}

absl::Status CheckEarlierRuns(const std::string& ledger_path, const LabelRun& planned) {
  SPLITVEIL_ASSIGN_OR_RETURN(const AllRunsBound with_ledger, BoundWithLedger(ledger_path, planned));
  SPLITVEIL_RETURN_IF_ERROR(CheckLifetime(with_ledger));
  if (!planned.releases.empty()) {
    return absl::OkStatus();
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const double least, LeastLimit(ledger_path, planned.run));
  return least == 1 ? absl::OkStatus()
                    : AsHalt(absl::ResourceExhaustedError(absl::StrFormat(
                          "protection: by the ledger an earlier run has promised a max_lifetime_auc_bound of %.6g for "
                          "these labels, and nothing proved bounds what %s releases: nothing is released; use "
                          "gaussian_label_dp or label_dp with the same privacy_account, or, if that promise is given "
                          "up, another ledger_path",
                          least, planned.run.protection)));
}

}  // namespace splitveil
