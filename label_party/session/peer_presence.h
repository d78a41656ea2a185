// Whether the peer of a run is still there: silence, lost connections, how long they may last.
#ifndef SPLITVEIL_LABEL_PARTY_SESSION_PEER_PRESENCE_H_
#define SPLITVEIL_LABEL_PARTY_SESSION_PEER_PRESENCE_H_

#include <cstdint>

#include "absl/status/status.h"

#include "common/ledger/ledger.h"
#include "common/process/steady_time.h"
#include "label_party/session/protocol_state.h"

#include "splitveil/v1/agreement.pb.h"

namespace splitveil {

// Not thread-safe.
class PeerPresence {
 public:
  // `deadlines`: as agreed; not owned; must outlive this. `clock`: silence is measured by it.
  PeerPresence(const v1::Deadlines* deadlines, SteadyClock clock);

  // Where interruptions are recorded from now on, and where those of earlier parts of the run are: it is open. Not
  // owned; must outlive this.
  void RecordIn(Ledger* ledger);

  // The peer has sent what could be used. What is refused does not count: it could be sent for ever. Where its
  // connection was lost, that is over: its length is logged and recorded, for the first 100 of a run. So is that of a
  // silence within a stream that was none of the usual ones: the connection held, and nothing came.
  void Heard();
  // The connection of an open run is lost: the peer has as long to come back as max_outage_seconds say, or for its next
  // message, where that is longer.
  void ConnectionLost();
  // A Train or Evaluate stream has been opened, or has ended. In training without one a connection is lost without a
  // sign: the peer is waited for as if it were known to be.
  void StreamOpened() { ++streams_; }
  void StreamClosed() { --streams_; }
  // Unavailable once nothing has been heard for longer than the agreement allows in `state`.
  absl::Status CheckHeard(ProtocolState::State state) const;

  // Once the run has ended: how many interruptions there were beyond those recorded. Errors: those of the ledger.
  absl::Status RecordUnnoted() const;

 private:
  const v1::Deadlines* const deadlines_;
  const SteadyClock clock_;
  SteadyTime last_heard_;
  Ledger* ledger_ = nullptr;      // Null: no run is open.
  bool connection_lost_ = false;  // Since last_heard_.
  int64_t interruptions_ = 0;
  int streams_ = 0;  // Open.
  UsualWait silence_;
  int64_t stalls_ = 0;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SESSION_PEER_PRESENCE_H_
