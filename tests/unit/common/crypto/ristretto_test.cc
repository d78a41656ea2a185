#include "common/crypto/ristretto.h"

#include <sodium.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "tests/testing/hex.h"

namespace splitveil {
namespace {

using Scalar = std::array<uint8_t, 32>;

template <typename Bytes>
Bytes FromHex(const char* hex) {
  const std::string text = BytesFromHex(hex);
  Bytes bytes = {};
  EXPECT_EQ(text.size(), bytes.size());
  std::copy(text.begin(), text.end(), bytes.begin());
  return bytes;
}

// Of each kind: as many as SPLITVEIL_RISTRETTO_INPUTS says, or 10,000; where libsodium would be compared with itself,
// 500.
size_t Inputs() {
  const char* const inputs = std::getenv("SPLITVEIL_RISTRETTO_INPUTS");
  const size_t count = inputs == nullptr ? 10'000 : std::strtoul(inputs, nullptr, 10);
  return ActiveRistrettoPath() == RistrettoPath::kIfma ? count : 500;
}

template <typename Bytes>
std::vector<Bytes> RandomBytes(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Bytes> items(count);
  for (Bytes& item : items) {
    for (size_t i = 0; i < item.size(); i += 8) {
      const uint64_t word = random();
      std::memcpy(&item[i], &word, sizeof(word));
    }
  }
  return items;
}

RistrettoPoint SodiumHash(const RistrettoUniform& uniform) {
  RistrettoPoint point;
  crypto_core_ristretto255_from_hash(point.data(), uniform.data());
  return point;
}

// With the one check of RFC 9496 that libsodium 1.0.18 lacks: the highest bit is 0.
bool Decodes(const RistrettoPoint& point) {
  return point.back() < 0x80 && crypto_core_ristretto255_is_valid_point(point.data()) == 1;
}

// Zeros where libsodium refuses.
RistrettoPoint SodiumMultiply(const Scalar& scalar, const RistrettoPoint& point) {
  RistrettoPoint product;
  const bool usable = crypto_scalarmult_ristretto255(product.data(), scalar.data(), point.data()) == 0;
  return usable ? product : RistrettoPoint{};
}

std::vector<RistrettoPoint> Hashes(const std::vector<RistrettoUniform>& uniform) {
  const Scalar one = {1};
  std::vector<RistrettoPoint> points(uniform.size());
  EXPECT_EQ(RistrettoExponent(one).HashAndMultiply(uniform, absl::MakeSpan(points)), 0);
  return points;
}

std::vector<RistrettoPoint> Products(const Scalar& scalar, const std::vector<RistrettoPoint>& points) {
  std::vector<RistrettoPoint> products(points.size());
  const size_t unusable = RistrettoExponent(scalar).Multiply(points, absl::MakeSpan(products));
  EXPECT_EQ(unusable, std::count(products.begin(), products.end(), RistrettoPoint{}));
  return products;
}

// A scalar below the group's order, from 31 random bytes.
Scalar SomeScalar(uint64_t seed) {
  Scalar scalar = RandomBytes<Scalar>(1, seed).front();
  scalar[31] = 0;
  return scalar;
}

// 1, 2, 7, 8, 9; 2^252; the group's order less 1 and 2; half of it, rounded both ways: digits at their bounds.
std::vector<Scalar> EdgeScalars() {
  std::vector<Scalar> scalars;
  for (const uint8_t small : {1, 2, 7, 8, 9, 15, 16, 17, 0x88}) {
    scalars.push_back({small});
  }
  for (const char* const hex : {"0000000000000000000000000000000000000000000000000000000000000010",
                                "ecd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010",
                                "ebd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010",
                                "f6e97a2e8d31092c6bce7b51ef7c6f0a00000000000000000000000000000008",
                                "f7e97a2e8d31092c6bce7b51ef7c6f0a00000000000000000000000000000008",
                                "8888888888888888888888888888888888888888888888888888888888888808",
                                "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff0f"}) {
    scalars.push_back(FromHex<Scalar>(hex));
  }
  return scalars;
}

// RFC 9496, appendix A.1: multiples 1 to 15 of the generator.
constexpr const char* kMultiples[] = {
    "e2f2ae0a6abc4e71a884a961c500515f58e30b6aa582dd8db6a65945e08d2d76",
    "6a493210f7499cd17fecb510ae0cea23a110e8d5b901f8acadd3095c73a3b919",
    "94741f5d5d52755ece4f23f044ee27d5d1ea1e2bd196b462166b16152a9d0259",
    "da80862773358b466ffadfe0b3293ab3d9fd53c5ea6c955358f568322daf6a57",
    "e882b131016b52c1d3337080187cf768423efccbb517bb495ab812c4160ff44e",
    "f64746d3c92b13050ed8d80236a7f0007c3b3f962f5ba793d19a601ebb1df403",
    "44f53520926ec81fbd5a387845beb7df85a96a24ece18738bdcfa6a7822a176d",
    "903293d8f2287ebe10e2374dc1a53e0bc887e592699f02d077d5263cdd55601c",
    "02622ace8f7303a31cafc63f8fc48fdc16e1c8c8d234b2f0d6685282a9076031",
    "20706fd788b2720a1ed2a5dad4952b01f413bcf0e7564de8cdc816689e2db95f",
    "bce83f8ba5dd2fa572864c24ba1810f9522bc6004afe95877ac73241cafdab42",
    "e4549ee16b9aa03099ca208c67adafcafa4c3f3e4e5303de6026e3ca8ff84460",
    "aa52e000df2e16f55fb1032fc33bc42742dad6bd5a8fc0be0167436c5948501f",
    "46376b80f409b29dc2b5f6f0c52591990896e5716f41477cd30085ab7f10301e",
    "e0c418f7c8d9c4cdd7395b93ea124f3ad99021bb681dfc3302a9d99a2e53e64e",
};

// Appendix A.2: to be refused.
constexpr const char* kInvalid[] = {
    "00ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "f3ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "01ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "ed57ffd8c914fb201471d1c3d245ce3c746fcbe63a3679d51b6a516ebebe0e20",
    "c34c4e1826e5d403b78e246e88aa051c36ccf0aafebffe137d148a2bf9104562",
    "c940e5a4404157cfb1628b108db051a8d439e1a421394ec4ebccb9ec92a8ac78",
    "47cfc5497c53dc8e61c91d17fd626ffb1c49e2bca94eed052281b510b1117a24",
    "f1c6165d33367351b0da8f6e4511010c68174a03b6581212c71c0e1d026c3c72",
    "87260f7a2f12495118360f02c26a470f450dadf34a413d21042b43b9d93e1309",
    "26948d35ca62e643e26a83177332e6b6afeb9d08e4268b650f1f5bbd8d81d371",
    "4eac077a713c57b4f4397629a4145982c661f48044dd3f96427d40b147d9742f",
    "de6a7b00deadc788eb6b6c8d20c0ae96c2f2019078fa604fee5b87d6e989ad7b",
    "bcab477be20861e01e4a0e295284146a510150d9817763caf1a6f4b422d67042",
    "2a292df7e32cababbd9de088d1d1abec9fc0440f637ed2fba145094dc14bea08",
    "f4a9e534fc0d216c44b218fa0c42d99635a0127ee2e53c712f70609649fdff22",
    "8268436f8c4126196cf64b3c7ddbda90746a378625f9813dd9b8457077256731",
    "2810e5cbc2cc4d4eece54f61c6f69758e289aa7ab440b3cbeaa21995c2f4232b",
    "3eb858e78f5a7254d8c9731174a94f76755fd3941c0ac93735c07ba14579630e",
    "a45fdc55c76448c049a1ab33f17023edfb2be3581e9c7aade8a6125215e04220",
    "d483fe813c6ba647ebbfd3ec41adca1c6130c2beeee9d9bf065c8d151c5f396e",
    "8a2e1d30050198c65a54483123960ccc38aef6848e1ec8f5f780e8523769ba32",
    "32888462f8b486c68ad7dd9610be5192bbeaf3b443951ac1a8118419d9fa097b",
    "227142501b9d4355ccba290404bde41575b037693cef1f438c47f8fbf35d1165",
    "5c37cc491da847cfeb9281d407efc41e15144c876e0170b499a96a22ed31e01e",
    "445425117cb8c90edcbc7c1cc0e74f747f2c1efa5630a967c64f287792a48a4b",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
};

// Appendix A.3: uniform bytes and the element.
constexpr const char* kHashes[][2] = {
    {"5d1be09e3d0c82fc538112490e35701979d99e06ca3e2b5b54bffe8b4dc772c1"
     "4d98b696a1bbfb5ca32c436cc61c16563790306c79eaca7705668b47dffe5bb6",
     "3066f82a1a747d45120d1740f14358531a8f04bbffe6a819f86dfe50f44a0a46"},
    {"f116b34b8f17ceb56e8732a60d913dd10cce47a6d53bee9204be8b44f6678b27"
     "0102a56902e2488c46120e9276cfe54638286b9e4b3cdb470b542d46c2068d38",
     "f26e5b6f7d362d2d2a94c5d0e7602cb4773c95a2e5c31a64f133189fa76ed61b"},
    {"8422e1bbdaab52938b81fd602effb6f89110e1e57208ad12d9ad767e2e25510c"
     "27140775f9337088b982d83d7fcf0b2fa1edffe51952cbe7365e95c86eaf325c",
     "006ccd2a9e6867e6a2c5cea83d3302cc9de128dd2a9a57dd8ee7b9d7ffe02826"},
    {"ac22415129b61427bf464e17baee8db65940c233b98afce8d17c57beeb7876c2"
     "150d15af1cb1fb824bbd14955f2b57d08d388aab431a391cfc33d5bafb5dbbaf",
     "f8f0c87cf237953c5890aec3998169005dae3eca1fbb04548c635953c817f92a"},
    {"165d697a1ef3d5cf3c38565beefcf88c0f282b8e7dbd28544c483432f1cec767"
     "5debea8ebb4e5fe7d6f6e5db15f15587ac4d4d4a1de7191e0c1ca6664abcc413",
     "ae81e7dedf20a497e10c304a765c1767a42d6e06029758d2d7e8ef7cc4c41179"},
    {"a836e6c9a9ca9f1e8d486273ad56a78c70cf18f0ce10abb1c7172ddd605d7fd2"
     "979854f47ae1ccf204a33102095b4200e5befc0465accc263175485f0e17ea5c",
     "e2705652ff9f5e44d3e841bf1c251cf7dddb77d140870d1ab2ed64f1a9ce8628"},
    {"2cdc11eaeb95daf01189417cdddbf95952993aa9cb9c640eb5058d09702c7462"
     "2c9965a697a3b345ec24ee56335b556e677b30e6f90ac77d781064f866a3c982",
     "80bd07262511cdde4863f8a7434cef696750681cb9510eea557088f76d9e5065"},
    {"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
     "1200000000000000000000000000000000000000000000000000000000000000",
     "304282791023b73128d277bdcb5c7746ef2eac08dde9f2983379cb8e5ef0517f"},
    {"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"
     "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
     "304282791023b73128d277bdcb5c7746ef2eac08dde9f2983379cb8e5ef0517f"},
    {"0000000000000000000000000000000000000000000000000000000000000080"
     "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
     "304282791023b73128d277bdcb5c7746ef2eac08dde9f2983379cb8e5ef0517f"},
    {"0000000000000000000000000000000000000000000000000000000000000000"
     "1200000000000000000000000000000000000000000000000000000000000080",
     "304282791023b73128d277bdcb5c7746ef2eac08dde9f2983379cb8e5ef0517f"},
};

TEST(RistrettoTest, MultiplesOfTheGeneratorAreThoseOfRfc9496) {
  const std::vector<RistrettoPoint> generators(9, FromHex<RistrettoPoint>(kMultiples[0]));
  for (uint8_t i = 1; i <= 15; ++i) {
    for (const RistrettoPoint& product : Products({i}, generators)) {
      EXPECT_EQ(product, FromHex<RistrettoPoint>(kMultiples[i - 1])) << int{i};
    }
  }
}

TEST(RistrettoTest, HashesAreThoseOfRfc9496) {
  std::vector<RistrettoUniform> uniform;
  for (const auto& vector : kHashes) {
    uniform.push_back(FromHex<RistrettoUniform>(vector[0]));
  }
  const std::vector<RistrettoPoint> points = Hashes(uniform);
  for (size_t i = 0; i < points.size(); ++i) {
    EXPECT_EQ(points[i], FromHex<RistrettoPoint>(kHashes[i][1])) << i;
  }
}

TEST(RistrettoTest, RefusesWhatRfc9496RefusesInEveryLaneAndLeavesTheOthers) {
  const Scalar scalar = SomeScalar(1);
  const std::vector<RistrettoPoint> good = Hashes(RandomBytes<RistrettoUniform>(8, 2));
  const std::vector<RistrettoPoint> right = Products(scalar, good);
  std::vector<RistrettoPoint> bad = {{}};  // The identity.
  for (const char* const hex : kInvalid) {
    bad.push_back(FromHex<RistrettoPoint>(hex));
    RistrettoPoint& high_bit = bad.emplace_back(good.front());
    high_bit[31] |= 0x80;
  }
  for (const RistrettoPoint& encoding : bad) {
    EXPECT_TRUE(!Decodes(encoding) || encoding == RistrettoPoint{});
    for (size_t lane = 0; lane < good.size(); ++lane) {
      std::vector<RistrettoPoint> points = good, expected = right;
      points[lane] = encoding;
      expected[lane] = {};
      EXPECT_EQ(CountUnusable(points), 1);
      EXPECT_EQ(Products(scalar, points), expected);
    }
  }
}

TEST(RistrettoTest, DecodesWhatLibsodiumDecodes) {
  std::vector<RistrettoPoint> strings = RandomBytes<RistrettoPoint>(Inputs(), 3);
  std::vector<RistrettoPoint> expected(strings.size());
  size_t valid = 0;
  for (size_t i = 0; i < strings.size(); ++i) {
    if (i % 4 != 0) {  // Else few would pass the checks of the bytes alone.
      strings[i][0] &= 0xfe;
      strings[i][31] &= 0x7f;
    }
    if (Decodes(strings[i])) {
      expected[i] = strings[i];
      ++valid;
    }
  }
  EXPECT_GT(valid, strings.size() / 8);
  EXPECT_LT(valid, strings.size() / 2);
  EXPECT_EQ(CountUnusable(strings), strings.size() - valid);
  EXPECT_EQ(Products({1}, strings), expected);  // A point multiplied by 1 is encoded as it was.
}

TEST(RistrettoTest, HashesAsLibsodium) {
  const std::vector<RistrettoUniform> uniform = RandomBytes<RistrettoUniform>(Inputs(), 4);
  const std::vector<RistrettoPoint> points = Hashes(uniform);
  for (size_t i = 0; i < uniform.size(); ++i) {
    ASSERT_EQ(points[i], SodiumHash(uniform[i])) << i;
  }
}

TEST(RistrettoTest, MultipliesAsLibsodium) {
  constexpr size_t kScalars = 20;
  for (uint64_t s = 0; s < kScalars; ++s) {
    const Scalar scalar = SomeScalar(100 + s);
    const std::vector<RistrettoUniform> uniform = RandomBytes<RistrettoUniform>(Inputs() / kScalars, 200 + s);
    std::vector<RistrettoPoint> points = Hashes(uniform), both(points.size());
    const std::vector<RistrettoPoint> products = Products(scalar, points);
    const RistrettoExponent exponent(scalar);
    EXPECT_EQ(exponent.HashAndMultiply(uniform, absl::MakeSpan(both)), 0);
    EXPECT_EQ(both, products);
    for (size_t i = 0; i < points.size(); ++i) {
      ASSERT_EQ(products[i], SodiumMultiply(scalar, points[i]));
    }
    EXPECT_EQ(exponent.Multiply(points, absl::MakeSpan(points)), 0);  // In place.
    EXPECT_EQ(points, products);
  }
}

TEST(RistrettoTest, MultipliesByScalarsAtTheBoundsOfDigits) {
  const std::vector<RistrettoPoint> points = Hashes(RandomBytes<RistrettoUniform>(11, 5));
  for (const Scalar& scalar : EdgeScalars()) {
    const std::vector<RistrettoPoint> products = Products(scalar, points);
    for (size_t i = 0; i < points.size(); ++i) {
      EXPECT_EQ(products[i], SodiumMultiply(scalar, points[i]));
    }
  }
}

TEST(RistrettoTest, WorksForEveryNumberOfPoints) {
  const Scalar scalar = SomeScalar(6);
  const std::vector<RistrettoUniform> uniform = RandomBytes<RistrettoUniform>(kRistrettoBatch + 17, 7);
  const std::vector<RistrettoPoint> points = Hashes(uniform), products = Products(scalar, points);
  for (size_t count = 0; count <= points.size(); ++count) {
    // The byte behind the last must stay.
    std::vector<RistrettoPoint> found(count + 1, RistrettoPoint{0x5a}),
        expected(products.begin(), products.begin() + count);
    expected.push_back({0x5a});
    const RistrettoExponent exponent(scalar);
    exponent.Multiply(absl::MakeConstSpan(points).first(count), absl::MakeSpan(found).first(count));
    EXPECT_EQ(found, expected);
    exponent.HashAndMultiply(absl::MakeConstSpan(uniform).first(count), absl::MakeSpan(found).first(count));
    EXPECT_EQ(found, expected);
    EXPECT_EQ(CountUnusable(absl::MakeConstSpan(points).first(count)), 0);
  }
}

TEST(RistrettoTest, GeneratedExponentsDifferAndCommute) {
  const RistrettoExponent a = RistrettoExponent::Generate(), b = RistrettoExponent::Generate();
  const std::vector<RistrettoPoint> points = Hashes(RandomBytes<RistrettoUniform>(20, 8));
  std::vector<RistrettoPoint> by_a(20), by_b(20);
  a.Multiply(points, absl::MakeSpan(by_a));
  b.Multiply(points, absl::MakeSpan(by_b));
  EXPECT_NE(by_a, by_b);
  b.Multiply(by_a, absl::MakeSpan(by_a));
  a.Multiply(by_b, absl::MakeSpan(by_b));
  EXPECT_EQ(by_a, by_b);
}

TEST(RistrettoDeathTest, RefusesScalarsOutsideTheGroup) {
  EXPECT_DEATH(RistrettoExponent(Scalar{}), "group's order");
  EXPECT_DEATH(RistrettoExponent(FromHex<Scalar>("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010")),
               "group's order");
}

// Else the other tests would be of libsodium alone where it matters.
TEST(RistrettoTest, TakesTheProcessorsPathUnlessToldOtherwise) {
  const char* const cpu = std::getenv("SPLITVEIL_CPU");
  bool ifma = false;
#if defined(__x86_64__)
  ifma =
      __builtin_cpu_supports("avx512ifma") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#endif
  const bool generic = cpu != nullptr && std::string(cpu) == "generic";
  EXPECT_EQ(ActiveRistrettoPath(), ifma && !generic ? RistrettoPath::kIfma : RistrettoPath::kLibsodium);
}

}  // namespace
}  // namespace splitveil
