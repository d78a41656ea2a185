// Encodings that tests of the alignment share.
#ifndef SPLITVEIL_TESTS_UNIT_COMMON_ALIGNMENT_POINTS_FOR_TEST_H_
#define SPLITVEIL_TESTS_UNIT_COMMON_ALIGNMENT_POINTS_FOR_TEST_H_

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

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

// RFC 9496, appendix A.2: encodings a decoder must reject; one of each kind.
inline std::vector<Point> BadEncodings() {
  return {
      FromHex("00ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"),  // Not below p.
      FromHex("0100000000000000000000000000000000000000000000000000000000000000"),  // Negative.
      FromHex("26948d35ca62e643e26a83177332e6b6afeb9d08e4268b650f1f5bbd8d81d371"),  // Not a square.
      FromHex("3eb858e78f5a7254d8c9731174a94f76755fd3941c0ac93735c07ba14579630e"),  // Negative x y.
      FromHex("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),  // y = 0.
  };
}

// Distinct usable points.
inline std::vector<Point> SomePoints(size_t count) {
  const IdHasher hasher("points of a test");
  std::vector<Point> points;
  for (size_t i = 0; i < count; ++i) {
    points.push_back(hasher.Hash(absl::StrCat("point ", i)));
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

}  // namespace splitveil::testing

#endif  // SPLITVEIL_TESTS_UNIT_COMMON_ALIGNMENT_POINTS_FOR_TEST_H_
