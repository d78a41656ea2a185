#include "label_party/session/run_end.h"

#include "common/process/exit_code.h"

namespace splitveil {
namespace {

absl::Status WhatThePeerHears(RunEnd::Cause cause, const absl::Status& outcome) {
  switch (cause) {
    case RunEnd::Cause::kPeerStartedAgain:
      return absl::UnavailableError("the label party takes the run up again: open it once more");
    case RunEnd::Cause::kOwnFailure:
    case RunEnd::Cause::kOperatorHalt:  // Why is not the peer's to know: it may tell of labels.
      return IsHalt(outcome) ? AsHalt(absl::ResourceExhaustedError("release gate: halted the run"))
                             : absl::InternalError("the label party failed; its own log says why");
    default:
      return outcome;
  }
}

}  // namespace

absl::Status RunEnd::End(Cause cause, absl::Status why) {
  if (cause == Cause::kRefused) {
    why = AsRefusal(std::move(why));
  }
  absl::Status heard = WhatThePeerHears(cause, why);
  peer_started_again_ |= cause == Cause::kPeerStartedAgain;
  if (!ended_) {
    ended_ = true;
    cause_ = cause;
    outcome_ = std::move(why);
    if (cause == Cause::kCompleted) {
      protocol_->Completed();
    } else if (IsHalt(heard)) {
      protocol_->Ended(heard);  // Its answer may be lost, or be due to another call.
    } else {
      protocol_->Ended();
    }
  }
  waiting_->Wake();
  return heard;
}

absl::Status RunEnd::EndUnlessOk(const absl::Status& status) {
  return status.ok() ? status : End(Cause::kOwnFailure, status);
}

void RunEnd::Amend(const absl::Status& status) {
  if (outcome_.ok() && !status.ok()) {
    outcome_ = status;
    protocol_->Ended();
  }
}

const char* RunEnd::name() const {
  switch (cause_) {
    case Cause::kCompleted:
      return own_verdict_.ok() ? "completed" : "failed";
    case Cause::kStopped:
      return "stopped";
    default:
      return IsHalt(outcome_) ? "halted" : "failed";
  }
}

}  // namespace splitveil
