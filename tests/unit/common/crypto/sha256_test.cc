#include "common/crypto/sha256.h"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>
#include <numeric>
#include <string>

#include "absl/strings/escaping.h"

namespace splitveil {
namespace {

std::string HexSha256(absl::string_view bytes) { return absl::BytesToHexString(AsBytes(Sha256(bytes))); }

// FIPS 180-4 examples (NIST CSRC, "Examples with Intermediate Values").
TEST(Sha256Test, MatchesTheStandardsExamples) {
  EXPECT_EQ(HexSha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(HexSha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(HexSha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(HexSha256(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256Test, ReadsBytesAfterAZero) {
  EXPECT_NE(HexSha256(absl::string_view("a\0b", 3)), HexSha256(absl::string_view("a\0c", 3)));
}

TEST(Sha256Test, PiecesHaveTheDigestOfTheWhole) {
  const std::string bytes(1000, 'x');
  for (const size_t first : {0, 1, 63, 64, 65, 1000}) {
    Sha256Hasher hasher;
    hasher.Update(absl::string_view(bytes).substr(0, first));
    hasher.Update(absl::string_view(bytes).substr(first));
    EXPECT_EQ(hasher.Finish(), Sha256(bytes)) << first;
  }
  EXPECT_EQ(Sha256Hasher().Finish(), Sha256(""));
}

// RFC 4231 has no key of 32 bytes: these figures are those of Python's hmac.
TEST(HmacSha256Test, MatchesAnIndependentImplementation) {
  std::array<uint8_t, 32> key;
  std::iota(key.begin(), key.end(), uint8_t{0});
  EXPECT_EQ(absl::BytesToHexString(AsBytes(HmacSha256(key, "Hi There"))),
            "278639ec02309d3afded1b273f1349ba63b9089c12476d716bee3ecc94673e9e");
}

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
