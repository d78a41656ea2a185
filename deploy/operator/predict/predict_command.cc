#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "deploy/operator/commands.h"
#include "deploy/operator/drift/drift_table.h"
#include "deploy/operator/local_run/party_process.h"
#include "deploy/operator/local_run/two_party_run.h"
#include "deploy/operator/party_config/party_config.h"
#include "deploy/operator/preparation/column_drift.h"
#include "google/protobuf/message.h"
#include "google/protobuf/text_format.h"

#include "common/config/agreement.h"
#include "common/config/text_config.h"
#include "common/crypto/digest.h"
#include "common/operations/operator_server.h"
#include "common/operations/run_summary.h"
#include "common/process/file.h"
#include "common/process/runtime.h"
#include "common/status/status_macros.h"
#include "common/storage/file_system.h"
#include "common/storage/section_file.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/preprocessing.pb.h"

namespace splitveil {
namespace {

// What a party runs to predict with a trained model: its own files of the training, turned into those of a run
// with mode PREDICT.

struct PredictOptions {
  std::string agreement_path, config_path;  // Of the run that trained the model.
  std::string role;                         // LoadPartyConfig's.
  std::string data_path;                    // Prepared, and fitted as the training's; empty: the configuration's.
  std::string checkpoint_path;              // Empty: the configuration's checkpoint_path.
  std::string out_path, store_path;         // Of the label party alone, which needs one of them.
  std::vector<std::string> allowed_changes;
};

struct PredictPlan {
  std::string role;
  v1::RunAgreement agreement;
  PartyConfig config;  // All paths absolute.
  std::string training_data_path;
};

// Two of the shared examples are enough: nothing is learned from a batch.
constexpr int32_t kLeastExamples = 2;

v1::RunAgreement PredictionOf(const v1::RunAgreement& training) {
  v1::RunAgreement agreement = training;
  // Derived from the training's agreement alone, so that both parties compute the same digest.
  agreement.set_run_name(absl::StrCat(training.run_name(), "-predict"));
  agreement.set_mode(v1::RunAgreement::PREDICT);
  agreement.set_minimum_batch_size(kLeastExamples);
  Canonicalize(agreement);  // Drops what only training uses.
  return agreement;
}

// Beside the figures of the prediction, at either party.
std::string DriftPath(const v1::PartyCommon& party) {
  return std::filesystem::path(PredictionPath(party.ledger_path())).replace_extension(".drift.csv");
}

std::string DriftMetricsPath(const v1::PartyCommon& party) {
  return std::filesystem::path(DriftPath(party)).replace_extension(".prom");
}

// That the predictions replace nothing that the training, or this run, reads or writes: what is there is no table, but
// what is to be written may not be there yet. That nothing else is replaced, the party's program checks.
absl::Status CheckOut(const PredictOptions& options, const v1::LabelPartyConfig& training) {
  if (options.out_path.empty()) {
    return absl::OkStatus();
  }
  std::vector<std::string> paths;
  v1::LabelPartyConfig others = training;
  others.clear_predictions_path();  // Where earlier predictions went: they may be replaced.
  for (const ConfigPath& other : ListPaths(others)) {
    paths.push_back(other.path);
  }
  paths.push_back(ResultPath(training.party().ledger_path()));
  paths.push_back(PredictionPath(training.party().ledger_path()));
  paths.push_back(StatusSocketPath(training.party()));
  paths.push_back(DriftPath(training.party()));
  paths.push_back(DriftMetricsPath(training.party()));
  for (const std::string* path :
       {&options.agreement_path, &options.config_path, &options.data_path, &options.checkpoint_path}) {
    if (!path->empty()) {
      paths.push_back(AbsolutePath(*path));
    }
  }
  for (const std::string& path : paths) {
    if (NameSameFile(options.out_path, path)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "command line: --out: expected a different file than those that the run reads or writes, found ", path));
    }
  }
  return absl::OkStatus();
}

absl::Status PointParty(const PredictOptions& options, v1::PartyCommon& party) {
  if (!options.data_path.empty()) {
    party.mutable_dataset()->set_path(AbsolutePath(options.data_path));
    party.clear_alignment_cache_path();  // One of other examples is not to replace the training's.
  }
  if (options.checkpoint_path.empty() && party.checkpoint_path().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("command line: --checkpoint: expected the model to predict with, as ", options.config_path,
                     " has no party.checkpoint_path, found none"));
  }
  party.set_initial_checkpoint(options.checkpoint_path.empty() ? party.checkpoint_path()
                                                               : AbsolutePath(options.checkpoint_path));
  // Before the other party is kept waiting.
  if (std::error_code ignored; !std::filesystem::exists(party.initial_checkpoint(), ignored)) {
    return absl::InvalidArgumentError(
        absl::StrCat(party.initial_checkpoint(), ": expected this party's trained model, found no file of this name: ",
                     "train it first, or name its checkpoint with --checkpoint"));
  }
  // Predicting trains nothing: the training's checkpoint must stay as it is.
  party.clear_checkpoint_path();
  party.clear_export_dir();
  party.clear_restart();
  party.clear_monitoring();  // Its page is of training, and its token lies beside the other configuration.
  return absl::OkStatus();
}

absl::Status Point(const PredictOptions& options, v1::LabelPartyConfig& config) {
  if (options.out_path.empty() && options.store_path.empty()) {
    return absl::InvalidArgumentError(
        "command line: --out: expected the file for the predictions, which the label party gets, or --store, found "
        "none");
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckOut(options, config));
  SPLITVEIL_RETURN_IF_ERROR(PointParty(options, *config.mutable_party()));
  config.mutable_protection()->Clear();
  // A protection acts on gradients, and a prediction sends none.
  config.mutable_protection()->mutable_none();
  config.clear_privacy_account();  // Nothing is released, and nothing counted.
  config.clear_clip_cut_gradients();
  config.clear_predictions_path();
  if (!options.out_path.empty()) {
    config.set_predictions_path(AbsolutePath(options.out_path));
  }
  if (!options.store_path.empty()) {
    config.set_versions_path(AbsolutePath(options.store_path));
  }
  config.clear_result_path();
  config.clear_release();
  config.clear_label_side_audit();
  config.clear_early_stopping();
  config.clear_keep();
  config.clear_attribute_attack();
  return absl::OkStatus();
}

absl::Status Point(const PredictOptions& options, v1::NonLabelPartyConfig& config) {
  if (!options.out_path.empty()) {
    return absl::InvalidArgumentError(
        "command line: --out: has no effect at the non-label party, because the label party gets the predictions: "
        "remove it");
  }
  if (!options.store_path.empty()) {
    config.set_versions_path(AbsolutePath(options.store_path));
  }
  return PointParty(options, *config.mutable_party());
}

const v1::PartyCommon& CommonOf(const PartyConfig& config) {
  return std::visit([](const auto& fields) -> const v1::PartyCommon& { return fields.party(); }, config);
}

// The agreement follows from that of the training alone, so that both parties come to the same one: mode PREDICT
// and what that mode uses. Its run_name is that of the training with "-predict". Errors: those of
// LoadAgreement and LoadPartyConfig; InvalidArgument with the flag that is missing, of the other party, or, of
// --out, names a file of the training or of this run.
absl::StatusOr<PredictPlan> PlanPrediction(const PredictOptions& options) {
  PredictPlan plan;
  SPLITVEIL_ASSIGN_OR_RETURN(const v1::RunAgreement training, LoadAgreement(options.agreement_path));
  SPLITVEIL_ASSIGN_OR_RETURN(plan.config, LoadPartyConfig(options.config_path, options.role));
  // The party reads them from a file in a folder of its own.
  std::visit([](auto& config) { MakePathsAbsolute(config); }, plan.config);
  plan.agreement = PredictionOf(training);
  plan.training_data_path = CommonOf(plan.config).dataset().path();
  plan.role = std::holds_alternative<v1::LabelPartyConfig>(plan.config) ? kLabelPartyRole : kNonLabelPartyRole;
  SPLITVEIL_RETURN_IF_ERROR(std::visit([&](auto& config) { return Point(options, config); }, plan.config));
  return plan;
}

constexpr absl::Duration kPollInterval = absl::Milliseconds(20);

// For the owner alone; removed with all that is in it.
class PrivateFolder {
 public:
  static absl::StatusOr<std::unique_ptr<PrivateFolder>> Create() {
    std::string name = (std::filesystem::temp_directory_path() / "splitveil-predict-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": cannot be made"));
    }
    return std::unique_ptr<PrivateFolder>(new PrivateFolder(std::move(name)));
  }
  ~PrivateFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit PrivateFolder(std::string path) : path_(std::move(path)) {}

  const std::string path_;
};

// The exit code of the party's program, which speaks for itself.
absl::StatusOr<ExitCode> RunParty(const PredictPlan& plan, const std::string& folder) {
  const std::string agreement = folder + "/agreement.textproto",
                    config = absl::StrCat(folder, "/", plan.role, ".textproto");
  SPLITVEIL_RETURN_IF_ERROR(WriteText(agreement, plan.agreement));
  SPLITVEIL_RETURN_IF_ERROR(std::visit([&](const auto& fields) { return WriteText(config, fields); }, plan.config));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::string programs, OwnFolder());
  HandleStopSignals();
  SPLITVEIL_ASSIGN_OR_RETURN(
      const std::unique_ptr<PartyProcess> party,
      PartyProcess::Start({absl::StrCat(programs, "/", plan.role),
                           {absl::StrCat("--agreement=", agreement), absl::StrCat("--config=", config)}}));
  bool stopping = false;
  while (true) {
    if (const std::optional<int> code = party->exit_code(); code.has_value()) {
      // The party's own code, so that scripts read the same codes as of a training.
      return *code <= static_cast<int>(ExitCode::kStopped) ? static_cast<ExitCode>(*code) : ExitCode::kInternal;
    }
    // One signal is enough: a second would kill the party before its ledger is closed.
    if (StopRequested() && !std::exchange(stopping, true)) {
      party->Terminate();
    }
    absl::SleepFor(kPollInterval);
  }
}

// How a file's rows were encoded.
struct Encoding {
  v1::Preprocessing preprocessing;
  std::string digest;      // Of the file.
  std::string vocabulary;  // All values, back to back, with their ends.
};

// Nullopt if the file is not there or not prepared data, which the party's program explains.
std::optional<Encoding> ReadEncoding(const std::string& path) {
  const absl::StatusOr<std::unique_ptr<SectionFile>> file = SectionFile::Open(path, SectionFile::Check::kStructure);
  if (!file.ok()) {
    return std::nullopt;
  }
  const absl::StatusOr<absl::string_view> bytes = (*file)->section("preprocessing"),
                                          ends = (*file)->section("vocabulary_ends"),
                                          values = (*file)->section("vocabulary");
  Encoding encoding;
  if (!bytes.ok() || !ends.ok() || !values.ok() || !encoding.preprocessing.ParseFromString(std::string(*bytes))) {
    return std::nullopt;
  }
  encoding.digest = std::string(AsBytes((*file)->digest()));
  encoding.vocabulary = absl::StrCat(*ends, *values);
  return encoding;
}

// Whether the model reads `data` as it read the training: one of them took the other's encoding over, both took it from
// a third, or both came to the same one.
bool HasSameEncoding(const Encoding& training, const Encoding& data) {
  const std::string &from = data.preprocessing.extends_sha256(),
                    &training_from = training.preprocessing.extends_sha256();
  const auto scales = [](const Encoding& encoding) {
    std::string text;
    for (const v1::NumericScaling& of_column : encoding.preprocessing.numeric()) {
      v1::NumericScaling scaling = of_column;
      for (const auto clear : {&v1::NumericScaling::clear_missing, &v1::NumericScaling::clear_clipped,
                               &v1::NumericScaling::clear_counts, &v1::NumericScaling::clear_earlier_counts}) {
        (scaling.*clear)();
      }
      absl::StrAppend(&text, scaling.SerializeAsString());
    }
    return text;
  };
  return from == training.digest || training_from == data.digest || (!from.empty() && from == training_from) ||
         (scales(training) == scales(data) && training.vocabulary == data.vocabulary);
}

// Prints how this party's columns differ from the training, and writes it beside the figures of the prediction. Errors:
// InvalidArgument if the model cannot read the data; those of WriteDriftTable.
absl::Status CompareWithTraining(const PredictOptions& options, const PredictPlan& plan) {
  const v1::PartyCommon& party = CommonOf(plan.config);
  std::optional<Encoding> data = ReadEncoding(party.dataset().path());
  const std::optional<Encoding> training = ReadEncoding(plan.training_data_path);
  if (!data.has_value() || (training.has_value() && training->digest == data->digest)) {
    return absl::OkStatus();  // The rows of the training themselves, if there are any.
  }
  if (training.has_value() && !HasSameEncoding(*training, *data)) {
    return absl::InvalidArgumentError(absl::StrCat(
        party.dataset().path(), ": expected rows encoded as those of the training, ", plan.training_data_path,
        ", found other scales or categories: encode the table by splitveil transform, with the folder of these as "
        "--fitted"));
  }
  for (const std::string& name : options.allowed_changes) {
    data->preprocessing.add_allowed_changes(name);
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckColumnsAreThere(party.dataset().path(), data->preprocessing));
  const std::vector<ColumnDrift> drifts = CompareColumns(data->preprocessing);
  const std::string warnings = ReadingWarnings(data->preprocessing);  // Who predicts may not have encoded them.
  if (drifts.empty()) {
    std::fputs(warnings.c_str(), stdout);
    return absl::OkStatus();  // Encoded again, and alike.
  }
  std::printf("%s: %lld rows, compared with the training\n%s%s  as a table: %s\n", party.dataset().path().c_str(),
              static_cast<long long>(data->preprocessing.rows()), DriftText(drifts).c_str(), warnings.c_str(),
              DriftPath(party).c_str());
  std::fflush(stdout);  // Before the party's program writes to the same output.
  SPLITVEIL_RETURN_IF_ERROR(WriteDriftTable(DriftPath(party), drifts));
  return WriteDriftMetrics(DriftMetricsPath(party), plan.role, drifts);
}

absl::StatusOr<ExitCode> Predict(const PredictOptions& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(const PredictPlan plan, PlanPrediction(options));
  SPLITVEIL_RETURN_IF_ERROR(CompareWithTraining(options, plan));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<PrivateFolder> folder, PrivateFolder::Create());
  return RunParty(plan, folder->path());
}

}  // namespace

void AddPredictCommand(CommandLine& line) {
  const auto options = std::make_shared<PredictOptions>();
  CLI::App& command = line.AddCommand(
      {"predict", "Predict with a trained model; both parties run it, and the label party gets the predictions.",
       "splitveil predict --agreement=run.textproto --config=label_party.textproto --data=new/label_party.data "
       "--out=predictions.csv",
       "After a run"},
      [options] { return Predict(*options); });
  AddValue(command, "--agreement=FILE", options->agreement_path, "The agreement of the run that trained the model.")
      ->required();
  AddValue(command, "--config=FILE", options->config_path, "This party's configuration of that run.")->required();
  AddValue(command, "--role=PARTY", options->role, "Whose configuration it is.")
      ->default_str("inferred from its fields")
      ->check(OneOf({kLabelPartyRole, kNonLabelPartyRole}));
  AddValue(command, "--data=FILE", options->data_path,
           "This party's prepared data of the examples to predict, of the same columns; it needs no labels.")
      ->default_str("those of the configuration");
  AddValue(command, "--checkpoint=FILE", options->checkpoint_path,
           "This party's checkpoint to predict with; both must be of the same run and epoch.")
      ->default_str("party.checkpoint_path of the configuration");
  AddValue(
      command, "--allow_changed=COLUMN", options->allowed_changes,
      "Column that may have only values that the training never saw, besides those allowed to splitveil transform.");
  AddValue(command, "--out=FILE", options->out_path,
           "At the label party: CSV file for ids and predictions, readable only by its owner. Overwrites only "
           "earlier predictions.");
  AddValue(command, "--store=FOLDER", options->store_path,
           "Folder that gets the next version for label_party serve, beside or instead of --out; at the non-label "
           "party its half, for nonlabel_party serve.");
}

}  // namespace splitveil
