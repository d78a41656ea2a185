#include "common/crypto/label_noise.h"

#include <algorithm>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include "common/crypto/sha256.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kUnit = uint32_t{1} << 20;
constexpr uint64_t kLastIndex = std::numeric_limits<uint64_t>::max();

// 0, 1, ..., 31, one byte changed by `tweak`.
SecretKey Key(uint8_t tweak = 0) {
  std::array<uint8_t, 32> bytes;
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  bytes[31] ^= tweak;
  return SecretKey(bytes);
}

LabelNoise Noise(const std::vector<uint32_t>& sigma_units, absl::string_view label_set = "labels", uint8_t tweak = 0) {
  return *LabelNoise::Create(Key(tweak), Sha256(label_set), sigma_units);
}

std::vector<int64_t> Draws(LabelNoise& noise, uint32_t release, uint32_t component = 0, uint64_t rows = 200) {
  std::vector<int64_t> draws;
  for (uint64_t row = 0; row < rows; ++row) {
    draws.push_back(noise.At(NoiseRow::OfIndex(row), release, component));
  }
  return draws;
}

// Expected values: computed in Python from the headers label_noise.h and discrete_gaussian.h, with integers of any
// size, hashlib and AES of the `cryptography` package.
TEST(LabelNoiseTest, MatchesAnIndependentImplementation) {
  LabelNoise noise = Noise({kUnit, 2 * kUnit, kMaxSigmaUnits, kMinSigmaUnits});
  const auto at = [&noise](const NoiseRow& row, uint32_t release) {
    return std::vector<int64_t>{noise.At(row, release), noise.At(row, release, 1), noise.At(row, release, 65535)};
  };
  EXPECT_THAT(at(NoiseRow::OfIndex(0), 0), ElementsAre(669240, -519531, 1510385));
  EXPECT_THAT(at(NoiseRow::OfIndex(0), 1), ElementsAre(1458647, 3431084, 2777525));
  EXPECT_THAT(at(NoiseRow::OfIndex(0), 2), ElementsAre(-1476254372, -1364157620, -2732311796));
  EXPECT_THAT(at(NoiseRow::OfIndex(1), 3), ElementsAre(-5075, -10607, 2353));
  EXPECT_THAT(at(NoiseRow::OfIndex(kLastIndex), 2), ElementsAre(1232420798, 3643499754, -47921185));
  EXPECT_THAT(at(NoiseRow::OfId("user-17"), 0), ElementsAre(-544761, 1106175, 1197286));
  EXPECT_THAT(at(NoiseRow::OfId("user-17"), 3), ElementsAre(-1418, 7873, 5145));
}

TEST(LabelNoiseTest, RepeatsInAnyOrderAndInAnotherObject) {
  LabelNoise noise = Noise({kUnit, kUnit});
  const std::vector<int64_t> forward = Draws(noise, 1);
  LabelNoise other = Noise({kUnit, kUnit});
  for (uint64_t i = 0; i < forward.size(); ++i) {
    const uint64_t row = forward.size() - 1 - i;
    other.At(NoiseRow::OfIndex(row), 0, 3);
    EXPECT_EQ(other.At(NoiseRow::OfIndex(row), 1), forward[row]);
    EXPECT_EQ(other.At(NoiseRow::OfIndex(row), 1), forward[row]);
  }
}

TEST(LabelNoiseTest, AReleaseKeepsItsNoiseWhereOthersAreAddedAfterIt) {
  LabelNoise shorter = Noise({kUnit, 3 * kUnit});
  LabelNoise longer = Noise({kUnit, 3 * kUnit, 5 * kUnit});
  EXPECT_EQ(Draws(shorter, 1), Draws(longer, 1));
}

TEST(LabelNoiseTest, SharesNoNoiseBetweenKeysLabelSetsReleasesComponentsAndSigmas) {
  LabelNoise noise = Noise({kUnit, kUnit});
  LabelNoise other_key = Noise({kUnit}, "labels", 1);
  LabelNoise other_labels = Noise({kUnit}, "other labels");
  // One unit in 2^20 more: the same words would nearly always give the same multiple of sigma.
  LabelNoise other_sigma = Noise({kUnit + 1});
  const std::vector<std::vector<int64_t>> draws = {Draws(noise, 0),     Draws(noise, 1),        Draws(noise, 0, 1),
                                                   Draws(other_key, 0), Draws(other_labels, 0), Draws(other_sigma, 0)};
  for (size_t a = 0; a < draws.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      for (size_t i = 0; i < draws[a].size(); ++i) {
        // Two independent ones are this near with probability 7e-6; 3000 pairs are compared.
        EXPECT_GT(std::abs(draws[a][i] - draws[b][i]), 8) << a << " " << b << " " << i;
      }
    }
  }
}

TEST(LabelNoiseTest, SharesNoNoiseBetweenRows) {
  LabelNoise noise = Noise({kMaxSigmaUnits});
  std::set<int64_t> seen;
  const std::vector<int64_t> draws = Draws(noise, 0, 0, 1000);
  seen.insert(draws.begin(), draws.end());
  for (int i = 0; i < 1000; ++i) {
    seen.insert(noise.At(NoiseRow::OfId(std::to_string(i)), 0));
  }
  // 2 million pairs, of which two agree with probability 1.3e-10 each.
  EXPECT_EQ(seen.size(), 2000);
}

TEST(LabelNoiseTest, TellsItsSigmasExactly) {
  const LabelNoise noise = Noise({kUnit, kUnit + 1, kMinSigmaUnits, kMaxSigmaUnits});
  EXPECT_EQ(noise.releases(), 4);
  EXPECT_EQ(noise.sigma(0), 1);
  EXPECT_EQ(noise.sigma(1), 1 + 0x1p-20);
  EXPECT_EQ(noise.sigma(2), 0x1p-7);
  EXPECT_EQ(noise.sigma(3), 2048 - 0x1p-20);
  EXPECT_EQ(noise.sigma_units(1), kUnit + 1);
}

TEST(LabelNoiseTest, CreateRefusesReleasesWithoutNoise) {
  const std::vector<uint32_t> none;
  const std::vector<uint32_t> zero = {kUnit, 0};
  const std::vector<uint32_t> little = {kMinSigmaUnits - 1};
  const std::vector<uint32_t> much = {kMaxSigmaUnits + 1};
  EXPECT_THAT(std::string(LabelNoise::Create(Key(), {}, none).status().message()), HasSubstr("found 0"));
  const absl::Status status = LabelNoise::Create(Key(), {}, zero).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "label noise: release 1: expected sigma of 8192 to 2147483647 grid units, found 0");
  EXPECT_FALSE(LabelNoise::Create(Key(), {}, little).ok());
  EXPECT_FALSE(LabelNoise::Create(Key(), {}, much).ok());
}

TEST(SigmaUnitsTest, RoundsUpToTheGrid) {
  EXPECT_EQ(*SigmaUnits(1), kUnit);
  EXPECT_EQ(*SigmaUnits(std::nextafter(1.0, 2.0)), kUnit + 1);
  EXPECT_EQ(*SigmaUnits(0.1), 104858);  // 104857.6
  EXPECT_EQ(*SigmaUnits(0x1p-7), kMinSigmaUnits);
  EXPECT_EQ(*SigmaUnits(2048 - 0x1p-20), kMaxSigmaUnits);
}

TEST(SigmaUnitsTest, RefusesWhatTheSamplerCannotDraw) {
  for (double sigma : {0.0, -1.0, 0x1p-7 - 0x1p-20, 2048 - 0x1p-21, 2048.0, 1e300, std::nan(""),
                       std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(SigmaUnits(sigma).status().code(), absl::StatusCode::kInvalidArgument) << sigma;
  }
  EXPECT_EQ(SigmaUnits(0).status().message(), "label noise: expected sigma in [0.0078125, 2048), found 0");
}

TEST(LabelOnGridTest, RoundsToTheNearestAndKeepsTheUnitInterval) {
  EXPECT_EQ(LabelOnGrid(0), 0);
  EXPECT_EQ(LabelOnGrid(1), kLabelGridUnit);
  EXPECT_EQ(LabelOnGrid(std::nextafter(1.0, 0.0)), kLabelGridUnit);
  EXPECT_EQ(LabelOnGrid(0.1), 104858);
  EXPECT_EQ(LabelOnGrid(-0.1), -104858);
}

TEST(LabelNoiseDeathTest, AbortsOutsideOfItsPositions) {
  LabelNoise noise = Noise({kUnit});
  EXPECT_DEATH(noise.At(NoiseRow::OfIndex(0), 1), "release < releases");
  EXPECT_DEATH(noise.At(NoiseRow::OfIndex(0), 0, LabelNoise::kMaxComponents), "component < 2\\^16");
  EXPECT_DEATH(noise.sigma(1), "release < releases");
  EXPECT_DEATH(LabelOnGrid(std::nan("")), "label");
  EXPECT_DEATH(LabelOnGrid(3e9), "label");
}

}  // namespace
}  // namespace splitveil
