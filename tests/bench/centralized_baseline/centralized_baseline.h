// The model of a split run, both halves in one process: what split training is measured against.
#ifndef SPLITVEIL_TESTS_BENCH_CENTRALIZED_BASELINE_CENTRALIZED_BASELINE_H_
#define SPLITVEIL_TESTS_BENCH_CENTRALIZED_BASELINE_CENTRALIZED_BASELINE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "common/evaluation/evaluation.h"
#include "tests/bench/centralized_baseline/joined_data.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {

// As both parties of the run would load them.
struct CentralizedBaselineConfig {
  v1::RunAgreement agreement;  // Canonical.
  v1::LabelPartyConfig label_config;
  v1::NonLabelPartyConfig nonlabel_config;
};

struct CentralizedBaselineResult {
  int64_t epochs = 0;  // As agreed, or as many as were trained where it stopped early.
  int64_t steps = 0;
  int64_t trained_examples = 0;
  double train_seconds = 0;             // Spent in training steps: reading data and evaluation left out.
  std::vector<Evaluation> tests;        // One per epoch; none without test examples.
  std::vector<Evaluation> validations;  // One per epoch; none without a validation part.
  double final_train_log_loss = 0;      // Mean over the last epoch.
};

// Loads and validates the three files as the parties do; certificates are not looked at. Errors: NotFound,
// InvalidArgument as one line that says where.
absl::StatusOr<CentralizedBaselineConfig> LoadCentralizedBaselineConfig(const std::string& agreement_path,
                                                                        const std::string& label_config_path,
                                                                        const std::string& nonlabel_config_path);

// Both parties' data, joined. Errors: those of opening prepared data, and of JoinData.
absl::StatusOr<JoinedData> OpenJoinedData(const CentralizedBaselineConfig& config);

// Trains bottom and top model on the joined data with the agreed batch size, epochs and split, one batch after the
// other, and stops early where the label party would: no protection, no audit, no network, no rounding on a wire,
// whatever the configurations say of them. With the reproducible seeds of the configurations, weights start as in the
// split run, and the same examples are held out; the batches are others, as they are between two split runs, whose
// aligned order is secret and new each time. `stop` is asked between batches; true ends the training. Errors: those of
// data and models; Cancelled where stopped.
absl::StatusOr<CentralizedBaselineResult> TrainCentralizedBaseline(const CentralizedBaselineConfig& config,
                                                                   const JoinedData& data,
                                                                   const std::function<bool()>& stop);

// One JSON object: test_auc and test_log_loss of the epoch with the best AUC on the examples that
// best_epoch_chosen_on names (RESULT of the label party), best_epoch (from 1), validation_auc, final_test_auc,
// final_train_log_loss, epochs, steps, train_seconds, examples_per_second, threads. Numbers that do not exist are null.
std::string CentralizedBaselineResultJson(const CentralizedBaselineResult& result, int threads);

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_BENCH_CENTRALIZED_BASELINE_CENTRALIZED_BASELINE_H_
