#include "common/crypto/spoken_fingerprint.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "common/crypto/sha256.h"

namespace splitveil {
namespace {

TEST(SpokenFingerprintTest, IsThatOfAKnownDigest) {
  // SHA-256("abc"), grouped with Python: int.from_bytes(digest[5 * k:5 * k + 5], "big") % 100000.
  EXPECT_EQ(SpokenFingerprint(Sha256("abc")), "73807 03137 88322 66979 05876 85760");
}

TEST(SpokenFingerprintTest, GroupsAreFiveBytesEachBigEndian) {
  Digest digest = {};
  EXPECT_EQ(SpokenFingerprint(digest), "00000 00000 00000 00000 00000 00000");
  digest[4] = 7;   // Group 0.
  digest[28] = 1;  // Group 5: 256.
  EXPECT_EQ(SpokenFingerprint(digest), "00007 00000 00000 00000 00000 00256");
  std::fill(digest.begin(), digest.begin() + 5, 0xff);  // 2^40 - 1 = 1099511627775.
  EXPECT_EQ(SpokenFingerprint(digest).substr(0, 5), "27775");
}

TEST(SpokenFingerprintTest, AnyByteOfTheFirstThirtyChangesIt) {
  const Digest digest = Sha256("agreement");
  for (size_t byte = 0; byte < 30; ++byte) {
    Digest other = digest;
    other[byte] ^= 1;
    EXPECT_NE(SpokenFingerprint(other), SpokenFingerprint(digest)) << byte;
  }
}

TEST(SpokenFingerprintTest, IsTheSameHoweverItIsGrouped) {
  EXPECT_TRUE(SameFingerprint("73807-03137 88322669790587685760", SpokenFingerprint(Sha256("abc"))));
  EXPECT_FALSE(SameFingerprint("73807 03137 88322 66979 05876 85761", SpokenFingerprint(Sha256("abc"))));
  EXPECT_FALSE(SameFingerprint("73807", SpokenFingerprint(Sha256("abc"))));
  EXPECT_FALSE(SameFingerprint("", SpokenFingerprint(Sha256("abc"))));
}

}  // namespace
}  // namespace splitveil
