#include "common/crypto/secure_random.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <new>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

namespace splitveil {
namespace {

constexpr std::array<uint8_t, 32> kZero = {};

TEST(SecureRandomTest, FillsEveryByte) {
  // A byte that stays zero in 40 fills has probability 2^-320.
  std::vector<uint8_t> seen(1000, 0);
  for (int i = 0; i < 40; ++i) {
    std::vector<uint8_t> bytes(seen.size(), 0);
    FillSecureRandom(absl::MakeSpan(bytes));
    std::transform(bytes.begin(), bytes.end(), seen.begin(), seen.begin(), [](uint8_t a, uint8_t b) { return a | b; });
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 0), 0);
}

TEST(SecureRandomTest, TakesAnEmptySpan) { FillSecureRandom({}); }

TEST(SecureRandomTest, NeverRepeatsAKey) {
  std::set<std::array<uint8_t, 32>> keys;
  for (int i = 0; i < 100; ++i) {
    keys.insert(SecretKey::Generate().bytes());
  }
  EXPECT_EQ(keys.size(), 100);
}

TEST(SecretKeyTest, CannotBeCopied) {
  EXPECT_FALSE(std::is_copy_constructible_v<SecretKey>);
  EXPECT_FALSE(std::is_copy_assignable_v<SecretKey>);
}

TEST(SecretKeyTest, IsWipedWhenMovedFrom) {
  SecretKey first({1, 2, 3});
  SecretKey second(std::move(first));
  EXPECT_EQ(first.bytes(), kZero);  // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move): what is tested.
  SecretKey third({4});
  third = std::move(second);
  EXPECT_EQ(second.bytes(), kZero);  // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
  EXPECT_EQ(third.bytes()[2], 3);
}

TEST(SecureIndexTest, ReachesEveryIndexAboutEquallyOften) {
  constexpr size_t kSize = 7;
  constexpr int kDraws = 70'000;
  int counts[kSize] = {};
  for (int i = 0; i < kDraws; ++i) {
    const size_t index = SecureIndex(kSize);
    ASSERT_LT(index, kSize);
    ++counts[index];
  }
  // 10,000 each, standard deviation 93; six of them fail once in 7e7 tests.
  for (int count : counts) {
    EXPECT_NEAR(count, static_cast<double>(kDraws) / kSize, 6 * 93);
  }
}

TEST(SecureIndexTest, IsZeroWhereThereIsNoChoice) { EXPECT_EQ(SecureIndex(1), 0); }

TEST(SecretKeyTest, SurvivesAMoveToItself) {
  SecretKey key({7});
  SecretKey& same = key;
  key = std::move(same);
  EXPECT_EQ(key.bytes()[0], 7);
}

TEST(SecretKeyTest, IsWipedWhenDestroyed) {
  alignas(SecretKey) std::array<uint8_t, sizeof(SecretKey)> storage;
  auto* key = new (storage.data()) SecretKey({9, 9, 9});
  key->~SecretKey();
  // Volatile: the object's life is over, so the compiler may otherwise assume anything about its bytes.
  const volatile uint8_t* bytes = storage.data();
  for (size_t i = 0; i < storage.size(); ++i) {
    EXPECT_EQ(bytes[i], 0) << i;
  }
}

}  // namespace
}  // namespace splitveil
