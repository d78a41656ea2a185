// The command line both parties' programs share.
#ifndef SPLITVEIL_COMMON_OPERATIONS_PARTY_PROGRAM_H_
#define SPLITVEIL_COMMON_OPERATIONS_PARTY_PROGRAM_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/operations/dry_run.h"
#include "common/transport/credentials.h"

#include "splitveil/v1/party.pb.h"

namespace splitveil {

// What the command line asks of a run.
struct PartyFlags {
  bool check_only = false;       // Validate, do not run.
  bool verbose_summary = false;  // End with every line of the summary (run_summary.h).
};

struct PartyProgram {
  const char* name;     // "label_party" or "nonlabel_party".
  const char* summary;  // One sentence, for --help.
  // Validates both files and, unless `flags.check_only`, runs to the end.
  std::function<absl::Status(const std::string& agreement_path, const std::string& config_path,
                             const PartyFlags& flags)>
      run;
  // All that can be checked without the peer, check by check.
  std::function<DryRun(const std::string& agreement_path, const std::string& config_path)> dry_run;
};

// The whole of main: process settings, flags (--agreement, --config, --check, --dry_run, --verbose, --help, --version),
// exit code.
int RunPartyProgram(const PartyProgram& program, int argc, char** argv);

// The identity a configuration names; its paths are relative to the configuration file's folder. Errors as
// LoadTlsIdentity.
absl::StatusOr<TlsIdentity> LoadPartyIdentity(const v1::Identity& identity, const std::string& config_path);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_OPERATIONS_PARTY_PROGRAM_H_
