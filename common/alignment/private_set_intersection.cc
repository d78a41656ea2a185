#include "common/alignment/private_set_intersection.h"

#include <sodium.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/alignment/masking_key.h"
#include "common/alignment/parallel_for.h"
#include "common/alignment/peer_inbox.h"
#include "common/crypto/invariant.h"
#include "common/crypto/secure_random.h"
#include "common/crypto/sha256.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

using Message = v1::AlignmentMessage;

// 0..count-1 in a uniformly random order (Fisher-Yates; the multiplication's bias is below count / 2^64).
std::vector<uint32_t> SecretPermutation(size_t count) {
  std::vector<uint64_t> random(count);
  FillSecureRandom({reinterpret_cast<uint8_t*>(random.data()), random.size() * sizeof(uint64_t)});
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  // The order in which points are sent must say nothing of the order of the file: rows are often sorted by date or by
  // outcome.
  for (size_t i = count - 1; i > 0; --i) {
    const size_t j = static_cast<size_t>((static_cast<unsigned __int128>(random[i]) * (i + 1)) >> 64);
    std::swap(order[i], order[j]);
  }
  return order;
}

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

AnswerCheck::AnswerCheck(absl::Span<const uint32_t> order, uint32_t ids) : open_(TestPoints(ids)) {
  for (uint64_t position = 0; position < order.size(); ++position) {
    const uint32_t item = order[position];
    if (item < open_.size()) {
      open_[item].row = position;
    } else if (item >= ids) {
      open_[item - ids].test = position;
    }
  }
}

Point AnswerCheck::TestPoint(const Point& masked) const {
  Point test;
  CheckInvariant(key_.Mask(masked, test), "AnswerCheck: a masked id is a usable point");
  return test;
}

absl::Status AnswerCheck::Check(const std::function<std::optional<Point>(uint64_t)>& answer) {
  bool one_exponent = true;
  const auto looked_at = [&](const Pair& pair) {
    const std::optional<Point> row = answer(pair.row), test = answer(pair.test);
    if (!row.has_value() || !test.has_value()) {
      return false;
    }
    Point expected;
    one_exponent = one_exponent && key_.Mask(*row, expected) && expected == *test;
    return true;
  };
  open_.erase(std::remove_if(open_.begin(), open_.end(), looked_at), open_.end());
  return one_exponent ? absl::OkStatus()
                      : absl::InvalidArgumentError(
                            "double_masked: expected answers by one exponent, found points answered by different ones");
}

IntersectionProtocol::IntersectionProtocol(const IdList& ids, const AlignmentOptions& options, size_t threads,
                                           AlignmentChannel& channel, PeerInbox& inbox)
    : ids_(ids),
      options_(options),
      threads_(threads),
      channel_(channel),
      inbox_(inbox),
      hasher_(options.run_id),
      order_(SecretPermutation(ids_.size() + TestPoints(ids_.size()))),
      check_(order_, static_cast<uint32_t>(ids_.size())) {}

absl::StatusOr<AlignedIds> IntersectionProtocol::Run() {
  SPLITVEIL_RETURN_IF_ERROR(ExchangeSetSizes());
  SPLITVEIL_RETURN_IF_ERROR(SendMasked());
  SPLITVEIL_ASSIGN_OR_RETURN(std::deque<Point> theirs, AnswerPeer());
  SPLITVEIL_RETURN_IF_ERROR(SendAnswers(theirs));
  SPLITVEIL_ASSIGN_OR_RETURN(std::vector<Point> ours, inbox_.TakeDoubleMasked());
  SPLITVEIL_RETURN_IF_ERROR(check_.Check([&](uint64_t position) { return std::optional<Point>(ours[position]); }));
  // A peer that sends our own masked points back would learn nothing, but make us believe that it shares every id.
  if (Point own; MaskItem(order_.front(), own) && own == ours.front()) {  // And with it, by one exponent, all others.
    return absl::InvalidArgumentError("double_masked: expected answers by the peer's exponent, found our points");
  }
  return Intersect(ours, std::move(theirs));
}

absl::Status IntersectionProtocol::ExchangeSetSizes() {
  Message message;
  message.mutable_set_size()->set_ids(ids_.size());
  SPLITVEIL_RETURN_IF_ERROR(Send(message));
  SPLITVEIL_ASSIGN_OR_RETURN(peer_ids_, inbox_.WaitForSetSize());
  return absl::OkStatus();
}

bool IntersectionProtocol::MaskItem(uint32_t item, Point& masked) const {
  const bool is_test = item >= ids_.size();
  if (!key_.Mask(hasher_.Hash(ids_[is_test ? item - ids_.size() : item]), masked)) {
    return false;
  }
  if (is_test) {
    masked = check_.TestPoint(masked);
  }
  return true;
}

absl::Status IntersectionProtocol::SendMasked() {
  const PointChunks chunks = MaskedChunks(ids_.size(), options_.chunk_ids);
  std::vector<Point> masked(chunks.points);
  for (size_t first = 0; first < masked.size(); first += BlockPoints()) {
    const absl::Span<Point> block = absl::MakeSpan(masked).subspan(first, BlockPoints());
    std::atomic<bool> usable{true};
    ParallelFor(block.size(), threads_, [&](size_t i) {
      if (!MaskItem(order_[first + i], block[i])) {
        usable = false;
      }
    });
    if (!usable) {
      return absl::InternalError("alignment: an id hashed to the identity");
    }
    for (size_t begin = 0; begin < block.size(); begin += chunks.chunk) {
      SPLITVEIL_RETURN_IF_ERROR(Commit(PointKind::kMasked, first + begin, block.subspan(begin, chunks.chunk)));
    }
    Report(block.size());
  }
  // No point is revealed before the peer is committed to all of its own: else it could choose them by ours.
  SPLITVEIL_RETURN_IF_ERROR(inbox_.WaitForCommitments(PointKind::kMasked));
  for (size_t first = 0; first < masked.size(); first += chunks.chunk) {
    const absl::Span<const Point> chunk = absl::MakeConstSpan(masked).subspan(first, chunks.chunk);
    inbox_.NoteSent(chunk.size());
    SPLITVEIL_RETURN_IF_ERROR(SendChunk(PointKind::kMasked, first, chunk));
    Report(0);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::deque<Point>> IntersectionProtocol::AnswerPeer() {
  const PointChunks chunks = AnswerChunks(peer_ids_, options_.chunk_ids);
  std::deque<Point> answers;
  std::vector<Point> doubled, chunk;
  while (answers.size() < chunks.points) {
    SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<Point> block, inbox_.TakeMasked(BlockPoints()));
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
    for (const Point& answer : doubled) {
      answers.push_back(answer);
      chunk.push_back(answer);
      if (const uint64_t first = answers.size() - chunk.size(); chunk.size() == chunks.SizeAt(first)) {
        SPLITVEIL_RETURN_IF_ERROR(Commit(PointKind::kDoubleMasked, first, chunk));
        chunk.clear();
      }
    }
    Report(block.size());
  }
  return answers;
}

absl::Status IntersectionProtocol::SendAnswers(const std::deque<Point>& answers) {
  const PointChunks chunks = AnswerChunks(peer_ids_, options_.chunk_ids);
  const PointChunks owed = AnswerChunks(ids_.size(), options_.chunk_ids);
  // Answers are committed to as well: a peer that sees ours first could answer with them, and share what it does not
  // hold.
  SPLITVEIL_RETURN_IF_ERROR(inbox_.WaitForCommitments(PointKind::kDoubleMasked));
  std::vector<Point> chunk;
  uint64_t first = 0;
  for (uint64_t number = 0; number < chunks.count(); ++number, first += chunk.size()) {
    // As large a share of the answers that are owed must have come as were sent before the latest message.
    // In step: a peer that stops early must not have learned much more of the intersection than this party.
    const uint64_t awaited = number == 0 ? 0 : (number - 1) * owed.count() / chunks.count() * owed.chunk;
    SPLITVEIL_RETURN_IF_ERROR(inbox_.WaitForAnswers(awaited));
    // Checked before each further message, so that a peer with several exponents is found while little is revealed.
    SPLITVEIL_RETURN_IF_ERROR(check_.Check([&](uint64_t position) { return inbox_.Answer(position); }));
    const auto begin = answers.begin() + static_cast<std::ptrdiff_t>(first);
    chunk.assign(begin, begin + static_cast<std::ptrdiff_t>(chunks.SizeAt(first)));
    SPLITVEIL_RETURN_IF_ERROR(SendChunk(PointKind::kDoubleMasked, first, chunk));
    Report(0);
  }
  return absl::OkStatus();
}

absl::StatusOr<AlignedIds> IntersectionProtocol::Intersect(const std::vector<Point>& ours,
                                                           std::deque<Point> theirs) const {
  // Masking is one-to-one: a value that repeats stands for an id, or an answer, that repeats.
  std::sort(theirs.begin(), theirs.end());
  if (std::adjacent_find(theirs.begin(), theirs.end()) != theirs.end()) {
    return absl::InvalidArgumentError("masked: expected distinct ids, found repeated ones");
  }
  // Both parties sort by the same values, and so agree on the order of rows without sending it.
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
    if (their != theirs.end() && *their == ours[position] && order_[position] < ids_.size()) {
      aligned.rows.push_back(order_[position]);
      order.Update({reinterpret_cast<const char*>(their->data()), their->size()});
    }
  }
  aligned.order_sha256 = order.Finish();
  if (const uint64_t shared = aligned.rows.size();
      shared < options_.min_shared_ids || shared > options_.max_shared_ids) {
    return absl::FailedPreconditionError(absl::StrCat("alignment: expected ", options_.min_shared_ids, " to ",
                                                      options_.max_shared_ids, " shared ids, found ", shared));
  }
  return aligned;
}

absl::Status IntersectionProtocol::Commit(PointKind kind, uint64_t first, absl::Span<const Point> chunk) {
  const absl::string_view bytes(reinterpret_cast<const char*>(chunk.data()), chunk.size() * sizeof(Point));
  nonces_.push_back(DrawCommitmentNonce());
  const Digest commitment = CommitmentTo(kind, options_.run_id, first, nonces_.back(), bytes);
  // Noted before it is sent, so that a peer that copies the commitment is recognised.
  inbox_.NoteCommitted(kind, commitment);
  Message message;
  Message::Commitment& content =
      kind == PointKind::kMasked ? *message.mutable_masked_commitment() : *message.mutable_double_masked_commitment();
  content.set_first_index(first);
  content.set_sha256(commitment.data(), commitment.size());
  return Send(message);
}

absl::Status IntersectionProtocol::SendChunk(PointKind kind, uint64_t first, absl::Span<const Point> chunk) {
  Message message;
  Message::Points& content = kind == PointKind::kMasked ? *message.mutable_masked() : *message.mutable_double_masked();
  content.set_first_index(first);
  content.set_points(chunk.data(), chunk.size() * sizeof(Point));
  content.set_nonce(nonces_.front().data(), nonces_.front().size());
  nonces_.pop_front();
  return Send(message);
}

absl::Status IntersectionProtocol::Send(Message& message) {
  // Nothing more for a peer that broke the protocol.
  SPLITVEIL_RETURN_IF_ERROR(inbox_.failure());
  message.set_run_id(options_.run_id);
  return channel_.Send(message);
}

void IntersectionProtocol::Report(uint64_t newly_done) {
  done_ += newly_done;
  if (options_.progress) {
    const uint64_t ids = ids_.size() + peer_ids_;  // Test points are nobody's to count.
    options_.progress(std::min(done_, ids), ids);
  }
}

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
  // Exponentiations take nearly all of the time and are independent of each other.
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
