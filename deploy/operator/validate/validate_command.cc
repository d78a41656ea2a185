#include <cstdio>
#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "deploy/operator/command.h"

#include "common/architecture/model_spec.h"
#include "common/config/agreement.h"
#include "common/config/text_config.h"
#include "common/status/status_macros.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {
namespace {

// Fills `config` from the file that the flag `name` gives; leaves it empty where the flag is absent.
template <typename Config>
absl::Status Load(const Flags& flags, const std::string& name, std::optional<Config>& config) {
  if (flags.Get(name).empty()) {
    return absl::OkStatus();
  }
  return LoadTextConfig(flags.Get(name), config.emplace());
}

absl::Status Mismatch(absl::string_view file, absl::string_view field, absl::string_view expected,
                      absl::string_view found) {
  return absl::InvalidArgumentError(absl::StrCat(file, ": ", field, ": expected ", expected, ", found ", found));
}

absl::Status Within(const std::string& file, const absl::Status& status) {
  return status.ok() ? status : absl::Status(status.code(), absl::StrCat(file, ": ", status.message()));
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

absl::Status Validate(const Flags& flags) {
  std::optional<v1::RunAgreement> agreement;
  if (!flags.Get("agreement").empty()) {
    SPLITVEIL_ASSIGN_OR_RETURN(agreement, LoadAgreement(flags.Get("agreement")));
  }
  std::optional<v1::LabelPartyConfig> label;
  std::optional<v1::NonLabelPartyConfig> nonlabel;
  absl::Status status = Load(flags, "label_config", label);
  if (status.ok()) {
    status = Load(flags, "nonlabel_config", nonlabel);
  }
  if (status.ok() && !agreement && !label && !nonlabel) {
    return absl::InvalidArgumentError(
        "command line: expected --agreement, --label_config or --nonlabel_config, found none");
  }
  if (status.ok() && agreement && label) {
    status = Within(flags.Get("label_config"), CheckTopSpec(label->model(), *agreement));
  }
  if (status.ok() && agreement && nonlabel) {
    status = Within(flags.Get("nonlabel_config"), CheckBottomSpec(nonlabel->model(), *agreement));
  }
  if (status.ok() && label && nonlabel) {
    status = CheckNames(label->party().identity(), nonlabel->party().identity(), flags.Get("nonlabel_config"));
  }
  if (!status.ok()) {
    return status;
  }
  if (agreement) {
    std::printf("%s: valid, SHA-256 %s\n", flags.Get("agreement").c_str(),
                absl::BytesToHexString(AsBytes(AgreementSha256(*agreement))).c_str());
  }
  for (const char* name : {"label_config", "nonlabel_config"}) {
    if (!flags.Get(name).empty()) {
      std::printf("%s: valid\n", flags.Get(name).c_str());
    }
  }
  return absl::OkStatus();
}

}  // namespace

Command ValidateCommand() {
  return {"validate",
          "Check an agreement and the parties' configurations, each and against each other.",
          {{"agreement", "", "The run agreement (run.textproto)."},
           {"label_config", "", "The label party's configuration."},
           {"nonlabel_config", "", "The non-label party's configuration."}},
          Validate};
}

}  // namespace splitveil
