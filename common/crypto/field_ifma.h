// Arithmetic modulo p = 2^255 - 19 on eight elements at a time, with AVX-512 IFMA, for ristretto_ifma.cc alone: no
// inline function that another source might share (see there). Time and addresses depend on no value.
#ifndef SPLITVEIL_COMMON_CRYPTO_FIELD_IFMA_H_
#define SPLITVEIL_COMMON_CRYPTO_FIELD_IFMA_H_

#if defined(__AVX512F__) && defined(__AVX512IFMA__)
#include <immintrin.h>

#include <cstdint>

#define SPLITVEIL_INLINE static inline __attribute__((always_inline))

namespace splitveil::ifma {

using Lanes = __m512i;  // One 64-bit number for each of eight points.

constexpr int kLimbs = 5;
constexpr int kLimbBits = 51;
constexpr int64_t kLimbMask = (int64_t{1} << kLimbBits) - 1;
constexpr __mmask8 kAllLanes = 0xff;
constexpr int kWideScale = 10;

// Sum of limb[i] 2^(51 i) modulo p = 2^255 - 19. Every function takes and returns limbs below 2^51 + 2^15, which leaves
// the multiplier's 52 bits room for no sum: each is carried.
struct Element {
  Lanes limb[kLimbs];
};

// The same before the carry: a product, or a sum of few.
struct Wide {
  Lanes limb[kLimbs];
};

struct Constant {
  int64_t limb[kLimbs];
};

constexpr Constant kZero = {{0, 0, 0, 0, 0}};
constexpr Constant kOne = {{1, 0, 0, 0, 0}};
constexpr Constant kTwo = {{2, 0, 0, 0, 0}};
constexpr Constant kD = {{0x34dca135978a3, 0x1a8283b156ebd, 0x5e7a26001c029, 0x739c663a03cbb, 0x52036cee2b6ff}};
constexpr Constant k2D = {{0x69b9426b2f159, 0x35050762add7a, 0x3cf44c0038052, 0x6738cc7407977, 0x2406d9dc56dff}};
constexpr Constant kSqrtMinusOne = {
    {0x61b274a0ea0b0, 0x0d5a5fc8f189d, 0x7ef5e9cbd0c60, 0x78595a6804c9e, 0x2b8324804fc1d}};
constexpr Constant kSqrtADMinusOne = {
    {0x7f6a0497b2e1b, 0x1836f0a97afd2, 0x7d747f6be7638, 0x456079e7e6498, 0x376931bf2b834}};
constexpr Constant kInvSqrtAMinusD = {
    {0x0fdaa805d40ea, 0x2eb482e57d339, 0x007610274bc58, 0x6510b613dc8ff, 0x786c8905cfaff}};
constexpr Constant kOneMinusDSquared = {
    {0x409c1945fc176, 0x719abc6a1fc4f, 0x1c37f90b20684, 0x06bccca55eedf, 0x029072a8b2b3e}};
constexpr Constant kDMinusOneSquared = {
    {0x55aaa44ed4d20, 0x59603c3332635, 0x26d3baf4a7928, 0x120a66e6997a9, 0x5968b37af66c2}};

SPLITVEIL_INLINE Lanes Every(int64_t value) { return _mm512_set1_epi64(value); }
SPLITVEIL_INLINE Lanes Plus(Lanes a, Lanes b) { return _mm512_add_epi64(a, b); }
SPLITVEIL_INLINE Lanes AddLow(Lanes sum, Lanes a, Lanes b) { return _mm512_madd52lo_epu64(sum, a, b); }
SPLITVEIL_INLINE Lanes AddHigh(Lanes sum, Lanes a, Lanes b) { return _mm512_madd52hi_epu64(sum, a, b); }
SPLITVEIL_INLINE Lanes Low(Lanes a) { return _mm512_and_si512(a, Every(kLimbMask)); }
SPLITVEIL_INLINE Lanes High(Lanes a) { return _mm512_srli_epi64(a, kLimbBits); }
SPLITVEIL_INLINE Lanes Times2(Lanes a) { return Plus(a, a); }

SPLITVEIL_INLINE Element Of(const Constant& constant) {
  Element r;
  for (int i = 0; i < kLimbs; ++i) {
    r.limb[i] = Every(constant.limb[i]);
  }
  return r;
}

// The carry of each limb to the next, that of the last times 19 to the first: the limbs may have all of their 64 bits.
SPLITVEIL_INLINE Element Carry(const Wide& a) {
  Element r;
  r.limb[0] = AddLow(Low(a.limb[0]), High(a.limb[4]), Every(19));
  for (int i = 1; i < kLimbs; ++i) {
    r.limb[i] = Plus(Low(a.limb[i]), High(a.limb[i - 1]));
  }
  return r;
}

template <typename Number>
SPLITVEIL_INLINE Wide AddWide(const Number& a, const Number& b) {
  Wide r;
  for (int i = 0; i < kLimbs; ++i) {
    r.limb[i] = Plus(a.limb[i], b.limb[i]);
  }
  return r;
}

// a + 2^scale p - b: for limbs of b below that multiple's.
template <int scale, typename Number>
SPLITVEIL_INLINE Wide SubWide(const Number& a, const Number& b) {
  Wide r;
  for (int i = 0; i < kLimbs; ++i) {
    const Lanes p = Every((i == 0 ? kLimbMask - 18 : kLimbMask) << scale);
    r.limb[i] = _mm512_sub_epi64(Plus(a.limb[i], p), b.limb[i]);
  }
  return r;
}

SPLITVEIL_INLINE Element Add(const Element& a, const Element& b) { return Carry(AddWide(a, b)); }
SPLITVEIL_INLINE Element Sub(const Element& a, const Element& b) { return Carry(SubWide<1>(a, b)); }
SPLITVEIL_INLINE Element Add(const Wide& a, const Wide& b) { return Carry(AddWide(a, b)); }
SPLITVEIL_INLINE Element Sub(const Wide& a, const Wide& b) { return Carry(SubWide<kWideScale>(a, b)); }
SPLITVEIL_INLINE Wide Zero() {
  Wide r;
  for (int i = 0; i < kLimbs; ++i) {
    r.limb[i] = _mm512_setzero_si512();
  }
  return r;
}

SPLITVEIL_INLINE Element Negate(const Element& a) { return Sub(Of(kZero), a); }

SPLITVEIL_INLINE Lanes Times16(Lanes a) { return _mm512_slli_epi64(a, 4); }

// Column k of a product is the sum of a[i] b[k - i], below 2^56. The upper part of a limb's product begins at bit 52,
// the next column at bit 51, so it counts double. Column k + 5 counts 19 times in column k, 2^255 being 19: as 16 + 2
// + 1.
//
// Few instructions, each sum waiting for the one before: three or four products at a time keep the processor busy.
SPLITVEIL_INLINE Wide MulWide(const Element& a, const Element& b) {
  Lanes folded[kLimbs];
  Wide r;
#pragma GCC unroll 10
  for (int k = 2 * kLimbs - 1; k >= 0; --k) {
    const bool is_high = k >= kLimbs;
    const int first = is_high ? k - kLimbs : 0;  // The smallest i with b[k - 1 - i].
    Lanes sum = is_high ? _mm512_setzero_si512() : folded[k];
#pragma GCC unroll 5
    for (int i = first; i < kLimbs && i < k; ++i) {
      sum = AddHigh(sum, a.limb[i], b.limb[k - 1 - i]);
    }
    sum = is_high ? Times2(sum) : Plus(Times2(sum), Plus(Times16(folded[k]), folded[k]));
#pragma GCC unroll 5
    for (int i = is_high ? first + 1 : 0; i < kLimbs && i <= k; ++i) {
      sum = AddLow(sum, a.limb[i], b.limb[k - i]);
    }
    (is_high ? folded[k - kLimbs] : r.limb[k]) = sum;
  }
  return r;
}

// Sums that wait less for each other, as most squares are in a long chain of them.
SPLITVEIL_INLINE Wide SquareWide(const Element& a) {
  Lanes low[2 * kLimbs], high[2 * kLimbs];  // Products of different limbs once; they count twice.
  for (int k = 0; k < 2 * kLimbs; ++k) {
    low[k] = high[k] = _mm512_setzero_si512();
  }
#pragma GCC unroll 5
  for (int i = 0; i < kLimbs; ++i) {
#pragma GCC unroll 5
    for (int j = i + 1; j < kLimbs; ++j) {
      low[i + j] = AddLow(low[i + j], a.limb[i], a.limb[j]);
      high[i + j + 1] = AddHigh(high[i + j + 1], a.limb[i], a.limb[j]);
    }
  }
  Lanes column[2 * kLimbs];
#pragma GCC unroll 5
  for (int i = 0; i < kLimbs; ++i) {
    const int even = 2 * i, odd = even + 1;
    column[even] = AddLow(Times2(Plus(low[even], Times2(high[even]))), a.limb[i], a.limb[i]);
    column[odd] = Times2(Plus(AddHigh(low[odd], a.limb[i], a.limb[i]), Times2(high[odd])));
  }
  Wide r;
  for (int k = 0; k < kLimbs; ++k) {
    const Lanes x = column[k + kLimbs];
    r.limb[k] = Plus(Plus(column[k], x), Plus(Times16(x), Times2(x)));
  }
  return r;
}

SPLITVEIL_INLINE Element Mul(const Element& a, const Element& b) { return Carry(MulWide(a, b)); }
SPLITVEIL_INLINE Element Square(const Element& a) { return Carry(SquareWide(a)); }

// `yes` in the lanes of `mask`, `no` in the others.
SPLITVEIL_INLINE Element Select(__mmask8 mask, const Element& yes, const Element& no) {
  Element r;
  for (int i = 0; i < kLimbs; ++i) {
    r.limb[i] = _mm512_mask_blend_epi64(mask, no.limb[i], yes.limb[i]);
  }
  return r;
}

// Limbs in order, each carry before the next limb; that of the last goes to the first, times 19.
SPLITVEIL_INLINE void CarryInOrder(Lanes* limb) {
  for (int i = 0; i + 1 < kLimbs; ++i) {
    limb[i + 1] = Plus(limb[i + 1], High(limb[i]));
    limb[i] = Low(limb[i]);
  }
  limb[0] = AddLow(limb[0], High(limb[4]), Every(19));
  limb[4] = Low(limb[4]);
}

// The one representation below p.
static Element Canonical(const Element& a) {
  Element r = a;
  CarryInOrder(r.limb);
  CarryInOrder(r.limb);     // Only the first limb can have been too large: all are below 2^51 now.
  Lanes carry = Every(19);  // Whether a + 19 reaches 2^255, which is whether a reaches p.
  for (int i = 0; i < kLimbs; ++i) {
    carry = High(Plus(r.limb[i], carry));
  }
  r.limb[0] = AddLow(r.limb[0], carry, Every(19));
  for (int i = 0; i + 1 < kLimbs; ++i) {
    r.limb[i + 1] = Plus(r.limb[i + 1], High(r.limb[i]));
    r.limb[i] = Low(r.limb[i]);
  }
  r.limb[4] = Low(r.limb[4]);
  return r;
}

static __mmask8 IsNegative(const Element& a) { return _mm512_test_epi64_mask(Canonical(a).limb[0], Every(1)); }

static __mmask8 IsZero(const Element& a) {
  const Element r = Canonical(a);
  Lanes any = r.limb[0];
  for (int i = 1; i < kLimbs; ++i) {
    any = _mm512_or_si512(any, r.limb[i]);
  }
  return _mm512_testn_epi64_mask(any, any);
}

SPLITVEIL_INLINE Element Absolute(const Element& a) { return Select(IsNegative(a), Negate(a), a); }

// a^(2^times).
static Element SquareTimes(Element a, int times) {
  for (int i = 0; i < times; ++i) {
    a = Square(a);
  }
  return a;
}

// a^((p - 5) / 8) = a^(2^252 - 3). xN: a^(2^N - 1).
static Element PowerP58(const Element& a) {
  const Element x2 = Mul(Square(a), a);
  const Element x4 = Mul(SquareTimes(x2, 2), x2);
  const Element x5 = Mul(Square(x4), a);
  const Element x10 = Mul(SquareTimes(x5, 5), x5);
  const Element x20 = Mul(SquareTimes(x10, 10), x10);
  const Element x40 = Mul(SquareTimes(x20, 20), x20);
  const Element x50 = Mul(SquareTimes(x40, 10), x10);
  const Element x100 = Mul(SquareTimes(x50, 50), x50);
  const Element x200 = Mul(SquareTimes(x100, 100), x100);
  const Element x250 = Mul(SquareTimes(x200, 50), x50);
  return Mul(SquareTimes(x250, 2), a);
}

// SQRT_RATIO_M1: the non-negative root of u/v, or of sqrt(-1) u/v; in which lanes it is the former.
static __mmask8 SqrtRatio(const Element& u, const Element& v, Element& root) {
  const Element v3 = Mul(Square(v), v);
  const Element r = Mul(Mul(u, v3), PowerP58(Mul(u, Mul(Square(v3), v))));
  const Element check = Mul(v, Square(r));
  const __mmask8 correct = IsZero(Sub(check, u));
  const __mmask8 flipped = IsZero(Add(check, u));
  const __mmask8 flipped_i = IsZero(Add(check, Mul(u, Of(kSqrtMinusOne))));
  root = Absolute(Select(flipped | flipped_i, Mul(r, Of(kSqrtMinusOne)), r));
  return correct | flipped;
}

// 1/a; 0 where a is 0. a^(p - 2) = (a^(2^252 - 3))^8 a^3.
static Element Invert(const Element& a) { return Mul(SquareTimes(PowerP58(a), 3), Mul(Square(a), a)); }

// The 32 bytes of eight strings that lie `stride` bytes apart, as four words each.
SPLITVEIL_INLINE void LoadWords(const uint8_t* bytes, int64_t stride, Lanes* word) {
  const Lanes offsets = _mm512_mullo_epi64(_mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0), Every(stride));
  for (int i = 0; i < 4; ++i) {
    word[i] = _mm512_i64gather_epi64(offsets, bytes + int64_t{8} * i, 1);
  }
}

// All bits but the highest.
SPLITVEIL_INLINE Element FromWords(const Lanes* word) {
  Element r;
  r.limb[0] = Low(word[0]);
  for (int i = 1; i < 4; ++i) {
    r.limb[i] = Low(_mm512_or_si512(_mm512_srli_epi64(word[i - 1], 64 - 13 * i), _mm512_slli_epi64(word[i], 13 * i)));
  }
  r.limb[4] = Low(_mm512_srli_epi64(word[3], 12));
  return r;
}

// Zeros in the lanes outside `mask`.
SPLITVEIL_INLINE void Store(const Element& a, __mmask8 mask, uint8_t* bytes) {
  const Element r = Canonical(a);
  const Lanes offsets = _mm512_set_epi64(224, 192, 160, 128, 96, 64, 32, 0);
  for (int i = 0; i < 4; ++i) {
    const Lanes word =
        _mm512_or_si512(_mm512_srli_epi64(r.limb[i], 13 * i), _mm512_slli_epi64(r.limb[i + 1], kLimbBits - 13 * i));
    _mm512_i64scatter_epi64(bytes + int64_t{8} * i, offsets, _mm512_maskz_mov_epi64(mask, word), 1);
  }
}

// In which lanes the element is below p as it was read, and the highest bit is 0.
SPLITVEIL_INLINE __mmask8 IsCanonical(const Element& a, Lanes highest_word) {
  Lanes all = a.limb[1];
  for (int i = 2; i < kLimbs; ++i) {
    all = _mm512_and_si512(all, a.limb[i]);
  }
  const __mmask8 at_least_p =
      _mm512_cmpeq_epi64_mask(all, Every(kLimbMask)) & _mm512_cmpge_epu64_mask(a.limb[0], Every(kLimbMask - 18));
  return static_cast<__mmask8>(~at_least_p) & _mm512_testn_epi64_mask(highest_word, Every(INT64_MIN));
}

}  // namespace splitveil::ifma

#endif
#endif  // SPLITVEIL_COMMON_CRYPTO_FIELD_IFMA_H_
