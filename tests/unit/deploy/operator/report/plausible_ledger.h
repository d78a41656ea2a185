// Ledgers that look like a real run's, for tests of whatever reads them.
#ifndef SPLITVEIL_TESTS_UNIT_DEPLOY_OPERATOR_REPORT_PLAUSIBLE_LEDGER_H_
#define SPLITVEIL_TESTS_UNIT_DEPLOY_OPERATOR_REPORT_PLAUSIBLE_LEDGER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace splitveil {

struct PlausibleRun {
  std::string run_id = "run-1";
  std::string protection = "marvell(s=4)";
  std::string agreement_sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
  std::vector<std::string> hidden_layers = {"first", "second"};  // Attacked besides the cut layer.
  // Attacks of the attack module that score batches, at every layer; activation_clusters at the cut layer only. The
  // label party adds its own.
  std::vector<std::string> attacks = {"norm",
                                      "cosine",
                                      "inner_product",
                                      "hint_distance_1",
                                      "hint_distance_5",
                                      "hint_inner_product_5",
                                      "majority_direction",
                                      "spectral",
                                      "gradient_clusters",
                                      "activation_clusters"};
  std::string status = "completed";
  int64_t epochs = 5, steps_per_epoch = 97;
  // Leak AUC of the norm and the cosine attack around which the batches scatter.
  double norm_auc = 0.53, cosine_auc = 0.62;
  double sum_kl = 1.1;  // 0: no protection, so nothing was solved.
  double best_test_auc = 0.742;
  std::string disclosure = "ROUNDED";
  std::string resumed_from;     // Run it continues; empty: none.
  double predicted_auc = 0;     // Of its examples before the first step, instead of a test after each epoch; 0: not so.
  double mu_lower = 0;          // What its own scores refute of mu = sqrt(epochs sum_kl); 0: the run claims no mu.
  double own_features_auc = 0;  // Of the label party's own features alone; 0: it has none.
  std::string cut_layer;        // As agreed; empty: each party has its half.
  bool exceeds_bound = false;   // In the last epoch the likelihood ratio reads more than the noise allows.
};

// Appends the run to the label party's ledger at `path`. Deterministic for the same run but for the time of day.
absl::Status WriteLabelPartyLedger(const std::string& path, const PlausibleRun& run);
// The same run as the non-label party saw it: no losses, no protection, AUCs rounded to 0.01.
absl::Status WriteNonLabelPartyLedger(const std::string& path, const PlausibleRun& run);

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_UNIT_DEPLOY_OPERATOR_REPORT_PLAUSIBLE_LEDGER_H_
