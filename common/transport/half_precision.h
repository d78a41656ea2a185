// float32 to bfloat16 and IEEE half (binary16) and back: branch-free, so that compilers vectorise the loops.
#ifndef SPLITVEIL_COMMON_TRANSPORT_HALF_PRECISION_H_
#define SPLITVEIL_COMMON_TRANSPORT_HALF_PRECISION_H_

#include <cstdint>
#include <cstring>

namespace splitveil {

inline uint32_t FloatBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
inline float FloatFromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Bits of |value| at and above which rounding to the narrower type gives infinity. Infinities and NaN lie above all.
inline constexpr uint32_t kFloat32OverflowBits = 0x7f800000;   // Infinity itself.
inline constexpr uint32_t kBfloat16OverflowBits = 0x7f7f8000;  // Half a step above the largest bfloat16.
inline constexpr uint32_t kFloat16OverflowBits = 0x477ff000;   // 65520, half a step above 65504.

// Rounds a finite value to nearest, ties to even.
inline uint16_t ToBfloat16(float value) {
  const uint32_t bits = FloatBits(value);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
inline float FromBfloat16(uint16_t half) { return FloatFromBits(static_cast<uint32_t>(half) << 16); }

// Rounds a finite value below kFloat16OverflowBits to nearest, ties to even, subnormal results included. Adding a power
// of two that puts half's last bit at float's last bit makes the adder do the rounding: 2^(e+13) for a value in
// [2^e, 2^(e+1)), with e at least -14, where half's subnormals begin. Method: M. Dukhan, FP16 library (2017).
inline uint16_t ToFloat16(float value) {
  const uint32_t bits = FloatBits(value);
  const uint32_t exponent_bits = bits & 0x7f800000;
  const uint32_t clamped = exponent_bits < 0x38800000 ? 0x38800000 : exponent_bits;  // 2^-14.
  const uint32_t magic = clamped + (13u << 23);
  const uint32_t rounded = FloatBits(FloatFromBits(bits & 0x7fffffff) + FloatFromBits(magic)) - magic;
  // `rounded` counts steps of half's last bit: the significand with its leading 1 where the value is normal, which
  // carries into the exponent field; an exponent field one too low makes up for that.
  const uint32_t exponent = ((clamped - 0x38800000) >> 13);
  return static_cast<uint16_t>(((bits >> 16) & 0x8000) | (exponent + rounded));
}

// Exact for finite values. Infinities and NaN come out as large numbers: refuse them first. No float subnormal occurs
// on the way, so the result does not depend on whether the process flushes those to zero.
inline float FromFloat16(uint16_t half) {
  const int32_t magnitude = half & 0x7fff;
  const float normal = FloatFromBits((static_cast<uint32_t>(magnitude) << 13) + (112u << 23));
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24f;
  const uint32_t bits = FloatBits(magnitude < 0x400 ? subnormal : normal);
  return FloatFromBits(bits | (static_cast<uint32_t>(half & 0x8000) << 16));
}

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_TRANSPORT_HALF_PRECISION_H_
