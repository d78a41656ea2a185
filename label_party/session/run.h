// One run of the label party, as the parts of its session share it.
#ifndef SPLITVEIL_LABEL_PARTY_SESSION_RUN_H_
#define SPLITVEIL_LABEL_PARTY_SESSION_RUN_H_

#include <string>
#include <utility>

#include "common/checkpoint/checkpoint_plan.h"
#include "common/process/steady_time.h"
#include "label_party/session/peer_presence.h"
#include "label_party/session/protocol_state.h"
#include "label_party/session/run_end.h"
#include "label_party/storage/run_context.h"
#include "label_party/storage/run_records.h"

namespace splitveil {

// Made by LabelSession, which outlives every part that it hands the run to. `context`, `protocol` and `ended` are
// thread-safe; the others are used under the session's lock.
struct Run {
  // `clock` measures the peer's silence.
  Run(RunContext given, CheckpointPlan checkpoints, std::string ledger_path, SteadyClock clock)
      : context(std::move(given)),
        records(&context, std::move(checkpoints), std::move(ledger_path)),
        presence(&context.agreement.deadlines(), std::move(clock)) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  const RunContext context;
  ProtocolState protocol;
  WakeableSleep ended;  // Woken when the run ends.
  RunRecords records;
  PeerPresence presence;
  RunEnd end{&protocol, &ended};
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SESSION_RUN_H_
