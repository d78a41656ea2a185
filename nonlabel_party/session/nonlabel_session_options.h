// What a run of the non-label party is given.
#ifndef SPLITVEIL_NONLABEL_PARTY_SESSION_NONLABEL_SESSION_OPTIONS_H_
#define SPLITVEIL_NONLABEL_PARTY_SESSION_NONLABEL_SESSION_OPTIONS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"

#include "common/checkpoint/alignment_cache.h"
#include "common/checkpoint/checkpoint_plan.h"
#include "common/dataset/dataset.h"
#include "common/operations/run_facts.h"
#include "common/operations/run_status.h"
#include "common/process/steady_time.h"
#include "nonlabel_party/session/label_party_peer.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {

struct NonLabelSessionOptions {
  v1::RunAgreement agreement;      // Canonical and valid.
  v1::NonLabelPartyConfig config;  // Valid; defaults set.
  std::string ledger_path;
  std::shared_ptr<const Dataset> data;  // Prepared for the agreement's split (CheckSplit).
  CheckpointPlan checkpoints;
  AlignmentStore alignments;
  int alignments_left = kMostAlignments;  // Of this process.
  LabelPartyPeer* peer = nullptr;         // Not owned; must outlive the session.
  // Waits until the label party can be reached again (Reconnector::Options). Empty: a lost connection ends the run.
  std::function<absl::Status(SteadyTime deadline)> reach;
  RunStatus* status = nullptr;  // Not owned; must outlive the session.
  bool (*stop)() = nullptr;     // Asked between stages and batches, while aligning every 100 ms, there on a thread of
                                // the session; true ends the run cleanly.
};

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SESSION_NONLABEL_SESSION_OPTIONS_H_
