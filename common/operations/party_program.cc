#include "common/operations/party_program.h"

#include <cstdio>

#include "absl/strings/str_cat.h"

#include "common/command_line/command_line.h"
#include "common/config/text_config.h"
#include "common/process/runtime.h"
#include "common/status/status_macros.h"

namespace splitveil {

int RunPartyProgram(const PartyProgram& program, int argc, char** argv) {
  TuneRuntime(argv);
  RequireTls13();
  std::string agreement, config;
  PartyFlags flags;
  bool dry_run = false;
  const auto run = [&]() -> absl::StatusOr<ExitCode> {
    if (dry_run) {
      const DryRun found = program.dry_run(agreement, config);
      std::printf("%s", found.Text().c_str());
      SPLITVEIL_RETURN_IF_ERROR(found.status());
      return ExitCode::kDone;
    }
    if (!flags.check_only) {
      WarnIfSlowBlas();
      HandleStopSignals();
      HandleReloadSignal();
    }
    SPLITVEIL_RETURN_IF_ERROR(program.run(agreement, config, flags));
    return ExitCode::kDone;
  };
  CommandLine line({program.name, program.summary,
                    absl::StrCat(program.name, " --agreement=run.textproto --config=", program.name, ".textproto")},
                   run);
  CLI::App& app = line.program();
  app.add_option("--agreement", agreement, "The run agreement, the same file at both parties.")
      ->type_name("FILE")
      ->required();
  app.add_option("--config", config, "This party's private configuration.")->type_name("FILE")->required();
  app.add_flag("--check", flags.check_only,
               "Open everything that the run would open, without a peer and without writing anything, then exit.");
  app.add_flag("--dry_run", dry_run,
               "Check everything that can be checked without a peer, list what is ok and what is a problem, with the "
               "memory and the time to expect, then exit.");
  app.add_flag("--verbose", flags.verbose_summary, "End with the whole summary, attack by attack.");
  return line.Main(argc, argv);
}

absl::StatusOr<TlsIdentity> LoadPartyIdentity(const v1::Identity& identity, const std::string& config_path) {
  return LoadTlsIdentity(
      identity.own_name(), identity.peer_name(), ResolvePath(config_path, identity.certificate_path()),
      ResolvePath(config_path, identity.private_key_path()), ResolvePath(config_path, identity.authority_path()));
}

}  // namespace splitveil
