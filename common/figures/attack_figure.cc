#include "common/figures/attack_figure.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "common/figures/attack_catalogue.h"

namespace splitveil {
namespace {

// Figures that differ by rounding alone are the same.
double AsPrinted(double auc) { return std::round(1e6 * auc) / 1e6; }

auto Rank(const AttackFigure& figure) {
  return std::make_tuple(UsesGivenLabels(figure.attack), !ReadsGradients(figure.attack), -AsPrinted(figure.auc()),
                         -AsPrinted(figure.typical_auc()), NeedsOf(figure.attack), figure.layer != "cut", figure.layer,
                         figure.attack);
}

std::optional<double> Finite(double value) { return std::isfinite(value) ? std::optional(value) : std::nullopt; }

}  // namespace

double AttackFigure::auc() const {
  const double pooled = last_epoch.has_value() ? InvertedAuc(last_epoch->auc) : 0;
  return pooled > 0 && IsCumulativeAttack(attack) ? pooled : std::max(has_batches() ? batches.p95 : 0, pooled);
}

double AttackFigure::typical_auc() const {
  if (last_epoch.has_value()) {
    return InvertedAuc(last_epoch->auc);
  }
  return has_batches() ? batches.mean : 0;
}

std::optional<double> AttackFigure::tpr_1pct() const {
  return last_epoch.has_value() ? Finite(last_epoch->tpr_1pct) : std::nullopt;
}

std::optional<double> AttackFigure::tpr_01pct() const {
  return last_epoch.has_value() ? Finite(last_epoch->tpr_01pct) : std::nullopt;
}

bool IsStronger(const AttackFigure& a, const AttackFigure& b) { return Rank(a) < Rank(b); }

std::vector<AttackFigure> StrongestFirst(const LeakSeriesByAttack& series, const EpochLeakByAttack& last_epoch) {
  std::map<std::pair<std::string, std::string>, AttackFigure> figures;
  for (const auto& [key, aucs] : series) {
    figures[key] = {key.first, key.second, "", aucs.LeakOf()};
  }
  for (const auto& [key, row] : last_epoch) {
    if (std::isfinite(row.auc)) {
      AttackFigure& figure = figures[key];
      figure.layer = key.first;
      figure.attack = key.second;
      figure.last_epoch = row;
    }
  }
  std::vector<AttackFigure> attacks;
  for (auto& [key, figure] : figures) {
    attacks.push_back(std::move(figure));
  }
  std::stable_sort(attacks.begin(), attacks.end(), IsStronger);
  return attacks;
}

std::optional<AttackFigure> WorstCaseOf(const std::vector<EpochLeakRow>& rows) {
  const EpochLeakRow* worst = nullptr;
  for (const EpochLeakRow& row : rows) {
    if (!IsWorstCase(row.attack) || row.layer != "cut" || row.observer != "label_party" || !std::isfinite(row.auc)) {
      continue;
    }
    const bool cumulative = IsCumulativeAttack(row.attack);
    if (worst == nullptr || (cumulative && !IsCumulativeAttack(worst->attack)) ||
        (row.attack == worst->attack && row.epoch > worst->epoch)) {
      worst = &row;
    }
  }
  return worst == nullptr ? std::nullopt
                          : std::optional(AttackFigure{worst->layer, worst->attack, worst->observer, {}, *worst});
}

}  // namespace splitveil
