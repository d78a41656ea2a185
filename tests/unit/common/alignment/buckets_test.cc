#include "common/alignment/buckets.h"

#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/crypto/sha256.h"

namespace splitveil {
namespace {

// Least capacities by SciPy: min k with buckets * binom.sf(k, ids, 1 / buckets) < 2^-40.
struct Case {
  uint64_t ids, buckets, least, expected;
};
constexpr Case kCases[] = {
    {2, 2, 2, 2},
    {50, 2, 48, 50},
    {1000, 8, 208, 222},
    {10'000, 128, 155, 162},
    {100'000, 16, 6826, 6878},
    {1'048'577, 2, 527'946, 529'757},
    {16'777'216, 4096, 4627, 4652},
    {10'000'000, 16, 630'691, 631'185},
    {100'000'000, 128, 788'034, 788'396},
    {4'000'000'000, 4096, 984'602, 984'965},
};

TEST(BucketsTest, NoBucketOverflowsButWithAProbabilityBelow2ToTheMinus40) {
  for (const Case& test : kCases) {
    SCOPED_TRACE(test.ids);
    const uint64_t capacity = BucketCapacity(test.ids, test.buckets);
    EXPECT_EQ(capacity, test.expected);  // By Python's floats: the same on every machine.
    EXPECT_GE(capacity, test.least);
    EXPECT_LE(capacity, test.least * 107 / 100);
  }
}

TEST(BucketsTest, AMillionDrawsStayWithinTheCapacity) {
  std::mt19937_64 random(20261127);
  for (int log_mean = 12; log_mean <= 20; log_mean += 2) {
    const uint64_t buckets = 1024, ids = buckets << log_mean, capacity = BucketCapacity(ids, buckets);
    std::binomial_distribution<int64_t> ids_in_a_bucket(static_cast<int64_t>(ids), 1.0 / static_cast<double>(buckets));
    int64_t largest = 0;
    for (int draw = 0; draw < 200'000; ++draw) {
      largest = std::max(largest, ids_in_a_bucket(random));
    }
    EXPECT_LE(largest, capacity);
    EXPECT_GT(largest, int64_t{1} << log_mean);
  }
}

TEST(BucketsTest, AreTheFewestThatAreSmallEnough) {
  EXPECT_EQ(BucketCount(1, 1 << 20, kBucketIds), 1);
  EXPECT_EQ(BucketCount((1 << 20) + 1, 1, kBucketIds), 2);
  EXPECT_EQ(BucketCount(1, (1 << 21) + 1, kBucketIds), 4);
  EXPECT_EQ(BucketCount(10'000'000, 9'000'000, kBucketIds), 16);
  EXPECT_EQ(BucketCapacity(1000, 1), 1000);  // One bucket needs no padding.
}

TEST(BucketsTest, TheHashSpreadsIdsEvenlyAndDependsOnTheKey) {
  const BucketHasher hasher(Sha256("key")), other(Sha256("other key"));
  std::vector<int> counts(16);
  int same = 0;
  for (int i = 0; i < 16'000; ++i) {
    const std::string id = absl::StrCat("user-", i);
    const uint64_t bucket = hasher.BucketOf(id, 16);
    ASSERT_LT(bucket, 16);
    ++counts[bucket];
    same += bucket == other.BucketOf(id, 16) ? 1 : 0;
  }
  double chi_square = 0;
  for (const int count : counts) {
    chi_square += (count - 1000.0) * (count - 1000.0) / 1000;
  }
  EXPECT_LT(chi_square, 37.7);  // p = 0.001 with 15 degrees of freedom.
  EXPECT_NEAR(same, 1000, 150);
}

TEST(BucketsTest, TheKeyNeedsBothHalvesAndItsNameRevealsNothing) {
  const Digest a = Sha256("a"), b = Sha256("b"), c = Sha256("c");
  EXPECT_EQ(BucketKey("run", a, b), BucketKey("run", b, a));
  EXPECT_NE(BucketKey("run", a, b), BucketKey("run", a, c));
  EXPECT_NE(BucketKey("run", a, b), BucketKey("run 2", a, b));
  EXPECT_NE(CommitmentToHalf("run", a), CommitmentToHalf("run", b));
  EXPECT_NE(CommitmentToHalf("run", a), CommitmentToHalf("run 2", a));
  EXPECT_NE(NameOfAlignment(a), a);
}

TEST(BucketsTest, MessagesAreCountedOverAllBucketsAndNoneSpansTwo) {
  const PointChunks chunks = {10, 4};
  EXPECT_EQ(chunks.count(), 3);
  uint64_t first = 0;
  for (uint64_t number = 0; number < 9; ++number) {
    EXPECT_EQ(chunks.FirstOf(number), first);
    EXPECT_EQ(chunks.NumberOf(first), number);
    EXPECT_EQ(chunks.SizeAt(first), number % 3 == 2 ? 2 : 4);
    first += chunks.SizeAt(first);
  }
  EXPECT_EQ(first, 30);
}

TEST(BucketsTest, AnswersGoOutInSixtyFourStepsOverAllBuckets) {
  for (const uint64_t buckets : {1, 2, 16}) {
    const PointChunks chunks = AnswerChunks(100'000, 65'536, buckets);
    EXPECT_GE(chunks.count() * buckets, kAnswerSteps);
    EXPECT_LE(chunks.count() * buckets, kAnswerSteps + buckets);
  }
}

// With the one for rounding never more than three in 64 of all, nor than nine.
TEST(BucketsTest, AnswersAreAheadByAFewMessages) {
  for (uint64_t messages = 64; messages <= 10'000; ++messages) {
    EXPECT_LE((AnswerLead(messages) + 1) * 64, 3 * messages);
    EXPECT_GE(AnswerLead(messages), 2);
    EXPECT_LE(AnswerLead(messages), 8);
  }
  EXPECT_EQ(AnswerLead(1), 2);
  EXPECT_EQ(AnswerLead(256), 8);
}

}  // namespace
}  // namespace splitveil
