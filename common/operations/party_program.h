// The command line both parties' programs share.
#ifndef SPLITVEIL_COMMON_OPERATIONS_PARTY_PROGRAM_H_
#define SPLITVEIL_COMMON_OPERATIONS_PARTY_PROGRAM_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"

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
  // `PROGRAM serve --config=...`: serves until SIGTERM or SIGINT. For its --help, `serve_summary`: one sentence;
  // `serve_config`: a file's name, as the documents have it.
  const char* serve_summary;
  const char* serve_config;
  std::function<absl::Status(const std::string& config_path)> serve;
};

// The whole of main: process settings, flags (--agreement, --config, --check, --dry_run, --verbose, --help, --version;
// of `serve` --config), exit code.
int RunPartyProgram(const PartyProgram& program, int argc, char** argv);

// Checks that the ledger can be written (CheckLedgerPath), as a run does before it waits for its peer. Errors: as
// CheckLedgerPath, after the configuration file and the field.
absl::Status CheckLedgerOf(const v1::PartyCommon& party, const std::string& config_path);

// Checks that the run could write its ledger and its export, and listen at `listen_address` and elsewhere for its
// monitoring. Leaves nothing behind. Errors: NotFound, InvalidArgument as one line: file, field, expected, found.
absl::Status CheckPlaces(const v1::PartyCommon& party, const std::string& listen_address,
                         const std::string& config_path);

// Removes every other user's access to the files that a party's configuration marks as (owner_only): data, ledger,
// checkpoints and what else reveals ids or labels. Splitveil writes such files for their owner alone, but copies
// are as the umask has it. With a warning for each, also for one that is another user's and
// stays as it is. For a run; --check changes nothing.
void KeepForOwnerAlone(const google::protobuf::Message& config);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_OPERATIONS_PARTY_PROGRAM_H_
