// Encodings that tests of the alignment share.
#ifndef SPLITVEIL_TESTS_UNIT_COMMON_ALIGNMENT_POINTS_FOR_TEST_H_
#define SPLITVEIL_TESTS_UNIT_COMMON_ALIGNMENT_POINTS_FOR_TEST_H_

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/alignment/buckets.h"
#include "common/alignment/masking_key.h"
#include "tests/testing/hex.h"

#include "splitveil/v1/alignment.pb.h"

namespace splitveil::testing {

inline Point FromHex(absl::string_view hex) {
  const std::string bytes = BytesFromHex(std::string(hex));
  Point point{};
  std::copy(bytes.begin(), bytes.end(), point.begin());
  return point;
}

// Encodings a decoder must reject; one of each kind, most of them from RFC 9496, appendix A.2.
inline std::vector<Point> BadEncodings() {
  return {
      FromHex("00ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"),  // Not below p.
      // The generator with the highest bit set, which libsodium 1.0.18 ignores.
      FromHex("e2f2ae0a6abc4e71a884a961c500515f58e30b6aa582dd8db6a65945e08d2df6"),
      FromHex("0100000000000000000000000000000000000000000000000000000000000000"),  // Negative.
      FromHex("26948d35ca62e643e26a83177332e6b6afeb9d08e4268b650f1f5bbd8d81d371"),  // Not a square.
      FromHex("3eb858e78f5a7254d8c9731174a94f76755fd3941c0ac93735c07ba14579630e"),  // Negative x y.
      FromHex("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),  // y = 0.
  };
}

// The element that an id stands for in a run, by libsodium.
inline Point HashToPoint(const IdHasher& hasher, absl::string_view id) {
  Point point;
  crypto_core_ristretto255_from_hash(point.data(), hasher.Hash(id).data());
  return point;
}

// Distinct usable points.
inline std::vector<Point> SomePoints(size_t count) {
  const IdHasher hasher("points of a test");
  std::vector<Point> points;
  for (size_t i = 0; i < count; ++i) {
    points.push_back(HashToPoint(hasher, absl::StrCat("point ", i)));
  }
  return points;
}

inline v1::AlignmentMessage SetSizeMessage(const std::string& run_id, uint64_t ids) {
  v1::AlignmentMessage message;
  message.set_run_id(run_id);
  message.mutable_set_size()->set_ids(ids);
  return message;
}

inline void SetPoints(uint64_t first_index, const std::vector<Point>& points, v1::AlignmentMessage::Points* content) {
  content->set_first_index(first_index);
  content->set_points(points.data(), points.size() * sizeof(Point));
  content->set_nonce(std::string(sizeof(CommitmentNonce), 'n'));
}

inline v1::AlignmentMessage MaskedMessage(const std::string& run_id, uint64_t first_index,
                                          const std::vector<Point>& points) {
  v1::AlignmentMessage message;
  message.set_run_id(run_id);
  SetPoints(first_index, points, message.mutable_masked());
  return message;
}

inline v1::AlignmentMessage DoubleMaskedMessage(const std::string& run_id, uint64_t first_index,
                                                const std::vector<Point>& points) {
  v1::AlignmentMessage message;
  message.set_run_id(run_id);
  SetPoints(first_index, points, message.mutable_double_masked());
  return message;
}

inline void AppendPoints(const std::string& bytes, std::vector<Point>& points) {
  for (size_t begin = 0; begin + sizeof(Point) <= bytes.size(); begin += sizeof(Point)) {
    std::memcpy(points.emplace_back().data(), bytes.data() + begin, sizeof(Point));
  }
}

// The commitment to the points that `message` carries, as the message that goes before it.
inline v1::AlignmentMessage CommitmentOf(const v1::AlignmentMessage& message) {
  const PointKind kind = message.has_masked() ? PointKind::kMasked : PointKind::kDoubleMasked;
  const v1::AlignmentMessage::Points& points = message.has_masked() ? message.masked() : message.double_masked();
  CommitmentNonce nonce;
  std::memcpy(nonce.data(), points.nonce().data(), nonce.size());
  const Digest digest = CommitmentTo(kind, message.run_id(), points.first_index(), nonce, points.points());
  v1::AlignmentMessage commitment;
  commitment.set_run_id(message.run_id());
  v1::AlignmentMessage::Commitment& content =
      message.has_masked() ? *commitment.mutable_masked_commitment() : *commitment.mutable_double_masked_commitment();
  content.set_first_index(points.first_index());
  content.set_sha256(digest.data(), digest.size());
  return commitment;
}

// `points`, cut as the parties cut them: first all commitments to them, then the points.
inline std::vector<v1::AlignmentMessage> Committed(PointKind kind, const std::string& run_id, const PointChunks& chunks,
                                                   const std::vector<Point>& points) {
  std::vector<v1::AlignmentMessage> messages;
  for (uint64_t first = 0; first < points.size(); first += chunks.chunk) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(first);
    const std::vector<Point> chunk(begin, begin + static_cast<std::ptrdiff_t>(chunks.SizeAt(first)));
    messages.push_back(kind == PointKind::kMasked ? MaskedMessage(run_id, first, chunk)
                                                  : DoubleMaskedMessage(run_id, first, chunk));
  }
  const size_t count = messages.size();
  for (size_t i = 0; i < count; ++i) {
    messages.insert(messages.begin() + static_cast<std::ptrdiff_t>(i), CommitmentOf(messages[2 * i]));
  }
  return messages;
}

}  // namespace splitveil::testing

#endif  // SPLITVEIL_TESTS_UNIT_COMMON_ALIGNMENT_POINTS_FOR_TEST_H_
