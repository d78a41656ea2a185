// What a party runs to predict with a trained model: its own files of the training, turned into those of a run
// with mode PREDICT.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREDICT_PREDICT_PLAN_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREDICT_PREDICT_PLAN_H_

#include <string>

#include "absl/status/statusor.h"
#include "deploy/operator/party_config/party_config.h"

#include "splitveil/v1/agreement.pb.h"

namespace splitveil {

struct PredictOptions {
  std::string agreement_path, config_path;  // Of the run that trained the model.
  std::string role;                         // LoadPartyConfig's.
  std::string data_path;                    // Prepared, and fitted as the training's; empty: the configuration's.
  std::string checkpoint_path;              // Empty: the configuration's checkpoint_path.
  std::string out_path;                     // Of the label party alone, which needs one.
};

struct PredictPlan {
  std::string role;
  v1::RunAgreement agreement;
  PartyConfig config;  // All paths absolute.
};

// The agreement follows from that of the training alone, so that both parties come to the same one: mode PREDICT
// and what that mode uses. Its run_name is that of the training with "-predict". Errors: those of
// LoadAgreement and LoadPartyConfig; InvalidArgument with the flag that is missing, of the other party, or, of
// --out, names a file of the training or of this run.
absl::StatusOr<PredictPlan> PlanPrediction(const PredictOptions& options);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREDICT_PREDICT_PLAN_H_
