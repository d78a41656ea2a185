#include "common/alignment/private_set_intersection.h"

#include <sodium.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/alignment/alignment_spill.h"
#include "common/alignment/buckets.h"
#include "common/alignment/intersection_protocol.h"
#include "common/alignment/peer_inbox.h"
#include "common/crypto/secure_random.h"
#include "common/crypto/sha256.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

using Message = v1::AlignmentMessage;

// Whether a hash repeats. In shares, so that memory does not grow with the set: equal ids are in the same one.
bool MayRepeat(const IdList& ids) {
  constexpr size_t kShare = size_t{1} << 22;
  const size_t shares = (ids.size() + kShare - 1) / kShare;
  std::vector<size_t> hashes;
  for (size_t share = 0; share < shares; ++share) {
    hashes.clear();
    for (size_t row = 0; row < ids.size(); ++row) {
      if (const size_t hash = absl::HashOf(ids[row]); hash % shares == share) {
        hashes.push_back(hash);
      }
    }
    std::sort(hashes.begin(), hashes.end());
    if (std::adjacent_find(hashes.begin(), hashes.end()) != hashes.end()) {
      return true;
    }
  }
  return false;
}

// How many of `ids` an earlier one equals. Hashes tell whether there are any: tens of millions of ids, which lie on the
// disk, would take minutes to compare with each other.
size_t CountRepeated(const IdList& ids) {
  if (!MayRepeat(ids)) {
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
  // Further items stand for padding, test points and canaries.
  const uint64_t most = std::min<uint64_t>(options.max_ids, 4'000'000'000);
  if (ids.empty() || ids.size() > most) {
    return absl::InvalidArgumentError(absl::StrCat("ids: expected 1 to ", most, ", found ", ids.size()));
  }
  if (options.chunk_ids < 1 || options.threads < 0 || options.bucket_ids < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("alignment: expected chunk_ids >= 1, threads >= 0 and bucket_ids >= 1, found ", options.chunk_ids,
                     ", ", options.threads, " and ", options.bucket_ids));
  }
  // An empty id would match every empty id of the peer, and a repeated one has no single row to be aligned with.
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

// Before the peer is asked to work: with as many buckets as the largest set of the peer's would make.
absl::Status CheckRoom(uint64_t ids, const AlignmentOptions& options) {
  if (options.spill_path.empty() || ids <= options.bucket_ids) {
    return absl::OkStatus();
  }
  const uint64_t needed = AlignmentSpill::Bytes(ids, BucketCount(ids, options.max_ids, options.bucket_ids),
                                                static_cast<uint64_t>(options.chunk_ids)) +
                          ids * sizeof(uint32_t);
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::absolute(options.spill_path).parent_path();
  const uint64_t available = std::filesystem::space(folder, error).available;
  if (error) {
    return absl::InvalidArgumentError(absl::StrCat("party.spill_path: ", folder.string(), ": ", error.message()));
  }
  return available >= needed
             ? absl::OkStatus()
             : absl::InvalidArgumentError(absl::StrCat("party.spill_path: ", folder.string(), ": expected room for ",
                                                       needed / 1'000'000 + 1, " MB while ids are aligned, found ",
                                                       available / 1'000'000, " MB"));
}

// Of everything with which an interrupted alignment must be resumed.
Digest BindingOf(const IdList& ids, const AlignmentOptions& options) {
  Sha256Hasher hasher;
  std::string bytes = absl::StrCat("Splitveil alignment binding v1 ", options.bucket_ids, " ", options.chunk_ids, " ",
                                   ids.size(), " ", AsBytes(options.binding));
  for (size_t row = 0; row < ids.size(); ++row) {
    absl::StrAppend(&bytes, ids[row].size(), " ", ids[row]);
    if (bytes.size() >= 65536) {
      hasher.Update(bytes);
      bytes.clear();
    }
  }
  hasher.Update(bytes);
  return hasher.Finish();
}

absl::Status OutOfResources(const std::exception& error) {
  return absl::InternalError(absl::StrCat("alignment: out of memory or threads: ", error.what()));
}

// Receives until the peer has sent all it owes or has failed.
void ReadPeerOrThrow(AlignmentChannel& channel, PeerInbox& inbox) {
  // A thread of its own reads: both parties send large messages at once, and neither may wait for the other to read
  // first.
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
absl::StatusOr<AlignedIds> RunProtocol(const IntersectionProtocol::Setting& setting,
                                       std::unique_ptr<AlignmentSpill> spill, CountingChannel& channel,
                                       PeerInbox& inbox) {
  try {
    return IntersectionProtocol(setting, std::move(spill), channel, inbox).Run();
  } catch (const std::exception& error) {
    inbox.Fail(OutOfResources(error));
    return OutOfResources(error);
  }
}

}  // namespace

absl::Status CountingChannel::Send(const v1::AlignmentMessage& message) {
  SPLITVEIL_RETURN_IF_ERROR(channel_->Send(message));
  bytes_sent_ += static_cast<int64_t>(message.ByteSizeLong());
  return absl::OkStatus();
}

absl::StatusOr<v1::AlignmentMessage> CountingChannel::Receive() {
  absl::StatusOr<v1::AlignmentMessage> message = channel_->Receive();
  if (message.ok()) {
    bytes_received_ += static_cast<int64_t>(message->ByteSizeLong());
  }
  return message;
}

std::string SpillPath(const v1::PartyCommon& party) {
  return party.spill_path().empty() ? party.ledger_path() + ".spill" : party.spill_path();
}

AlignmentOptions AgreedAlignment(const v1::AlignmentAgreement& agreement, const v1::PartyCommon& party,
                                 const Digest& identities, std::string run_id) {
  AlignmentOptions options;
  options.run_id = std::move(run_id);
  options.max_ids = static_cast<uint64_t>(agreement.max_ids());
  options.chunk_ids = agreement.chunk_ids();
  options.bucket_ids = static_cast<uint64_t>(agreement.bucket_ids());
  options.min_shared_ids = static_cast<uint64_t>(agreement.min_shared_ids());
  options.max_shared_ids = static_cast<uint64_t>(agreement.max_shared_ids());
  options.spill_path = SpillPath(party);
  // No maps: one serialisation only.
  options.binding = Sha256(absl::StrCat(AsBytes(identities), agreement.SerializeAsString()));
  return options;
}

absl::StatusOr<AlignedIds> AlignIds(const IdList& ids, const AlignmentOptions& options, AlignmentChannel& channel) {
  SPLITVEIL_RETURN_IF_ERROR(CheckInput(ids, options));
  if (sodium_init() < 0) {
    return absl::InternalError("alignment: libsodium could not be initialised");
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckRoom(ids.size(), options));
  // Exponentiations take nearly all of the time and are independent of each other.
  const size_t threads = options.threads > 0 ? options.threads : std::max(1U, std::thread::hardware_concurrency());
  IntersectionProtocol::Setting setting = {ids, options, threads, {options.run_id}, {}};
  AlignmentTerms& terms = setting.terms;
  terms.own_ids = ids.size();
  terms.bucket_ids = options.bucket_ids;
  terms.chunk_ids = static_cast<uint64_t>(options.chunk_ids);
  FillSecureRandom(absl::MakeSpan(setting.own_half));
  std::unique_ptr<AlignmentSpill> spill;
  if (!options.spill_path.empty()) {
    terms.binding = BindingOf(ids, options);
    SPLITVEIL_ASSIGN_OR_RETURN(spill, AlignmentSpill::Open(options.spill_path, terms));
  }
  PeerInbox::Limits limits = {options.run_id, ids.size(), options.max_ids, terms.chunk_ids, threads};
  limits.bucket_ids = options.bucket_ids;
  limits.own_key_commitment = CommitmentToHalf(options.run_id, setting.own_half);
  if (spill != nullptr) {
    limits.resumable = {spill->name(), spill->terms().run_id, spill->terms().peer_ids, spill->next_bucket()};
  }
  PeerInbox inbox(std::move(limits));
  CountingChannel counted(&channel);
  absl::StatusOr<AlignedIds> aligned;
  try {
    const JoiningThread reader([&] { ReadPeer(counted, inbox); });
    aligned = RunProtocol(setting, std::move(spill), counted, inbox);
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
