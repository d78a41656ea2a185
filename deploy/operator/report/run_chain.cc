
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "deploy/operator/records/ledger_figures.h"
#include "deploy/operator/report/report_sections.h"
#include "deploy/operator/report/report_text.h"

namespace splitveil {
namespace {

constexpr size_t kMaxLines = 8;  // Colours of the page.

// Empty: none. A run that only predicts is no day of training.
std::string Predecessor(const LedgerRun& run) {
  return run.only_predicts() ? "" : run.parties.front().record.run.resumed_from;
}

// Of the examples as the model met them, else of the epoch that is kept; null where nothing was evaluated.
const EvaluationRow* QualityOf(const LedgerRun& run) {
  for (const EvaluationRow& row : run.evaluations()) {
    // Evaluated before its first step, the model has not seen the day: the honest figure.
    if (row.step == 0 && row.split == "test") {
      return &row;
    }
  }
  return KeptTest(run.evaluations());
}

Json MeanLeak(const std::vector<AttackLeak>& leaks, const std::string& layer, const std::string& attack) {
  for (const AttackLeak& leak : leaks) {
    if (leak.layer == layer && leak.attack == attack && leak.has_batches()) {
      return NumberJson(leak.series->summary.mean);
    }
  }
  return Json();
}

bool IsMeasured(const std::vector<std::vector<AttackLeak>>& runs, const std::string& attack) {
  return std::any_of(runs.begin(), runs.end(), [&](const std::vector<AttackLeak>& leaks) {
    return std::any_of(leaks.begin(), leaks.end(), [&](const AttackLeak& leak) {
      return leak.layer == "cut" && leak.attack == attack && leak.has_batches();
    });
  });
}

// What the page charts of several runs; at the cut before all others the attacks of Figure 4, norm and hint.
std::vector<ChartedLayer> ChooseDayCharts(const std::vector<std::vector<AttackLeak>>& runs) {
  std::vector<ChartedLayer> charted = ChooseCharts(runs);
  if (charted.empty() || charted.front().layer != "cut") {
    return charted;
  }
  std::vector<std::string> attacks;
  for (const char* attack : {"norm", "hint_inner_product_1", "hint_inner_product_5", "hint_inner_product_3"}) {
    if (attacks.size() < 2 && IsMeasured(runs, attack)) {
      attacks.push_back(attack);
    }
  }
  for (const std::string& attack : charted.front().attacks) {
    if (std::find(attacks.begin(), attacks.end(), attack) == attacks.end()) {
      attacks.push_back(attack);
    }
  }
  charted.front().attacks = std::move(attacks);
  return charted;
}

// "marvell(sum_kl=0.1)"; where several chains have one protection, with the run that begins it.
std::string LabelOf(const std::vector<LedgerRun>& runs, const RunChain& chain, const std::vector<RunChain>& chains) {
  const std::string protection = runs[chain.back()].protection();
  const auto same = std::count_if(chains.begin(), chains.end(),
                                  [&](const RunChain& other) { return runs[other.back()].protection() == protection; });
  const std::string label = protection == "none" ? "no protection" : protection;
  return same > 1 || label.empty() ? absl::StrCat(label, label.empty() ? "" : " · ", runs[chain.back()].run_id())
                                   : label;
}

}  // namespace

std::vector<RunChain> FindChains(const std::vector<LedgerRun>& runs) {
  std::map<std::string, size_t> by_id;
  std::set<std::string> continued;
  for (size_t i = 0; i < runs.size(); ++i) {
    by_id.emplace(runs[i].run_id(), i);
    continued.insert(Predecessor(runs[i]));
  }
  std::vector<RunChain> chains;
  for (size_t last = 0; last < runs.size(); ++last) {
    if (continued.count(runs[last].run_id()) > 0) {
      continue;
    }
    RunChain chain = {last};
    // Ledgers may claim what they like, a circle too.
    for (auto before = by_id.find(Predecessor(runs[last])); before != by_id.end() && chain.size() < runs.size();
         before = by_id.find(Predecessor(runs[before->second]))) {
      chain.push_back(before->second);
    }
    if (chain.size() > 1) {
      std::reverse(chain.begin(), chain.end());
      chains.push_back(std::move(chain));
    }
  }
  return chains;
}

std::vector<size_t> RunsInFull(const std::vector<LedgerRun>& runs, const std::vector<RunChain>& chains) {
  std::set<size_t> folded;
  if (runs.size() > kMaxLines) {
    for (const RunChain& chain : chains) {
      folded.insert(chain.begin(), chain.end() - 1);
    }
  }
  std::vector<size_t> full;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (folded.count(i) == 0) {
      full.push_back(i);
    }
  }
  return full;
}

Json ChainsJson(const std::vector<LedgerRun>& runs, const std::vector<std::vector<AttackLeak>>& leaks,
                const std::vector<RunChain>& chains) {
  if (chains.empty()) {
    return Json();
  }
  std::vector<std::vector<AttackLeak>> of_chains;
  for (const RunChain& chain : chains) {
    for (size_t run : chain) {
      of_chains.push_back(leaks[run]);
    }
  }
  const std::vector<ChartedLayer> charted = ChooseDayCharts(of_chains);
  Json all = Json::array();
  for (const RunChain& chain : chains) {
    Json days = Json::array();
    for (size_t run : chain) {
      const EvaluationRow* quality = QualityOf(runs[run]);
      Json means = Json::array();
      for (const ChartedLayer& layer : charted) {
        for (const std::string& attack : layer.attacks) {
          means.push_back(MeanLeak(leaks[run], layer.layer, attack));
        }
      }
      days.push_back({{"id", runs[run].run_id()},
                      {"auc", quality == nullptr ? Json() : NumberJson(quality->auc)},
                      {"log_loss", quality == nullptr ? Json() : NumberJson(quality->log_loss)},
                      {"ranking", RankingJson(FiguresOf(runs[run]))},
                      {"leaks", std::move(means)}});
    }
    all.push_back({{"label", LabelOf(runs, chain, chains)}, {"runs", std::move(days)}});
  }
  return {{"charted", ChartedJson(charted)}, {"chains", std::move(all)}};
}

}  // namespace splitveil
