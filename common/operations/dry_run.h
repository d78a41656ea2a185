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
#include "common/privacy_account/privacy_account.h"
#include "common/transport/certificate.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {

// A list of checks, each ok, a warning or a problem. Never holds a label, an id or a row. Not thread-safe.
class DryRun {
 public:
  // What has been looked at, and how it stands: `detail` if `status` is OK, else its message. Returns whether it is.
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

// What this machine takes.
struct MachineSpeed {
  double id_seconds = 0;    // Of one processor, for an own id and one of the peer's in an alignment.
  double step_seconds = 0;  // Of this party's half of the model, for a batch.
};

// Of one processor in an alignment, measured for about a second. Error: Internal if an id could not be masked.
struct MaskingSpeed {
  double own_seconds = 0;   // An own id, which is hashed and masked.
  double peer_seconds = 0;  // A masked id of the peer's.
};
absl::StatusOr<MaskingSpeed> MeasureMasking();
// Peak memory of a party with `ids` ids that aligns with a peer that has `peer_ids`, in buckets of `bucket_ids`.
double AlignmentMemoryBytes(uint64_t ids, uint64_t peer_ids, uint64_t bucket_ids);

// Measured for about a second each. `step`: one training step of this party's half on rows of its table; nothing of it
// is kept. Errors: those of `step`.
absl::StatusOr<MachineSpeed> MeasureMachine(absl::FunctionRef<absl::Status()> step);

// Memory as deploy/OPERATIONS.md ("Sizing") measured it, times from this machine's speed. All rows are taken to be
// shared, and the peer to have as many and, for the alignment, a machine like this one. Attacks on batches and a slow
// link take longer.
struct RunExpectation {
  int64_t peak_memory_bytes = 0;  // At the end of the alignment.
  double alignment_seconds = 0;
  // This party's half. The halves mostly work in turn, so the peer's own adds to it: it may be many times as long, as
  // the halves differ in columns and layers, which neither party knows of the other.
  double training_seconds = 0;
  double bytes_each_way = 0;  // Of activations, and of gradients.
};

// `embedding_rows`: of the party's data (Preprocessing.embedding_rows); `processors`: at least 1. Thread-safe.
RunExpectation ExpectRun(const v1::RunAgreement& agreement, int64_t rows, int64_t embedding_rows, int processors,
                         const MachineSpeed& speed);
// Memory that this machine can still give, in bytes, as the kernel says (MemAvailable); 0: not known.
int64_t AvailableMemoryBytes();

// The identity a configuration names. Errors: see LoadTlsIdentity.
absl::StatusOr<TlsIdentity> LoadPartyIdentity(const v1::Identity& identity);

// Each adds its findings to `dry_run`.

// Checks that the agreement is valid, and shows its fingerprint; nullopt if it is not.
std::optional<v1::RunAgreement> DryRunAgreement(const std::string& path, DryRun& dry_run);
// What needs only the party's configuration. That certificates, names, keys and dates fit (LoadTlsIdentity), with a
// warning of certificates that end soon; and whether the ledger has room for one more alignment
// (PartyCommon.max_alignments; a run that resumes from a checkpoint needs none).
void DryRunConfiguration(const v1::PartyCommon& party, DryRun& dry_run);
// Checks that the data are this party's, and of the agreed split; null if they are not.
std::shared_ptr<const Dataset> DryRunData(const v1::PartyCommon& party, const v1::RunAgreement& agreement,
                                          PreparedFor owner, DryRun& dry_run);
// Whether the run's debit, `foreseen`, keeps below the account's limit.
void DryRunAccount(const absl::StatusOr<ForeseenDebit>& foreseen, double max_lifetime_auc_bound, DryRun& dry_run);
// What the run will need, against what the machine has. `step`: as MeasureMachine takes it.
void DryRunExpectation(const v1::RunAgreement& agreement, const Dataset& data, absl::FunctionRef<absl::Status()> step,
                       DryRun& dry_run);

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
      dry_run.Check("whole run", whole(), "all files open and fit each other, and the outputs and ports can be used");
    }
  }
  return dry_run;
}

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_OPERATIONS_DRY_RUN_H_
