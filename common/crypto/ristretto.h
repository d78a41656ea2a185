// The group ristretto255 (RFC 9496): many points under one secret exponent.
#ifndef SPLITVEIL_COMMON_CRYPTO_RISTRETTO_H_
#define SPLITVEIL_COMMON_CRYPTO_RISTRETTO_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

#include "common/crypto/ristretto_ifma.h"

namespace splitveil {

// Canonical encoding of a group element (RFC 9496, section 4.3.2). Ordered as bytes. Usable: one that decodes, to
// another element than the identity.
using RistrettoPoint = std::array<uint8_t, 32>;

// Uniformly random bytes, for the one-way map to the group (section 4.3.4).
using RistrettoUniform = std::array<uint8_t, 64>;

// libsodium computes, or from 8 points on up to eight times as fast, byte for byte the same, AVX-512 IFMA where the
// processor has it, unless the environment says SPLITVEIL_CPU=generic. Best in multiples of kRistrettoBatch points.
inline constexpr size_t kRistrettoBatch = 128;
enum class RistrettoPath { kLibsodium, kIfma };
// The same at every call.
RistrettoPath ActiveRistrettoPath();

// How many of `points` are not usable. Thread-safe.
size_t CountUnusable(absl::Span<const RistrettoPoint> points);

// A secret exponent, wiped when destroyed. Stays where it was made. Neither time nor addresses depend on it.
class RistrettoExponent {
 public:
  // Uniform but for a bias below 2^-256; not zero.
  static RistrettoExponent Generate() { return RistrettoExponent(); }
  // `scalar`: little-endian, below the group's order and not zero; wiping it is up to the caller.
  explicit RistrettoExponent(const std::array<uint8_t, 32>& scalar);
  RistrettoExponent(const RistrettoExponent&) = delete;
  RistrettoExponent& operator=(const RistrettoExponent&) = delete;
  ~RistrettoExponent();

  // products[i] = points[i]^exponent, or zeros where points[i] is not usable: how many those are. As many products as
  // points; they may be the same memory. Thread-safe.
  size_t Multiply(absl::Span<const RistrettoPoint> points, absl::Span<RistrettoPoint> products) const;
  // products[i] = hash(uniform[i])^exponent, or zeros where the hash is the identity (once in 2^252): how many those
  // are. Thread-safe.
  size_t HashAndMultiply(absl::Span<const RistrettoUniform> uniform, absl::Span<RistrettoPoint> products) const;

 private:
  RistrettoExponent();
  void SetHalf();

  std::array<uint8_t, 32> scalar_;
  SignedDigits half_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CRYPTO_RISTRETTO_H_
