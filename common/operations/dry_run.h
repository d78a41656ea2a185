// What --dry_run of either party found, check by check.
#ifndef SPLITVEIL_COMMON_OPERATIONS_DRY_RUN_H_
#define SPLITVEIL_COMMON_OPERATIONS_DRY_RUN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/config/text_config.h"
#include "common/dataset/dataset.h"
#include "common/dataset/prepared_data.h"
#include "common/transport/tls_identity.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {

// A list of checks, each ok, a warning or a problem. Never holds a label, an id or a row. Not thread-safe.
class DryRun {
 public:
  // What has been looked at, and how it stands: `detail` where `status` is OK, else its message. Returns whether it is.
  bool Check(absl::string_view what, const absl::Status& status, absl::string_view detail = "");
  // Something that does not stop a run, but that a person should know.
  void Warn(absl::string_view what, absl::string_view text);
  void Problem(absl::string_view what, absl::string_view text);

  // One line per check: "ok       certificates   ...", in the order of the calls.
  std::string Text() const;
  // OK without problems; else InvalidArgument "dry run: 2 of 9 checks failed, the first: ...".
  absl::Status status() const;

 private:
  enum class Outcome { kOk, kWarning, kProblem };
  struct Item {
    Outcome outcome;
    std::string what;
    std::string text;
  };

  std::vector<Item> items_;
};

// Estimates, from what deploy/OPERATIONS.md ("Sizing") measured with Wide & Deep on two virtual processors that both
// parties shared, scaled by rows, epochs, cut width and processors; the peer is taken to have as many rows, all of them
// shared. Right within a factor of two or so on such hardware; slower models, attacks on every batch and a slow link
// take longer.
struct RunExpectation {
  int64_t peak_memory_bytes = 0;  // At the end of the alignment.
  double alignment_seconds = 0;
  double training_seconds = 0;  // Without the network.
  double bytes_each_way = 0;    // Of activations, and of gradients.
};

// `embedding_rows`: of the party's data (Preprocessing.embedding_rows); `processors`: at least 1. Thread-safe.
RunExpectation ExpectRun(const v1::RunAgreement& agreement, int64_t rows, int64_t embedding_rows, int processors);
// Memory that this machine can still give, in bytes, as the kernel says (MemAvailable); 0: not known.
int64_t AvailableMemoryBytes();

// The identity a configuration names. Errors as LoadTlsIdentity.
absl::StatusOr<TlsIdentity> LoadPartyIdentity(const v1::Identity& identity);

// Each adds its findings to `dry_run`.

// That the agreement is valid, with its fingerprint; nullopt where it is not.
std::optional<v1::RunAgreement> DryRunAgreement(const std::string& path, DryRun& dry_run);
// What needs only the party's configuration. That certificates, names, keys and dates fit (LoadTlsIdentity), with a
// warning of certificates that end soon; and whether the ledger has room for one more alignment
// (PartyCommon.max_alignments; a run that resumes from a checkpoint needs none).
void DryRunConfiguration(const v1::PartyCommon& party, DryRun& dry_run);
// That the data are this party's, and of the agreed split; null where they are not.
std::shared_ptr<const Dataset> DryRunData(const v1::PartyCommon& party, const v1::RunAgreement& agreement,
                                          PreparedFor owner, DryRun& dry_run);
// What the run will need, against what the machine has.
void DryRunExpectation(const v1::RunAgreement& agreement, const Dataset& data, DryRun& dry_run);

// A party's whole dry run. Agreement and configuration first; if both are valid, `parts`, which checks them together
// and with the data, each with a line of its own; at last `whole`, which opens all that the run would open and stops at
// the first problem.
template <typename Config>
DryRun DryRunParty(const std::string& agreement_path, const std::string& config_path,
                   absl::FunctionRef<void(const v1::RunAgreement&, const Config&, DryRun&)> parts,
                   absl::FunctionRef<absl::Status()> whole) {
  DryRun dry_run;
  const std::optional<v1::RunAgreement> agreement = DryRunAgreement(agreement_path, dry_run);
  Config config;
  if (dry_run.Check("configuration", LoadTextConfig(config_path, config), config_path)) {
    DryRunConfiguration(config.party(), dry_run);
    if (agreement.has_value()) {
      parts(*agreement, config, dry_run);
      dry_run.Check("whole run", whole(), "opens, fits, and can write and listen where it is to");
    }
  }
  return dry_run;
}

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_OPERATIONS_DRY_RUN_H_
