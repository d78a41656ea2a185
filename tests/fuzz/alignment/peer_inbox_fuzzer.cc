#include "tests/fuzz/alignment/peer_inbox_fuzzer.h"

#include <algorithm>
#include <cstdlib>
#include <google/protobuf/stubs/logging.h>

#include "common/alignment/peer_inbox.h"

namespace splitveil {
namespace {

void Require(bool promise) {
  if (!promise) {
    std::abort();
  }
}

void CheckOneInput(const uint8_t* data, size_t size) {
  const uint64_t own_points = MaskedPoints(kFuzzedOwnIds);
  PeerInbox inbox({kFuzzedRun, kFuzzedOwnIds, /*max_ids=*/6, kFuzzedChunkIds, /*threads=*/1});
  inbox.NoteSent(own_points);
  while (size > 0) {
    const size_t length = std::min<size_t>(data[0], size - 1);
    v1::AlignmentMessage message;
    const PeerInbox::State before = inbox.state();
    if (message.ParseFromArray(data + 1, static_cast<int>(length))) {
      const absl::Status status = inbox.Accept(message);
      const bool failed = inbox.state() == PeerInbox::State::kFailed;
      Require(failed == !status.ok() && failed == !inbox.failure().ok());
      Require(failed || inbox.state() >= before);
      Require(!failed || absl::IsInvalidArgument(inbox.failure()) || absl::IsFailedPrecondition(inbox.failure()));
    }
    data += 1 + length;
    size -= 1 + length;
  }
  if (inbox.state() == PeerInbox::State::kComplete) {
    const uint64_t peer_ids = *inbox.WaitForSetSize();
    Require(peer_ids >= 1 && peer_ids <= 6);
    Require(inbox.WaitForOutcome().ok());
    const std::vector<Point> masked = *inbox.TakeMasked(100), double_masked = *inbox.TakeDoubleMasked();
    Require(masked.size() == MaskedPoints(peer_ids) && double_masked.size() == own_points);
    Require(std::all_of(masked.begin(), masked.end(), IsUsablePoint));
    Require(std::all_of(double_masked.begin(), double_masked.end(), IsUsablePoint));
  }
}

}  // namespace
}  // namespace splitveil

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const google::protobuf::LogSilencer silencer;  // It prints a line for each string that is not UTF-8.
  splitveil::CheckOneInput(data, size);
  return 0;
}
