#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/operator/plan/privacy_plan.h"

#include "common/alignment/alignment_spill.h"
#include "common/alignment/buckets.h"
#include "common/alignment/masking_key.h"

#include "splitveil/v1/alignment.pb.h"

namespace splitveil {
namespace {

constexpr double kBytesPerMegabit = 1e6 / 8;
constexpr size_t kRunIdBytes = 20;  // A short name and its number; every message carries it.
constexpr size_t kPointBytes = sizeof(Point);

// Of the commitments to points of one kind, and of the points, as they are put on the wire.
double ChunkBytes(const PointChunks& chunks) {
  v1::AlignmentMessage commitment, points;
  for (v1::AlignmentMessage* message : {&commitment, &points}) {
    message->set_run_id(std::string(kRunIdBytes, ' '));
  }
  commitment.mutable_masked_commitment()->set_first_index(chunks.points / 2);
  commitment.mutable_masked_commitment()->set_sha256(std::string(sizeof(Digest), ' '));
  points.mutable_masked()->set_first_index(chunks.points / 2);
  points.mutable_masked()->set_nonce(std::string(sizeof(CommitmentNonce), ' '));
  const size_t without_points = commitment.ByteSizeLong() + points.ByteSizeLong();
  return static_cast<double>(chunks.count()) * static_cast<double>(without_points) +
         static_cast<double>(chunks.points * kPointBytes);
}

// Of the messages that a party sends once: at the start and at the end.
double FixedBytes(uint64_t buckets) {
  v1::AlignmentMessage start, end, key;
  for (v1::AlignmentMessage* message : {&start, &end, &key}) {
    message->set_run_id(std::string(kRunIdBytes, ' '));
  }
  start.mutable_set_size()->set_bucket_key_commitment(std::string(sizeof(Digest), ' '));
  end.mutable_outcome()->set_order_sha256(std::string(sizeof(Digest), ' '));
  key.mutable_bucket_key()->set_half(std::string(sizeof(Digest), ' '));
  return static_cast<double>(start.ByteSizeLong() + end.ByteSizeLong() + (buckets > 1 ? key.ByteSizeLong() : 0));
}

// What a party sends: its points and the answers to the peer's, bucket by bucket.
double SentBytes(const Buckets& buckets, uint64_t chunk_ids) {
  return FixedBytes(buckets.count) + static_cast<double>(buckets.count) *
                                         (ChunkBytes(MaskedChunks(buckets.own_capacity, chunk_ids)) +
                                          ChunkBytes(AnswerChunks(buckets.peer_capacity, chunk_ids, buckets.count)));
}

// What the ids of a table take beside party.spill_path: each its bytes, its end, and its row where others were left
// out.
double IdTableBytes(const AlignmentPlanOptions& options) {
  return options.id_bytes == 0
             ? 0
             : static_cast<double>(options.ids) * (options.id_bytes + sizeof(uint64_t) + sizeof(uint32_t));
}

std::string MegabytesText(double bytes) { return absl::StrFormat("%.*f MB", bytes < 1e7 ? 2 : 0, bytes / 1e6); }

}  // namespace

AlignmentPlan MakeAlignmentPlan(const AlignmentPlanOptions& options, const MaskingSpeed& speed) {
  AlignmentPlan plan;
  plan.options = options;
  const Buckets buckets = SplitIntoBuckets(options.ids, options.peer_ids, options.bucket_ids);
  plan.bytes_sent = SentBytes(buckets, options.chunk_ids);
  plan.bytes_received = SentBytes({buckets.count, buckets.peer_capacity, buckets.own_capacity}, options.chunk_ids);
  // Padding is computed with, too.
  const auto ids = static_cast<double>(buckets.count * buckets.own_capacity),
             peer_ids = static_cast<double>(buckets.count * buckets.peer_capacity);
  plan.own_core_seconds = ids * speed.own_seconds + peer_ids * speed.peer_seconds;
  const double peer_core_seconds = peer_ids * speed.own_seconds + ids * speed.peer_seconds;
  plan.compute_seconds = std::max(plan.own_core_seconds, peer_core_seconds) / options.cores;
  if (options.bandwidth_mbps > 0) {
    plan.transfer_seconds =
        std::max(plan.bytes_sent, plan.bytes_received) / (options.bandwidth_mbps * kBytesPerMegabit);
  }
  plan.memory_bytes = AlignmentMemoryBytes(options.ids, options.peer_ids, options.bucket_ids);
  const double spill = buckets.count == 1
                           ? 0
                           : static_cast<double>(AlignmentSpill::Bytes(options.ids, buckets.count, options.chunk_ids));
  // A table's file is written in parts, which are then joined, beside the one whose repeated rows are left out. The
  // spill file comes afterwards.
  plan.disk_bytes = IdTableBytes(options) + std::max(2 * IdTableBytes(options), spill);
  return plan;
}

std::string AlignmentPlanText(const AlignmentPlan& plan) {
  const AlignmentPlanOptions& options = plan.options;
  std::string text =
      absl::StrFormat("an alignment of %d own ids with %d of the peer's, both on %d cores like this one\n", options.ids,
                      options.peer_ids, options.cores);
  Line("bytes",
       absl::StrFormat("%s sent, %s received: %.1f per id of either party", MegabytesText(plan.bytes_sent),
                       MegabytesText(plan.bytes_received),
                       (plan.bytes_sent + plan.bytes_received) / static_cast<double>(options.ids + options.peer_ids)),
       text);
  Line("compute time",
       absl::StrFormat("%s (%s on one core; measured for a second)", TimeText(plan.compute_seconds),
                       TimeText(plan.own_core_seconds)),
       text);
  if (options.bandwidth_mbps > 0) {
    Line("transfer time", absl::StrFormat("%s at %g Mbit/s", TimeText(plan.transfer_seconds), options.bandwidth_mbps),
         text);
    // Points cannot leave before all are committed to, so only a part overlaps.
    Line("in all",
         absl::StrCat(TimeText(std::max(plan.compute_seconds, plan.transfer_seconds)), " to ",
                      TimeText(plan.compute_seconds + plan.transfer_seconds)),
         text);
  }
  Line("memory at the peak", MegabytesText(plan.memory_bytes), text);
  Line("disk",
       absl::StrCat(plan.disk_bytes == 0
                        ? "none: the sets are held in memory"
                        : absl::StrCat("at most ", MegabytesText(plan.disk_bytes), " (party.spill_path)"),
                    options.id_bytes == 0 ? "; align --ids takes more: see --id_bytes" : ""),
       text);
  return text;
}

}  // namespace splitveil
