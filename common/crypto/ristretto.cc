#include "common/crypto/ristretto.h"

#include <sodium.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/string_view.h"

#include "common/crypto/invariant.h"
#include "common/crypto/secure_random.h"

namespace splitveil {
namespace {

static_assert(sizeof(RistrettoPoint) == crypto_core_ristretto255_BYTES, "a point is 32 bytes on the wire");
static_assert(sizeof(RistrettoUniform) == crypto_core_ristretto255_HASHBYTES, "the one-way map takes 64 bytes");

constexpr size_t kBlock = 8;
constexpr RistrettoPoint kUnusable = {};

bool CpuHasIfma() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512ifma");
#else
  return false;
#endif
}

// nullptr: libsodium.
const RistrettoKernel* ActiveKernel() {
  static const RistrettoKernel* const kernel = [] {
    // Lets tests run both paths on one machine, and an operator fall back if the fast path is in doubt.
    const char* const cpu = std::getenv("SPLITVEIL_CPU");
    const bool generic = cpu != nullptr && absl::string_view(cpu) == "generic";
    return !generic && CpuHasIfma() ? kRistrettoIfma : nullptr;
  }();
  return kernel;
}

template <typename Item>
const uint8_t* Bytes(absl::Span<const Item> items) {
  return reinterpret_cast<const uint8_t*>(items.data());
}

// Calls `kernel` (inputs, blocks, outputs) on whole blocks of `inputs`, the last one filled up with zeros.
template <typename Input, typename Kernel>
void InBlocks(absl::Span<const Input> inputs, absl::Span<RistrettoPoint> outputs, const Kernel& kernel) {
  const size_t whole = inputs.size() / kBlock * kBlock, rest = inputs.size() - whole;
  // The kernel works on eight points at once; zeros in the unfilled lanes cost nothing and are dropped.
  kernel(Bytes(inputs), whole / kBlock, reinterpret_cast<uint8_t*>(outputs.data()));
  if (rest == 0) {
    return;
  }
  std::array<Input, kBlock> last = {};
  std::array<RistrettoPoint, kBlock> products;
  std::copy(inputs.begin() + whole, inputs.end(), last.begin());
  kernel(Bytes(absl::MakeConstSpan(last)), 1, products.front().data());
  std::copy(products.begin(), products.begin() + rest, outputs.begin() + whole);
}

// libsodium 1.0.18 ignores the highest bit, which RFC 9496 wants to be 0: such points would have two encodings.
bool HasHighBit(const RistrettoPoint& point) { return (point.back() & 0x80) != 0; }

bool IsUsable(const RistrettoPoint& point) {
  // The identity is refused: its power is the identity under every key, which would match anyone's.
  return !HasHighBit(point) && point != kUnusable && crypto_core_ristretto255_is_valid_point(point.data()) == 1;
}

}  // namespace

RistrettoPath ActiveRistrettoPath() {
  return ActiveKernel() == nullptr ? RistrettoPath::kLibsodium : RistrettoPath::kIfma;
}

size_t CountUnusable(absl::Span<const RistrettoPoint> points) {
  const RistrettoKernel* const kernel = ActiveKernel();
  const size_t whole = kernel == nullptr ? 0 : points.size() / kBlock * kBlock;
  size_t unusable = 0;
  for (size_t i = 0; i < whole; i += kBlock) {
    uint8_t usable;
    kernel->check(points[i].data(), 1, &usable);
    unusable += kBlock - static_cast<size_t>(__builtin_popcount(usable));
  }
  return unusable + static_cast<size_t>(std::count_if(points.begin() + whole, points.end(),
                                                      [](const RistrettoPoint& point) { return !IsUsable(point); }));
}

RistrettoExponent::RistrettoExponent() {
  // Reducing 512 bits modulo the group order leaves a bias below 2^-256.
  std::array<uint8_t, crypto_core_ristretto255_NONREDUCEDSCALARBYTES> wide;
  do {
    FillSecureRandom(absl::MakeSpan(wide));
    crypto_core_ristretto255_scalar_reduce(scalar_.data(), wide.data());
  } while (sodium_is_zero(scalar_.data(), scalar_.size()) != 0);
  // Someone who finds the exponent can test which ids a party holds.
  sodium_memzero(wide.data(), wide.size());
  SetHalf();
}

RistrettoExponent::RistrettoExponent(const std::array<uint8_t, 32>& scalar) : scalar_(scalar) {
  std::array<uint8_t, crypto_core_ristretto255_NONREDUCEDSCALARBYTES> wide = {};
  std::copy(scalar.begin(), scalar.end(), wide.begin());
  crypto_core_ristretto255_scalar_reduce(wide.data(), wide.data());
  // Comes from this party's own spill file only, so a wrong value is damage, not an attack.
  CheckInvariant(sodium_memcmp(wide.data(), scalar.data(), scalar.size()) == 0 &&
                     sodium_is_zero(scalar.data(), scalar.size()) == 0,
                 "RistrettoExponent: positive and below the group's order");
  sodium_memzero(wide.data(), wide.size());
  SetHalf();
}

void RistrettoExponent::SetHalf() {
  constexpr std::array<uint8_t, 32> kTwo = {2};
  std::array<uint8_t, 32> half;
  // The kernel computes half of the product and doubles it while encoding, which saves a square root per point.
  crypto_core_ristretto255_scalar_invert(half.data(), kTwo.data());
  crypto_core_ristretto255_scalar_mul(half.data(), half.data(), scalar_.data());
  // Digits 0 to 15 become -8 to 7 with a carry to the next; the highest has room for it.
  int carry = 0;
  for (size_t i = 0; i < sizeof(half_.digit); ++i) {
    // Signed digits halve the table of multiples; negating a point is nearly free.
    const int digit = (half[i / 2] >> (4 * (i % 2)) & 15) + carry;
    carry = (digit + 8) >> 4;
    half_.digit[i] = static_cast<int8_t>(digit - 16 * carry);
  }
  sodium_memzero(half.data(), half.size());
}

RistrettoExponent::~RistrettoExponent() {
  sodium_memzero(scalar_.data(), scalar_.size());
  sodium_memzero(half_.digit, sizeof(half_.digit));
}

size_t RistrettoExponent::Multiply(absl::Span<const RistrettoPoint> points, absl::Span<RistrettoPoint> products) const {
  CheckInvariant(points.size() == products.size(), "Multiply: as many products as points");
  if (const RistrettoKernel* const kernel = ActiveKernel(); kernel != nullptr) {
    InBlocks(points, products, [&](const uint8_t* inputs, size_t blocks, uint8_t* outputs) {
      kernel->multiply(half_, inputs, blocks, outputs);
    });
  } else {
    for (size_t i = 0; i < points.size(); ++i) {
      RistrettoPoint product;
      const bool usable = !HasHighBit(points[i]) &&
                          crypto_scalarmult_ristretto255(product.data(), scalar_.data(), points[i].data()) == 0;
      // An encoding that is no point is marked and counted rather than skipped: positions stay aligned with the peer's.
      products[i] = usable ? product : kUnusable;
    }
  }
  return static_cast<size_t>(std::count(products.begin(), products.end(), kUnusable));
}

size_t RistrettoExponent::HashAndMultiply(absl::Span<const RistrettoUniform> uniform,
                                          absl::Span<RistrettoPoint> products) const {
  CheckInvariant(uniform.size() == products.size(), "HashAndMultiply: as many products as hashes");
  if (const RistrettoKernel* const kernel = ActiveKernel(); kernel != nullptr) {
    InBlocks(uniform, products, [&](const uint8_t* inputs, size_t blocks, uint8_t* outputs) {
      kernel->hash_and_multiply(half_, inputs, blocks, outputs);
    });
    return static_cast<size_t>(std::count(products.begin(), products.end(), kUnusable));
  }
  for (size_t i = 0; i < uniform.size(); ++i) {
    crypto_core_ristretto255_from_hash(products[i].data(), uniform[i].data());
  }
  return Multiply(products, products);
}

}  // namespace splitveil
