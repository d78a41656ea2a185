#include "deploy/operator/align/align_command.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/operator/align/alignment_call.h"
#include "deploy/operator/align/alignment_host.h"
#include "deploy/operator/party_config/party_config.h"

#include "common/config/agreement.h"
#include "common/dataset/prepared_data.h"
#include "common/operations/party_program.h"
#include "common/process/file.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

struct AlignFlags {
  std::string agreement;
  std::string config;
  std::string role;
  std::string out;
};

// One id per line, in the order of the own data: that of the alignment is random.
absl::Status WriteSharedIds(const std::string& path, const FinishedAlignment& finished, const Dataset& data) {
  std::vector<uint32_t> rows = finished.aligned.rows;
  std::sort(rows.begin(), rows.end());
  std::string text;
  for (const uint32_t row : rows) {
    absl::StrAppend(&text, data.ids()[row], "\n");
  }
  return WriteFile(path, text, kOwnerOnly);  // Who is a customer of both is neither's to publish.
}

absl::StatusOr<ExitCode> Align(const AlignFlags& flags) {
  AlignmentSide side;
  SPLITVEIL_ASSIGN_OR_RETURN(side.agreement, LoadAgreement(flags.agreement));
  SPLITVEIL_ASSIGN_OR_RETURN(const PartyConfig config, LoadPartyConfig(flags.config, flags.role));
  const auto* const label = std::get_if<v1::LabelPartyConfig>(&config);
  const auto* const nonlabel = std::get_if<v1::NonLabelPartyConfig>(&config);
  const v1::PartyCommon& party = label != nullptr ? label->party() : nonlabel->party();
  const PreparedFor owner = label != nullptr ? PreparedFor::kLabelParty : PreparedFor::kNonLabelParty;
  SPLITVEIL_ASSIGN_OR_RETURN(side.identity, LoadPartyIdentity(party.identity(), flags.config));
  SPLITVEIL_ASSIGN_OR_RETURN(side.data, OpenPreparedData(party, flags.config, side.agreement, owner));
  RequireTls13();
  SPLITVEIL_ASSIGN_OR_RETURN(const FinishedAlignment finished, label != nullptr
                                                                   ? HostAlignment(side, label->listen_address())
                                                                   : CallAlignment(side, nonlabel->peer_address()));
  if (!flags.out.empty()) {
    SPLITVEIL_RETURN_IF_ERROR(WriteSharedIds(flags.out, finished, *side.data));
  }
  std::printf("%s: %lld own rows, %zu shared, %llu rows of the peer, %.1f s, %lld bytes sent, %lld received\n",
              label != nullptr ? kLabelPartyRole : kNonLabelPartyRole, static_cast<long long>(side.data->rows()),
              finished.aligned.rows.size(), static_cast<unsigned long long>(finished.aligned.peer_ids),
              finished.seconds, static_cast<long long>(finished.bytes_sent),
              static_cast<long long>(finished.bytes_received));
  return ExitCode::kDone;
}

}  // namespace

void AddAlignCommand(CommandLine& line) {
  const auto flags = std::make_shared<AlignFlags>();
  CLI::App& command = line.AddCommand(
      {"align", "Find the rows that both parties share, without training; both parties run it.",
       "splitveil align --agreement=run.textproto --config=label_party.textproto --out=shared_ids", "Before a run"},
      [flags] { return Align(*flags); });
  command.add_option("--agreement", flags->agreement, "The run agreement, the same file at both parties.")
      ->type_name("FILE")
      ->required();
  command.add_option("--config", flags->config, "This party's private configuration.")->type_name("FILE")->required();
  command.add_option("--role", flags->role, "Whose configuration it is.")
      ->type_name("PARTY")
      ->default_str("inferred from its fields")
      ->check(OneOf({kLabelPartyRole, kNonLabelPartyRole}));
  command
      .add_option("--out", flags->out,
                  "Write this party's shared ids to this file, one per line, readable only by its owner.")
      ->type_name("FILE");
}

}  // namespace splitveil
