// What a run says of messages that it has refused.
#ifndef SPLITVEIL_LABEL_PARTY_SESSION_REFUSAL_LOG_H_
#define SPLITVEIL_LABEL_PARTY_SESSION_REFUSAL_LOG_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "common/ledger/ledger.h"

namespace splitveil {

// Whether `status` says that a message was not what is due; all else is no fault of the message.
bool IsRefusal(const absl::Status& status);
// Whether what failed is this party's ledger, not the message.
bool IsOfLedger(const absl::Status& status);

// In the ledger and the log, the first 100 of a run, however often it is interrupted: a peer that goes on and on must
// not fill the disk. Not thread-safe.
class RefusalLog {
 public:
  static constexpr int64_t kMaxNoted = 100;

  // `call` was refused with `status`. Nothing is told of what is no refusal: this party failed, the run has ended.
  // Errors: those of the ledger.
  absl::Status Note(absl::string_view call, const absl::Status& status, Ledger& ledger);

 private:
  std::optional<int64_t> noted_;  // In all parts of the run; nullopt before the first of this one.
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SESSION_REFUSAL_LOG_H_
