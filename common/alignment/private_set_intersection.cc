#include "common/alignment/private_set_intersection.h"

#include <sodium.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <thread>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "common/alignment/intersection_protocol.h"
#include "common/alignment/peer_inbox.h"
#include "common/alignment/point_commitment.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

using Message = v1::AlignmentMessage;

// How many of `ids` an earlier one equals. Hashes tell whether there are any: tens of millions of ids, which lie on the
// disk, would take minutes to compare with each other.
size_t CountRepeated(const IdList& ids) {
  std::vector<size_t> hashes(ids.size());
  for (size_t row = 0; row < ids.size(); ++row) {
    hashes[row] = absl::HashOf(ids[row]);
  }
  std::sort(hashes.begin(), hashes.end());
  if (std::adjacent_find(hashes.begin(), hashes.end()) == hashes.end()) {
    return 0;
  }
  std::vector<absl::string_view> sorted(ids.size());
  for (size_t row = 0; row < ids.size(); ++row) {
    sorted[row] = ids[row];
  }
  std::sort(sorted.begin(), sorted.end());
  return sorted.end() - std::unique(sorted.begin(), sorted.end());
}

absl::Status CheckInput(const IdList& ids, const AlignmentOptions& options) {
  const uint64_t most = std::min<uint64_t>(options.max_ids, std::numeric_limits<uint32_t>::max() - kMaxTestPoints);
  if (ids.empty() || ids.size() > most) {
    return absl::InvalidArgumentError(absl::StrCat("ids: expected 1 to ", most, ", found ", ids.size()));
  }
  if (options.chunk_ids < 1 || options.threads < 0) {
    return absl::InvalidArgumentError(absl::StrCat("alignment: expected chunk_ids >= 1 and threads >= 0, found ",
                                                   options.chunk_ids, " and ", options.threads));
  }
  size_t empty = 0;
  for (size_t row = 0; row < ids.size(); ++row) {
    empty += ids[row].empty() ? 1 : 0;
  }
  const size_t repeated = CountRepeated(ids);
  if (empty > 0 || repeated > 0) {
    return absl::InvalidArgumentError(absl::StrCat("ids: expected distinct and not empty, found ", empty, " empty and ",
                                                   repeated, " repeated of ", ids.size()));
  }
  return absl::OkStatus();
}

absl::Status OutOfResources(const std::exception& error) {
  return absl::InternalError(absl::StrCat("alignment: out of memory or threads: ", error.what()));
}

// Receives until the peer has sent all it owes or has failed.
void ReadPeerOrThrow(AlignmentChannel& channel, PeerInbox& inbox) {
  while (inbox.state() != PeerInbox::State::kComplete) {
    const absl::StatusOr<Message> message = channel.Receive();
    if (!message.ok()) {
      inbox.Fail(absl::IsOutOfRange(message.status())
                     ? absl::UnavailableError(absl::StrCat("peer closed the alignment ", inbox.Progress()))
                     : message.status());
      return;
    }
    if (!inbox.Accept(*message).ok()) {
      return;
    }
  }
}

void ReadPeer(AlignmentChannel& channel, PeerInbox& inbox) {
  try {
    ReadPeerOrThrow(channel, inbox);
  } catch (const std::exception& error) {
    inbox.Fail(OutOfResources(error));
  }
}

// Runs `body` on a thread of its own, for as long as this lives. The constructor throws where the system has
// no thread.
class JoiningThread {
 public:
  template <typename Body>
  explicit JoiningThread(Body body) : thread_(std::move(body)) {}
  ~JoiningThread() { thread_.join(); }
  JoiningThread(const JoiningThread&) = delete;
  JoiningThread& operator=(const JoiningThread&) = delete;

 private:
  std::thread thread_;
};

// Fails the inbox too, so that the reading thread ends with the peer's next message.
absl::StatusOr<AlignedIds> RunProtocol(const IdList& ids, const AlignmentOptions& options, size_t threads,
                                       AlignmentChannel& channel, PeerInbox& inbox) {
  try {
    return IntersectionProtocol(ids, options, threads, channel, inbox).Run();
  } catch (const std::exception& error) {
    inbox.Fail(OutOfResources(error));
    return OutOfResources(error);
  }
}

}  // namespace

AlignmentOptions AgreedAlignment(const v1::AlignmentAgreement& agreement, std::string run_id) {
  AlignmentOptions options;
  options.run_id = std::move(run_id);
  options.max_ids = static_cast<uint64_t>(agreement.max_ids());
  options.chunk_ids = agreement.chunk_ids();
  options.min_shared_ids = static_cast<uint64_t>(agreement.min_shared_ids());
  options.max_shared_ids = static_cast<uint64_t>(agreement.max_shared_ids());
  return options;
}

absl::StatusOr<AlignedIds> AlignIds(const IdList& ids, const AlignmentOptions& options, AlignmentChannel& channel) {
  SPLITVEIL_RETURN_IF_ERROR(CheckInput(ids, options));
  if (sodium_init() < 0) {
    return absl::InternalError("alignment: libsodium could not be initialised");
  }
  const size_t threads = options.threads > 0 ? options.threads : std::max(1U, std::thread::hardware_concurrency());
  PeerInbox inbox({options.run_id, ids.size(), options.max_ids, static_cast<uint64_t>(options.chunk_ids), threads});
  absl::StatusOr<AlignedIds> aligned;
  try {
    const JoiningThread reader([&] { ReadPeer(channel, inbox); });
    aligned = RunProtocol(ids, options, threads, channel, inbox);
  } catch (const std::exception& error) {
    return OutOfResources(error);
  }
  // When Send failed, what Receive said of the peer is the cause.
  if (absl::Status failure = inbox.failure(); !aligned.ok() && !failure.ok()) {
    return failure;
  }
  return aligned;
}

}  // namespace splitveil
