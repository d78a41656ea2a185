#include "common/alignment/private_set_intersection.h"

#include <sodium.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <exception>
#include <limits>
#include <numeric>
#include <thread>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "common/alignment/masking_key.h"
#include "common/alignment/parallel_for.h"
#include "common/alignment/peer_inbox.h"
#include "common/alignment/point_order.h"
#include "common/crypto/secure_random.h"
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
  const uint64_t most = std::min<uint64_t>(options.max_ids, std::numeric_limits<uint32_t>::max());
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

// Rows 0..count-1 in a uniformly random order (Fisher-Yates; the multiplication's bias is below count / 2^64).
std::vector<uint32_t> SecretPermutation(size_t count) {
  std::vector<uint64_t> random(count);
  FillSecureRandom({reinterpret_cast<uint8_t*>(random.data()), random.size() * sizeof(uint64_t)});
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = count - 1; i > 0; --i) {
    const size_t j = static_cast<size_t>((static_cast<unsigned __int128>(random[i]) * (i + 1)) >> 64);
    std::swap(order[i], order[j]);
  }
  return order;
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

// The calling thread's part: what is sent, and what becomes of what the inbox holds.
class Protocol {
 public:
  Protocol(const IdList& ids, const AlignmentOptions& options, size_t threads, AlignmentChannel& channel,
           PeerInbox& inbox)
      : ids_(ids), options_(options), threads_(threads), channel_(channel), inbox_(inbox), hasher_(options.run_id) {}

  absl::StatusOr<AlignedIds> Run() {
    SPLITVEIL_RETURN_IF_ERROR(ExchangeSetSizes());
    SPLITVEIL_RETURN_IF_ERROR(SendMasked());
    SPLITVEIL_ASSIGN_OR_RETURN(std::deque<Point> theirs, AnswerPeer());
    SPLITVEIL_ASSIGN_OR_RETURN(std::vector<Point> ours, inbox_.TakeDoubleMasked());
    return Intersect(ours, std::move(theirs));
  }

 private:
  using PointsOf = Message::Points* (Message::*)();

  absl::Status ExchangeSetSizes();
  absl::Status SendMasked();
  // Returns the peer's ids double-masked, as sent. They take memory as they come, not as they were announced.
  absl::StatusOr<std::deque<Point>> AnswerPeer();
  absl::StatusOr<AlignedIds> Intersect(const std::vector<Point>& ours, std::deque<Point> theirs) const;

  // Sends `points`, which follow the `first` before them, in messages of up to chunk_ids.
  absl::Status SendPoints(absl::Span<const Point> points, uint64_t first, PointsOf kind);
  absl::Status Send(Message& message);
  void Report(uint64_t newly_done);
  // Ids worked on at a time: a message for each thread, so that starting threads costs nothing.
  size_t BlockIds() const { return threads_ * options_.chunk_ids; }

  const IdList ids_;
  const AlignmentOptions& options_;
  const size_t threads_;
  AlignmentChannel& channel_;
  PeerInbox& inbox_;
  const IdHasher hasher_;
  const MaskingKey key_ = MaskingKey::Generate();
  const std::vector<uint32_t> order_ = SecretPermutation(ids_.size());  // Position on the wire -> own row.
  uint64_t peer_ids_ = 0;
  uint64_t done_ = 0;
};

absl::Status Protocol::ExchangeSetSizes() {
  Message message;
  message.mutable_set_size()->set_ids(ids_.size());
  SPLITVEIL_RETURN_IF_ERROR(Send(message));
  SPLITVEIL_ASSIGN_OR_RETURN(peer_ids_, inbox_.WaitForSetSize());
  return absl::OkStatus();
}

absl::Status Protocol::SendMasked() {
  std::vector<Point> block;
  for (size_t first = 0; first < ids_.size(); first += block.size()) {
    block.resize(std::min(BlockIds(), ids_.size() - first));
    std::atomic<bool> usable{true};
    ParallelFor(block.size(), threads_, [&](size_t i) {
      if (!key_.Mask(hasher_.Hash(ids_[order_[first + i]]), block[i])) {
        usable = false;
      }
    });
    if (!usable) {
      return absl::InternalError("alignment: an id hashed to the identity");
    }
    inbox_.NoteSent(block.size());
    SPLITVEIL_RETURN_IF_ERROR(SendPoints(block, first, &Message::mutable_masked));
    Report(block.size());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::deque<Point>> Protocol::AnswerPeer() {
  std::deque<Point> answers;
  std::vector<Point> doubled;
  while (answers.size() < peer_ids_) {
    SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<Point> block, inbox_.TakeMasked(BlockIds()));
    doubled.resize(block.size());
    std::atomic<bool> usable{true};
    ParallelFor(block.size(), threads_, [&](size_t i) {
      if (!key_.Mask(block[i], doubled[i])) {
        usable = false;
      }
    });
    if (!usable) {
      return absl::InternalError("alignment: a checked point could not be masked");
    }
    SPLITVEIL_RETURN_IF_ERROR(SendPoints(doubled, answers.size(), &Message::mutable_double_masked));
    answers.insert(answers.end(), doubled.begin(), doubled.end());
    Report(block.size());
  }
  return answers;
}

absl::StatusOr<AlignedIds> Protocol::Intersect(const std::vector<Point>& ours, std::deque<Point> theirs) const {
  // Masking is one-to-one: a value that repeats stands for an id, or an answer, that repeats.
  std::sort(theirs.begin(), theirs.end());
  if (std::adjacent_find(theirs.begin(), theirs.end()) != theirs.end()) {
    return absl::InvalidArgumentError("masked: expected distinct ids, found repeated ones");
  }
  const std::vector<uint32_t> positions = AscendingPositions(ours);
  const auto repeats = [&](uint32_t a, uint32_t b) { return ours[a] == ours[b]; };
  if (std::adjacent_find(positions.begin(), positions.end(), repeats) != positions.end()) {
    return absl::InvalidArgumentError("double_masked: expected distinct answers, found repeated ones");
  }

  AlignedIds aligned;
  aligned.peer_ids = peer_ids_;
  Sha256Hasher order;
  auto their = theirs.begin();
  for (const uint32_t position : positions) {
    their = std::find_if(their, theirs.end(), [&](const Point& point) { return !(point < ours[position]); });
    if (their != theirs.end() && *their == ours[position]) {
      aligned.rows.push_back(order_[position]);
      order.Update({reinterpret_cast<const char*>(their->data()), their->size()});
    }
  }
  aligned.order_sha256 = order.Finish();
  return aligned;
}

absl::Status Protocol::SendPoints(absl::Span<const Point> points, uint64_t first, PointsOf kind) {
  for (size_t begin = 0; begin < points.size(); begin += options_.chunk_ids) {
    const absl::Span<const Point> chunk = points.subspan(begin, options_.chunk_ids);
    Message message;
    Message::Points& content = *(message.*kind)();
    content.set_first_index(first + begin);
    content.set_points(chunk.data(), chunk.size() * sizeof(Point));
    SPLITVEIL_RETURN_IF_ERROR(Send(message));
  }
  return absl::OkStatus();
}

absl::Status Protocol::Send(Message& message) {
  // Nothing more for a peer that broke the protocol.
  SPLITVEIL_RETURN_IF_ERROR(inbox_.failure());
  message.set_run_id(options_.run_id);
  return channel_.Send(message);
}

void Protocol::Report(uint64_t newly_done) {
  done_ += newly_done;
  if (options_.progress) {
    options_.progress(done_, ids_.size() + peer_ids_);
  }
}

// Fails the inbox too, so that the reading thread ends with the peer's next message.
absl::StatusOr<AlignedIds> RunProtocol(const IdList& ids, const AlignmentOptions& options, size_t threads,
                                       AlignmentChannel& channel, PeerInbox& inbox) {
  try {
    return Protocol(ids, options, threads, channel, inbox).Run();
  } catch (const std::exception& error) {
    inbox.Fail(OutOfResources(error));
    return OutOfResources(error);
  }
}

}  // namespace

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
