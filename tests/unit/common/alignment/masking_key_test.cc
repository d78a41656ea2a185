#include "common/alignment/masking_key.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "tests/unit/common/alignment/points_for_test.h"

namespace splitveil {
namespace {

TEST(MaskingKeyTest, KeysCommute) {
  const MaskingKey a = MaskingKey::Generate();
  const MaskingKey b = MaskingKey::Generate();
  for (const Point& point : testing::SomePoints(10)) {
    Point by_a, by_a_then_b, by_b, by_b_then_a;
    ASSERT_TRUE(a.Mask(point, by_a) && b.Mask(by_a, by_a_then_b));
    ASSERT_TRUE(b.Mask(point, by_b) && a.Mask(by_b, by_b_then_a));
    EXPECT_EQ(by_a_then_b, by_b_then_a);
    EXPECT_NE(by_a, by_b);
    EXPECT_NE(by_a, point);
  }
}

TEST(MaskingKeyTest, MaskIsLinearOverTheGroup) {
  // (P + Q)^k = P^k + Q^k holds for an exponentiation and for no other map of the encodings.
  const MaskingKey key = MaskingKey::Generate();
  const std::vector<Point> points = testing::SomePoints(2);
  Point sum, masked_sum, left, right, sum_of_masked;
  ASSERT_EQ(crypto_core_ristretto255_add(sum.data(), points[0].data(), points[1].data()), 0);
  ASSERT_TRUE(key.Mask(sum, masked_sum) && key.Mask(points[0], left) && key.Mask(points[1], right));
  ASSERT_EQ(crypto_core_ristretto255_add(sum_of_masked.data(), left.data(), right.data()), 0);
  EXPECT_EQ(masked_sum, sum_of_masked);
}

TEST(MaskingKeyTest, RefusesEncodingsThatRfc9496Rejects) {
  const MaskingKey key = MaskingKey::Generate();
  Point masked;
  for (const Point& point : testing::BadEncodings()) {
    EXPECT_FALSE(key.Mask(point, masked));
    EXPECT_FALSE(IsUsablePoint(point));
  }
}

TEST(MaskingKeyTest, MasksManyPointsAsEachByItself) {
  const MaskingKey key = MaskingKey::Generate();
  for (const size_t count : {0, 1, 7, 8, 9, 127, 128, 129, 300}) {
    std::vector<Point> points = testing::SomePoints(count), one_by_one(count), together(count), hashed(count);
    for (size_t i = 0; i < count; ++i) {
      EXPECT_TRUE(key.Mask(points[i], one_by_one[i]));
    }
    const IdHasher hasher("points of a test");
    const auto hash = [&](size_t i) { return hasher.Hash(absl::StrCat("point ", i)); };
    for (const size_t threads : {1, 3}) {
      EXPECT_TRUE(key.Mask(points, threads, absl::MakeSpan(together)));
      EXPECT_EQ(together, one_by_one);
      EXPECT_TRUE(key.MaskHashes(hash, threads, absl::MakeSpan(hashed)));
      EXPECT_EQ(hashed, one_by_one);
      EXPECT_EQ(CountUnusablePoints(points, threads), 0);
    }
    if (count > 0) {
      points[count / 2] = testing::BadEncodings().front();
      EXPECT_FALSE(key.Mask(points, 2, absl::MakeSpan(together)));
      EXPECT_EQ(CountUnusablePoints(points, 2), 1);
    }
  }
}

TEST(MaskingKeyTest, RefusesTheIdentity) {
  Point masked;
  EXPECT_FALSE(MaskingKey::Generate().Mask(Point{}, masked));
  EXPECT_FALSE(IsUsablePoint(Point{}));
}

TEST(IdHasherTest, HashesToUsablePointsThatDifferById) {
  const std::vector<Point> points = testing::SomePoints(50);
  for (size_t i = 0; i < points.size(); ++i) {
    EXPECT_TRUE(IsUsablePoint(points[i]));
    for (size_t j = 0; j < i; ++j) {
      EXPECT_NE(points[i], points[j]);
    }
  }
}

TEST(IdHasherTest, AgreesWithAnIndependentComputation) {
  // RFC 9496 written out in Python integers (checked against its appendix A.3), on
  // SHA-512("Splitveil alignment ristretto255 SHA-512 v1" || 8 as 8 bytes, little-endian || "run-2022" || "user-42").
  EXPECT_EQ(testing::HashToPoint(IdHasher("run-2022"), "user-42"),
            testing::FromHex("627dc7fc8b1952a94fa466faa7d31d4b5a945e8610cbb36fef6be9d127024f71"));
}

TEST(IdHasherTest, SameRunAndIdGiveTheSamePoint) { EXPECT_EQ(IdHasher("run").Hash("id"), IdHasher("run").Hash("id")); }

TEST(IdHasherTest, RunsShareNoPoint) { EXPECT_NE(IdHasher("run 1").Hash("id"), IdHasher("run 2").Hash("id")); }

TEST(IdHasherTest, CanariesDifferByNumberAndRunAndAreNoIds) {
  const IdHasher hasher("run");
  EXPECT_EQ(hasher.HashCanary(1), IdHasher("run").HashCanary(1));
  EXPECT_NE(hasher.HashCanary(1), hasher.HashCanary(0));
  EXPECT_NE(hasher.HashCanary(1), IdHasher("other").HashCanary(1));
  EXPECT_NE(hasher.HashCanary(1), hasher.Hash(std::string("\1\0\0\0\0\0\0\0", 8)));
}

TEST(IdHasherTest, BoundaryBetweenRunAndIdCounts) { EXPECT_NE(IdHasher("ab").Hash("c"), IdHasher("a").Hash("bc")); }

TEST(CommitmentTest, AgreesWithAnIndependentComputation) {
  // Python's hashlib, on the tag "Splitveil alignment commitment SHA-256 v1" || 2, 7 and 8 as 8 bytes each,
  // little-endian || "run-2022" || 32 times "n" || 64 times "p".
  CommitmentNonce nonce;
  nonce.fill('n');
  EXPECT_EQ(CommitmentTo(PointKind::kDoubleMasked, "run-2022", 7, nonce, std::string(64, 'p')),
            testing::FromHex("e7b09d58f5bd1262466181bf4dc4f08df8b87b788fe83c04b1a07f96464ec11b"));
}

// `count` points whose byte k is below `values` where k < 2, as where many share their leading bits, and any else.
std::vector<Point> RandomPoints(size_t count, int values) {
  std::mt19937 random(20261123);
  std::vector<Point> points(count);
  for (Point& point : points) {
    for (size_t k = 0; k < point.size(); ++k) {
      point[k] = static_cast<uint8_t>(random() % (k < 2 ? values : 256));
    }
  }
  return points;
}

std::vector<Point> InOrder(const std::vector<Point>& points) {
  std::vector<Point> ordered;
  for (const uint32_t position : AscendingPositions(points)) {
    ordered.push_back(points[position]);
  }
  return ordered;
}

TEST(PointOrderTest, IsThatOfASort) {
  for (const int values : {1, 3, 256}) {
    for (const size_t count : {0, 1, 2, 20000}) {
      const std::vector<Point> points = RandomPoints(count, values);
      std::vector<Point> sorted = points;
      std::sort(sorted.begin(), sorted.end());
      EXPECT_EQ(InOrder(points), sorted) << count << " points, " << values << " values";
    }
  }
}

TEST(PointOrderTest, NamesEachOfEqualPointsOnce) {
  std::vector<uint32_t> positions = AscendingPositions(std::vector<Point>(3, Point{7}));
  std::sort(positions.begin(), positions.end());
  EXPECT_EQ(positions, (std::vector<uint32_t>{0, 1, 2}));
}

}  // namespace
}  // namespace splitveil
