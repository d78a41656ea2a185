#include "common/figures/all_runs.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/figures/json_number.h"
#include "common/figures/run_figures.h"
#include "common/privacy/gaussian_privacy.h"
#include "common/privacy/label_privacy.h"
#include "common/privacy_account/account_file.h"

#include "splitveil/v1/agreement.pb.h"

namespace splitveil {
namespace {

constexpr char kCountedAs[] = ", counted as ";
constexpr double kRounding = 1e-6;  // Between a sum and what is read back from its AUC, as a share.

bool IsMore(double sum_kl, double than) { return sum_kl > (1 + kRounding) * than; }

double SumKlOfUnits(int64_t sigma_units) {
  const auto noise = LabelPrivacy::OfReleases(LabelKind::kBinary, {static_cast<uint32_t>(sigma_units)});
  return noise.ok() ? noise->mu() * noise->mu() : std::numeric_limits<double>::infinity();
}

bool IsBounded(const LabelRun& run) {
  const bool is_counted = !run.releases.empty() || run.counted.has_value() || run.sum_kl.has_value();
  return is_counted && run.unproved_answers == 0 && !run.exact_answers;
}

// `at_most`: also what the ledger's rows of an account's runs come to that the account itself does not add up, because
// it has lost some, or because their examples differ.
class Sum {
 public:
  explicit Sum(bool at_most) : at_most_(at_most) {}

  // `is_lost`: the account does not know of the run any more, so that what it counts later comes on top.
  void AddReleases(const LabelRun& run, bool is_lost) {
    if (run.releases.empty() && !run.counted.has_value()) {  // Else the account's figure is about the same releases.
      sum_kl_ += run.sum_kl.value_or(0);
    }
    is_bounded_ = is_bounded_ && IsBounded(run);
    Account& account = AccountOf(run, is_lost);
    double added = 0;
    for (const LabelReleaseRow& release : run.releases) {
      const bool is_flip = release.noise == "flip";
      if (is_flip && release.sigma_units == 0) {  // Counted by no account: flips of its own.
        epsilons_.insert(epsilons_.end(), static_cast<size_t>(release.draws), release.strength);
        continue;
      }
      // As the account counts them: flips are made of noise of that strength, which discloses at least as much, and may
      // have been released as it is by a run that is in no ledger.
      const double of_one = is_flip ? SumKlOfUnits(release.sigma_units) : release.strength * release.strength;
      int64_t& draws = account.draws[{run.run.label_set, release.sigma_units}];
      added += static_cast<double>(std::max<int64_t>(0, release.draws - draws)) * of_one;
      draws = std::max(draws, release.draws);
    }
    if (added > 0) {
      account.AddReleases(added, run.counted);
    }
  }
  // A lost run's figure, too, since it may hold what is in no ledger. It contains what the account still knows, which
  // so counts twice.
  void Count(const LabelRun& run, bool is_lost) {
    if (run.counted.has_value()) {
      AccountOf(run, is_lost).Count(SumKlOfGaussianAuc(run.counted->auc_bound));
    }
  }

  bool is_bounded() const { return is_bounded_; }
  double AucBound() const {
    double sum_kl = sum_kl_;
    for (const auto& [id, account] : accounts_) {
      sum_kl += account.Exposed(at_most_);
    }
    return ComposedAucBound(sum_kl, epsilons_);
  }

 private:
  struct Account {
    std::map<std::pair<std::string, int64_t>, int64_t> draws;  // By label set and strength.
    // Sums of mu^2: by its own figure; by the ledger's rows of all its runs, and of one of them.
    double counted = 0, released = 0, largest = 0;
    int64_t runs = 0, examples = 0, table_rows = 0;  // Of the runs that released something new.

    void AddReleases(double sum_kl, const std::optional<AllRunsRow>& by_account) {
      released += sum_kl;
      largest = std::max(largest, sum_kl);
      ++runs;
      examples += by_account.has_value() ? by_account->examples : 0;
      table_rows = std::max(table_rows, by_account.has_value() ? by_account->table_rows : 0);
    }
    void Count(double sum_kl) {
      counted = std::max(counted, sum_kl);
      // What it had counted by then adds to what it does not know of later.
      released = IsMore(counted, released) ? counted : released;
    }
    // Whether one example must be in all of these runs: so many do not fit into the table otherwise.
    bool share_an_example() const { return runs < 2 || (table_rows > 0 && examples > (runs - 1) * table_rows); }
    double Exposed(bool at_most) const {
      const double by_ledger = at_most || share_an_example() ? released : largest;
      return IsMore(counted, by_ledger) ? counted : by_ledger;
    }
  };

  // Without an account a run draws noise of its own. Runs that were lost together share what was counted before them.
  // One that had itself lost others by then does not: its account went on from a copy that knew nothing of them.
  Account& AccountOf(const LabelRun& run, bool is_lost) {
    return accounts_[run.run.account.empty() ? absl::StrCat("run ", run.run.run_id)
                     : is_lost               ? absl::StrCat(run.run.account, " lost ", absl::StrJoin(run.lost, " "))
                                             : run.run.account];
  }

  const bool at_most_;
  std::map<std::string, Account> accounts_;
  std::vector<double> epsilons_;
  double sum_kl_ = 0;
  bool is_bounded_ = true;
};

// What accounts counted, in the order in which they did: a figure contains the releases before it and no later ones.
class CountingOrder {
 public:
  // In the order in which the runs were opened.
  void Add(const LabelRun& run, bool is_lost, bool is_known) {
    for (const bool is_figure : {false, true}) {
      const std::string& at = is_figure ? run.counted_at : run.released_at;
      latest_ = std::max(latest_, at);
      steps_.push_back({at.empty() ? latest_ : at, &run, is_lost, is_known, is_figure});
    }
  }
  // Of the known ones, and of all.
  std::pair<Sum, Sum> Sums() {
    absl::c_stable_sort(steps_, [](const Step& a, const Step& b) { return a.at < b.at; });
    Sum known(/*at_most=*/false), possible(/*at_most=*/true);
    for (const Step& step : steps_) {
      for (Sum* const sum : {&known, &possible}) {
        if (sum == &possible || step.is_known) {
          step.is_figure ? sum->Count(*step.run, step.is_lost) : sum->AddReleases(*step.run, step.is_lost);
        }
      }
    }
    return {std::move(known), std::move(possible)};
  }

 private:
  struct Step {
    std::string at;
    const LabelRun* run;
    bool is_lost, is_known;
    bool is_figure;  // The account's; else the run's releases.
  };

  std::vector<Step> steps_;
  std::string latest_;
};

std::string NameOf(const LabelRun& run) {
  return absl::StrCat(run.unproved_answers > 0 ? "outside callers' answers of the model of " : "", "run ",
                      run.run.run_id, " (", run.run.protection, ")");
}

std::string DoubtAbout(const LabelRun& run, SameLabels same) {
  const std::string name = NameOf(run);
  return same == SameLabels::kUnknown
             ? absl::StrCat("the table of ", name,
                            " may have the same examples, and no one privacy account has counted both")
         : run.released == LabelRun::Released::kUnknown
             ? absl::StrCat("whether ", name, " released anything is not recorded")
             : absl::StrCat("nothing bounds what ", name, " released of the same labels");
}

std::string StartIn(const EventRow& event) {
  const size_t at = event.kind == kReleasesFollow ? event.detail.find(kCountedAs) : std::string::npos;
  return at == std::string::npos ? "" : event.detail.substr(at + std::strlen(kCountedAs));
}

v1::DisclosureLevel AgreedDisclosure(const RunRow& run) {
  const Json config = Json::parse(run.config_json, nullptr, /*allow_exceptions=*/false);
  const Json::json_pointer place("/agreement/audit/disclosure");
  v1::DisclosureLevel level = v1::LABEL_SIDE_ONLY;
  return config.is_object() && config.contains(place) && config[place].is_string() &&
                 v1::DisclosureLevel_Parse(config[place].get<std::string>(), &level)
             ? level
             : v1::LABEL_SIDE_ONLY;
}

// Noised labels count once a head has learned from them, be its gradients kept back.
LabelRun::Released ReleasedOf(const RunRecord& record, const LabelRun& run, absl::Span<const EventRow> events,
                              const StepDecisions& decisions) {
  const bool has_learned = decisions.learned && !run.releases.empty();
  return has_learned || run.unproved_answers > 0 || HasEvent(events, "disclosed")
             ? LabelRun::Released::kSomething
             : ReleasedGradients(record, events, decisions);
}

}  // namespace

bool IsReleased(const ProtectionRow& row) { return row.gate != v1::FREEZE_BOTTOM && row.gate != v1::HALT; }
bool IsReleased(const StepSummaryRow& row) {
  return !row.method.empty() && row.gate != v1::FREEZE_BOTTOM && row.gate != v1::HALT;
}

bool MayHaveReleasedBefore(absl::Span<const EventRow> events) {
  bool is_silent = false;  // Nothing has told yet what became of a start.
  for (const EventRow& event : events) {
    if (event.kind == kFirstSliceSent || (event.kind == "continued" && is_silent)) {
      return true;
    }
    is_silent = event.kind == kReleasesFollow ? !absl::StartsWith(event.detail, kAfterFirstSlice)
                                              : is_silent && event.kind != "ended";
  }
  return false;
}

LabelRun::Released ReleasedGradients(const RunRecord& record, absl::Span<const EventRow> events,
                                     const StepDecisions& decisions) {
  if (decisions.released || HasEvent(events, kFirstSliceSent)) {
    return LabelRun::Released::kSomething;
  }
  // A frozen bottom model stays frozen.
  const bool may_begin = HasEvent(events, kReleasesFollow) && record.finished_at.empty() && !decisions.any;
  return may_begin || MayHaveReleasedBefore(events) ? LabelRun::Released::kUnknown : LabelRun::Released::kNothing;
}

StepDecisions DecisionsOf(absl::Span<const ProtectionRow> steps, absl::Span<const StepSummaryRow> removed) {
  StepDecisions decisions;
  const auto add = [&](const auto& row) {
    decisions.any = true;
    decisions.learned = decisions.learned || row.gate != v1::HALT;
    decisions.released = decisions.released || IsReleased(row);
  };
  absl::c_for_each(steps, add);
  for (const StepSummaryRow& row : removed) {
    if (!row.method.empty()) {
      add(row);
    }
  }
  return decisions;
}

LabelRun LabelRunOf(const RunRecord& record, std::vector<LabelReleaseRow> releases, std::optional<AllRunsRow> counted,
                    absl::Span<const EventRow> events, const StepDecisions& decisions) {
  LabelRun run = {record.run, std::move(releases), std::move(counted)};
  run.unproved_answers = CountUnprovedAnswers(events);
  run.exact_answers = HasEvent(events, "disclosed") || AgreedDisclosure(record.run) == v1::ORACLE;
  for (const EventRow& event : events) {
    if (event.kind == kLostByAccount) {
      run.lost.push_back(event.detail);
    } else if (event.kind == kReleasesFollow) {
      const std::string at = CountedAt(event);
      run.released_at = run.released_at.empty() ? at : std::min(run.released_at, at);
      run.counted_at = std::max(run.counted_at, at);
    }
  }
  run.released = ReleasedOf(record, run, events, decisions);
  return run;
}

std::string ReleasesFollow(int64_t examples, absl::string_view start) {
  return absl::StrCat(examples, " examples", start.empty() ? "" : kCountedAs, start);
}

std::string CountedAt(const EventRow& event) {
  const std::string time(TimeOfStart(StartIn(event)));
  return time.empty() ? event.at : time;
}

std::vector<std::string> StartsIn(absl::Span<const EventRow> events) {
  std::vector<std::string> starts;
  for (const EventRow& event : events) {
    if (std::string start = StartIn(event); !start.empty()) {
      starts.push_back(std::move(start));
    }
  }
  return starts;
}

bool HasLost(absl::Span<const std::string> starts, absl::string_view run_id) {
  return absl::c_any_of(starts, [&](const std::string& start) { return IsStartOf(run_id, start); });
}

double SumKlOfGaussianAuc(double auc_bound) {
  const double quantile = NormalQuantile(std::min(auc_bound, 1.0));
  return 2 * quantile * quantile;
}

SameLabels AreOnSameLabels(const RunRow& a, const RunRow& b) {
  if (!a.data_sha256.empty() && a.data_sha256 == b.data_sha256) {
    return SameLabels::kYes;
  }
  // Names of label sets do not tell: a row more and another name would hide the others.
  const bool counted_together = !a.account.empty() && a.account == b.account;
  const bool known = !a.data_sha256.empty() && !b.data_sha256.empty();
  return counted_together && known ? SameLabels::kNo : SameLabels::kUnknown;
}

bool ShareLimit(const RunRow& a, const RunRow& b) {
  const bool one_account = !a.account.empty() && a.account == b.account && a.label_set == b.label_set;
  return one_account || AreOnSameLabels(a, b) == SameLabels::kYes;
}

AllRunsBound BoundOfAllRuns(absl::Span<const LabelRun> runs) {
  AllRunsBound bound;
  CountingOrder order;
  for (const LabelRun& run : runs) {
    const bool is_last = &run == &runs.back();
    // Of examples of its own an account alone could tell, and that of the last run has lost this one.
    const bool is_own_loss = HasLost(runs.back().lost, run.run.run_id);
    const bool is_lost =
        absl::c_any_of(runs, [&](const LabelRun& other) { return HasLost(other.lost, run.run.run_id); });
    const SameLabels same = is_last || is_own_loss ? SameLabels::kYes : AreOnSameLabels(run.run, runs.back().run);
    const bool counts = run.released != LabelRun::Released::kNothing || (is_last && run.counted.has_value());
    if (!counts && !is_last) {
      continue;
    }
    if (is_own_loss || ShareLimit(run.run, runs.back().run)) {
      bound.limit = std::min(bound.limit, run.run.max_lifetime_auc_bound);
    }
    bound.counts_last = counts;
    if (same == SameLabels::kNo || !counts) {
      continue;
    }
    const bool is_proved = (!run.releases.empty() || run.counted.has_value() || IsBoundProved(run.run.protection)) &&
                           run.unproved_answers == 0 && !run.exact_answers;
    if (!is_proved && bound.not_proved.empty()) {
      bound.not_proved = NameOf(run);
    }
    const auto* const earlier =
        absl::c_find_if(runs, [&](const LabelRun& other) { return other.run.run_id == run.run.resumed_from; });
    const bool has_earlier = run.run.resumed_from.empty() || run.counted.has_value() || earlier != runs.end();
    if (!has_earlier && bound.has_earlier) {
      bound.has_earlier = false;
      bound.doubt = absl::StrCat("the run that ", run.run.run_id, " resumes from is in none of these ledgers");
    }
    const bool is_known = same == SameLabels::kYes && (run.released == LabelRun::Released::kSomething || is_last);
    order.Add(run, is_lost, is_known);
    if (is_known) {
      ++bound.runs;
      if (!run.run.account.empty() && !absl::c_linear_search(bound.accounts, run.run.account)) {
        bound.accounts.push_back(run.run.account);
      }
    }
    if (bound.doubt.empty() && (!is_known || !IsBounded(run))) {
      bound.doubt = DoubtAbout(run, same);
    }
  }
  const auto [known, possible] = order.Sums();
  bound.known = known.AucBound();
  bound.possible = possible.is_bounded() && bound.has_earlier ? possible.AucBound() : 1;
  if (bound.doubt.empty() && bound.possible > bound.known) {
    bound.doubt =
        "a privacy account counts less than these runs add up to: it has lost some of them, or their examples differ";
  }
  return bound;
}

}  // namespace splitveil
