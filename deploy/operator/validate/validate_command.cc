#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "deploy/operator/commands.h"
#include "deploy/operator/party_config/party_config.h"

#include "common/architecture/model_spec.h"
#include "common/config/agreement.h"
#include "common/status/status_context.h"
#include "common/status/status_macros.h"
#include "label_party/policy/label_config.h"
#include "label_party/policy/release_gate.h"
#include "label_party/protection/protection_factory.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {
namespace {

struct ValidateFlags {
  std::string agreement;
  std::vector<std::string> configs;
  std::string label_config;
  std::string nonlabel_config;
};

// A configuration and its file.
template <typename Config>
struct Named {
  std::string path;
  std::optional<Config> config;
};

struct Configurations {
  Named<v1::LabelPartyConfig> label;
  Named<v1::NonLabelPartyConfig> nonlabel;
};

absl::Status Mismatch(absl::string_view file, absl::string_view field, absl::string_view expected,
                      absl::string_view found) {
  return absl::InvalidArgumentError(absl::StrCat(file, ": ", field, ": expected ", expected, ", found ", found));
}

// Each party must expect the name that the other has.
absl::Status CheckNames(const v1::Identity& label, const v1::Identity& nonlabel, const std::string& nonlabel_file) {
  if (!absl::EqualsIgnoreCase(nonlabel.own_name(), label.peer_name())) {
    return Mismatch(nonlabel_file, "party.identity.own_name",
                    absl::StrCat("the label party's peer_name ", label.peer_name()), nonlabel.own_name());
  }
  if (!absl::EqualsIgnoreCase(nonlabel.peer_name(), label.own_name())) {
    return Mismatch(nonlabel_file, "party.identity.peer_name",
                    absl::StrCat("the label party's own_name ", label.own_name()), nonlabel.peer_name());
  }
  return absl::OkStatus();
}

template <typename Config>
absl::Status Put(const std::string& path, Config config, Named<Config>& place) {
  if (place.config.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("command line: expected one configuration of each party, found ", place.path, " and ", path));
  }
  place = {path, std::move(config)};
  return absl::OkStatus();
}

absl::StatusOr<Configurations> LoadAll(const ValidateFlags& flags) {
  std::vector<std::pair<std::string, const char*>> files;
  for (const std::string& path : flags.configs) {
    files.emplace_back(path, "");
  }
  if (!flags.label_config.empty()) {
    files.emplace_back(flags.label_config, kLabelPartyRole);
  }
  if (!flags.nonlabel_config.empty()) {
    files.emplace_back(flags.nonlabel_config, kNonLabelPartyRole);
  }
  Configurations loaded;
  for (const auto& [path, role] : files) {
    SPLITVEIL_ASSIGN_OR_RETURN(PartyConfig config, LoadPartyConfig(path, role));
    SPLITVEIL_RETURN_IF_ERROR(std::holds_alternative<v1::LabelPartyConfig>(config)
                                  ? Put(path, std::get<v1::LabelPartyConfig>(std::move(config)), loaded.label)
                                  : Put(path, std::get<v1::NonLabelPartyConfig>(std::move(config)), loaded.nonlabel));
  }
  return loaded;
}

absl::Status CheckTogether(const Configurations& configs, const std::optional<v1::RunAgreement>& agreement) {
  const auto& [label, nonlabel] = configs;
  if (label.config) {
    v1::GradientProtection protection = label.config->protection();
    FillPlannedEpochs(agreement ? agreement->epochs() : 1, protection);
    SPLITVEIL_RETURN_IF_ERROR(Within(label.path, ReleaseGate::Create(label.config->release(), protection).status()));
  }
  if (agreement && label.config) {
    SPLITVEIL_RETURN_IF_ERROR(Within(label.path, ValidateLabelConfig(*label.config, *agreement)));
  }
  if (agreement && nonlabel.config) {
    SPLITVEIL_RETURN_IF_ERROR(Within(nonlabel.path, CheckBottomSpec(nonlabel.config->model(), *agreement)));
  }
  if (label.config && nonlabel.config) {
    return CheckNames(label.config->party().identity(), nonlabel.config->party().identity(), nonlabel.path);
  }
  return absl::OkStatus();
}

// Layers that only a model can confirm, as the agreement alone has none: "cut_layer \"third\", audit.layers[0]
// \"first\"".
std::string UncheckedLayers(const v1::RunAgreement& agreement) {
  std::vector<std::string> unchecked;
  if (!agreement.cut_layer().empty()) {
    unchecked.push_back(absl::StrCat("cut_layer \"", agreement.cut_layer(), "\""));
  }
  for (int l = 0; l < agreement.audit().layers_size(); ++l) {
    if (agreement.audit().layers(l) != kCutName) {
      unchecked.push_back(absl::StrCat("audit.layers[", l, "] \"", agreement.audit().layers(l), "\""));
    }
  }
  return absl::StrJoin(unchecked, ", ");
}

void PrintAgreement(const std::string& path, const v1::RunAgreement& agreement, const Configurations& configs) {
  std::printf("%s: valid, SHA-256 %s\n", path.c_str(),
              absl::BytesToHexString(AsBytes(AgreementSha256(agreement))).c_str());
  std::printf("%s: fingerprint, to compare by voice: %s\n", path.c_str(), AgreementFingerprint(agreement).c_str());
  const std::string unchecked = UncheckedLayers(agreement);
  if (!unchecked.empty() && !configs.nonlabel.config) {
    std::printf("%s: not checked: %s; the layers are in the non-label party's configuration (--config=FILE)\n",
                path.c_str(), unchecked.c_str());
  }
}

absl::StatusOr<ExitCode> Validate(const ValidateFlags& flags) {
  std::optional<v1::RunAgreement> agreement;
  if (!flags.agreement.empty()) {
    SPLITVEIL_ASSIGN_OR_RETURN(agreement, LoadAgreement(flags.agreement));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const Configurations configs, LoadAll(flags));
  if (!agreement && !configs.label.config && !configs.nonlabel.config) {
    return absl::InvalidArgumentError("command line: expected --agreement or --config, found neither");
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckTogether(configs, agreement));
  if (agreement) {
    PrintAgreement(flags.agreement, *agreement, configs);
  }
  for (const std::string& path : {configs.label.path, configs.nonlabel.path}) {
    if (!path.empty()) {
      std::printf("%s: valid\n", path.c_str());
    }
  }
  return ExitCode::kDone;
}

}  // namespace

void AddValidateCommand(CommandLine& line) {
  const auto flags = std::make_shared<ValidateFlags>();
  CLI::App& command =
      line.AddCommand({"validate",
                       "Check the run agreement and the parties' configurations, each file and all together. It reads "
                       "no other file: `label_party --dry_run` and `nonlabel_party --dry_run` also check certificates, "
                       "data, ledgers and privacy accounts.",
                       "splitveil validate --agreement=run.textproto --config=label_party.textproto", "Before a run"},
                      [flags] { return Validate(*flags); });
  AddValue(command, "--agreement=FILE", flags->agreement, "The run agreement.");
  AddValue(command, "--config=FILE", flags->configs, "A party's configuration; its fields show which party it is for.");
  AddValue(command, "--label_config=FILE", flags->label_config, "The label party's configuration.");
  AddValue(command, "--nonlabel_config=FILE", flags->nonlabel_config, "The non-label party's configuration.");
}

}  // namespace splitveil
