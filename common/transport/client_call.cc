#include "common/transport/client_call.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "common/crypto/secure_random.h"
#include "common/telemetry/log.h"

namespace splitveil {
namespace {

constexpr int kLastCode = static_cast<int>(grpc::StatusCode::UNAUTHENTICATED);

// gRPC's codes and Abseil's are the same numbers by design; the ends and one in the middle stand for all.
static_assert(static_cast<int>(absl::StatusCode::kOk) == grpc::StatusCode::OK);
static_assert(static_cast<int>(absl::StatusCode::kFailedPrecondition) == grpc::StatusCode::FAILED_PRECONDITION);
static_assert(static_cast<int>(absl::StatusCode::kUnauthenticated) == kLastCode);

bool SaysPeerIsGone(absl::StatusCode code) {
  return code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kDeadlineExceeded ||
         code == absl::StatusCode::kCancelled;
}

// Where this machine keeps its files is not the peer's to know, whatever an error says of it.
std::string WithoutPaths(absl::string_view message) {
  std::string said;
  while (!message.empty()) {
    const bool may_begin = said.empty() || absl::StrContains(" (\"'=", said.back());
    const size_t size =
        message[0] == '/' && may_begin ? std::min(message.find_first_of(" ,;:()\"'"), message.size()) : 1;
    absl::StrAppend(&said, size > 1 ? "a file" : message.substr(0, 1));
    message.remove_prefix(size);
  }
  return said;
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) {
    return grpc::Status::OK;
  }
  const bool halted = absl::IsResourceExhausted(status) && status.GetPayload(kHaltedPayloadUrl).has_value();
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), WithoutPaths(status.message()),
                      halted ? kHaltedPayloadUrl : "");
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) {
    return absl::OkStatus();
  }
  const int number = static_cast<int>(status.error_code());
  const bool known = number > 0 && number <= kLastCode;
  // What gRPC itself says where it has lost the connection at a moment for which it has no code ("Stream removed",
  // "Error in HTTP transport completing operation"; grpc issue 34076). No party says so.
  const bool lost = status.error_code() == grpc::StatusCode::UNKNOWN;
  const absl::StatusCode code = lost    ? absl::StatusCode::kUnavailable
                                : known ? static_cast<absl::StatusCode>(number)
                                        : absl::StatusCode::kUnknown;
  absl::Status mapped(code, OneLine(status.error_message()));
  if (absl::IsResourceExhausted(mapped) && status.error_details() == kHaltedPayloadUrl) {
    mapped.SetPayload(kHaltedPayloadUrl, absl::Cord());
  }
  return SaysPeerIsGone(code) ? mapped : MarkRefusedByPeer(mapped);
}

absl::Status MarkRefusedByPeer(absl::Status status) {
  status.SetPayload(kRefusedByPeerPayloadUrl, absl::Cord());  // No effect on OK.
  return status;
}

bool RefusedByPeer(const absl::Status& status) { return status.GetPayload(kRefusedByPeerPayloadUrl).has_value(); }

absl::Duration Jittered(absl::Duration pause) {
  // From half the pause to all of it: both parties must not retry in step for ever.
  constexpr size_t kSteps = 1000;
  return pause / 2 + pause / 2 * static_cast<double>(SecureIndex(kSteps)) / kSteps;
}

}  // namespace splitveil
