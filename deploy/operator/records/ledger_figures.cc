#include "deploy/operator/records/ledger_figures.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

#include "common/figures/attack_catalogue.h"
#include "common/figures/figure_words.h"
#include "common/figures/run_figures.h"
#include "common/leakage/attribute_leak.h"
#include "common/leakage/bounds.h"
#include "common/leakage/summary.h"
#include "common/privacy/label_privacy.h"

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

bool IsOfFlips(const PartyRecords& party) {
  return std::any_of(party.label_releases.begin(), party.label_releases.end(),
                     [](const LabelReleaseRow& release) { return release.noise == "flip"; });
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
  // A run that ended before it wrote the last epoch's rows: they say too little. What it planned, or the account, has
  // counted all of it.
  if (!bound.has_value() || last_epoch < party.last_released_epoch()) {
    bound = PlannedAucBound(party);
    if (!bound.has_value() && party.all_runs.has_value()) {
      bound = party.all_runs->auc_bound;
    }
  }
  // The mu of flips allows more than they do: the trade-off function of their own bounds the AUC.
  if (party.claim_check.has_value() && !IsOfFlips(party)) {
    const double claimed = GaussianAucBound(party.claim_check->claimed_mu * party.claim_check->claimed_mu);
    bound = std::max(bound, std::optional(claimed));  // nullopt is less than any number.
  }
  return bound;
}

// What the label party alone knows.
void AddBounds(const PartyRecords& party, RunFigures& figures) {
  std::vector<RepeatedValue> steps, theorem_steps;
  for (const StepSummaryRow& row : party.removed_steps) {
    if (!row.method.empty()) {
      figures.gate[row.gate] += row.steps;
    }
    if (IsReleased(row)) {  // Which of them had which bound is not known any more: each the worst.
      steps.push_back({StepAucBound(row.worst_auc_bound, row.worst_sum_kl), row.steps});
      theorem_steps.push_back({row.worst_auc_bound, row.steps});
    }
  }
  for (const ProtectionRow& row : party.protections) {
    ++figures.gate[row.gate];
    if (IsReleased(row)) {
      steps.push_back({StepAucBound(row.auc_bound, row.sum_kl)});
      theorem_steps.push_back({row.auc_bound});
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

std::optional<double> PlannedAucBound(const PartyRecords& party) {
  if (party.label_releases.empty()) {
    return std::nullopt;
  }
  double mu_squared = 0;
  std::vector<double> epsilons;
  for (const LabelReleaseRow& release : party.label_releases) {
    if (release.noise == "flip") {
      epsilons.insert(epsilons.end(), static_cast<size_t>(release.draws), release.strength);
    } else {
      mu_squared += static_cast<double>(release.draws) * release.strength * release.strength;
    }
  }
  return ComposedAucBound(mu_squared, std::move(epsilons));
}

std::string DescribeUnprovedAnswers(const PartyRecords& party) {
  const int64_t answers = party.unproved_answers();
  return answers == 0 ? "" : absl::StrCat("answers left that no bound covers: at most ", answers);
}

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
  figures.may_have_released = !run.released_nothing();
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
        absl::StrCat("practical attack beside features alone: ", AdvantageWords(figures.practical_pooled(), figures)));
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

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

constexpr ActivationMethod kMethods[] = {
    {"none", "Activations not protected", "The activations are sent as the bottom model makes them"},
    {"adversarial", "Adversarial training", "The bottom model also learns to mislead a simulated adversary"},
    {"adversarial_label_flip", "Adversarial training with label flip",
     "The bottom model also learns to have a simulated adversary take the wrong value"},
    {"infocensor", "InfoCensor",
     "The bottom model also lowers a bound on the mutual information of activations and attribute, both "
     "taken for Gaussian; Gaussian noise is added"},
    {"linear", "Linear scalarisation",
     "The bottom model also lowers, with a fixed weight, how far the activations of the attribute's values lie "
     "apart; Gaussian noise is added"},
    {"pareto", "Pareto search",
     "The bottom model is trained along the Pareto front of utility and privacy loss, and no batch whose privacy "
     "loss is above the threshold and its slack is sent; Gaussian noise is added"},
    {"gaussian", "Clipping and Gaussian noise (proved)",
     "Activations are clipped to a norm, and Gaussian noise is added to each"},
};

// The number behind "`name`=" in "pareto(threshold=0.005, slack=0.5)"; NaN where there is none.
double ParameterOf(absl::string_view protection, absl::string_view name) {
  const std::string key = absl::StrCat(name, "=");
  const size_t at = protection.find(key);
  if (at == absl::string_view::npos) {
    return kNone;
  }
  const absl::string_view from = protection.substr(at + key.size());
  double value = 0;
  return absl::SimpleAtod(from.substr(0, from.find_first_of(",) ")), &value) ? value : kNone;
}

bool ReadsTraining(const std::string& attack) {
  const auto known = AttributeAttackOfName(attack);
  return known.has_value() && TraitsOf(*known).reads_training();
}

std::string Releases(const ActivationBoundRow& bound) {
  return absl::StrCat(bound.releases, bound.releases == 1 ? " release" : " releases");
}

}  // namespace

std::vector<const AttributeFigure*> AttributeRecords::strongest() const {
  std::vector<const AttributeFigure*> first;
  for (const AttributeFigure& figure : figures) {
    if (first.empty() || first.back()->leak.attribute != figure.leak.attribute) {
      first.push_back(&figure);
    }
  }
  return first;
}

std::vector<AttributeFigure> AttributeFigures(const std::vector<AttributeLeakRow>& rows) {
  const auto place = [](const AttributeLeakRow& row) { return std::tie(row.attribute, row.attack, row.examples); };
  std::vector<AttributeFigure> figures;
  for (const AttributeLeakRow& row : rows) {  // By epoch within an attack at an attribute.
    if (row.rows == 0) {
      continue;
    }
    const auto known = std::find_if(figures.begin(), figures.end(),
                                    [&](const AttributeFigure& figure) { return place(figure.leak) == place(row); });
    if (known == figures.end()) {
      figures.push_back({row, ReadsTraining(row.attack)});
      // Attacks during training are as strong as their best epoch; at inference the last model counts.
    } else if (!known->is_highest || row.accuracy > known->leak.accuracy) {
      known->leak = row;
    }
  }
  std::stable_sort(figures.begin(), figures.end(), [](const AttributeFigure& a, const AttributeFigure& b) {
    return std::make_tuple(a.leak.attribute, -a.leak.advantage()) <
           std::make_tuple(b.leak.attribute, -b.leak.advantage());
  });
  return figures;
}

std::optional<AttributeRecords> AttributeRecordsOf(const LedgerRun& run) {
  const PartyRecords* party = run.nonlabel_party();
  if (party == nullptr) {
    return std::nullopt;
  }
  AttributeRecords records;
  const std::string protection = run.activation_protection();
  records.protection = protection.empty() ? "none" : protection;
  records.figures = AttributeFigures(party->attribute_leaks);
  records.bound = party->activation_bound;
  records.threshold = ParameterOf(records.protection, "threshold");
  records.slack = ParameterOf(records.protection, "slack");
  // The one that is a number.
  for (const PrivacyLossSummaryRow& row : party->removed_privacy_losses) {
    records.largest_privacy_loss = std::fmax(records.largest_privacy_loss, row.worst_privacy_loss);
  }
  for (const PrivacyLossRow& row : party->privacy_losses) {
    records.largest_privacy_loss = std::fmax(records.largest_privacy_loss, row.privacy_loss);
  }
  return records;
}

std::string DescribeWhen(const AttributeFigure& figure) {
  return absl::StrCat(figure.is_highest ? "highest over training, in epoch " : "inference, after epoch ",
                      figure.leak.epoch + 1);
}

absl::Span<const ActivationMethod> ActivationMethods() { return kMethods; }

std::string DescribeActivationProtection(absl::string_view protection) {
  const absl::string_view method = protection.substr(0, protection.find('('));
  for (const ActivationMethod& known : kMethods) {
    if (method == known.name) {
      return method == protection ? absl::StrCat(known.words, ".") : absl::StrCat(known.words, ": ", protection, ".");
    }
  }
  return absl::StrCat("The activations are protected by ", protection, ".");
}

std::string ProvedOfActivations(const AttributeRecords& records) {
  if (records.bound.has_value()) {
    return absl::StrFormat(
        "Proved: of this run alone, %s of an example's activations are %.3f-GDP, whatever the attribute; nobody tells "
        "its values apart with an AUC above %s from these. Further runs on the same examples, predictions among them, "
        "add to it and are not counted here; nor is what the bottom model has learnt from an example and shows in the "
        "activations of others.",
        Releases(*records.bound), records.bound->mu, BoundText(records.bound->auc_bound));
  }
  return records.is_protected() ? "Measured only: a heuristic, which proves nothing; a stronger attack may read more."
                                : "Measured only: nothing protects the activations.";
}

std::vector<std::string> AttributeLines(const AttributeRecords& records) {
  std::vector<std::string> lines;
  if (!records.has_any()) {
    return lines;
  }
  lines.push_back(
      records.bound.has_value()
          ? absl::StrCat("attributes: guaranteed, of this run alone, AUC at most ", BoundText(records.bound->auc_bound),
                         " for any attribute over ", Releases(*records.bound), " of an example's activations")
          : absl::StrCat("attributes: measured only, ",
                         records.is_protected() ? absl::StrCat("a heuristic: ", records.protection) : "not protected"));
  for (const AttributeFigure* figure : records.strongest()) {
    const AttributeLeakRow& leak = figure->leak;
    lines.push_back(absl::StrFormat(
        "attribute %s, the strongest attack measured: %s, accuracy %.3f (95%% interval %.3f to %.3f), floor %.3f, AUC "
        "%.3f; %s examples, %s",
        leak.attribute, AttributeAttackNamed(leak.attack), leak.accuracy, leak.accuracy_low, leak.accuracy_high,
        leak.floor, InvertedAuc(leak.auc), leak.examples, DescribeWhen(*figure)));
  }
  return lines;
}

}  // namespace splitveil
