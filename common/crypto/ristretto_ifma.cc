// CMakeLists.txt compiles this file for AVX-512 IFMA. It includes nothing with inline functions of its own: the linker
// might choose this file's copy for the whole program, which would then fail on other processors.
//
// Names and formulas: RFC 9496, section 4; the group law: Hisil, Wong, Carter and Dawson (ASIACRYPT 2008), a = -1.
#include "common/crypto/ristretto_ifma.h"

#if defined(__AVX512F__) && defined(__AVX512IFMA__)
#include "common/crypto/field_ifma.h"

namespace splitveil::ifma {
namespace {

// Extended coordinates: x = X/Z, y = Y/Z, x y = T/Z.
struct Extended {
  Element x, y, z, t;
};

// A point that is added many times.
struct Cached {
  Element y_plus_x, y_minus_x, z2, t2d;
};

SPLITVEIL_INLINE Extended Identity() { return {Of(kZero), Of(kOne), Of(kOne), Of(kZero)}; }

Cached Cache(const Extended& p) { return {Add(p.y, p.x), Sub(p.y, p.x), Add(p.z, p.z), Mul(p.t, Of(k2D))}; }

// 2 p, from its x, y and z. T only `with_t`: a doubling does not need it.
template <bool with_t>
SPLITVEIL_INLINE void Double(Extended& p) {
  const Wide a = SquareWide(p.x), b = SquareWide(p.y), c = SquareWide(p.z), xy = MulWide(p.x, p.y);
  const Wide minus_g = SubWide<kWideScale>(a, b);
  const Element e = Sub(Zero(), AddWide(xy, xy)), f = Carry(AddWide(minus_g, AddWide(c, c)));
  const Element g = Carry(minus_g), h = Add(a, b);  // All four are the paper's, negated.
  p.x = Mul(e, f);
  p.y = Mul(g, h);
  p.z = Mul(f, g);
  if (with_t) {
    p.t = Mul(e, h);
  }
}

// p + q.
template <bool with_t>
SPLITVEIL_INLINE void AddCached(const Cached& q, Extended& p) {
  const Wide a = MulWide(Sub(p.y, p.x), q.y_minus_x), b = MulWide(Add(p.y, p.x), q.y_plus_x);
  const Wide c = MulWide(p.t, q.t2d), d = MulWide(p.z, q.z2);
  const Element e = Sub(b, a), f = Sub(d, c), g = Add(d, c), h = Add(b, a);
  p.x = Mul(e, f);
  p.y = Mul(g, h);
  p.z = Mul(f, g);
  if (with_t) {
    p.t = Mul(e, h);
  }
}

// 2^4 p.
void DoubleFourTimes(Extended& p) {
  for (int i = 0; i < 3; ++i) {
    Double<false>(p);
  }
  Double<true>(p);
}

// Section 4.3.1. In which lanes the encoding is a point's other than the identity's.
__mmask8 Decode(const uint8_t* encodings, Extended& p) {
  Lanes word[4];
  LoadWords(encodings, 32, word);
  const Element s = FromWords(word);
  // Only the canonical encoding counts: a second one would let a party send the same point as two.
  const __mmask8 canonical = IsCanonical(s, word[3]) & _mm512_testn_epi64_mask(word[0], Every(1));
  const Element ss = Square(s), u1 = Sub(Of(kOne), ss), u2 = Add(Of(kOne), ss), u2_squared = Square(u2);
  const Element v = Negate(Add(Mul(Of(kD), Square(u1)), u2_squared));
  Element inverse_root;
  const __mmask8 is_square = SqrtRatio(Of(kOne), Mul(v, u2_squared), inverse_root);
  const Element den_x = Mul(inverse_root, u2), den_y = Mul(Mul(inverse_root, den_x), v);
  p.x = Absolute(Mul(Add(s, s), den_x));
  p.y = Mul(u1, den_y);
  p.z = Of(kOne);
  p.t = Mul(p.x, p.y);
  return canonical & is_square & static_cast<__mmask8>(~(IsNegative(p.t) | IsZero(p.y) | IsZero(s)));
}

// Section 4.3.4, MAP: the point of 32 uniform bytes, of which the highest bit is ignored.
Extended MapToPoint(const uint8_t* uniform) {
  Lanes word[4];
  LoadWords(uniform, 64, word);
  const Element t = FromWords(word), one = Of(kOne), d = Of(kD);
  const Element r = Mul(Of(kSqrtMinusOne), Square(t)), u = Mul(Add(r, one), Of(kOneMinusDSquared));
  const Element v = Mul(Negate(Add(Mul(r, d), one)), Add(r, d));
  Element root;
  const __mmask8 is_square = SqrtRatio(u, v, root);
  // By masks, never by a jump: the ids behind the hashes must not show in the time.
  const Element s = Select(is_square, root, Negate(Absolute(Mul(root, t))));
  const Element c = Select(is_square, Negate(one), r);
  const Element n = Sub(Mul(Mul(c, Sub(r, one)), Of(kDMinusOneSquared)), v);
  const Element ss = Square(s), sv = Mul(s, v);
  const Element w0 = Add(sv, sv), w1 = Mul(n, Of(kSqrtADMinusOne)), w2 = Sub(one, ss), w3 = Add(one, ss);
  return {Mul(w0, w3), Mul(w2, w1), Mul(w1, w3), Mul(w0, w2)};
}

Extended Hash(const uint8_t* uniform) {
  Extended p = MapToPoint(uniform);
  // One map reaches only about half of the group; the sum of two is as good as uniform.
  AddCached<true>(Cache(MapToPoint(uniform + 32)), p);
  return p;
}

constexpr int kMultiples = 8;  // The digits' largest magnitude.

// multiple[j - 1] = j p.
void Multiples(const Extended& p, Cached* multiple) {
  Extended m = p;
  multiple[0] = Cache(p);
  for (int j = 1; j < kMultiples; ++j) {
    AddCached<true>(multiple[0], m);
    multiple[j] = Cache(m);
  }
}

// digit p. Reads every multiple, so that the address does not tell the digit.
SPLITVEIL_INLINE Cached Lookup(const Cached* multiple, int8_t digit) {
  const int negative = static_cast<uint8_t>(digit) >> 7;
  const int magnitude = (digit ^ -negative) + negative;
  Cached r = {Of(kOne), Of(kOne), Of(kTwo), Of(kZero)};
  for (int j = 0; j < kMultiples; ++j) {
    const uint32_t different = static_cast<uint32_t>(magnitude ^ (j + 1));
    const auto same = static_cast<__mmask8>(((different - 1) >> 8) & kAllLanes);  // All lanes, or none.
    r.y_plus_x = Select(same, multiple[j].y_plus_x, r.y_plus_x);
    r.y_minus_x = Select(same, multiple[j].y_minus_x, r.y_minus_x);
    r.z2 = Select(same, multiple[j].z2, r.z2);
    r.t2d = Select(same, multiple[j].t2d, r.t2d);
  }
  const auto swap = static_cast<__mmask8>(-negative);
  return {Select(swap, r.y_minus_x, r.y_plus_x), Select(swap, r.y_plus_x, r.y_minus_x), r.z2,
          Select(swap, Negate(r.t2d), r.t2d)};
}

// p^exponent.
void MultiplyPoint(const SignedDigits& exponent, Extended& p) {
  Cached multiple[kMultiples];
  Multiples(p, multiple);
  p = Identity();
  // The same sequence of operations for every exponent, so that its time tells nothing of the key.
  for (int i = 63; i > 0; --i) {
    AddCached<false>(Lookup(multiple, exponent.digit[i]), p);
    DoubleFourTimes(p);
  }
  AddCached<true>(Lookup(multiple, exponent.digit[0]), p);
}

// Encodings of 2 p for up to kMost blocks of points p with one inversion for all, where each encoding of p would take a
// square root (Hamburg; double_and_compress_batch of curve25519-dalek).
class DoublesEncoder {
 public:
  static constexpr size_t kMost = 16;

  // The encodings of the lanes outside `mask` will be zeros.
  void Append(const Extended& p, __mmask8 mask) {
    Block& block = blocks_[size_++];
    const Wide xx = SquareWide(p.x), yy = SquareWide(p.y), zz = SquareWide(p.z);
    const Wide dtt = MulWide(Square(p.t), Of(kD)), xy = MulWide(p.x, p.y);
    block.e = Add(xy, xy);
    block.f = Add(zz, dtt);
    block.g = Add(yy, xx);
    block.h = Sub(zz, dtt);
    const Element product = Mul(Mul(block.e, block.g), Mul(block.f, block.h));
    const __mmask8 zero = IsZero(product);  // The identity; its encoding is zeros, too.
    block.mask = mask & static_cast<__mmask8>(~zero);
    block.factor = Select(zero, Of(kOne), product);
    block.before = product_;
    product_ = Mul(product_, block.factor);
  }

  // Of all points added, which are forgotten.
  void Finish(uint8_t* encodings) {
    // Montgomery's trick: one inversion for all, then back through the products one factor at a time.
    Element inverse = Invert(product_);
    for (; size_ > 0; --size_) {
      const Block& block = blocks_[size_ - 1];
      Encode(block, Mul(inverse, block.before), encodings + 256 * (size_ - 1));
      inverse = Mul(inverse, block.factor);
    }
    product_ = Of(kOne);
  }

 private:
  struct Block {
    Element e, f, g, h;  // 2 p has x = e/f and y = g/h.
    Element factor;      // e f g h.
    Element before;      // The product of the earlier blocks' factors.
    __mmask8 mask;
  };

  static void Encode(const Block& block, const Element& inverse, uint8_t* encodings) {
    const Element eg = Mul(block.e, block.g);
    const Element z_inverse = Mul(eg, inverse), t_inverse = Mul(Mul(block.f, block.h), inverse);
    const __mmask8 rotate = IsNegative(Mul(eg, z_inverse));
    const Element e = Select(rotate, block.g, block.e), g = Select(rotate, Negate(block.e), block.g);
    const Element h = Select(rotate, Mul(block.f, Of(kSqrtMinusOne)), block.h);
    const Element magic = Select(rotate, Of(kSqrtMinusOne), Of(kInvSqrtAMinusD));
    const Element same_sign = Select(IsNegative(Mul(Mul(h, e), z_inverse)), Negate(g), g);
    Store(Absolute(Mul(Sub(h, same_sign), Mul(magic, Mul(same_sign, t_inverse)))), block.mask, encodings);
  }

  Block blocks_[kMost];
  size_t size_ = 0;
  Element product_ = Of(kOne);
};

// `load`: the point of block b and which lanes have one.
template <typename Load>
SPLITVEIL_INLINE void Multiply(const SignedDigits& half, size_t blocks, uint8_t* products, const Load& load) {
  DoublesEncoder encoder;
  for (size_t first = 0; first < blocks; first += DoublesEncoder::kMost) {
    const size_t rest = blocks - first, count = rest < DoublesEncoder::kMost ? rest : DoublesEncoder::kMost;
    for (size_t b = first; b < first + count; ++b) {
      Extended p;
      const __mmask8 mask = load(b, p);
      MultiplyPoint(half, p);
      encoder.Append(p, mask);
    }
    encoder.Finish(products + 256 * first);
  }
}

void MultiplyBlocks(const SignedDigits& half, const uint8_t* points, size_t blocks, uint8_t* products) {
  Multiply(half, blocks, products, [&](size_t b, Extended& p) { return Decode(points + 256 * b, p); });
}

void HashAndMultiplyBlocks(const SignedDigits& half, const uint8_t* uniform, size_t blocks, uint8_t* products) {
  Multiply(half, blocks, products, [&](size_t b, Extended& p) {
    p = Hash(uniform + 512 * b);
    return kAllLanes;
  });
}

void CheckBlocks(const uint8_t* points, size_t blocks, uint8_t* usable) {
  for (size_t b = 0; b < blocks; ++b) {
    Extended p;
    usable[b] = Decode(points + 256 * b, p);
  }
}

constexpr RistrettoKernel kKernel = {MultiplyBlocks, HashAndMultiplyBlocks, CheckBlocks};

}  // namespace
}  // namespace splitveil::ifma

namespace splitveil {
const RistrettoKernel* const kRistrettoIfma = &ifma::kKernel;
}  // namespace splitveil
#else
namespace splitveil {
const RistrettoKernel* const kRistrettoIfma = nullptr;
}  // namespace splitveil
#endif
