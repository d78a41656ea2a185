#include "common/operations/run_summary.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <iterator>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "common/leakage/bound_basis.h"
#include "common/leakage/summary.h"
#include "common/ledger/gate_action.h"
#include "common/ledger/promise.h"

namespace splitveil {
namespace {

constexpr int kAttacksShown = 3;     // Per layer.
constexpr int kAttributesShown = 2;  // Unless the summary is verbose.

// "1.2 MB": decimal, as disks and networks count.
std::string Bytes(int64_t bytes) {
  const char* const units[] = {"B", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < std::size(units); ++unit) {
    value /= 1000;
  }
  return unit == 0 ? absl::StrFormat("%.0f %s", value, units[unit]) : absl::StrFormat("%.3g %s", value, units[unit]);
}

class Table {
 public:
  explicit Table(std::string headline) : text_(std::move(headline)) { text_ += '\n'; }

  void Add(const std::string& name, const std::string& figures) {
    absl::StrAppendFormat(&text_, "  %-15s %s\n", name, figures);  // A space behind long names, too.
  }
  // A line each, the name before the first.
  void AddLines(const std::string& name, const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
      Add(&line == &lines.front() ? name : "", line);
    }
  }
  std::string text() const { return text_; }

 private:
  std::string text_;
};

bool OnlyPredicts(const RunSummary& summary) { return summary.agreed_epochs == 0 && summary.steps == 0; }

std::string Training(const RunSummary& summary) {
  std::string text = absl::StrCat(
      summary.epochs, summary.epochs < summary.agreed_epochs ? absl::StrCat(" of ", summary.agreed_epochs) : "",
      " epochs, ", summary.steps, " steps, ", summary.examples, " examples");
  if (summary.seconds > 0) {
    absl::StrAppendFormat(&text, " in %.1f s (%.0f per second)", summary.seconds,
                          static_cast<double>(summary.examples) / summary.seconds);
  }
  return text;
}

// The figure of the best epoch, with what chose it.
std::string BestAndLast(const RunSummary& summary, double best, double last) {
  std::string text = absl::StrFormat("%.4f", best);
  if (summary.best_epoch > 0) {
    absl::StrAppendFormat(&text, " (%s, after epoch %d; last %.4f)",
                          summary.best_on_validation ? "best by validation" : "best, chosen on the test part itself",
                          summary.best_epoch, last);
  }
  return text;
}

// How good the model is on the test examples, or on all that a run without training has scored, as far as the task has
// the figure and this party knows it.
void AddQuality(const RunSummary& summary, Table& table, bool verbose) {
  const absl::string_view of = OnlyPredicts(summary) ? "" : "test ";
  const auto add = [&](absl::string_view name, double figure, const std::string& text) {
    if (!std::isnan(figure)) {
      table.Add(absl::StrCat(of, name), text);
    }
  };
  const auto add_figure = [&](absl::string_view name, double figure) {
    add(name, figure, absl::StrFormat("%.4f", figure));
  };
  const bool several = summary.task.kind == Task::Kind::kMultiClass;
  add("R^2", summary.test_r_squared, BestAndLast(summary, summary.test_r_squared, summary.final_test_r_squared));
  add("RMSE", summary.test_rmse, absl::StrFormat("%.4f  (of targets scaled to 0 to 1)", summary.test_rmse));
  add(several ? "macro AUC" : "AUC", summary.test_auc, BestAndLast(summary, summary.test_auc, summary.final_test_auc));
  add_figure("log loss", summary.test_log_loss);
  if (several && verbose) {
    add_figure("accuracy", summary.test_accuracy);
  }
  if (OnlyPredicts(summary) && !(std::isnan(summary.test_r_squared) && std::isnan(summary.test_log_loss))) {
    table.Add("", "of all rows scored: those that the model was trained on flatter it");
  }
}

std::string Named(const MeasuredAttack& leak) { return absl::StrFormat("%s %.3f", leak.attack, leak.auc()); }

std::string NamedWithLayer(const MeasuredAttack& leak) { return absl::StrCat(Named(leak), " at ", leak.layer); }

// A line per attack: "norm 0.720  (`unit`)", "cosine 0.580; 3 weaker".
template <typename Describe>
std::vector<std::string> FirstFew(const std::vector<MeasuredAttack>& leaks, Describe describe, const char* unit) {
  const size_t shown = std::min<size_t>(kAttacksShown, leaks.size());
  std::vector<std::string> lines;
  lines.reserve(shown);
  for (size_t i = 0; i < shown; ++i) {
    lines.push_back(absl::StrCat(describe(leaks[i]), i == 0 ? unit : ""));
  }
  if (leaks.size() > shown) {
    absl::StrAppend(&lines.back(), "; ", leaks.size() - shown, " weaker");
  }
  return lines;
}

// "norm at cut and 2 more".
std::string FirstAndHowMany(const std::vector<std::string>& names) {
  const size_t more = names.size() - 1;
  return more == 0 ? names.front() : absl::StrCat(names.front(), " and ", more, " more");
}

// What runs are ranked by, before anything else that was measured.
void AddStrongest(const RunSummary& summary, Table& table) {
  const MeasuredAttack* const strongest = StrongestOf(summary.leaks).strongest();
  if (strongest != nullptr) {
    std::vector<std::string> lines = {absl::StrFormat("%.3f measured, of all attacks on gradients: %s at %s",
                                                      strongest->auc(), strongest->attack, strongest->layer)};
    // A proved bound is about what gradients add to features, by which attacks rank as well.
    if (IsBoundProved(summary.protection) && strongest->auc() > summary.run_auc_bound &&
        !IsWorstCase(strongest->attack)) {
      lines.emplace_back("(ranks by features, too: not held against the bound)");
    }
    table.AddLines("strongest", lines);
  }
}

// Of every kind the strongest attacks and how many there are besides: those on single batches layer by layer, those
// that add up the epochs, and those that no bound is about.
void AddLeaks(const RunSummary& summary, Table& table) {
  std::map<std::pair<bool, std::string>, std::vector<MeasuredAttack>> layers;  // The cut first, then by name.
  std::vector<MeasuredAttack> cumulative, no_gradient;
  for (const MeasuredAttack& leak : summary.leaks) {
    if (!ReadsGradients(leak.attack)) {
      no_gradient.push_back(leak);
    } else if (IsCumulativeAttack(leak.attack) && std::isfinite(leak.pooled_auc)) {
      cumulative.push_back(leak);
    } else {
      layers[{leak.layer != "cut", leak.layer}].push_back(leak);
    }
  }
  const char* unit = "  (AUC: p95 over batches, or of the last epoch where larger)";
  for (const auto& [layer, leaks] : layers) {
    table.AddLines(absl::StrCat("leak at ", layer.second), FirstFew(leaks, Named, unit));
    unit = "";
  }
  if (!cumulative.empty()) {
    table.AddLines("over all epochs", FirstFew(cumulative, NamedWithLayer, "  (AUC over all examples)"));
  }
  if (!no_gradient.empty()) {
    table.AddLines("no gradient", FirstFew(no_gradient, NamedWithLayer, "  (AUC as above; no bound applies)"));
  }
  if (!summary.leaks.empty() && std::isfinite(summary.guessing.p95)) {
    table.Add("guessing",
              absl::StrFormat("%.3f p95 over batches, %.3f mean", summary.guessing.p95, summary.guessing.mean));
  }
}

// The strongest attack on each attribute; unless `verbose` on the first few.
void AddAttributeLeaks(const RunSummary& summary, Table& table, bool verbose) {
  const char* note = "  (strongest attack of the label party; accuracy with its 95% interval)";
  const size_t shown =
      verbose ? summary.attribute_leaks.size() : std::min<size_t>(kAttributesShown, summary.attribute_leaks.size());
  for (size_t i = 0; i < shown; ++i) {
    const AttributeLeakRow& row = summary.attribute_leaks[i];
    table.Add(
        absl::StrCat("attribute ", row.attribute),
        absl::StrFormat("%s %.3f [%.3f, %.3f] on %d %s examples, floor %.3f, AUC %.3f%s", row.attack, row.accuracy,
                        row.accuracy_low, row.accuracy_high, row.rows, row.examples, row.floor, row.auc, note));
    note = "";
  }
}

bool ReleasedNothing(const RunSummary& summary) {
  return OnlyPredicts(summary) ||
         (!summary.gate.empty() && std::all_of(summary.gate.begin(), summary.gate.end(), [](const auto& decision) {
           return decision.first == GateActionName(v1::FREEZE_BOTTOM) || decision.first == GateActionName(v1::HALT);
         }));
}

// A party that gates releases and measured nothing says so, and why.
std::string NoLeak(const RunSummary& summary) {
  return ReleasedNothing(summary) ? "none measured: no gradient left the label party" : "none measured";
}

// What the noise guarantees, and on what that rests.
std::string Proved(const RunSummary& summary) {
  const RunClaim claim = ClaimOf(summary);
  if (!claim.states_run_bound()) {
    return claim.states_bound() ? "nothing; conditional: a bound on single steps, none over all epochs"
                                : "nothing: these releases bound no attack";
  }
  const std::string earlier = std::isnan(summary.all_runs_auc_bound)
                                  ? ""
                                  : absl::StrFormat(" (%.3f with the runs before it)", summary.all_runs_auc_bound);
  const std::string bound = absl::StrFormat("AUC at most %.3f over all epochs%s", summary.run_auc_bound, earlier);
  return IsBoundProved(summary.protection)
             ? absl::StrCat(bound, ", for any adversary, beyond what both parties' features tell")
             : absl::StrCat("nothing; conditional: ", bound);
}

std::string WorstCase(const RunSummary& summary) {
  const EpochLeakRow& row = summary.worst_case;
  return row.examples > 0
             ? absl::StrFormat("%.3f measured over %s, %s: %s", InvertedAuc(row.auc),
                               IsCumulativeAttack(row.attack) ? "all epochs" : "the last epoch",
                               ClaimOf(summary).states_bound() ? "held against the bound" : "label side", row.attack)
             : "not measured: no conditional_likelihood_ratio";
}

std::string Practical(const RunSummary& summary) {
  const MeasuredAttack* const practical = StrongestOf(summary.leaks).practical;
  return practical == nullptr ? "not measured: no attack without side information"
                              : absl::StrFormat("%.3f measured, no side information: %s at %s", practical->auc(),
                                                practical->attack, practical->layer);
}

// The strongest attack that can be held against the bound, as an AUC: a proved one is about what gradients add to
// features, by which every attack but the worst case ranks as well.
double HeldAgainstBound(const RunSummary& summary) {
  const double worst_case =
      summary.worst_case.examples > 0 ? InvertedAuc(summary.worst_case.auc) : std::numeric_limits<double>::quiet_NaN();
  const MeasuredAttack* const strongest = StrongestOf(summary.leaks).strongest();
  return IsBoundProved(summary.protection) || strongest == nullptr ? worst_case
                                                                   : std::fmax(worst_case, strongest->auc());
}

// The verdict, and the promise that it allows.
void AddPromise(const RunSummary& summary, Table& table) {
  if (std::isnan(summary.run_auc_bound)) {
    return;  // The non-label party does not know what is promised.
  }
  const RunClaim claim = ClaimOf(summary);
  Promise promise;
  promise.standing = StandingOf(claim);
  promise.run_auc_bound = summary.run_auc_bound;
  promise.all_runs_auc_bound = summary.all_runs_auc_bound;
  promise.measured_auc = HeldAgainstBound(summary);
  std::string verdict = StandingWords(promise.standing);
  if (claim.released && claim.states_bound()) {
    const bool by_scores_alone = promise.standing == RunStanding::kGuaranteed && !summary.bound_tested;
    absl::StrAppend(&verdict, "; the bound: ",
                    by_scores_alone ? "held against the run's own scores (claim), no attack was" : BoundState(summary));
  }
  table.Add("verdict", verdict);
  table.Add("promise", PromiseSentence(promise));
}

// What is proved, what the worst case was measured to read, and what a partner can do today.
void AddStanding(const RunSummary& summary, Table& table) {
  if (std::isnan(summary.run_auc_bound) || ReleasedNothing(summary)) {
    return;
  }
  table.Add("proved", Proved(summary));
  table.Add("worst case", WorstCase(summary));
  table.Add("practical", Practical(summary));
}

void AddClaim(const RunSummary& summary, Table& table) {
  const RunStanding standing = StandingOf(ClaimOf(summary));
  if (summary.claim_check.has_value() && !std::isnan(summary.run_auc_bound) && !ReleasedNothing(summary) &&
      standing != RunStanding::kNothingClaimed) {
    table.AddLines("claim", absl::StrSplit(DescribeClaimCheck(*summary.claim_check), "; "));
  }
}

}  // namespace

std::vector<MeasuredAttack> StrongestFirst(const LeakSeriesByAttack& series, const PooledAucByAttack& pooled) {
  std::vector<MeasuredAttack> attacks;
  for (const auto& [key, aucs] : series) {
    MeasuredAttack& attack = attacks.emplace_back(MeasuredAttack{key.first, key.second, aucs.LeakOf()});
    if (const auto found = pooled.find(key); found != pooled.end()) {
      attack.pooled_auc = found->second;
    }
  }
  std::stable_sort(attacks.begin(), attacks.end(), IsStronger);
  return attacks;
}

const MeasuredAttack* StrongestOnGradients::strongest() const {
  return practical == nullptr || (with_side_information != nullptr && with_side_information->auc() > practical->auc())
             ? with_side_information
             : practical;
}

StrongestOnGradients StrongestOf(const std::vector<MeasuredAttack>& strongest_first) {
  StrongestOnGradients found;
  for (const MeasuredAttack& attack : strongest_first) {
    if (!ReadsGradients(attack.attack) || UsesGivenLabels(attack.attack) || !(attack.auc() > 0)) {
      continue;
    }
    const MeasuredAttack*& kind = NeedsNoSideInformation(attack.attack) ? found.practical : found.with_side_information;
    if (kind == nullptr) {
      kind = &attack;
    }
  }
  return found;
}

std::string BoundState(const RunSummary& summary) {
  if (summary.bound_exceeded > 0) {
    return summary.exceeded_by.empty() ? "exceeded: see bound_exceeded in the ledger's events"
                                       : absl::StrCat("exceeded by ", FirstAndHowMany(summary.exceeded_by));
  }
  return summary.bound_tested ? "not exceeded by the attacks run here" : "no attack was held against it";
}

RunClaim ClaimOf(const RunSummary& summary) {
  RunClaim claim;
  claim.protection = summary.protection;
  claim.released = !ReleasedNothing(summary);
  claim.run_auc_bound = summary.run_auc_bound;
  claim.step_auc_bound_p95 = summary.step_auc_bound_p95;
  claim.worst_case_tested = summary.worst_case.examples > 0;
  claim.exceeded = summary.bound_exceeded > 0;
  claim.claim_check = summary.claim_check;
  return claim;
}

std::string ResultPath(const std::string& ledger_path, bool only_predicts) {
  return absl::StrCat(absl::StripSuffix(ledger_path, ".db"), only_predicts ? ".prediction.json" : ".result.json");
}

std::string RunSummaryTable(const RunSummary& summary, bool verbose) {
  Table table(absl::StrCat("run ", summary.run_id, " ", summary.ended, " at the ", summary.party));
  AddPromise(summary, table);
  AddStanding(summary, table);
  AddQuality(summary, table, verbose);
  AddAttributeLeaks(summary, table, verbose);
  if (summary.leaks.empty() && !summary.gate.empty() && (verbose || ReleasedNothing(summary))) {
    table.Add("leak", NoLeak(summary));
  }
  if (verbose) {
    AddClaim(summary, table);
    AddStrongest(summary, table);
    AddLeaks(summary, table);
  }
  if (OnlyPredicts(summary)) {
    table.Add("training", "none: the run only predicts, and no gradient is sent");
  } else {
    if (!summary.protection.empty()) {
      table.Add("protection", summary.protection);
    }
    table.Add("training", Training(summary));
  }
  if (!summary.gate.empty()) {
    table.Add("release gate", absl::StrJoin(summary.gate, ", ", [](std::string* out, const auto& decision) {
                absl::StrAppend(out, decision.second, " ", decision.first);
              }));
  }
  if (verbose && !OnlyPredicts(summary)) {
    table.Add("bytes", absl::StrCat(Bytes(summary.bytes_sent), " sent, ", Bytes(summary.bytes_received), " received"));
  }
  if (!summary.details.empty()) {
    table.Add("all figures", summary.details);
  }
  return table.text();
}

void PrintRunSummary(const RunSummary& summary, bool verbose) {
  std::cerr << RunSummaryTable(summary, verbose) << std::flush;
}

}  // namespace splitveil
