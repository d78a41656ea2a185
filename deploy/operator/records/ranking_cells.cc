#include "deploy/operator/records/ranking_cells.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace splitveil {
namespace {

std::string Cell(double value) { return std::isfinite(value) ? absl::StrFormat("%.9g", value) : ""; }

std::string Place(const RankedAttack& attack) {
  return attack.is_measured() ? absl::StrCat(attack.attack, "@", attack.layer) : "";
}

}  // namespace

std::string BoundCell(const RunRanking& ranking) {
  if (ranking.bound != BoundState::kExceeded) {
    return BoundStateWords(ranking);
  }
  const size_t more = ranking.excesses.size() - 1;
  return absl::StrCat("exceeded by ", ranking.excesses.front().attack, "@", ranking.excesses.front().layer,
                      more > 0 ? absl::StrCat(" and ", more, " more") : "");
}

std::vector<std::string> RankingColumns() {
  return {"strongest_attack",
          "strongest_auc",
          "strongest_tpr_at_1pct_fpr",
          "strongest_tpr_at_01pct_fpr",
          "practical_attack",
          "practical_auc",
          "with_side_information_attack",
          "with_side_information_auc",
          "no_gradient_attack",
          "no_gradient_auc",
          "guessing_auc_p95",
          "guessing_auc_mean",
          "bound",
          "proved_auc_bound",
          "worst_case_attack",
          "worst_case_auc",
          "verdict"};
}

std::vector<std::string> RankingCells(const RunRanking& ranking) {
  const RankedAttack& strongest = ranking.strongest();
  return {Place(strongest),
          Cell(strongest.auc),
          Cell(strongest.tpr_1pct),
          Cell(strongest.tpr_01pct),
          Place(ranking.practical),
          Cell(ranking.practical.auc),
          Place(ranking.with_side_information),
          Cell(ranking.with_side_information.auc),
          Place(ranking.no_gradient),
          Cell(ranking.no_gradient.auc),
          Cell(ranking.guessing.p95),
          Cell(ranking.guessing.mean),
          BoundCell(ranking),
          Cell(ProvedAucBound(ranking)),
          Place(ranking.worst_case),
          Cell(ranking.worst_case.auc),
          StandingWords(ranking.standing)};
}

}  // namespace splitveil
