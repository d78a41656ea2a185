#include "tests/unit/deploy/report/plausible_ledger.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "common/leakage/bounds.h"
#include "common/ledger/ledger.h"

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
  return {run.run_id, role, run.agreement_sha256, protection,
          R"({"versions":{"splitveil":"0.1.0","libtorch":"1.13.1","grpc":"1.51.1"},"batch_size":1024,)"
          R"("optimizer":{"adam":{"learning_rate":0.001}}})"};
}

ProtectionRow Protection(const PlausibleRun& run, int64_t step, Scatter& scatter) {
  const double scale =
      1e-4 * std::exp(-1.5 * static_cast<double>(step) / static_cast<double>(run.epochs * run.steps_per_epoch));
  const double p = scatter.Around(0.256, 0.012), g = scale * scatter.Auc(0.8, 0.05);
  if (run.sum_kl == 0) {
    return {step, "none", kNan, kNan, g, p, 0, kNan, kNan, kNan, kNan, kNan, kNan, "release"};
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
          sum_kl > 1.5 ? "warn" : "release"};
}

absl::Status WriteLeaks(const PlausibleRun& run, int64_t step, bool label_party, Scatter& scatter, Ledger& ledger) {
  // Early batches leak less: the gradients have yet to differ.
  const double rise = 1 - 0.5 * std::exp(-static_cast<double>(step) / 12);
  absl::Status status;
  for (const std::string& layer : {std::string("cut"), run.hidden_layer}) {
    for (const char* attack : {"norm", "cosine"}) {
      const bool norm = std::string(attack) == "norm";
      const double target = norm ? run.norm_auc : run.cosine_auc;
      const double mean = 0.5 + (target - 0.5) * rise * (layer == "cut" ? 1 : 0.95);
      const double auc = scatter.Auc(mean, target > 0.9 ? 0.01 : 0.035);
      if (label_party) {
        status.Update(ledger.Record(LeakRow{step, "nonlabel_party", layer, attack, auc, kBatch - 1}));
        if (layer == "cut") {
          status.Update(
              ledger.Record(LeakRow{step, "label_party", layer, attack, std::clamp(auc + 0.002, 0.0, 1.0), kBatch}));
        }
      } else {
        status.Update(
            ledger.Record(LeakRow{step, "nonlabel_party", layer, attack, std::round(auc * 100) / 100, kBatch - 1}));
      }
    }
  }
  return status;
}

absl::Status WriteEvaluation(const PlausibleRun& run, int64_t epoch, Ledger& ledger) {
  const double progress = 1 - std::exp(-1.3 * static_cast<double>(epoch + 1));
  const double overfit = 0.004 * std::max<double>(0, static_cast<double>(epoch) - 3);
  const double auc = 0.5 + (run.best_test_auc - 0.5) * progress - overfit;
  return ledger.Record(EvaluationRow{(epoch + 1) * run.steps_per_epoch, "test", 0.57 - 0.4 * (auc - 0.5), auc,
                                     0.74 + 0.1 * (auc - 0.5), 0.03 - 0.02 * progress});
}

absl::Status WriteRows(const PlausibleRun& run, bool label_party, Ledger& ledger) {
  Scatter scatter(run.run_id);
  absl::Status status = ledger.RecordEvent("grant", "rounded: leak AUC to 0.01, norm and cosine");
  for (int64_t epoch = 0; epoch < run.epochs; ++epoch) {
    for (int64_t batch = 0; batch < run.steps_per_epoch; ++batch) {
      const int64_t step = epoch * run.steps_per_epoch + batch;
      const double loss = 0.47 + 0.2 * std::exp(-static_cast<double>(step) / 25) + scatter.Around(0, 0.015) -
                          5e-5 * static_cast<double>(step);
      status.Update(ledger.Record(StepRow{step, epoch, batch, kBatch, label_party ? loss : kNan, 0.05,
                                          label_party ? 525000 : 525400, label_party ? 525400 : 525000}));
      const ProtectionRow protection = Protection(run, step, scatter);
      if (label_party) {
        status.Update(ledger.Record(protection));
      }
      status.Update(WriteLeaks(run, step, label_party, scatter, ledger));
    }
    if (label_party) {
      status.Update(WriteEvaluation(run, epoch, ledger));
    }
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
