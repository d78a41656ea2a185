#include "common/operations/run_summary.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "common/config/agreement.h"
#include "common/figures/attack_catalogue.h"
#include "common/figures/figure_words.h"
#include "common/leakage/summary.h"
#include "common/ledger/ledger_rows.h"
#include "common/process/file.h"
#include "common/telemetry/log.h"

namespace splitveil {
namespace {

constexpr int kAttacksShown = 3;     // Per layer.
constexpr int kAttributesShown = 2;  // Unless the summary is verbose.

// "1.2 MB": decimal, as disks and networks count.
std::string Bytes(int64_t bytes) {
  const char* const units[] = {"B", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  // 999.5 would be printed as 1000 of the smaller unit.
  for (; value >= 999.5 && unit + 1 < std::size(units); ++unit) {
    value /= 1000;
  }
  return unit == 0 ? absl::StrFormat("%.0f %s", value, units[unit]) : absl::StrFormat("%.3g %s", value, units[unit]);
}

class Table {
 public:
  explicit Table(std::string headline) : text_(std::move(headline)) { text_ += '\n'; }

  void Add(const std::string& name, const std::string& figures) {
    absl::StrAppendFormat(&text_, "  %-15s %s\n", name, figures);  // A space even after long names.
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

std::string Training(const RunFigures& figures) {
  std::string text = absl::StrCat(
      figures.epochs, figures.epochs < figures.agreed_epochs ? absl::StrCat(" of ", figures.agreed_epochs) : "",
      " epochs, ", figures.steps, " steps, ", figures.examples, " examples");
  if (figures.seconds.value_or(0) > 0) {
    absl::StrAppendFormat(&text, " in %.1f s (%.0f per second)", *figures.seconds,
                          static_cast<double>(figures.examples) / *figures.seconds);
  }
  return text;
}

// The figure of the kept epoch, what chose that epoch, and the last figure.
std::string KeptAndLast(const RunFigures& figures, double kept, const std::optional<double>& last) {
  std::string text = absl::StrFormat("%.4f", kept);
  if (figures.best_epoch == 0 || !last.has_value()) {
    return text;
  }
  if (figures.kept_by == "last") {
    return text + " (of the last epoch, which is kept)";
  }
  absl::StrAppendFormat(&text, " (%s, after epoch %d, which is kept; last %.4f)",
                        figures.kept_by == "validation" ? "best by validation" : "best, chosen on the test part itself",
                        figures.best_epoch, *last);
  return text;
}

// How good the model is on the test examples, or on all that a run without training has scored, as far as the task has
// the figure and this party knows it.
void AddQuality(const RunFigures& figures, Table& table, bool verbose) {
  const absl::string_view of = figures.only_predicts ? "" : "test ";
  const ModelFigures& test = figures.test;
  const auto add = [&](absl::string_view name, const std::optional<double>& figure, const char* note = "") {
    if (figure.has_value()) {
      table.Add(absl::StrCat(of, name), absl::StrFormat("%.4f%s", *figure, note));
    }
  };
  if (const std::optional<double> quality = test.quality(); quality.has_value()) {
    table.Add(absl::StrCat(of, test.is_regression()      ? "R^2"
                               : figures.several_classes ? "macro AUC"
                                                         : "AUC"),
              KeptAndLast(figures, *quality, figures.final_test.quality()));
  }
  add("RMSE", test.rmse, "  (in the target's unit)");
  add("log loss", test.log_loss);
  if (figures.several_classes && verbose) {
    add("accuracy", test.accuracy);
  }
  if (figures.only_predicts && (test.r_squared.has_value() || test.log_loss.has_value())) {
    table.Add("", "of all rows scored: those that the model was trained on flatter it");
  }
}

std::string Named(const AttackFigure& leak) { return absl::StrFormat("%s %.3f", leak.attack, leak.auc()); }

std::string NamedWithLayer(const AttackFigure& leak) { return absl::StrCat(Named(leak), " at ", leak.layer); }

// A line per attack: "norm 0.720  (`unit`)", "cosine 0.580; 3 weaker".
template <typename Describe>
std::vector<std::string> FirstFew(const std::vector<AttackFigure>& leaks, Describe describe, const char* unit) {
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

// The figure that runs are ranked by.
void AddStrongest(const RunFigures& figures, Table& table) {
  const AttackFigure* const strongest = figures.strongest();
  if (strongest != nullptr) {
    std::vector<std::string> lines = {absl::StrFormat("%.3f measured, of all attacks on gradients: %s at %s",
                                                      strongest->auc(), strongest->attack, strongest->layer)};
    // A proved bound is about what gradients add to features, by which attacks rank as well.
    if (figures.is_proved() && figures.run_auc_bound.has_value() && strongest->auc() > *figures.run_auc_bound &&
        !IsWorstCase(strongest->attack)) {
      lines.emplace_back("(ranks by features, too: not held against the bound)");
    }
    table.AddLines("strongest", lines);
  }
}

// The strongest attacks of every kind and how many more there are: attacks on single batches layer by layer, attacks
// that add up the epochs, and attacks that no bound covers.
void AddLeaks(const RunFigures& figures, Table& table) {
  std::map<std::pair<bool, std::string>, std::vector<AttackFigure>> layers;  // The cut first, then by name.
  std::vector<AttackFigure> cumulative, no_gradient;
  for (const AttackFigure& leak : figures.attacks) {
    if (!leak.has_batches()) {
      continue;
    }
    if (!ReadsGradients(leak.attack)) {
      no_gradient.push_back(leak);
    } else if (IsCumulativeAttack(leak.attack) && leak.last_epoch.has_value()) {
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
  if (!figures.attacks.empty() && figures.guessing.has_value()) {
    table.Add("guessing",
              absl::StrFormat("%.3f p95 over batches, %.3f mean", figures.guessing->p95, figures.guessing->mean));
  }
}

// The strongest attack on each attribute; unless `verbose` on the first few.
void AddAttributeLeaks(const RunFigures& figures, Table& table, bool verbose) {
  const char* note = "  (strongest attack of the label party; accuracy with its 95% interval)";
  // Twelve lines fit on a screen; the rest is in the details' file.
  const size_t shown =
      verbose ? figures.attribute_leaks.size() : std::min<size_t>(kAttributesShown, figures.attribute_leaks.size());
  for (size_t i = 0; i < shown; ++i) {
    const AttributeLeakRow& row = figures.attribute_leaks[i];
    table.Add(absl::StrCat("attribute ", row.attribute),
              absl::StrFormat("%s %.3f [%.3f, %.3f] on %d %s examples, floor %.3f, AUC %.3f%s", row.attack,
                              row.accuracy, row.accuracy_low, row.accuracy_high, row.rows, row.examples, row.floor,
                              InvertedAuc(row.auc), note));
    note = "";
  }
}

// What the privacy account proves about the other direction: activations.
void AddActivations(const RunFigures& figures, Table& table) {
  if (figures.activation_auc_bound.has_value()) {
    const std::string all =
        figures.all_activation_auc_bound.has_value()
            ? absl::StrCat(", ", BoundText(*figures.all_activation_auc_bound), " over all that its account has counted")
            : "";
    table.Add("features", absl::StrCat("guaranteed given the bottom model: AUC of any attribute at most ",
                                       BoundText(*figures.activation_auc_bound), " in this run", all));
  }
}

// Says that nothing was measured, and why.
std::string NoLeak(const RunFigures& figures) {
  return figures.released_nothing() ? "none measured: no gradient was released" : "none measured";
}

std::string WorstCase(const RunFigures& figures) {
  return figures.worst_case.has_value()
             ? absl::StrFormat("%.3f measured over %s, %s: %s", figures.worst_case->auc(),
                               IsCumulativeAttack(figures.worst_case->attack) ? "all epochs" : "the last epoch",
                               figures.states_bound() ? "held against the bound" : "label side",
                               figures.worst_case->attack)
             : "not measured: no conditional_likelihood_ratio";
}

std::string Practical(const RunFigures& figures) {
  const AttackFigure* const practical = figures.practical();
  if (practical == nullptr) {
    return "not measured: no attack without side information";
  }
  // Else a figure above a proved bound, which is about what gradients add, looks like a contradiction.
  return absl::StrFormat("%.3f measured, no side information%s: %s at %s", practical->auc(),
                         figures.proved_auc_bound().has_value() ? ", what features tell included" : "",
                         practical->attack, practical->layer);
}

// The verdict, and the promise that it allows.
void AddPromise(const RunFigures& figures, Table& table) {
  if (!figures.of_label_party) {
    return;  // The non-label party does not know what is promised.
  }
  std::string verdict = VerdictWords(figures.verdict());
  if (!figures.released_nothing() && figures.states_bound()) {
    // The claim check uses the label party's own scores; it is evidence, but not an attack.
    const bool by_scores_alone = figures.verdict() == PrivacyVerdict::kGuaranteed && !figures.bound_tested;
    absl::StrAppend(&verdict, "; the bound: ",
                    by_scores_alone ? "held against the run's own scores (claim), no attack was"
                                    : BoundStateWords(figures, AttackNaming::kName));
  }
  table.Add("verdict", verdict);
  table.Add("promise", PromiseSentence(PromiseOf(figures)));
}

// What is proved, what the worst case was measured to read, and what a partner can do today.
void AddEvidence(const RunFigures& figures, Table& table) {
  if (figures.of_label_party && !figures.released_nothing()) {
    table.Add("proved", ProvedWords(figures));
    table.Add("worst case", WorstCase(figures));
    table.Add("practical", Practical(figures));
  }
}

void AddClaim(const RunFigures& figures, Table& table) {
  if (const ClaimCheckRow* const claim = figures.checked_claim(); claim != nullptr && !figures.released_nothing()) {
    table.AddLines("claim", absl::StrSplit(DescribeClaimCheck(*claim), "; "));
  }
}

}  // namespace

std::string ResultPath(const std::string& ledger_path) {
  return absl::StrCat(absl::StripSuffix(ledger_path, ".db"), ".result.json");
}

std::string PredictionPath(const std::string& ledger_path) {
  return absl::StrCat(absl::StripSuffix(ledger_path, ".db"), ".prediction.json");
}

std::string RunSummaryTable(const RunFigures& figures, const std::string& details, bool verbose) {
  Table table(absl::StrCat("run ", figures.run_id, " ", figures.ended, " at the ",
                           figures.of_label_party ? "label party" : "non-label party"));
  AddPromise(figures, table);
  AddEvidence(figures, table);
  AddQuality(figures, table, verbose);
  AddActivations(figures, table);
  AddAttributeLeaks(figures, table, verbose);
  // Silence would read as privacy: that nothing was measured has to be said.
  if (figures.attacks.empty() && !figures.gate.empty() && (verbose || figures.released_nothing())) {
    table.Add("leak", NoLeak(figures));
  }
  if (verbose) {
    AddClaim(figures, table);
    AddStrongest(figures, table);
    AddLeaks(figures, table);
  }
  if (figures.only_predicts) {
    table.Add("training", "none: the run only predicts, and no gradient is sent");
  } else {
    if (!figures.protection.empty()) {
      table.Add("protection", figures.protection);
    }
    table.Add("training", Training(figures));
  }
  if (!figures.gate.empty()) {
    table.Add("release gate", absl::StrJoin(figures.gate, ", ", [](std::string* out, const auto& decision) {
                absl::StrAppend(out, decision.second, " ", GateActionName(decision.first));
              }));
  }
  if (verbose && !figures.only_predicts) {
    table.Add("bytes", absl::StrCat(Bytes(figures.bytes_sent), " sent, ", Bytes(figures.bytes_received), " received"));
  }
  if (!details.empty()) {
    table.Add("all figures", details);
  }
  return table.text();
}

void PrintRunSummary(const RunFigures& figures, const std::string& details, bool verbose) {
  std::cerr << RunSummaryTable(figures, details, verbose) << std::flush;
}

namespace {

std::string PathOf(const std::string& ledger_path) { return ledger_path + ".ended"; }

}  // namespace

absl::Status KeepUntoldEnd(const std::string& ledger_path, const v1::RunAgreement& agreement, const UntoldEnd& end) {
  return WriteFile(PathOf(ledger_path),
                   absl::StrCat(AgreementFingerprint(agreement), "\n", end.run_id, "\n", end.result, "\n"));
}

std::optional<UntoldEnd> FindUntoldEnd(const std::string& ledger_path, const v1::RunAgreement& agreement) {
  const absl::StatusOr<std::string> file = ReadFile(PathOf(ledger_path));
  const std::vector<std::string> lines = absl::StrSplit(file.ok() ? *file : "", '\n');
  constexpr size_t kLines = 4;  // The last one is empty.
  // A file of a different agreement belongs to a different run; a damaged one counts as none.
  if (lines.size() != kLines || lines[0] != AgreementFingerprint(agreement)) {
    return std::nullopt;
  }
  return UntoldEnd{lines[1], lines[2]};
}

void ForgetUntoldEnd(const std::string& ledger_path) { std::remove(PathOf(ledger_path).c_str()); }

void TellOf(const UntoldEnd& end, const std::string& ledger_path) {
  LogInfo("run ", end.run_id,
          " was complete before this party was killed: this start only finishes it. The next start begins a new run");
  if (!end.result.empty()) {
    std::cout << end.result << std::endl;
  }
  ForgetUntoldEnd(ledger_path);
}

}  // namespace splitveil
