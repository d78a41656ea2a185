#include "common/alignment/intersection_protocol.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/crypto/invariant.h"
#include "common/crypto/secure_random.h"
#include "common/crypto/sha256.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

using Message = v1::AlignmentMessage;

// Into a uniformly random order (Fisher-Yates; the multiplication's bias is below size / 2^64): the order in which
// points are sent must say nothing of the order of the file, whose rows are often sorted by date or by outcome.
void Shuffle(absl::Span<uint32_t> items) {
  std::vector<uint64_t> random(items.size());
  FillSecureRandom({reinterpret_cast<uint8_t*>(random.data()), random.size() * sizeof(uint64_t)});
  for (size_t i = items.size() - 1; i > 0; --i) {
    const size_t j = static_cast<size_t>((static_cast<unsigned __int128>(random[i]) * (i + 1)) >> 64);
    std::swap(items[i], items[j]);
  }
}

// Not of the channel.
bool IsOwnVerdict(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status) || absl::IsInternal(status);
}

bool IsInterruption(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsCancelled(status);
}

}  // namespace

AnswerCheck::AnswerCheck(absl::Span<const uint32_t> items, const MaskingKey* key) : key_(*key) {
  const auto entries = items.size() - kCanaries;
  tested_.resize(std::min<uint64_t>(entries / 2, kMaxTestPoints));  // Every one of up to 64 entries has a test point.
  // Items of tests and canaries are greater than those of ids and paddings.
  std::partial_sort_copy(items.begin(), items.end(), tested_.begin(), tested_.end());
  open_.resize(tested_.size());
  for (uint64_t position = 0; position < items.size(); ++position) {
    const uint32_t item = items[position];
    if (item >= kFirstTest && item < kFirstCanary) {
      open_[item - kFirstTest].test = position;
    } else if (item <= tested_.back()) {
      open_[std::lower_bound(tested_.begin(), tested_.end(), item) - tested_.begin()].row = position;
    }
  }
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

IntersectionProtocol::~IntersectionProtocol() {
  outbox_.reset();
  if (spill_ != nullptr && !interrupted_) {
    spill_->Remove();
  }
}

absl::StatusOr<AlignedIds> IntersectionProtocol::Run() {
  absl::StatusOr<AlignedIds> aligned = RunToTheEnd();
  if (IsOwnVerdict(aligned.status()) && inbox_.failure().ok()) {
    inbox_.Fail(aligned.status());  // Before the stream that the peer then closes says something else.
    outbox_->Clear();
    // The peer may wait for this party, and this party's reader for the peer: an outcome that no peer has ends both.
    SendOutcome(std::numeric_limits<uint64_t>::max(), Digest{}).IgnoreError();
  }
  // Where Send failed, the reading thread may know that the peer broke the protocol.
  const absl::Status failure = inbox_.failure();
  interrupted_ = IsInterruption(aligned.status()) && (failure.ok() || IsInterruption(failure));
  return aligned;
}

absl::StatusOr<AlignedIds> IntersectionProtocol::RunToTheEnd() {
  SPLITVEIL_RETURN_IF_ERROR(Begin());
  SPLITVEIL_RETURN_IF_ERROR(MaskAndCommit());
  SPLITVEIL_RETURN_IF_ERROR(SendMasked(first_bucket_, 0, EarlyPoints()));
  for (uint64_t bucket = first_bucket_; bucket < buckets().count; ++bucket) {
    SPLITVEIL_RETURN_IF_ERROR(AlignBucket(bucket));
  }
  SPLITVEIL_RETURN_IF_ERROR(CompareOutcome());
  return AlignedIds{spill_->TakeSharedRows(), spill_->order_sha256(), spill_->terms().peer_ids, channel_.bytes_sent(),
                    channel_.bytes_received()};
}

absl::Status IntersectionProtocol::Begin() {
  Message message;
  Message::SetSize& size = *message.mutable_set_size();
  size.set_ids(setting_.ids.size());
  size.set_bucket_key_commitment(std::string(AsBytes(CommitmentToHalf(setting_.terms.run_id, setting_.own_half))));
  if (spill_ != nullptr) {
    size.mutable_resumes()->set_name(std::string(AsBytes(spill_->name())));
    size.mutable_resumes()->set_next_bucket(spill_->next_bucket());
  }
  SPLITVEIL_RETURN_IF_ERROR(Send(std::move(message)));
  SPLITVEIL_ASSIGN_OR_RETURN(const uint64_t peer_ids, inbox_.WaitForSetSize());
  if (const std::optional<uint64_t> resumed = inbox_.ResumedBucket(); resumed.has_value()) {
    SPLITVEIL_RETURN_IF_ERROR(spill_->GoBackTo(*resumed));
    first_bucket_ = *resumed;
  } else {
    if (spill_ != nullptr) {
      spill_->Remove();  // The peer cannot resume it, so it is of no more use.
      spill_.reset();
    }
    AlignmentTerms terms = setting_.terms;
    terms.peer_ids = peer_ids;
    const bool several = BucketCount(terms.own_ids, peer_ids, terms.bucket_ids) > 1;
    if (several) {
      Message key;
      key.mutable_bucket_key()->set_half(std::string(AsBytes(setting_.own_half)));
      SPLITVEIL_RETURN_IF_ERROR(Send(std::move(key)));
      SPLITVEIL_ASSIGN_OR_RETURN(const Digest half, inbox_.WaitForBucketKey());
      terms.bucket_key = BucketKey(terms.run_id, setting_.own_half, half);
    }
    SPLITVEIL_ASSIGN_OR_RETURN(spill_, AlignmentSpill::Create(several ? setting_.options.spill_path : "", terms));
    SPLITVEIL_RETURN_IF_ERROR(Distribute());
  }
  const uint64_t chunk = spill_->terms().chunk_ids;
  own_masked_ = spill_->own_chunks();
  own_answers_ = AnswerChunks(buckets().own_capacity, chunk, buckets().count);
  peer_answers_ = AnswerChunks(buckets().peer_capacity, chunk, buckets().count);
  hasher_.emplace(spill_->terms().run_id);
  key_.emplace(spill_->secret(), "ids");
  test_key_.emplace(spill_->secret(), "test points");
  Report(spill_->masked_buckets() * own_masked_.points + first_bucket_ * peer_answers_.points);
  return absl::OkStatus();
}

absl::Status IntersectionProtocol::Distribute() {
  const BucketHasher hasher(spill_->terms().bucket_key);
  std::vector<uint64_t> filled(buckets().count);
  for (uint32_t row = 0; row < setting_.ids.size(); ++row) {
    const uint64_t bucket = buckets().count == 1 ? 0 : hasher.BucketOf(setting_.ids[row], buckets().count);
    if (filled[bucket] == buckets().own_capacity) {
      // Fewer than one run in 2^40. To go on would show the peer how full the bucket is.
      return absl::InternalError("alignment: a bucket overflows: align again, with new keys");
    }
    spill_->Items(bucket)[filled[bucket]++] = row;
  }
  for (uint64_t bucket = 0; bucket < buckets().count; ++bucket) {
    const absl::Span<uint32_t> items = spill_->Items(bucket);
    const auto paddings = items.begin() + static_cast<std::ptrdiff_t>(filled[bucket]);
    const auto tests = items.begin() + static_cast<std::ptrdiff_t>(buckets().own_capacity);
    const auto canaries = items.end() - kCanaries;
    std::iota(paddings, tests, static_cast<uint32_t>(setting_.ids.size()));
    std::iota(tests, canaries, kFirstTest);
    std::iota(canaries, items.end(), kFirstCanary);
    Shuffle(items);
  }
  return spill_->SaveMasked(0);
}

absl::Status IntersectionProtocol::MaskAt(uint64_t bucket, const AnswerCheck& check, size_t first,
                                          absl::Span<Point> masked) {
  const absl::Span<const uint32_t> items = spill_->Items(bucket).subspan(first, masked.size());
  const auto is_test = [&](uint32_t item) { return item >= kFirstTest && item < kFirstCanary; };
  const auto item_at = [&](size_t i) { return is_test(items[i]) ? check.TestedBy(items[i]) : items[i]; };
  // Ids lie in the order of the file, so that nearly every one is waited for: for all at once, not for each in turn.
  std::vector<absl::string_view> ids(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    if (const uint32_t item = item_at(i); item < setting_.ids.size()) {
      ids[i] = setting_.ids[item];
      __builtin_prefetch(ids[i].data());
    }
  }
  const auto hash = [&](size_t i) {
    const uint32_t item = item_at(i);
    return item >= kFirstCanary          ? hasher_->HashCanary(bucket * kCanaries + item - kFirstCanary)
           : item >= setting_.ids.size() ? spill_->secret().HashPadding(bucket, item)
                                         : hasher_->Hash(ids[i]);
  };
  if (!key_->MaskHashes(hash, setting_.threads, masked)) {
    return absl::InternalError("alignment: an id hashed to the identity");
  }
  for (size_t i = 0; i < masked.size(); ++i) {
    if (is_test(items[i])) {
      CheckInvariant(test_key_->Mask(masked[i], masked[i]), "a masked id is a usable point");
    }
  }
  return absl::OkStatus();
}

absl::Status IntersectionProtocol::MaskAndCommit() {
  for (uint64_t bucket = 0; bucket < buckets().count; ++bucket) {
    const absl::Span<Digest> commitments = spill_->Commitments(bucket);
    // Those of before an interruption are sent again, so that the peer need not keep them.
    if (bucket < spill_->masked_buckets()) {
      for (uint64_t i = 0; i < commitments.size(); ++i) {
        SPLITVEIL_RETURN_IF_ERROR(
            SendCommitment(PointKind::kMasked, own_masked_.FirstOf(bucket * commitments.size() + i), commitments[i]));
      }
      continue;
    }
    const AnswerCheck check(spill_->Items(bucket), &*test_key_);
    const absl::Span<Point> points = spill_->Masked(bucket);
    for (size_t begin = 0, number = 0; begin < points.size(); begin += BlockPoints()) {
      const absl::Span<Point> block = points.subspan(begin, BlockPoints());
      SPLITVEIL_RETURN_IF_ERROR(MaskAt(bucket, check, begin, block));
      for (size_t first = 0; first < block.size(); first += own_masked_.chunk) {
        SPLITVEIL_ASSIGN_OR_RETURN(commitments[number++],
                                   Commit(PointKind::kMasked, bucket * points.size() + begin + first,
                                          block.subspan(first, own_masked_.chunk)));
      }
      Report(block.size());
    }
    SPLITVEIL_RETURN_IF_ERROR(spill_->SaveMasked(bucket + 1));
  }
  // No point is revealed before the peer is committed to all of its own: else it could choose them by ours.
  SPLITVEIL_ASSIGN_OR_RETURN(const Digest theirs, inbox_.WaitForCommitments(PointKind::kMasked));
  return spill_->HoldPeerTo(PointKind::kMasked, theirs);
}

absl::Status IntersectionProtocol::AlignBucket(uint64_t bucket) {
  AnswerCheck check(spill_->Items(bucket), &*test_key_);
  SPLITVEIL_RETURN_IF_ERROR(SendMasked(bucket, EarlyPoints(), own_masked_.points));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<Point> theirs, AnswerPeer(bucket));
  SPLITVEIL_RETURN_IF_ERROR(SendAnswers(bucket, theirs, check));
  // So that the link is not idle until the peer's last answers are there and looked at. Not more: what the peer makes
  // of them is lost if this party is interrupted before it has finished this bucket.
  SPLITVEIL_RETURN_IF_ERROR(SendMasked(bucket + 1, 0, EarlyPoints()));
  const std::vector<uint32_t> their_positions = AscendingPositions(theirs);  // While the peer's last answers come.
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<Point> ours, inbox_.TakeDoubleMasked());
  SPLITVEIL_RETURN_IF_ERROR(check.Check([&](uint64_t position) { return std::optional<Point>(ours[position]); }));
  // A peer that sends our own masked points back would learn nothing, but make us believe that it shares every id. By
  // one exponent, one point stands for all.
  if (ours.front() == spill_->Masked(bucket).front()) {
    return absl::InvalidArgumentError("double_masked: expected answers by the peer's exponent, found our points");
  }
  return Intersect(bucket, ours, theirs, their_positions);
}

absl::Status IntersectionProtocol::SendMasked(uint64_t bucket, uint64_t begin, uint64_t end) {
  if (bucket == buckets().count) {
    return absl::OkStatus();
  }
  SPLITVEIL_RETURN_IF_ERROR(inbox_.failure());
  return outbox_->Put([this, bucket, end, first = begin]() mutable -> std::optional<Message> {
    if (first >= end) {
      return std::nullopt;
    }
    const absl::Span<const Point> chunk = spill_->Masked(bucket).subspan(first, own_masked_.chunk);
    inbox_.NoteSent(chunk.size());
    return ChunkMessage(PointKind::kMasked, bucket * own_masked_.points + std::exchange(first, first + chunk.size()),
                        chunk);
  });
}

absl::StatusOr<std::vector<Point>> IntersectionProtocol::AnswerPeer(uint64_t bucket) {
  const uint64_t base = bucket * peer_answers_.points;
  std::vector<Point> answers;
  answers.reserve(peer_answers_.points);  // Takes memory as they come, not as they were announced.
  for (uint64_t committed = 0; answers.size() < peer_answers_.points;) {
    const uint64_t begin = answers.size();
    SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<Point> block,
                               inbox_.TakeMasked(std::min<uint64_t>(BlockPoints(), peer_answers_.points - begin)));
    answers.resize(begin + block.size());
    if (!key_->Mask(block, setting_.threads, absl::MakeSpan(answers).subspan(begin))) {
      return absl::InternalError("alignment: a checked point could not be masked");
    }
    while (committed + peer_answers_.SizeAt(committed) <= answers.size()) {
      const absl::Span<const Point> chunk =
          absl::MakeConstSpan(answers).subspan(committed, peer_answers_.SizeAt(committed));
      SPLITVEIL_RETURN_IF_ERROR(Commit(PointKind::kDoubleMasked, base + committed, chunk).status());
      committed += chunk.size();
    }
    Report(block.size());
  }
  return answers;
}

absl::Status IntersectionProtocol::SendAnswers(uint64_t bucket, absl::Span<const Point> answers, AnswerCheck& check) {
  // Answers are committed to as well: a peer that sees ours first could answer with them, and share what it does not
  // hold. So it could if it came back after an interruption with other commitments.
  SPLITVEIL_ASSIGN_OR_RETURN(const Digest theirs, inbox_.WaitForCommitments(PointKind::kDoubleMasked));
  SPLITVEIL_RETURN_IF_ERROR(spill_->HoldPeerTo(PointKind::kDoubleMasked, theirs));
  const uint64_t count = peer_answers_.count(), owed = own_answers_.count(), lead = AnswerLead(count * buckets().count);
  uint64_t first = 0;
  for (uint64_t number = 0; number < count; ++number, first += peer_answers_.SizeAt(first)) {
    // As large a share of the answers that are owed must have come as were sent before the latest messages.
    // In step: a peer that stops early must not have learned much more of the intersection than this party.
    const uint64_t awaited = number < lead ? 0 : (number - lead + 1) * owed / count * own_answers_.chunk;
    SPLITVEIL_RETURN_IF_ERROR(inbox_.WaitForAnswers(awaited));
    // Checked before each further message, so that a peer with several exponents is found while little is revealed.
    SPLITVEIL_RETURN_IF_ERROR(check.Check([&](uint64_t position) { return inbox_.Answer(position); }));
    SPLITVEIL_RETURN_IF_ERROR(Send(ChunkMessage(PointKind::kDoubleMasked, bucket * peer_answers_.points + first,
                                                answers.subspan(first, peer_answers_.SizeAt(first)))));
    Report(0);
  }
  return absl::OkStatus();
}

absl::Status IntersectionProtocol::Intersect(uint64_t bucket, absl::Span<const Point> ours,
                                             absl::Span<const Point> theirs,
                                             absl::Span<const uint32_t> their_positions) {
  const auto repeats = [](absl::Span<const Point> points, absl::Span<const uint32_t> positions) {
    const auto equal = [&](uint32_t a, uint32_t b) { return points[a] == points[b]; };
    return std::adjacent_find(positions.begin(), positions.end(), equal) != positions.end();
  };
  // Masking is one-to-one: a value that repeats stands for an id, or an answer, that repeats.
  if (repeats(theirs, their_positions)) {
    return absl::InvalidArgumentError("masked: expected distinct ids, found repeated ones");
  }
  // Both parties sort by the same values, and so agree on the order of rows without sending it.
  const std::vector<uint32_t> positions = AscendingPositions(ours);
  if (repeats(ours, positions)) {
    return absl::InvalidArgumentError("double_masked: expected distinct answers, found repeated ones");
  }

  const absl::Span<const uint32_t> items = spill_->Items(bucket);
  std::vector<uint32_t> rows;
  Sha256Hasher order;
  uint64_t canaries = 0;
  auto their = their_positions.begin();
  for (const uint32_t position : positions) {
    const auto is_before = [&](uint32_t their_position) { return theirs[their_position] < ours[position]; };
    their = std::find_if_not(their, their_positions.end(), is_before);
    if (their == their_positions.end() || theirs[*their] != ours[position]) {
      continue;
    }
    canaries += items[position] >= kFirstCanary ? 1 : 0;
    if (items[position] < setting_.ids.size()) {
      rows.push_back(items[position]);
      order.Update({reinterpret_cast<const char*>(ours[position].data()), sizeof(Point)});
    }
  }
  // Against errors, of either party's program or machine, that would lose rows. A peer that wants to cheat knows them.
  if (canaries != kCanaries) {
    return absl::FailedPreconditionError(absl::StrCat("alignment: expected to find the ", kCanaries,
                                                      " points that both parties add, found ", canaries,
                                                      ": one party computes wrongly, so no result is kept"));
  }
  const uint64_t peer_ids = spill_->terms().peer_ids;
  if (const uint64_t found = spill_->shared_rows().size() + rows.size(); found > peer_ids) {
    return absl::InvalidArgumentError(absl::StrCat("masked: expected at most ", peer_ids,
                                                   " shared ids, as many as the peer announced, found ", found));
  }
  return spill_->FinishBucket(rows, order.Finish());
}

absl::Status IntersectionProtocol::SendOutcome(uint64_t shared_ids, const Digest& order) {
  if (std::exchange(outcome_sent_, true)) {
    return absl::OkStatus();
  }
  Message message;
  message.mutable_outcome()->set_shared_ids(shared_ids);
  message.mutable_outcome()->set_order_sha256(order.data(), order.size());
  message.set_run_id(setting_.options.run_id);
  SPLITVEIL_RETURN_IF_ERROR(outbox_->Put(std::move(message)));
  return outbox_->Flush();
}

absl::Status IntersectionProtocol::CompareOutcome() {
  const uint64_t shared = spill_->shared_rows().size();
  SPLITVEIL_RETURN_IF_ERROR(SendOutcome(shared, spill_->order_sha256()));
  Report(0);
  SPLITVEIL_ASSIGN_OR_RETURN(const PeerInbox::Outcome theirs, inbox_.WaitForOutcome());
  if (theirs.shared_ids != shared || theirs.order_sha256 != spill_->order_sha256()) {
    return absl::FailedPreconditionError(
        absl::StrCat("alignment: the parties differ: this one found ", shared, " shared ids, the peer ",
                     theirs.shared_ids, theirs.shared_ids == shared ? " others" : "", ", so no result is kept"));
  }
  const AlignmentOptions& options = setting_.options;
  if (shared < options.min_shared_ids || shared > options.max_shared_ids) {
    return absl::FailedPreconditionError(absl::StrCat("alignment: expected ", options.min_shared_ids, " to ",
                                                      options.max_shared_ids, " shared ids, found ", shared));
  }
  return absl::OkStatus();
}

absl::StatusOr<Digest> IntersectionProtocol::Commit(PointKind kind, uint64_t first, absl::Span<const Point> chunk) {
  const absl::string_view bytes(reinterpret_cast<const char*>(chunk.data()), chunk.size() * sizeof(Point));
  const Digest commitment =
      CommitmentTo(kind, spill_->terms().run_id, first, spill_->secret().Nonce(kind, first), bytes);
  SPLITVEIL_RETURN_IF_ERROR(SendCommitment(kind, first, commitment));
  return commitment;
}

absl::Status IntersectionProtocol::SendCommitment(PointKind kind, uint64_t first, const Digest& commitment) {
  // Noted before it is sent, so that a peer that copies the commitment is recognised.
  inbox_.NoteCommitted(kind, commitment);
  Message message;
  Message::Commitment& content =
      kind == PointKind::kMasked ? *message.mutable_masked_commitment() : *message.mutable_double_masked_commitment();
  content.set_first_index(first);
  content.set_sha256(commitment.data(), commitment.size());
  return Send(std::move(message));
}

Message IntersectionProtocol::ChunkMessage(PointKind kind, uint64_t first, absl::Span<const Point> chunk) const {
  const CommitmentNonce nonce = spill_->secret().Nonce(kind, first);
  Message message;
  message.set_run_id(setting_.options.run_id);
  Message::Points& content = kind == PointKind::kMasked ? *message.mutable_masked() : *message.mutable_double_masked();
  content.set_first_index(first);
  content.set_points(chunk.data(), chunk.size() * sizeof(Point));
  content.set_nonce(nonce.data(), nonce.size());
  return message;
}

absl::Status IntersectionProtocol::Send(Message message) {
  // Nothing more for a peer that broke the protocol.
  SPLITVEIL_RETURN_IF_ERROR(inbox_.failure());
  message.set_run_id(setting_.options.run_id);
  return outbox_->Put(std::move(message));
}

void IntersectionProtocol::Report(uint64_t newly_done) {
  done_ += newly_done;
  if (setting_.options.progress) {
    const uint64_t ids = spill_->terms().own_ids + spill_->terms().peer_ids;  // Not padding and test points.
    setting_.options.progress(std::min(done_, ids), ids, channel_.bytes_sent() + channel_.bytes_received());
  }
}

}  // namespace splitveil
