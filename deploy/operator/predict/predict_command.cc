#include "deploy/operator/predict/predict_command.h"

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "deploy/operator/local_run/local_programs.h"
#include "deploy/operator/local_run/party_process.h"
#include "deploy/operator/predict/predict_plan.h"
#include "google/protobuf/text_format.h"

#include "common/process/file.h"
#include "common/process/runtime.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

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

absl::Status WriteText(const std::string& path, const google::protobuf::Message& message) {
  std::string text;
  return google::protobuf::TextFormat::PrintToString(message, &text)
             ? WriteFile(path, text)
             : absl::InternalError(absl::StrCat(path, ": cannot be written as text"));
}

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
      return *code <= static_cast<int>(ExitCode::kStopped) ? static_cast<ExitCode>(*code) : ExitCode::kInternal;
    }
    if (StopRequested() && !std::exchange(stopping, true)) {
      party->Terminate();
    }
    absl::SleepFor(kPollInterval);
  }
}

absl::StatusOr<ExitCode> Predict(const PredictOptions& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(const PredictPlan plan, PlanPrediction(options));
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
  command.add_option("--agreement", options->agreement_path, "The agreement of the run that trained the model.")
      ->type_name("FILE")
      ->required();
  command.add_option("--config", options->config_path, "This party's configuration of that run.")
      ->type_name("FILE")
      ->required();
  command.add_option("--role", options->role, "Whose configuration it is.")
      ->type_name("PARTY")
      ->default_str("inferred from its fields")
      ->check(OneOf({kLabelPartyRole, kNonLabelPartyRole}));
  command
      .add_option("--data", options->data_path,
                  "This party's prepared data of the examples to predict, of the same columns; it needs no labels.")
      ->type_name("FILE")
      ->default_str("those of the configuration");
  command
      .add_option("--checkpoint", options->checkpoint_path,
                  "This party's checkpoint to predict with; both must be of the same run and epoch.")
      ->type_name("FILE")
      ->default_str("party.checkpoint_path of the configuration");
  command
      .add_option(
          "--out", options->out_path,
          "At the label party: CSV file for ids and predictions, readable only by its owner. It replaces earlier "
          "predictions alone.")
      ->type_name("FILE");
}

}  // namespace splitveil
