// What an alignment keeps until it ends, on the disk if there are several buckets: so that memory does not grow with
// the set, and an interrupted alignment resumes at the first bucket that is not finished.
//
//   "SVSPILL1" | two header slots | masked points | own commitments | items | shared rows
//
// Slots of 4096 bytes, at 4096 and 8192, written in turn, so that one of them is whole whenever the process or the
// machine stops: SHA-256 of the rest, u64 sequence, u32 length, AlignmentSpillHeader. Points: 32 bytes each, from 12288
// on, bucket by bucket in the order in which they are sent; those of finished buckets are given back to the disk.
// Commitments: 32 bytes for each message of masked points. Items: what each point stands for, u32. Shared rows: u32, in
// the order both parties share. Little-endian.
#ifndef SPLITVEIL_COMMON_ALIGNMENT_ALIGNMENT_SPILL_H_
#define SPLITVEIL_COMMON_ALIGNMENT_ALIGNMENT_SPILL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/alignment/buckets.h"
#include "common/alignment/masking_key.h"
#include "common/crypto/digest.h"

#include "splitveil/v1/checkpoint.pb.h"

namespace splitveil {

// What the points of an alignment depend on.
struct AlignmentTerms {
  std::string run_id;   // Bound into points and commitments.
  Digest binding = {};  // Of ids, certificates and agreement: with others it does not resume.
  Digest bucket_key = {};
  uint64_t own_ids = 0, peer_ids = 0;
  uint64_t bucket_ids = kBucketIds, chunk_ids = 4096;
};

// Not thread-safe. The file is locked while this lives. Everything that Save* and Finish* say is durable when they
// return. Errors of the file: Internal.
class AlignmentSpill {
 public:
  // A new one with its own secret, in place of an interrupted one. `path`: empty keeps it in memory. Errors: Internal
  // if disk or memory has no room, FailedPrecondition if another process holds the file, InvalidArgument if the file is
  // of another kind or cannot be made.
  static absl::StatusOr<std::unique_ptr<AlignmentSpill>> Create(const std::string& path, const AlignmentTerms& terms);
  // The interrupted one at `path`; null if there is none. `terms`: binding, bucket_ids and chunk_ids. Errors: see
  // Create; InvalidArgument if it is bound to something else or damaged.
  static absl::StatusOr<std::unique_ptr<AlignmentSpill>> Open(const std::string& path, const AlignmentTerms& terms);
  ~AlignmentSpill();
  AlignmentSpill(const AlignmentSpill&) = delete;
  AlignmentSpill& operator=(const AlignmentSpill&) = delete;

  // Most that the file takes, in bytes, with as many buckets.
  static uint64_t Bytes(uint64_t own_ids, uint64_t buckets, uint64_t chunk_ids);
  // Overwrites the secret and removes the file; once it is of no more use.
  void Remove();

  const AlignmentTerms& terms() const { return terms_; }
  const AlignmentSecret& secret() const { return secret_; }
  const Buckets& buckets() const { return buckets_; }
  Digest name() const { return NameOfAlignment(terms_.bucket_key); }
  // First bucket that is not masked, and first that is not finished.
  uint64_t masked_buckets() const { return header_.masked_buckets(); }
  uint64_t next_bucket() const { return latest().number(); }

  // Of one bucket, own_chunks().points items and points and own_chunks().count() commitments; valid as long as this.
  absl::Span<uint32_t> Items(uint64_t bucket);
  absl::Span<Point> Masked(uint64_t bucket);
  absl::Span<Digest> Commitments(uint64_t bucket);
  const PointChunks& own_chunks() const { return own_chunks_; }

  // The items of all buckets are there; all masked points and commitments of the buckets before `masked_buckets` are.
  absl::Status SaveMasked(uint64_t masked_buckets);
  // `sha256`: over the peer's commitments to all its masked points, or to its answers in next_bucket(). The first time
  // they are kept; later, FailedPrecondition if they differ: the peer has seen points or answers since.
  absl::Status HoldPeerTo(PointKind kind, const Digest& sha256);
  // What next_bucket() has in common, in its order; `values_sha256`: over the double-masked values.
  absl::Status FinishBucket(absl::Span<const uint32_t> rows, const Digest& values_sha256);
  // The peer has not finished the bucket before next_bucket(): it is the next one again. FailedPrecondition for any
  // other, whose points are gone.
  absl::Status GoBackTo(uint64_t bucket);

  // Of all finished buckets. order_sha256: that of the first bucket's values; with each further bucket, SHA-256 of the
  // digest so far and of that of its values.
  const std::vector<uint32_t>& shared_rows() const { return shared_rows_; }
  std::vector<uint32_t> TakeSharedRows() { return std::move(shared_rows_); }
  Digest order_sha256() const;

 private:
  AlignmentSpill(std::string path, int file, AlignmentTerms terms, AlignmentSecret secret);
  const v1::AlignmentSpillHeader::Bucket& latest() const { return header_.buckets(header_.buckets_size() - 1); }
  uint64_t FileOffsetOfSharedRows() const;
  absl::Status Allocate();
  absl::Status Map();
  absl::Status ReadSharedRows();
  absl::Status SaveHeader();
  absl::Status Failed(const char* what) const;

  const std::string path_;
  const int file_;  // -1: in memory.
  const AlignmentTerms terms_;
  const AlignmentSecret secret_;
  const Buckets buckets_;
  const PointChunks own_chunks_;
  v1::AlignmentSpillHeader header_;
  uint64_t sequence_ = 0;
  uint8_t* mapped_ = nullptr;
  std::vector<uint32_t> shared_rows_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_ALIGNMENT_ALIGNMENT_SPILL_H_
