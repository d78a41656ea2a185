#include "deploy/operator/records/ledger_figures.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

#include "common/figures/attack_catalogue.h"
#include "common/figures/figure_words.h"
#include "common/figures/run_figures.h"
#include "common/leakage/bounds.h"

namespace splitveil {
namespace {

std::optional<double> Finite(double value) { return std::isfinite(value) ? std::optional(value) : std::nullopt; }

// By the rows of the epochs; if a run ended before it wrote them, by the label party's events: "epoch 3: norm at cut:
// AUC at least ...".
void AddExcesses(const PartyRecords& party, RunFigures& figures) {
  for (const EpochLeakRow& row : party.epoch_leaks) {
    figures.bound_exceeded += ExceedsBound(row) ? 1 : 0;
    AddExcess(row, figures.excesses);
  }
  const bool by_rows = figures.bound_exceeded > 0;
  for (const EventRow& event : party.events) {
    if (event.kind != "bound_exceeded" || by_rows) {
      continue;
    }
    const std::vector<std::string> parts = absl::StrSplit(event.detail, absl::MaxSplits(": ", 2));
    const std::vector<std::string> place = absl::StrSplit(parts.size() > 1 ? parts[1] : "", " at ");
    const std::string layer = place.size() == 2 ? place[1] : "cut", attack = place.size() == 2 ? place[0] : "an attack";
    ++figures.bound_exceeded;
    if (std::none_of(figures.excesses.begin(), figures.excesses.end(),
                     [&](const BoundExcess& known) { return known.layer == layer && known.attack == attack; })) {
      figures.excesses.push_back({layer, attack});
    }
  }
}

// The accountant's figure stands beside the cumulative attacks at the cut layer, where the noise is added. The claim
// has it if none of them ran, and is more if a run could have released more than it did.
std::optional<double> RunAucBound(const PartyRecords& party) {
  int64_t last_epoch = -1;
  std::optional<double> bound;
  for (const EpochLeakRow& row : party.epoch_leaks) {
    if (row.layer == "cut" && IsCumulativeAttack(row.attack) && std::isfinite(row.gaussian_auc_bound) &&
        row.epoch > last_epoch) {
      last_epoch = row.epoch;
      bound = row.gaussian_auc_bound;
    }
  }
  if (party.claim_check.has_value()) {
    const double claimed = GaussianAucBound(party.claim_check->claimed_mu * party.claim_check->claimed_mu);
    bound = std::max(bound, std::optional(claimed));  // nullopt is less than any number.
  }
  return bound;
}

// What the label party alone knows.
void AddBounds(const PartyRecords& party, RunFigures& figures) {
  std::vector<double> steps, theorem_steps;
  for (const StepSummaryRow& row : party.removed_steps) {
    if (!row.method.empty()) {
      figures.gate[row.gate] += row.steps;
    }
    if (IsReleased(row)) {  // Which of them had which bound is not known any more: each the worst.
      steps.insert(steps.end(), static_cast<size_t>(row.steps), StepAucBound(row.worst_auc_bound, row.worst_sum_kl));
      theorem_steps.insert(theorem_steps.end(), static_cast<size_t>(row.steps), row.worst_auc_bound);
    }
  }
  for (const ProtectionRow& row : party.protections) {
    ++figures.gate[row.gate];
    if (IsReleased(row)) {
      steps.push_back(StepAucBound(row.auc_bound, row.sum_kl));
      theorem_steps.push_back(row.auc_bound);
    }
  }
  figures.of_label_party = true;
  figures.step_auc_bound_p95 = StepAucBoundP95(std::move(steps));
  figures.auc_bound_p95 = StepAucBoundP95(std::move(theorem_steps));
  figures.run_auc_bound = RunAucBound(party);
  if (party.all_runs.has_value()) {
    figures.all_runs_auc_bound = party.all_runs->auc_bound;
  }
  figures.worst_case = WorstCaseOf(party.epoch_leaks);
  figures.bound_tested = std::any_of(party.epoch_leaks.begin(), party.epoch_leaks.end(), IsHeldAgainstBound);
  figures.claim_check = party.claim_check;
  AddExcesses(party, figures);
}

std::optional<double> MeanBatch(const RunFigures& figures) {
  return figures.steps == 0 ? std::nullopt
                            : std::optional(static_cast<double>(figures.examples) / static_cast<double>(figures.steps));
}

// By the epochs that attacks were scored over, as the label party's RESULT line counts, else by the protection's own
// counts; nullopt if neither is there.
std::optional<double> ShareOfPositives(const LedgerRun& run) {
  for (const EpochLeakRow& row : run.epoch_leaks()) {
    if (row.examples > 0) {
      return static_cast<double>(row.positives) / static_cast<double>(row.examples);
    }
  }
  double sum = 0;
  int64_t count = 0;
  for (const ProtectionRow& row : run.protections()) {
    if (std::isfinite(row.p)) {
      sum += row.p;
      ++count;
    }
  }
  return count > 0 ? std::optional(sum / static_cast<double>(count)) : std::nullopt;
}

AttackLeak& Entry(std::vector<AttackLeak>& leaks, const std::string& layer, const std::string& attack,
                  const std::string& observer) {
  const auto found = std::find_if(leaks.begin(), leaks.end(), [&](const AttackLeak& leak) {
    return leak.layer == layer && leak.attack == attack && leak.observer == observer;
  });
  if (found != leaks.end()) {
    return *found;
  }
  AttackLeak& added = leaks.emplace_back();
  added.layer = layer;
  added.attack = attack;
  added.observer = observer;
  return added;
}

}  // namespace

ModelFigures ModelFiguresOf(const EvaluationRow& row) {
  return {Finite(row.log_loss),          Finite(row.auc),  Finite(row.accuracy),
          Finite(row.calibration_error), Finite(row.rmse), Finite(row.r_squared)};
}

const EvaluationRow* KeptTest(const std::vector<EvaluationRow>& evaluations) {
  const EvaluationRow* kept = nullptr;
  for (const EvaluationRow& row : evaluations) {  // In step order.
    kept = row.split == "test" && !row.kept.empty() && ModelFiguresOf(row).quality() ? &row : kept;
  }
  return kept;
}

const EvaluationRow* LastTest(const std::vector<EvaluationRow>& evaluations) {
  const EvaluationRow* last = nullptr;
  for (const EvaluationRow& row : evaluations) {  // In step order.
    last = row.split == "test" && ModelFiguresOf(row).quality() ? &row : last;
  }
  return last;
}

RunFigures FiguresOf(const LedgerRun& run) {
  const RunRecord& record = run.parties.front().record;
  RunFigures figures;
  figures.run_id = run.run_id();
  figures.protection = run.protection();
  figures.resumed_from = record.run.resumed_from;
  figures.ended = record.status;
  figures.only_predicts = run.only_predicts();
  figures.steps = static_cast<int64_t>(run.steps().size());
  for (const StepRow& row : run.steps()) {
    figures.examples += row.examples;
    figures.epochs = std::max(figures.epochs, row.epoch + 1);
  }
  for (const StepSummaryRow& row : run.removed_steps()) {
    figures.steps += row.steps;
    figures.examples += row.examples;
    figures.epochs = std::max(figures.epochs, row.last_epoch + 1);
  }
  figures.evaluated = LastTest(run.evaluations()) != nullptr;
  if (const EvaluationRow* const kept = KeptTest(run.evaluations()); kept != nullptr) {
    figures.test = ModelFiguresOf(*kept);
    figures.kept_by = kept->kept;
    figures.final_test = ModelFiguresOf(*LastTest(run.evaluations()));
  }
  for (AttackLeak& leak : AttackLeaks(run)) {  // The strongest first.
    figures.attacks.push_back(std::move(leak));
  }
  for (const EvaluationRow& row : run.evaluations()) {
    figures.own_features = row.split == "own_features" ? ModelFiguresOf(row).quality() : figures.own_features;
  }
  figures.guessing = GuessingInBatches(MeanBatch(figures), ShareOfPositives(run));
  if (const PartyRecords* const party = run.label_party(); party != nullptr) {
    AddBounds(*party, figures);
  }
  return figures;
}

std::vector<std::string> VerdictLines(const RunFigures& figures) {
  std::vector<std::string> lines = {
      absl::StrCat("strongest attack on gradients: ", DescribeAttack(figures.strongest())),
      absl::StrCat("bound: ", BoundStateWords(figures))};
  if (figures.bound() == BoundState::kNotInLedger) {
    lines.push_back("worst case: not measurable from this ledger, only from the label party's");
  } else {
    lines.push_back(absl::StrCat("proved: ", ProvedWords(figures)));
    lines.push_back(absl::StrCat("worst case measured: ",
                                 DescribeAttack(figures.worst_case.has_value() ? &*figures.worst_case : nullptr)));
  }
  lines.push_back(absl::StrCat("practical, without side information: ", DescribeAttack(figures.practical())));
  lines.push_back(absl::StrCat("with side information: ", DescribeAttack(figures.with_side_information())));
  if (figures.practical() != nullptr) {
    lines.push_back(
        absl::StrCat("practical attack beside features alone: ", AdvantageWords(figures.practical(), figures)));
  }
  if (const ClaimCheckRow* const claim = figures.checked_claim(); claim != nullptr) {
    lines.push_back(DescribeClaimCheck(*claim));
  }
  if (figures.guessing.has_value()) {
    lines.push_back(absl::StrFormat("guessing: p95 %.3f", figures.guessing->p95));
  }
  if (figures.no_gradient() != nullptr) {
    lines.push_back(absl::StrCat("without any gradient: ", DescribeAttack(figures.no_gradient())));
  }
  return lines;
}

std::vector<AttackLeak> AttackLeaks(const LedgerRun& run) {
  std::vector<AttackLeak> leaks;
  for (const LeakSeries* series : run.leaks()) {
    AttackLeak& leak = Entry(leaks, series->layer, series->attack, series->observer);
    leak.series = series;
    leak.batches = series->summary;
  }
  for (const EpochLeakRow& row : run.epoch_leaks()) {
    if (std::isfinite(row.auc)) {
      AttackLeak& leak = Entry(leaks, row.layer, row.attack, row.observer);
      leak.epochs.push_back(&row);
      leak.last_epoch = row;
    }
  }
  std::stable_sort(leaks.begin(), leaks.end(), [](const AttackLeak& a, const AttackLeak& b) {
    return IsStronger(a, b) || (!IsStronger(b, a) && a.observer < b.observer);
  });
  std::set<std::pair<std::string, std::string>> seen;  // Layer and attack.
  std::stable_partition(leaks.begin(), leaks.end(),
                        [&](const AttackLeak& leak) { return seen.emplace(leak.layer, leak.attack).second; });
  return leaks;
}

}  // namespace splitveil
