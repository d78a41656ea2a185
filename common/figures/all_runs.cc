#include "common/figures/all_runs.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"

#include "common/privacy/gaussian_privacy.h"
#include "common/privacy/label_composition.h"

namespace splitveil {
namespace {

class Sum {
 public:
  void Add(const LabelRun& run) {
    if (run.releases.empty() && !run.counted.has_value()) {  // Else the account's figure is about the same releases.
      is_bounded_ = is_bounded_ && run.sum_kl.has_value();
      sum_kl_ += run.sum_kl.value_or(0);
    }
    // Without an account a run draws noise of its own.
    Account& account = accounts_[run.run.account.empty() ? absl::StrCat("run ", run.run.run_id) : run.run.account];
    for (const LabelReleaseRow& release : run.releases) {
      if (release.noise == "flip") {
        epsilons_.insert(epsilons_.end(), static_cast<size_t>(release.draws), release.strength);
        continue;
      }
      int64_t& draws = account.draws[{run.run.label_set, release.sigma_units}];
      account.sum_kl +=
          static_cast<double>(std::max<int64_t>(0, release.draws - draws)) * release.strength * release.strength;
      draws = std::max(draws, release.draws);
    }
    if (run.counted.has_value() && run.run.resumed_from.empty()) {
      account.sum_kl = std::max(account.sum_kl, SumKlOfGaussianAuc(run.counted->auc_bound));
    } else if (run.counted.has_value()) {  // With what the runs released that it resumes from, by any account.
      at_least_ = std::max(at_least_, run.counted->auc_bound);
    }
  }

  bool is_bounded() const { return is_bounded_; }
  double AucBound() const {
    double sum_kl = sum_kl_;
    for (const auto& [id, account] : accounts_) {
      sum_kl += account.sum_kl;
    }
    return std::max(at_least_, ComposedAucBound(sum_kl, epsilons_));
  }

 private:
  struct Account {
    std::map<std::pair<std::string, int64_t>, int64_t> draws;  // By label set and strength.
    double sum_kl = 0;
  };

  std::map<std::string, Account> accounts_;
  std::vector<double> epsilons_;
  double sum_kl_ = 0, at_least_ = 0.5;
  bool is_bounded_ = true;
};

std::string DoubtAbout(const LabelRun& run, SameLabels same) {
  const std::string name = absl::StrCat("run ", run.run.run_id, " (", run.run.protection, ")");
  return same == SameLabels::kUnknown ? absl::StrCat("the table of ", name, " may have the same examples")
         : run.released == LabelRun::Released::kUnknown
             ? absl::StrCat("whether ", name, " released anything is not recorded")
             : absl::StrCat("nothing bounds what ", name, " released of the same labels");
}

}  // namespace

double SumKlOfGaussianAuc(double auc_bound) {
  const double quantile = NormalQuantile(std::min(auc_bound, 1.0));
  return 2 * quantile * quantile;
}

SameLabels AreOnSameLabels(const RunRow& a, const RunRow& b) {
  if (!a.data_sha256.empty() && a.data_sha256 == b.data_sha256) {
    return SameLabels::kYes;
  }
  if (a.data_sha256.empty() || b.data_sha256.empty() || a.label_set.empty() || b.label_set.empty()) {
    return SameLabels::kUnknown;
  }
  const bool one_account = !a.account.empty() && a.account == b.account;
  return one_account || a.label_set != b.label_set ? SameLabels::kNo : SameLabels::kUnknown;
}

AllRunsBound BoundOfAllRuns(absl::Span<const LabelRun> runs) {
  AllRunsBound bound;
  Sum known, possible;
  for (const LabelRun& run : runs) {
    const bool is_last = &run == &runs.back();
    const SameLabels same = is_last ? SameLabels::kYes : AreOnSameLabels(run.run, runs.back().run);
    if (same == SameLabels::kNo || (run.released == LabelRun::Released::kNothing && !is_last)) {
      continue;
    }
    possible.Add(run);
    const bool has_earlier =
        run.run.resumed_from.empty() || run.counted.has_value() ||
        absl::c_any_of(runs, [&](const LabelRun& earlier) { return earlier.run.run_id == run.run.resumed_from; });
    if (!has_earlier && bound.has_earlier) {
      bound.has_earlier = false;
      bound.doubt = absl::StrCat("the run that ", run.run.run_id, " resumes from is in none of these ledgers");
    }
    const bool is_known = same == SameLabels::kYes && (run.released == LabelRun::Released::kSomething || is_last);
    if (is_known) {
      known.Add(run);
      ++bound.runs;
      bound.limit = std::min(bound.limit, run.run.max_lifetime_auc_bound);
      if (!run.run.account.empty() && !absl::c_linear_search(bound.accounts, run.run.account)) {
        bound.accounts.push_back(run.run.account);
      }
    }
    if (bound.doubt.empty() && (!is_known || !known.is_bounded())) {
      bound.doubt = DoubtAbout(run, same);
    }
  }
  bound.known = known.AucBound();
  bound.possible = possible.is_bounded() && bound.has_earlier ? possible.AucBound() : 1;
  return bound;
}

}  // namespace splitveil
