#include "common/operations/party_program.h"

#include <iostream>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/config/text_config.h"
#include "common/process/exit_code.h"
#include "common/process/flags.h"
#include "common/process/runtime.h"
#include "common/process/version.h"

namespace splitveil {

int RunPartyProgram(const PartyProgram& program, int argc, char** argv) {
  TuneRuntime(argv);
  RequireTls13();
  const std::vector<FlagSpec> specs = {{"agreement", "", "the run agreement both parties share (run.textproto)"},
                                       {"config", "", "this party's private configuration"},
                                       {"check", "", "validate both files and exit", false, true},
                                       {"help", "", "show this help", false, true},
                                       {"version", "", "show the version", false, true}};
  const absl::StatusOr<Flags> flags = Flags::Parse(argc, argv, 1, specs);
  if (!flags.ok()) {
    return Exit(program.name, flags.status());
  }
  if (flags->GetSwitch("help")) {
    std::cout << Flags::Help(absl::StrCat(program.name, " --agreement=FILE --config=FILE [--check]"), specs);
    return 0;
  }
  if (flags->GetSwitch("version")) {
    std::cout << program.name << " " << Version() << "\n";
    return 0;
  }
  for (const char* name : {"agreement", "config"}) {
    if (flags->Get(name).empty()) {
      return Exit(program.name,
                  absl::InvalidArgumentError(absl::StrCat("--", name, ": expected a file, found nothing")));
    }
  }
  const bool check_only = flags->GetSwitch("check");
  if (!check_only) {
    WarnIfSlowBlas();
    HandleStopSignals();
  }
  return Exit(program.name, program.run(flags->Get("agreement"), flags->Get("config"), check_only));
}

absl::StatusOr<TlsIdentity> LoadPartyIdentity(const v1::Identity& identity, const std::string& config_path) {
  return LoadTlsIdentity(
      identity.own_name(), identity.peer_name(), ResolvePath(config_path, identity.certificate_path()),
      ResolvePath(config_path, identity.private_key_path()), ResolvePath(config_path, identity.authority_path()));
}

}  // namespace splitveil
