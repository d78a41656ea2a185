#include "deploy/operator/predict/predict_plan.h"

#include <filesystem>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "deploy/operator/local_run/local_run.h"
#include "google/protobuf/message.h"

#include "common/config/agreement.h"
#include "common/operations/operator_server.h"
#include "common/operations/run_summary.h"
#include "common/status/status_macros.h"
#include "common/storage/file_system.h"

namespace splitveil {
namespace {

// Two of the shared examples are enough: nothing is learned from a batch.
constexpr int32_t kLeastExamples = 2;

v1::RunAgreement PredictionOf(const v1::RunAgreement& training) {
  v1::RunAgreement agreement = training;
  agreement.set_run_name(absl::StrCat(training.run_name(), "-predict"));
  agreement.set_mode(v1::RunAgreement::PREDICT);
  agreement.set_minimum_batch_size(kLeastExamples);
  Canonicalize(agreement);  // Drops what only training uses.
  return agreement;
}

std::string FromHere(const std::string& path) { return std::filesystem::absolute(path).lexically_normal().string(); }

// Every path that `message` names, of the field predictions_path apart: where earlier predictions went.
void AppendPaths(const google::protobuf::Message& message, std::vector<std::string>& paths) {
  using Field = google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const Field*> fields;
  reflection.ListFields(message, &fields);
  for (const Field* field : fields) {
    if (field->is_repeated()) {  // None of them is or has a path.
      continue;
    }
    const std::string name(field->name());
    if (field->cpp_type() == Field::CPPTYPE_MESSAGE) {
      AppendPaths(reflection.GetMessage(message, field), paths);
    } else if (field->cpp_type() == Field::CPPTYPE_STRING && name != "predictions_path" &&
               (absl::EndsWith(name, "path") || name == "initial_checkpoint" || name == "export_dir")) {
      paths.push_back(reflection.GetString(message, field));
    }
  }
}

// That the predictions replace nothing that the training, or this run, reads or writes: what is there is no table, but
// what is to be written may not be there yet. That nothing else is replaced, the party's program checks.
absl::Status CheckOut(const PredictOptions& options, const v1::LabelPartyConfig& training) {
  std::vector<std::string> paths;
  AppendPaths(training, paths);
  for (std::string& path : paths) {
    path = AbsolutePath(options.config_path, path);
  }
  const std::string ledger = AbsolutePath(options.config_path, training.party().ledger_path());
  for (const bool only_predicts : {false, true}) {
    paths.push_back(ResultPath(ledger, only_predicts));
  }
  paths.push_back(AbsolutePath(options.config_path, StatusSocketPath(training.party(), options.config_path)));
  for (const std::string* path :
       {&options.agreement_path, &options.config_path, &options.data_path, &options.checkpoint_path}) {
    if (!path->empty()) {
      paths.push_back(FromHere(*path));
    }
  }
  for (const std::string& path : paths) {
    if (NameSameFile(options.out_path, path)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "command line: --out: expected another file than those that the run reads or writes, found ", path));
    }
  }
  return absl::OkStatus();
}

absl::Status PointParty(const PredictOptions& options, v1::PartyCommon& party) {
  const std::string& from = options.config_path;
  v1::Identity& identity = *party.mutable_identity();
  for (std::string* path : {identity.mutable_certificate_path(), identity.mutable_private_key_path(),
                            identity.mutable_authority_path(), party.mutable_ledger_path()}) {
    *path = AbsolutePath(from, *path);
  }
  party.set_status_socket(AbsolutePath(from, StatusSocketPath(party, from)));
  if (!options.data_path.empty()) {  // One of other examples is not to replace the training's.
    party.clear_alignment_cache_path();
  } else if (!party.alignment_cache_path().empty()) {
    party.set_alignment_cache_path(AbsolutePath(from, party.alignment_cache_path()));
  }
  party.mutable_dataset()->set_path(options.data_path.empty() ? AbsolutePath(from, party.dataset().path())
                                                              : FromHere(options.data_path));
  if (options.checkpoint_path.empty() && party.checkpoint_path().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("command line: --checkpoint: expected the model to predict with, as ", from,
                     " has no party.checkpoint_path, found none"));
  }
  party.set_initial_checkpoint(options.checkpoint_path.empty() ? AbsolutePath(from, party.checkpoint_path())
                                                               : FromHere(options.checkpoint_path));
  party.clear_checkpoint_path();
  party.clear_export_dir();
  party.clear_restart();
  party.clear_monitoring();  // Its page is of training, and its token lies beside the other configuration.
  return absl::OkStatus();
}

void PointModel(const std::string& from, v1::ModelSpec& model) {
  if (!model.torchscript_path().empty()) {
    model.set_torchscript_path(AbsolutePath(from, model.torchscript_path()));
  }
}

absl::Status Point(const PredictOptions& options, v1::LabelPartyConfig& config) {
  if (options.out_path.empty()) {
    return absl::InvalidArgumentError(
        "command line: --out: expected the file for the predictions, which the label party gets, found none");
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckOut(options, config));
  SPLITVEIL_RETURN_IF_ERROR(PointParty(options, *config.mutable_party()));
  PointModel(options.config_path, *config.mutable_model());
  config.mutable_protection()->Clear();
  config.mutable_protection()->mutable_none();
  config.clear_privacy_account();  // Nothing is released, and nothing counted.
  config.clear_clip_cut_gradients();
  config.set_predictions_path(FromHere(options.out_path));
  config.clear_result_path();
  config.clear_release();
  config.clear_label_side_audit();
  config.clear_early_stopping();
  config.clear_attribute_attack();
  return absl::OkStatus();
}

absl::Status Point(const PredictOptions& options, v1::NonLabelPartyConfig& config) {
  if (!options.out_path.empty()) {
    return absl::InvalidArgumentError(
        "command line: --out: expected none at the non-label party, as the label party gets the predictions, found "
        "one");
  }
  PointModel(options.config_path, *config.mutable_model());
  return PointParty(options, *config.mutable_party());
}

}  // namespace

absl::StatusOr<PredictPlan> PlanPrediction(const PredictOptions& options) {
  PredictPlan plan;
  SPLITVEIL_ASSIGN_OR_RETURN(const v1::RunAgreement training, LoadAgreement(options.agreement_path));
  SPLITVEIL_ASSIGN_OR_RETURN(plan.config, LoadPartyConfig(options.config_path, options.role));
  plan.agreement = PredictionOf(training);
  plan.role = std::holds_alternative<v1::LabelPartyConfig>(plan.config) ? kLabelPartyRole : kNonLabelPartyRole;
  SPLITVEIL_RETURN_IF_ERROR(std::visit([&](auto& config) { return Point(options, config); }, plan.config));
  return plan;
}

}  // namespace splitveil
