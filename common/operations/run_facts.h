// The facts of a run that both parties' ledgers hold alike.
#ifndef SPLITVEIL_COMMON_OPERATIONS_RUN_FACTS_H_
#define SPLITVEIL_COMMON_OPERATIONS_RUN_FACTS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "common/ledger/ledger.h"

#include "splitveil/v1/agreement.pb.h"

namespace splitveil {

// Name of a new run, "NAME-1f2e3d4c": distinguishes the runs of one agreement; no secret. Thread-safe.
std::string NewRunId(const std::string& run_name);

// Whether a peer's `run_id` is one that NewRunId makes of the agreed `run_name`, which is one short line of printable
// characters: nothing else of the peer's choice may get into logs, ledgers and reports by that name.
bool IsRunIdOf(const std::string& run_name, absl::string_view run_id);

// The ledger's row of a run: digest of the canonical agreement, and as JSON the agreement and both versions.
// `peer_version`: what the peer calls itself; cut at 32 bytes.
RunRow DescribeRun(const std::string& run_id, const std::string& role, const std::string& protection,
                   const v1::RunAgreement& agreement, const std::string& peer_version);

// Opens the ledger at `path` for a run that begins and records the audit's disclosure. `retained_steps`: as
// Ledger::Create.
absl::StatusOr<std::unique_ptr<Ledger>> BeginLedger(const std::string& path, const RunRow& run,
                                                    v1::DisclosureLevel disclosure, int64_t retained_steps = 0);

// How often a run may resume from the same checkpoint: a peer that interrupts a run again and again must not
// fill the disk, nor keep this party busy for ever.
inline constexpr int64_t kMaxTakeUps = 100;

// Records that the run resumes from `checkpoint`, on the disk before it does. Errors: those of the ledger;
// ResourceExhausted if it has done so kMaxTakeUps times.
absl::Status CountTakeUp(Ledger& ledger, const std::string& checkpoint);

// How many alignments a process may start: one whose connection is lost is restarted, and each lets the peer try
// another list of ids.
inline constexpr int kMostAlignments = 8;

// RecordAlignment for a run that aligns `ids` own ids; `left`, of kMostAlignments, is one less then. Errors: the same;
// ResourceExhausted if none is left.
absl::Status CountAlignment(const Ledger& ledger, int64_t ids, int64_t limit, int& left);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_OPERATIONS_RUN_FACTS_H_
