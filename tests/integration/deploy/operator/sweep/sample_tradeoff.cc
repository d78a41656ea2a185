// sample_tradeoff FOLDER: writes the pages check_page.sh opens: tradeoff.html (19 protections and frozen, two seeds, an
// attack beyond the papers'), single.html (one run, nothing attacked) and hostile.html (names that are long and full of
// markup).
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "deploy/operator/sweep/tradeoff.h"

#include "common/process/file.h"

namespace splitveil {
namespace {

AttackFigure Attack(const std::string& layer, const std::string& attack, double mean, double p95) {
  return {layer, attack, "label_party", {mean, 0, p95, 10}};
}

// A run as a noise of `strength` would plausibly leave it: 0 leaks all, more leaks less and trains worse.
SweptRun PlausibleRun(const std::string& name, const std::string& family, std::optional<double> parameter,
                      double strength, uint64_t seed) {
  SweptRun swept;
  swept.run.protection = {name, family, parameter, {}};
  swept.run.seed = seed;
  swept.run.name = absl::StrCat(name, "-seed", seed);
  swept.run.agreement.set_cut_width(128);
  swept.run.nonlabel_config.mutable_model()->add_layers()->set_name("first");
  RunFigures& figures = swept.figures;
  const double jitter = 0.002 * (static_cast<double>(seed) - 1.5);
  figures.test.auc = 0.745 - 0.03 * strength / (1 + strength) - 0.004 * strength / 10 + jitter;
  figures.final_test.auc = *figures.test.auc - 0.002;
  figures.test.log_loss = 0.50 + 0.02 * strength / (1 + strength) + 0.004 * strength - jitter;
  figures.run_auc_bound = 0.5 + 0.5 / (1 + strength / 5);
  if (strength > 0) {
    figures.auc_bound_p95 = 0.5 + 0.5 / (1 + strength);
    figures.sum_kl_mean = 4 / strength;
  }
  figures.steps = 600;
  figures.seconds = 25;
  const bool isotropic = family == "iso_ratio";
  for (const char* layer : {"cut", "first"}) {
    const double norm = 0.5 + 0.45 / (1 + strength), cosine = 0.5 + 0.5 / (1 + strength / (isotropic ? 9 : 2));
    figures.attacks.push_back(Attack(layer, "cosine", cosine - 0.02 + jitter, cosine));
    figures.attacks.push_back(Attack(layer, "norm", norm - 0.02 + jitter, norm));
    figures.attacks.push_back(Attack(layer, "spectral", 0.5, 0.5 + 0.4 / (1 + strength)));
  }
  RunFigures& recorded = swept.recorded;
  recorded.of_label_party = recorded.bound_tested = true;
  recorded.protection = strength == 0 ? "none" : name;
  recorded.run_auc_bound = figures.run_auc_bound;
  recorded.attacks = {figures.attacks[0], figures.attacks[1]};
  for (AttackFigure& attack : recorded.attacks) {
    EpochLeakRow& epoch = attack.last_epoch.emplace();
    epoch.auc = attack.batches.mean;
    epoch.tpr_1pct = 2 * (attack.batches.p95 - 0.495) * (attack.batches.p95 - 0.495);
    epoch.tpr_01pct = epoch.tpr_1pct / 5;
  }
  recorded.attacks.push_back(Attack("cut", "activation_clusters", 0.6, 0.62 + jitter));
  recorded.guessing = Guessing{0.517, 0.541};
  if (parameter == 25 && seed == 2) {
    recorded.bound_exceeded = 2;
    recorded.excesses = {{"cut", "residual_norm", 0.9, 0.7, {1, 2}, 2}};
  }
  return swept;
}

SweptRun FrozenRun(uint64_t seed) {
  SweptRun swept = PlausibleRun("frozen", "frozen", std::nullopt, 0, seed);
  swept.run.protection.reference = Reference::kFrozen;
  swept.figures.test.auc = 0.7 + 0.001 * static_cast<double>(seed);
  swept.figures.test.log_loss = 0.56;
  swept.figures.attacks.clear();
  const AttackFigure no_gradient = swept.recorded.attacks.back();
  swept.recorded = RunFigures();
  swept.recorded.attacks = {no_gradient};
  return swept;
}

std::vector<SweptRun> PlausibleRuns() {
  std::vector<SweptRun> runs;
  for (const uint64_t seed : {1, 2}) {
    runs.push_back(PlausibleRun("none", "none", std::nullopt, 0, seed));
    runs.back().run.protection.reference = Reference::kNone;
    runs.push_back(PlausibleRun("max_norm", "max_norm", std::nullopt, 0.5, seed));
    for (const double s : {0.1, 0.25, 0.5, 1., 2., 4., 10., 25.}) {
      runs.push_back(PlausibleRun(absl::StrCat("marvell s=", s), "marvell_s", s, s, seed));
    }
    for (const double ratio : {0.25, 1., 2., 3., 4., 5., 7., 9., 25.}) {
      runs.push_back(PlausibleRun(absl::StrCat("iso ratio=", ratio), "iso_ratio", ratio, ratio * ratio / 10, seed));
    }
    runs.push_back(FrozenRun(seed));
  }
  return runs;
}

absl::Status WriteAll(const std::string& folder) {
  const std::vector<SweptRun> usual = PlausibleRuns();
  absl::Status status = WriteFile(folder + "/tradeoff.html", TradeoffPage(usual, 40));
  SweptRun bare = PlausibleRun("none", "none", std::nullopt, 0, 1);
  bare.figures.attacks.clear();
  bare.recorded = RunFigures();
  status.Update(WriteFile(folder + "/single.html", TradeoffPage({bare}, 4)));
  SweptRun hostile =
      PlausibleRun("</script><script>document.documentElement.dataset.planted = 1</script>" + std::string(200, 'x'),
                   "marvell_s", 4, 4, 1);
  for (AttackFigure& leak : hostile.figures.attacks) {
    leak.layer = hostile.recorded.attacks.front().layer =
        "<img src=x onerror=\"document.documentElement.dataset.planted = 1\">" + std::string(150, 'm');
  }
  status.Update(WriteFile(folder + "/hostile.html", TradeoffPage({usual[0], hostile}, 2)));
  return status;
}

}  // namespace
}  // namespace splitveil

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: sample_tradeoff FOLDER\n");
    return 2;
  }
  const absl::Status status = splitveil::WriteAll(argv[1]);
  if (!status.ok()) {
    std::fprintf(stderr, "sample_tradeoff: %s\n", std::string(status.message()).c_str());
  }
  return status.ok() ? 0 : 1;
}
