#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "deploy/operator/agreement/agreed_values.h"
#include "deploy/operator/commands.h"
#include "deploy/operator/party_config/party_config.h"

#include "common/config/agreement.h"
#include "common/config/text_config.h"
#include "common/crypto/sha256.h"
#include "common/process/file.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr char kGroup[] = "Before a run";
constexpr char kOwnName[] = "run.textproto";

struct AgreementFlags {
  std::string agreement;
  std::string proposal;
  std::string config;
  std::string fingerprint;
  std::vector<std::string> allowed;
  bool force = false;
};

void PrintFingerprint(const v1::RunAgreement& agreement) {
  std::printf("fingerprint  %s\n", AgreementFingerprint(agreement).c_str());
  std::printf("Compare it by voice with the other party's: it stands for every value above.\n");
}

// One line per flagged value, of either party.
void PrintDisclosures(const std::vector<AgreedValue>& values) {
  for (const AgreedValue& value : values) {
    if (value.discloses_more != Concern::kNone) {
      std::printf("! %s tells more of %s than the default does\n", value.field.c_str(),
                  value.discloses_more == Concern::kLabels     ? "the label party's labels"
                  : value.discloses_more == Concern::kFeatures ? "the non-label party's features"
                                                               : "either party's data");
    }
  }
}

absl::StatusOr<ExitCode> Show(const AgreementFlags& flags) {
  SPLITVEIL_ASSIGN_OR_RETURN(const v1::RunAgreement agreement, LoadAgreement(flags.agreement));
  const std::vector<AgreedValue> values = AgreedValues(agreement);
  std::printf("%s", AgreedValuesText(values).c_str());
  PrintDisclosures(values);
  if (!flags.config.empty()) {
    SPLITVEIL_ASSIGN_OR_RETURN(const PartyConfig config, LoadPartyConfig(flags.config));
    SPLITVEIL_RETURN_IF_ERROR(CheckAgainstOwn(agreement, config, flags.config));
    std::printf("%s: can keep it\n", flags.config.c_str());
  }
  PrintFingerprint(agreement);
  return ExitCode::kDone;
}

// Takes the proposal as it is into this party's own folder.
absl::Status Keep(const std::string& text, const std::string& path, bool force) {
  if (force || std::filesystem::exists(path)) {
    const absl::StatusOr<std::string> there = ReadFile(path);
    if (there.ok() && *there == text) {
      return absl::OkStatus();
    }
    return force ? WriteFile(path, text, kPublicMode)
                 : absl::AlreadyExistsError(
                       absl::StrCat(path, ": holds a different agreement already; --force replaces it"));
  }
  return CreateFile(path, text, kPublicMode);
}

absl::StatusOr<ExitCode> Accept(const AgreementFlags& flags) {
  // Read once: what is kept is what was checked, whatever happens to the file meanwhile.
  SPLITVEIL_ASSIGN_OR_RETURN(const std::string text, ReadTextConfig(flags.proposal));
  SPLITVEIL_ASSIGN_OR_RETURN(const v1::RunAgreement agreement, ParseAgreement(text, flags.proposal));
  SPLITVEIL_ASSIGN_OR_RETURN(const PartyConfig config, LoadPartyConfig(flags.config));
  const std::vector<AgreedValue> values = AgreedValues(agreement);
  const std::string fingerprint = AgreementFingerprint(agreement);
  if (!flags.fingerprint.empty() && !SameFingerprint(flags.fingerprint, fingerprint)) {
    return absl::InvalidArgumentError(absl::StrCat(flags.proposal, ": expected the fingerprint ", flags.fingerprint,
                                                   ", found ", fingerprint,
                                                   ": this is not the file that the other party means"));
  }
  const std::vector<std::string> refused = NotAllowed(values, config, flags.allowed);
  if (!refused.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(flags.proposal, ": ", absl::StrJoin(refused, ", "),
                     ": these values may reveal more about this party's data than the defaults "
                     "(`splitveil agreement show` explains them): accept them with --allow=",
                     absl::StrJoin(refused, ",")));
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckAgainstOwn(agreement, config, flags.config));
  const std::string path = (std::filesystem::path(flags.config).parent_path() / kOwnName).string();
  SPLITVEIL_RETURN_IF_ERROR(Keep(text, path, flags.force));
  std::printf("%s", AgreedValuesText(values).c_str());
  PrintDisclosures(values);
  std::printf("%s: accepted\n", path.c_str());
  PrintFingerprint(agreement);
  return ExitCode::kDone;
}

}  // namespace

void AddAgreementCommands(CommandLine& line) {
  const auto show = std::make_shared<AgreementFlags>();
  CLI::App& show_command = line.AddCommand(
      {"agreement show", "Every value of an agreement, what it means or discloses, and the agreement's fingerprint.",
       "splitveil agreement show --agreement=run.textproto", kGroup},
      [show] { return Show(*show); });
  AddValue(show_command, "--agreement=FILE", show->agreement, "The agreement, or a proposal of one.")->required();
  AddValue(show_command, "--config=FILE", show->config, "This party's configuration, to check whether it can keep it.");

  const auto accept = std::make_shared<AgreementFlags>();
  CLI::App& accept_command = line.AddCommand(
      {"agreement accept",
       "Check the other party's proposal against this party's configuration, data and defaults, and save it as "
       "run.textproto beside the configuration.",
       "splitveil agreement accept --proposal=received.textproto --config=shop/party.textproto", kGroup},
      [accept] { return Accept(*accept); });
  AddValue(accept_command, "--proposal=FILE", accept->proposal, "The file that the other party sent.")->required();
  AddValue(accept_command, "--config=FILE", accept->config, "This party's configuration.")->required();
  AddValue(accept_command, "--fingerprint=DIGITS", accept->fingerprint,
           "Fingerprint that the other party read to you; a proposal with a different one is refused.");
  accept_command
      .add_option("--allow", accept->allowed,
                  "Fields that may reveal more about this party's data than the default, such as audit.disclosure.")
      ->delimiter(',')
      ->type_name("FIELD,...");
  accept_command.add_flag("--force", accept->force, "Replace an agreement that was accepted before.");
}

}  // namespace splitveil
