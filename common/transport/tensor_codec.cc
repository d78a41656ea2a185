#include "common/transport/tensor_codec.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/status/status_macros.h"

namespace splitveil {

namespace {

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
// Half a step is added, or just below it if the last kept bit is 0: ties go to even without a branch.
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
  // `rounded` counts steps of half's last bit: the significand with its leading 1 if the value is normal, which
  // carries into the exponent field; an exponent field one too low makes up for that.
  const uint32_t exponent = ((clamped - 0x38800000) >> 13);
  return static_cast<uint16_t>(((bits >> 16) & 0x8000) | (exponent + rounded));
}

// Exact for finite values. Infinities and NaN come out as large numbers: refuse them first. No float subnormal occurs
// on the way, so the result does not depend on whether the process flushes those to zero.
inline float FromFloat16(uint16_t half) {
  const int32_t magnitude = half & 0x7fff;
  const float normal = FloatFromBits((static_cast<uint32_t>(magnitude) << 13) + (112u << 23));
  // Computed for every value and chosen below: a jump per number would keep the loop from vectorising.
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24f;
  const uint32_t bits = FloatBits(magnitude < 0x400 ? subnormal : normal);
  return FloatFromBits(bits | (static_cast<uint32_t>(half & 0x8000) << 16));
}

// The wire is little-endian and the bytes are copied as they are.
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "big-endian hosts need byte swaps in tensor_codec.cc");

static_assert(std::numeric_limits<float>::is_iec559);

// Whether every |value| lies below the one with these bits. Bits of magnitudes order as the magnitudes do, with
// infinity and NaN on top. One pass without a branch.
bool AllBelow(const float* values, int64_t count, uint32_t magnitude_bits) {
  uint32_t at_or_above = 0;  // Sign bit: set once a value is not below.
  for (int64_t i = 0; i < count; ++i) {
    // Wraps around, and so sets the sign bit, exactly if the value is not below.
    at_or_above |= (magnitude_bits - 1) - (FloatBits(values[i]) & 0x7fffffff);
  }
  return (at_or_above & 0x80000000) == 0;
}

// The same for 16-bit types; `infinity` has all exponent bits set.
bool AllFinite16(const char* bytes, int64_t count, uint16_t infinity) {
  // Collected and tested once at the end, since nearly every message is finite throughout.
  uint16_t not_finite = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint16_t half;
    std::memcpy(&half, bytes + 2 * i, sizeof(half));
    not_finite |= static_cast<uint16_t>((half & infinity) == infinity);
  }
  return not_finite == 0;
}

template <uint16_t (*kConvert)(float)>
void Narrow(const float* values, int64_t count, char* bytes) {
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t half = kConvert(values[i]);
    std::memcpy(bytes + 2 * i, &half, sizeof(half));
  }
}

template <float (*kConvert)(uint16_t)>
void Widen(const char* bytes, int64_t count, float* values) {
  for (int64_t i = 0; i < count; ++i) {
    uint16_t half;
    std::memcpy(&half, bytes + 2 * i, sizeof(half));
    values[i] = kConvert(half);
  }
}

uint32_t OverflowBits(v1::DataType dtype) {
  switch (dtype) {
    case v1::BFLOAT16:
      return kBfloat16OverflowBits;
    case v1::FLOAT16:
      return kFloat16OverflowBits;
    default:
      return kFloat32OverflowBits;
  }
}

absl::Status Invalid(absl::string_view field, absl::string_view part, absl::string_view expected,
                     absl::string_view found) {
  return absl::InvalidArgumentError(absl::StrCat(field, ".", part, ": expected ", expected, ", found ", found));
}

std::string TypeName(v1::DataType dtype) {
  return v1::DataType_IsValid(dtype) ? v1::DataType_Name(dtype) : absl::StrCat(static_cast<int>(dtype));
}

std::string ShapeText(const v1::Tensor& tensor) {
  constexpr int kMaxShown = 4;
  const bool all = tensor.shape_size() <= kMaxShown;
  const auto end = tensor.shape().begin() + (all ? tensor.shape_size() : kMaxShown);
  return absl::StrCat("[", absl::StrJoin(tensor.shape().begin(), end, ", "), all ? "]" : ", …]");
}

// Checks everything but the values. No number that the peer chose enters a product before it is known to be the
// expected one.
absl::Status CheckLayout(const v1::Tensor& tensor, const TensorExpectation& expected) {
  const int64_t element_bytes = ElementBytes(expected.dtype);
  if (element_bytes == 0) {
    return Invalid(expected.field, "dtype", "a known type", TypeName(expected.dtype));
  }
  // The agreement fixes the type. A message cannot choose a narrower one and so change what was agreed to be sent.
  if (tensor.dtype() != expected.dtype) {
    return Invalid(expected.field, "dtype", TypeName(expected.dtype), TypeName(tensor.dtype()));
  }
  const std::string expected_shape = absl::StrCat("[", expected.rows, ", ", expected.cols, "]");
  int64_t bytes = 0;
  // Before anything is allocated: sizes come from the peer and from configurations.
  if (expected.rows < 0 || expected.cols < 0 || __builtin_mul_overflow(expected.rows, expected.cols, &bytes) ||
      __builtin_mul_overflow(bytes, element_bytes, &bytes)) {
    return Invalid(expected.field, "shape", "a size that fits 64 bits", expected_shape);
  }
  if (tensor.shape_size() != 2 || tensor.shape(0) != expected.rows || tensor.shape(1) != expected.cols) {
    return Invalid(expected.field, "shape", expected_shape, ShapeText(tensor));
  }
  // Without this the copy below would read past the message.
  if (tensor.data().size() != static_cast<uint64_t>(bytes)) {
    return Invalid(expected.field, "data", absl::StrCat(bytes, " bytes"), absl::StrCat(tensor.data().size()));
  }
  return absl::OkStatus();
}

// `values`: of the checked layout.
absl::Status DecodeValues(const v1::Tensor& tensor, const TensorExpectation& expected, float* values) {
  const char* bytes = tensor.data().data();
  const int64_t count = expected.rows * expected.cols;
  bool finite = true;
  if (expected.dtype == v1::FLOAT32) {
    if (count > 0) {
      std::memcpy(values, bytes, tensor.data().size());
    }
    finite = AllBelow(values, count, kFloat32OverflowBits);
  } else if (expected.dtype == v1::BFLOAT16) {
    finite = AllFinite16(bytes, count, 0x7f80);
    Widen<FromBfloat16>(bytes, count, values);
  } else {
    finite = AllFinite16(bytes, count, 0x7c00);
    Widen<FromFloat16>(bytes, count, values);
  }
  // One NaN would spread through the model and through every figure of the run.
  if (!finite) {
    return Invalid(expected.field, "data", "finite values", "an infinity or NaN");
  }
  const bool within =
      std::isinf(expected.magnitude_limit) || AllBelow(values, count, FloatBits(expected.magnitude_limit));
  return within ? absl::OkStatus()
                : Invalid(expected.field, "data", absl::StrCat("magnitudes below ", expected.magnitude_limit),
                          "a larger one");
}

}  // namespace

int64_t ElementBytes(v1::DataType dtype) {
  switch (dtype) {
    case v1::FLOAT32:
      return 4;
    case v1::BFLOAT16:
    case v1::FLOAT16:
      return 2;
    default:
      return 0;
  }
}

absl::Status EncodeMatrix(ConstMatrixView matrix, v1::DataType dtype, v1::Tensor& tensor) {
  const int64_t element_bytes = ElementBytes(dtype);
  if (element_bytes == 0) {
    return Invalid("tensor", "dtype", "FLOAT32, BFLOAT16 or FLOAT16", TypeName(dtype));
  }
  // A value that rounds to infinity would be refused by the peer, and a NaN of our own is a fault to be found here.
  if (!AllBelow(matrix.data(), matrix.size(), OverflowBits(dtype))) {
    return absl::OutOfRangeError(
        absl::StrCat("tensor: expected finite values within the range of ", TypeName(dtype), ", found others"));
  }
  tensor.set_dtype(dtype);
  tensor.clear_shape();
  tensor.add_shape(matrix.rows());
  tensor.add_shape(matrix.cols());
  std::string& data = *tensor.mutable_data();
  const size_t bytes = static_cast<size_t>(matrix.size() * element_bytes);
  if (dtype == v1::FLOAT32) {
    data.assign(reinterpret_cast<const char*>(matrix.data()), bytes);
    return absl::OkStatus();
  }
  data.resize(bytes);
  if (dtype == v1::BFLOAT16) {
    Narrow<ToBfloat16>(matrix.data(), matrix.size(), &data[0]);
  } else {
    Narrow<ToFloat16>(matrix.data(), matrix.size(), &data[0]);
  }
  return absl::OkStatus();
}

absl::StatusOr<Matrix> DecodeMatrix(const v1::Tensor& tensor, const TensorExpectation& expected) {
  SPLITVEIL_RETURN_IF_ERROR(CheckLayout(tensor, expected));
  Matrix matrix = Matrix::ToOverwrite(expected.rows, expected.cols);
  absl::Status status = DecodeValues(tensor, expected, matrix.data());
  return status.ok() ? absl::StatusOr<Matrix>(std::move(matrix)) : status;
}

absl::Status DecodeInto(absl::Span<float> values, const v1::Tensor& tensor, const TensorExpectation& expected) {
  SPLITVEIL_RETURN_IF_ERROR(CheckLayout(tensor, expected));
  // The room is this program's own, so a mismatch is a bug and not the peer's fault.
  if (values.size() != static_cast<uint64_t>(expected.rows * expected.cols)) {
    return absl::InternalError(absl::StrCat(expected.field, ": expected room for ", expected.rows * expected.cols,
                                            " values, found ", values.size()));
  }
  return DecodeValues(tensor, expected, values.data());
}

}  // namespace splitveil
