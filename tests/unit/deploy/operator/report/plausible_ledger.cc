#include "tests/unit/deploy/operator/report/plausible_ledger.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/leakage/bounds.h"
#include "common/ledger/ledger.h"
#include "common/ledger/ledger_rows.h"

namespace splitveil {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kBatch = 1024;

// Draws of one run; the same for both parties.
class Scatter {
 public:
  explicit Scatter(const std::string& run_id) : generator_(std::hash<std::string>()(run_id)) {}
  double Around(double mean, double deviation) {
    return mean + deviation * std::normal_distribution<double>()(generator_);
  }
  double Auc(double mean, double deviation) { return std::clamp(Around(mean, deviation), 0.0, 1.0); }

 private:
  std::mt19937_64 generator_;
};

RunRow Row(const PlausibleRun& run, const std::string& role, const std::string& protection) {
  nlohmann::ordered_json config = {{"version", "0.1.0"}, {"peer_version", "0.1.0"}};
  std::vector<std::string> layers = run.hidden_layers, attacks;
  layers.insert(layers.begin(), "cut");
  for (const std::string& attack : run.attacks) {
    attacks.push_back(absl::AsciiStrToUpper(attack));
  }
  config["agreement"] = {
      {"batch_size", kBatch}, {"cut_layer", run.cut_layer}, {"audit", {{"layers", layers}, {"attacks", attacks}}}};
  return {run.run_id,
          role,
          run.agreement_sha256,
          protection,
          config.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace),
          run.resumed_from};
}

ProtectionRow Protection(const PlausibleRun& run, int64_t step, Scatter& scatter) {
  const double scale =
      1e-4 * std::exp(-1.5 * static_cast<double>(step) / static_cast<double>(run.epochs * run.steps_per_epoch));
  const double p = scatter.Around(0.256, 0.012), g = scale * scatter.Auc(0.8, 0.05);
  if (run.sum_kl == 0) {
    return {step, "none", kNan, kNan, g, p, 0, kNan, kNan, kNan, kNan, kNan, kNan, v1::RELEASE};
  }
  const double sum_kl = std::max(0.01, scatter.Around(run.sum_kl, 0.15));
  return {step,
          "marvell",
          scale * 2e-3,
          scale * 6e-3,
          g,
          p,
          4 * g,
          g * 3.4,
          g * 0.002,
          g * 4.9,
          0,
          sum_kl,
          AucBound(sum_kl),
          sum_kl > 1.5 ? v1::WARN : v1::RELEASE};
}

// How near to the cosine attack's an attack's leak comes.
double Strength(const std::string& attack) {
  static const std::map<std::string, double> kStrengths = {{"inner_product", 1.02},
                                                           {"hint_distance_1", 0.4},
                                                           {"hint_distance_5", 0.6},
                                                           {"hint_inner_product_5", 0.75},
                                                           {"spectral", 0.8},
                                                           {"majority_direction", 0.3},
                                                           {"gradient_clusters", 0.55},
                                                           {"activation_clusters", 0.25},
                                                           {"likelihood_ratio", 1.1},
                                                           {"direction", 1.05},
                                                           {"cumulative_spectral", 0.8},
                                                           {"cumulative_direction", 1.05}};
  const auto found = kStrengths.find(attack);
  return found == kStrengths.end() ? 1 : found->second;
}

double TargetAuc(const PlausibleRun& run, const std::string& layer, const std::string& attack) {
  const double leak = attack == "norm" ? run.norm_auc - 0.5 : (run.cosine_auc - 0.5) * Strength(attack);
  return std::min(0.999, 0.5 + leak * (layer == "cut" ? 1 : 0.95));
}

absl::Status WriteLeaks(const PlausibleRun& run, int64_t step, bool label_party, Scatter& scatter, Ledger& ledger) {
  // Early batches leak less: the gradients have yet to differ.
  const double rise = 1 - 0.5 * std::exp(-static_cast<double>(step) / 12);
  std::vector<std::string> layers = run.hidden_layers;
  layers.insert(layers.begin(), "cut");
  absl::Status status;
  const auto draw = [&](const std::string& layer, const std::string& attack) {
    const double target = TargetAuc(run, layer, attack);
    return scatter.Auc(0.5 + (target - 0.5) * rise, target > 0.9 ? 0.01 : 0.035);
  };
  for (const std::string& layer : layers) {
    for (const std::string& attack : run.attacks) {
      if (attack == "activation_clusters" && layer != "cut") {
        continue;
      }
      const double auc = draw(layer, attack);
      status.Update(ledger.Record(
          LeakRow{step, "nonlabel_party", layer, attack, label_party ? auc : std::round(auc * 100) / 100, kBatch - 1}));
    }
  }
  for (const std::string attack : {"norm", "cosine", "likelihood_ratio", "direction"}) {
    const double auc = draw("cut", attack);
    if (label_party) {
      status.Update(ledger.Record(LeakRow{step, "label_party", "cut", attack, auc, kBatch}));
    }
  }
  return status;
}

// A share and its interval, normal approximation.
struct Share {
  double value, low, high;
};
Share Around(double value, double count) {
  const double half_width = 1.96 * std::sqrt(std::max(1e-6, value * (1 - value)) / count);
  return {value, std::max(0.0, value - half_width), std::min(1.0, value + half_width)};
}

// A row whose ROC curve is the power curve of this AUC.
EpochLeakRow PooledRow(const PlausibleRun& run, int64_t epoch, const std::string& observer, const std::string& layer,
                       const std::string& attack, double leak_auc) {
  const int64_t examples = run.steps_per_epoch * kBatch, positives = examples / 4;
  const double power = 1 / leak_auc - 1;
  const Share auc = Around(leak_auc, static_cast<double>(positives));
  const Share one = Around(std::pow(0.01, power), static_cast<double>(positives));
  const Share tenth = Around(std::pow(0.001, power), static_cast<double>(positives));
  const bool remembers = absl::StartsWith(attack, "cumulative_");
  const double sum_kl = run.sum_kl == 0 ? kNan : run.sum_kl * static_cast<double>(remembers ? epoch + 1 : 1);
  const bool bounded =
      layer == "cut" && attack != "activation_clusters" && attack != "model_completion" && attack != "features_only";
  return {epoch,
          observer,
          layer,
          attack,
          examples,
          positives,
          auc.value,
          auc.low,
          auc.high,
          one.value,
          one.low,
          one.high,
          tenth.value,
          tenth.low,
          tenth.high,
          bounded ? GaussianAucBound(sum_kl) : kNan,
          bounded ? AucBound(sum_kl) : kNan};
}

absl::Status WriteEpochLeaks(const PlausibleRun& run, int64_t epoch, Ledger& ledger) {
  absl::Status status;
  const auto record = [&](const char* observer, const std::string& layer, const std::string& attack) {
    const bool remembers = absl::StartsWith(attack, "cumulative_");
    double auc = TargetAuc(run, layer, attack);
    if (remembers) {  // Independent releases: the distance of the classes grows with the root of the epochs.
      auc = std::min(0.999, 0.5 + (auc - 0.5) * std::sqrt(static_cast<double>(epoch + 1)));
    }
    if (attack == "likelihood_ratio" && run.exceeds_bound && epoch + 1 == run.epochs) {
      auc = std::min(0.999, GaussianAucBound(run.sum_kl) + 0.06);
      status.Update(ledger.RecordEvent(
          "bound_exceeded", absl::StrFormat("epoch %d: likelihood_ratio at cut: at least %.2f, allowed %.2f", epoch + 1,
                                            auc - 0.01, GaussianAucBound(run.sum_kl))));
    }
    status.Update(ledger.Record(PooledRow(run, epoch, observer, layer, attack, auc)));
  };
  std::vector<std::string> layers = run.hidden_layers;
  layers.insert(layers.begin(), "cut");
  for (const std::string& layer : layers) {
    for (const std::string& attack : run.attacks) {
      if (attack != "activation_clusters" || layer == "cut") {
        record("nonlabel_party", layer, attack);
      }
    }
    record("nonlabel_party", layer, "cumulative_spectral");
  }
  for (const char* attack : {"norm", "cosine", "likelihood_ratio", "direction", "cumulative_likelihood_ratio",
                             "cumulative_direction", "cumulative_conditional_likelihood_ratio"}) {
    record("label_party", "cut", attack);
  }
  if (epoch + 1 == run.epochs) {
    status.Update(ledger.Record(PooledRow(run, epoch, "nonlabel_party", "cut", "model_completion", 0.66)));
    status.Update(ledger.Record(PooledRow(run, epoch, "nonlabel_party", "cut", "features_only", 0.61)));
  }
  return status;
}

// A bell over 30 bins for each class, empty bins left out.
absl::Status WriteDistributions(const PlausibleRun& run, int64_t epoch, Ledger& ledger) {
  struct Bell {
    const char* quantity;
    double low, high, centers[2], deviations[2];
  };
  // Before the noise the classes lie apart; after it they overlap.
  const double apart = run.sum_kl == 0 ? 1 : 0.15;
  const Bell bells[] = {{"clean_norm", 0, 0.03, {0.005, 0.014}, {0.002, 0.004}},
                        {"norm", 0, run.sum_kl == 0 ? 0.03 : 0.09, {0.005, 0.014}, {0.002, 0.004}},
                        {"clean_cosine", -1, 1, {-0.8, 0.8}, {0.1, 0.12}},
                        {"cosine", -1, 1, {-0.8 * apart, 0.8 * apart}, {0.1 / apart / 3, 0.12 / apart / 3}}};
  constexpr int64_t kBins = 30;
  absl::Status status;
  for (Bell bell : bells) {
    if (run.sum_kl > 0 && std::string(bell.quantity) == "norm") {
      bell.centers[0] = 0.045, bell.centers[1] = 0.047;
      bell.deviations[0] = bell.deviations[1] = 0.008;
    }
    for (int64_t label = 0; label < 2; ++label) {
      const double examples = static_cast<double>(run.steps_per_epoch * kBatch) * (label == 1 ? 0.25 : 0.75);
      const double width = (bell.high - bell.low) / kBins;
      for (int64_t bin = 0; bin < kBins; ++bin) {
        const double low = bell.low + width * static_cast<double>(bin);
        const double z = (low + width / 2 - bell.centers[label]) / bell.deviations[label];
        const double share = width / bell.deviations[label] * std::exp(-z * z / 2) / std::sqrt(2 * M_PI);
        if (const auto count = static_cast<int64_t>(examples * share); count > 0) {
          status.Update(ledger.Record(DistributionRow{epoch, bell.quantity, label, bin, low, low + width, count}));
        }
      }
    }
  }
  return status;
}

absl::Status WriteEvaluation(const PlausibleRun& run, int64_t epoch, Ledger& ledger) {
  if (epoch == 0 && run.own_features_auc > 0) {
    EvaluationRow own{0, "own_features", 0.6, run.own_features_auc, 0.75, 0.02};
    own.kept = "";
    if (const absl::Status recorded = ledger.Record(own); !recorded.ok()) {
      return recorded;
    }
  }
  const double progress = 1 - std::exp(-1.3 * static_cast<double>(epoch + 1));
  const double overfit = 0.004 * std::max<double>(0, static_cast<double>(epoch) - 3);
  const double auc = 0.5 + (run.best_test_auc - 0.5) * progress - overfit;
  if (run.predicted_auc > 0) {
    return epoch > 0 ? absl::OkStatus()
                     : ledger.Record(EvaluationRow{0, "test", 0.57 - 0.4 * (run.predicted_auc - 0.5), run.predicted_auc,
                                                   0.74 + 0.1 * (run.predicted_auc - 0.5), 0.02});
  }
  return ledger.Record(EvaluationRow{(epoch + 1) * run.steps_per_epoch, "test", 0.57 - 0.4 * (auc - 0.5), auc,
                                     0.74 + 0.1 * (auc - 0.5), 0.03 - 0.02 * progress});
}

absl::Status WriteRows(const PlausibleRun& run, bool label_party, Ledger& ledger) {
  Scatter scatter(run.run_id);
  absl::Status status = ledger.RecordEvent("disclosure", "attack module reads: " + run.disclosure);
  for (int64_t epoch = 0; epoch < run.epochs; ++epoch) {
    for (int64_t batch = 0; batch < run.steps_per_epoch; ++batch) {
      const int64_t step = epoch * run.steps_per_epoch + batch;
      const double loss = 0.47 + 0.2 * std::exp(-static_cast<double>(step) / 25) + scatter.Around(0, 0.015) -
                          5e-5 * static_cast<double>(step);
      status.Update(ledger.Record(StepRow{step, epoch, batch, kBatch, label_party ? loss : kNan, 0.05,
                                          label_party ? 525000 : 525400, label_party ? 525400 : 525000}));
      status.Update(
          ledger.Record(label_party ? StepTimeRow{step, 0.001, 0.006, 0.0005, 0.0015, 0.02, 0.009, 0.001, 0.003, 0.008}
                                    : StepTimeRow{step, 0.001, 0.007, 0.0005, 0.0015, 0.024, 0.011, 0, 0.003, 0.002}));
      const ProtectionRow protection = Protection(run, step, scatter);
      if (label_party) {
        status.Update(ledger.Record(protection));
        if (protection.gate != v1::RELEASE) {
          status.Update(
              ledger.RecordEvent("gate_" + GateActionName(protection.gate),
                                 absl::StrCat("step ", step, ": bound on the AUC of ", "one step above the policy's")));
        }
      }
      status.Update(WriteLeaks(run, step, label_party, scatter, ledger));
    }
    if (label_party) {
      status.Update(WriteEpochLeaks(run, epoch, ledger));
      status.Update(WriteDistributions(run, epoch, ledger));
      status.Update(WriteEvaluation(run, epoch, ledger));
    }
  }
  if (label_party && run.mu_lower > 0) {
    ClaimCheckRow audit;
    audit.claimed_mu = std::sqrt(static_cast<double>(run.epochs) * run.sum_kl);
    audit.mu_lower = audit.failing_mu_lower = run.mu_lower;
    audit.half_noise_mu_lower = 2 * audit.claimed_mu;
    audit.confidence = 0.95;
    audit.failing_confidence = 0.9999;
    audit.test = "own";
    audit.examples = run.steps_per_epoch * kBatch;
    status.Update(ledger.Record(audit));
  }
  if (run.status != "running") {
    status.Update(ledger.Finish(run.status));
  }
  return status;
}

absl::Status WriteLedger(const std::string& path, const PlausibleRun& run, bool label_party) {
  absl::StatusOr<std::unique_ptr<Ledger>> ledger =
      Ledger::Create(path, label_party ? Row(run, "label_party", run.protection) : Row(run, "nonlabel_party", ""));
  return ledger.ok() ? WriteRows(run, label_party, **ledger) : ledger.status();
}

}  // namespace

absl::Status WriteLabelPartyLedger(const std::string& path, const PlausibleRun& run) {
  return WriteLedger(path, run, true);
}

absl::Status WriteNonLabelPartyLedger(const std::string& path, const PlausibleRun& run) {
  return WriteLedger(path, run, false);
}

}  // namespace splitveil
