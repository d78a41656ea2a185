#include "common/crypto/aes_ctr.h"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "tests/testing/hex.h"

namespace splitveil {
namespace {

template <size_t kBytes>
std::array<uint8_t, kBytes> FromHex(const char* hex) {
  const std::string bytes = BytesFromHex(hex);
  std::array<uint8_t, kBytes> array = {};
  std::copy(bytes.begin(), bytes.end(), array.begin());
  return array;
}

std::vector<uint8_t> Keystream(AesCtr& cipher, size_t bytes) {
  std::vector<uint8_t> keystream(bytes, 0xff);
  cipher.Generate(absl::MakeSpan(keystream));
  return keystream;
}

// NIST SP 800-38A, F.5.5 CTR-AES256.Encrypt: the output blocks.
TEST(AesCtrTest, MatchesTheStandardsExample) {
  AesCtr cipher(FromHex<32>("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4"));
  cipher.Seek(FromHex<16>("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"));
  const std::string expected = BytesFromHex(
      "0bdf7df1591716335e9a8b15c860c5025a6e699d536119065433863c8f657b94"
      "1bc12c9c01610d5d0d8bd6a3378eca622956e1c8693536b1bee99c73a31576b6");
  EXPECT_EQ(Keystream(cipher, 64), std::vector<uint8_t>(expected.begin(), expected.end()));
}

TEST(AesCtrTest, ContinuesWhereTheLastCallEnded) {
  AesCtr whole(FromHex<32>("00"));
  AesCtr parts(FromHex<32>("00"));
  const std::vector<uint8_t> expected = Keystream(whole, 100);
  std::vector<uint8_t> joined = Keystream(parts, 37);
  for (uint8_t byte : Keystream(parts, 63)) {
    joined.push_back(byte);
  }
  EXPECT_EQ(joined, expected);
}

TEST(AesCtrTest, SeekForgetsAHalfUsedBlock) {
  AesCtr cipher(FromHex<32>("00"));
  const std::vector<uint8_t> expected = Keystream(cipher, 21);
  cipher.Seek({});
  EXPECT_EQ(Keystream(cipher, 21), expected);
}

}  // namespace
}  // namespace splitveil
