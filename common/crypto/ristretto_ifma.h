// ristretto255 for eight points at a time, for processors with AVX-512 IFMA. Only for ristretto.cc.
#ifndef SPLITVEIL_COMMON_CRYPTO_RISTRETTO_IFMA_H_
#define SPLITVEIL_COMMON_CRYPTO_RISTRETTO_IFMA_H_

#include <cstddef>
#include <cstdint>

namespace splitveil {

// An exponent below the group's order as 64 signed digits, the lowest first: sum of digit[i] 16^i, each in [-8, 8].
struct SignedDigits {
  int8_t digit[64];
};

// Each function works through blocks of eight: points of 32 bytes, uniform strings of 64. An encoding that is no
// point's, or the identity's, gives 32 zero bytes, whatever its neighbours. Time and addresses depend on no value.
// `half`: half of the exponent modulo the group's order, because the encoding of a doubled point is the cheaper one.
struct RistrettoKernel {
  // products[i] = points[i]^exponent. `products` may be `points`.
  void (*multiply)(const SignedDigits& half, const uint8_t* points, size_t blocks, uint8_t* products);
  // products[i] = RFC 9496's one-way map of uniform[i], ^exponent.
  void (*hash_and_multiply)(const SignedDigits& half, const uint8_t* uniform, size_t blocks, uint8_t* products);
  // Bit i of usable[b]: whether point i of block b is one.
  void (*check)(const uint8_t* points, size_t blocks, uint8_t* usable);
};

// nullptr where the compiler's target has no such instructions. Whether this processor has them is for the caller to
// find out before any call.
extern const RistrettoKernel* const kRistrettoIfma;

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CRYPTO_RISTRETTO_IFMA_H_
