#include <cstdio>
#include <memory>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "deploy/operator/agreement/agreement_command.h"
#include "deploy/operator/commands.h"
#include "deploy/operator/party_config/party_config.h"
#include "deploy/operator/tune/derived_files.h"
#include "deploy/operator/tune/search.h"

#include "common/config/agreement.h"
#include "common/dataset/prepared_data.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

struct BaselineFlags {
  std::string agreement, config;
};

// A run under the same protection, account, policy and ledger. Only what a run leaves behind goes elsewhere, so that
// neither model takes the other's place.
void KeepApart(std::string* path) {
  if (!path->empty()) {
    absl::StrAppend(path, ".", kBaseline.name);
  }
}

void KeepApart(v1::PartyCommon& party) {
  KeepApart(party.mutable_checkpoint_path());
  KeepApart(party.mutable_export_dir());
}

// One column carries one logit: of several classes it would be a poorer model than logistic regression.
absl::Status CheckTask(const v1::LabelPartyConfig& config, const v1::RunAgreement& agreement) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::shared_ptr<const Dataset> data,
                             OpenPreparedData(config.party(), agreement, PreparedFor::kLabelParty));
  return data->task().kind != Task::Kind::kMultiClass
             ? absl::OkStatus()
             : absl::InvalidArgumentError(
                   absl::StrCat(data->path(), ": a baseline needs a label of two values or a number, found one of ",
                                data->task().classes, " classes, for which one column of activations is too few"));
}

absl::Status CheckTask(const v1::NonLabelPartyConfig& /*config*/, const v1::RunAgreement& /*agreement*/) {
  return absl::OkStatus();
}

// What the baseline adds to what is known of this party's data.
std::string CostWords(const v1::LabelPartyConfig& config) {
  const v1::GradientProtection& protection = config.protection();
  return protection.has_gaussian_label_dp() || (protection.has_label_dp() && config.has_privacy_account())
             ? "It learns from the same noised labels as the model: the privacy account counts them once for both "
               "runs.\n"
             : "It is a run: what it releases of the labels adds to what the model's run releases.\n";
}

std::string CostWords(const v1::NonLabelPartyConfig& config) {
  return config.has_privacy_account() ? "The privacy account counts it like any run, in addition to the model's.\n"
                                      : "";
}

v1::LabelPartyConfig& ConfigIn(RunFiles& files, const v1::LabelPartyConfig& /*role*/) { return files.label_config; }
v1::NonLabelPartyConfig& ConfigIn(RunFiles& files, const v1::NonLabelPartyConfig& /*role*/) {
  return files.nonlabel_config;
}

template <typename Config>
absl::Status WriteBaseline(const BaselineFlags& flags, const char* program, const Config& loaded) {
  RunFiles files;
  Config& config = ConfigIn(files, loaded);
  SPLITVEIL_RETURN_IF_ERROR(ReadAsWritten(flags.agreement, files.agreement));
  SPLITVEIL_RETURN_IF_ERROR(ReadAsWritten(flags.config, config));
  Apply(LinearSettings(), files);
  files.agreement.set_run_name(absl::StrCat(files.agreement.run_name(), "-", kBaseline.name));
  KeepApart(*config.mutable_party());
  const std::string why = "Train it like the model itself; a report on both runs compares them.";
  SPLITVEIL_RETURN_IF_ERROR(WriteDerived(kBaseline, flags.agreement, why, files.agreement));
  SPLITVEIL_RETURN_IF_ERROR(WriteDerived(kBaseline, flags.config, why, config));
  // As the programs will read them.
  const std::string agreement_path = DerivedPath(kBaseline, flags.agreement);
  const std::string config_path = DerivedPath(kBaseline, flags.config);
  SPLITVEIL_ASSIGN_OR_RETURN(const v1::RunAgreement agreement, LoadAgreement(agreement_path));
  SPLITVEIL_ASSIGN_OR_RETURN(const PartyConfig own, LoadPartyConfig(config_path, program));
  SPLITVEIL_RETURN_IF_ERROR(CheckAgainstOwn(agreement, own, config_path));
  std::printf("%s\n%s\nagreement fingerprint  %s\n%snext:\n  %s --agreement=%s --config=%s\n", agreement_path.c_str(),
              config_path.c_str(), AgreementFingerprint(agreement).c_str(), CostWords(config).c_str(), program,
              agreement_path.c_str(), config_path.c_str());
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> Baseline(const BaselineFlags& flags) {
  SPLITVEIL_ASSIGN_OR_RETURN(const v1::RunAgreement agreement, LoadAgreement(flags.agreement));
  if (agreement.mode() == v1::RunAgreement::PREDICT) {
    return absl::InvalidArgumentError(absl::StrCat(flags.agreement, ": mode: expected TRAIN, found PREDICT"));
  }
  for (const std::string& path : {flags.agreement, flags.config}) {
    SPLITVEIL_RETURN_IF_ERROR(CheckDerivedPath(kBaseline, path));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const PartyConfig own, LoadPartyConfig(flags.config));
  SPLITVEIL_RETURN_IF_ERROR(std::visit([&](const auto& config) { return CheckTask(config, agreement); }, own));
  const char* const program = std::holds_alternative<v1::LabelPartyConfig>(own) ? kLabelPartyRole : kNonLabelPartyRole;
  SPLITVEIL_RETURN_IF_ERROR(std::visit([&](const auto& config) { return WriteBaseline(flags, program, config); }, own));
  return ExitCode::kDone;
}

}  // namespace

void AddBaselineCommand(CommandLine& line) {
  const auto flags = std::make_shared<BaselineFlags>();
  CLI::App& command = line.AddCommand(
      {"baseline",
       "Write the files of a run of logistic regression on the same columns, beside those of the model: each party "
       "writes its own, both train it first, and the report compares the model with it.",
       "splitveil baseline --agreement=bank/run.textproto --config=bank/party.textproto", "Before a run"},
      [flags] { return Baseline(*flags); });
  AddValue(command, "--agreement=FILE", flags->agreement, "The run's agreement, the same file at both parties.")
      ->required();
  AddValue(command, "--config=FILE", flags->config, "This party's configuration.")->required();
}

}  // namespace splitveil
