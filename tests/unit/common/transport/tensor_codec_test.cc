#include "common/transport/tensor_codec.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A small generator with known output, so that failures repeat: Marsaglia, "Xorshift RNGs" (2003).
class Xorshift {
 public:
  uint32_t Next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 17;
    return state_ ^= state_ << 5;
  }

 private:
  uint32_t state_ = 2463534242;
};

float FloatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Value of IEEE binary16 bits by the standard's definition, in exact double arithmetic.
double HalfValue(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

// Value of bfloat16 bits by its definition: 8 exponent bits, 7 fraction bits.
double Bfloat16Value(uint16_t bits) {
  const int exponent = (bits >> 7) & 255;
  const int fraction = bits & 127;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -133) : std::ldexp(128 + fraction, exponent - 134);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

// The 16-bit pattern below `overflow` nearest to |value|, ties to even, by bisection over the definition.
uint16_t NearestBits(double value, double (*value_of)(uint16_t), uint16_t overflow) {
  uint16_t low = 0;
  uint16_t high = overflow;
  while (high - low > 1) {
    const auto middle = static_cast<uint16_t>((low + high) / 2);
    (value_of(middle) <= std::abs(value) ? low : high) = middle;
  }
  const double below = std::abs(value) - value_of(low);
  const double above = value_of(high) - std::abs(value);
  const bool up = above < below || (above == below && (high & 1) == 0);
  return static_cast<uint16_t>((up ? high : low) | (std::signbit(value) ? 0x8000 : 0));
}

std::string BytesOf(const std::vector<uint16_t>& halves) {
  std::string bytes;
  for (const uint16_t half : halves) {
    bytes.push_back(static_cast<char>(half & 255));
    bytes.push_back(static_cast<char>(half >> 8));
  }
  return bytes;
}

v1::Tensor TensorOf(v1::DataType dtype, int64_t rows, int64_t cols, const std::string& data) {
  v1::Tensor tensor;
  tensor.set_dtype(dtype);
  tensor.add_shape(rows);
  tensor.add_shape(cols);
  tensor.set_data(data);
  return tensor;
}

// Floats of every exponent and sign, and the points around which 16-bit rounding changes.
std::vector<float> InterestingFloats(float below) {
  std::vector<float> values = {0.0f,     -0.0f,      1.0f,      -1.0f,     0x1p-24f,
                               0x1p-25f, 0x1.8p-25f, 0x1p-149f, 0x1p-133f, 65504.0f};
  Xorshift random;
  while (values.size() < 200000) {
    uint32_t bits = random.Next();
    if (values.size() % 3 == 0) {
      bits &= 0xffff8000;  // Ties of bfloat16.
    } else if (values.size() % 3 == 1) {
      bits &= 0xfffff000;  // Ties of float16.
    }
    if (values.size() % 2 == 0) {
      bits = (bits & 0x87ffffff) | 0x30000000 | (bits & 0x10000000);  // Exponents of float16's range.
    }
    if (std::abs(FloatOf(bits)) < below) {  // False for NaN.
      values.push_back(FloatOf(bits));
    }
  }
  return values;
}

void ExpectNearest(v1::DataType dtype, double (*value_of)(uint16_t), uint16_t overflow, float below) {
  const std::vector<float> values = InterestingFloats(below);
  v1::Tensor tensor;
  ASSERT_TRUE(EncodeMatrix({values.data(), static_cast<int64_t>(values.size()), 1}, dtype, tensor).ok());
  for (size_t i = 0; i < values.size(); ++i) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(tensor.data().data()) + 2 * i;
    ASSERT_EQ(bytes[0] | bytes[1] << 8, NearestBits(values[i], value_of, overflow)) << std::hexfloat << values[i];
  }
}

TEST(TensorCodecTest, ElementBytesOfEveryType) {
  EXPECT_EQ(ElementBytes(v1::FLOAT32), 4);
  EXPECT_EQ(ElementBytes(v1::BFLOAT16), 2);
  EXPECT_EQ(ElementBytes(v1::FLOAT16), 2);
  EXPECT_EQ(ElementBytes(v1::DATA_TYPE_UNSPECIFIED), 0);
  EXPECT_EQ(ElementBytes(static_cast<v1::DataType>(77)), 0);
}

TEST(TensorCodecTest, WireBytesAreLittleEndianRowMajor) {
  const float values[] = {1.0f, -2.0f, 0.5f, 3.140625f};
  v1::Tensor tensor;
  ASSERT_TRUE(EncodeMatrix({values, 2, 2}, v1::FLOAT32, tensor).ok());
  EXPECT_EQ(tensor.shape(0), 2);
  EXPECT_EQ(tensor.shape(1), 2);
  EXPECT_EQ(tensor.data(), std::string("\x00\x00\x80\x3f\x00\x00\x00\xc0\x00\x00\x00\x3f\x00\x00\x49\x40", 16));
  ASSERT_TRUE(EncodeMatrix({values, 2, 2}, v1::BFLOAT16, tensor).ok());
  EXPECT_EQ(tensor.shape_size(), 2);
  EXPECT_EQ(tensor.data(), std::string("\x80\x3f\x00\xc0\x00\x3f\x49\x40", 8));
  ASSERT_TRUE(EncodeMatrix({values, 2, 2}, v1::FLOAT16, tensor).ok());
  EXPECT_EQ(tensor.data(), std::string("\x00\x3c\x00\xc0\x00\x38\x48\x42", 8));
}

TEST(TensorCodecTest, Float32RoundTripKeepsEveryBit) {
  const std::vector<float> values = InterestingFloats(kInfinity);
  v1::Tensor tensor;
  ASSERT_TRUE(EncodeMatrix({values.data(), 1000, 200}, v1::FLOAT32, tensor).ok());
  const auto decoded = DecodeMatrix(tensor, {"activations", v1::FLOAT32, 1000, 200});
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(std::memcmp(decoded->data(), values.data(), values.size() * sizeof(float)), 0);
}

TEST(TensorCodecTest, Float16DecodesEveryFinitePatternExactly) {
  std::vector<uint16_t> halves;
  for (uint32_t half = 0; half < 0x10000; ++half) {
    if ((half & 0x7c00) != 0x7c00) {
      halves.push_back(static_cast<uint16_t>(half));
    }
  }
  const auto rows = static_cast<int64_t>(halves.size());
  const auto decoded = DecodeMatrix(TensorOf(v1::FLOAT16, rows, 1, BytesOf(halves)), {"x", v1::FLOAT16, rows, 1});
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  for (size_t i = 0; i < halves.size(); ++i) {
    ASSERT_EQ(decoded->data()[i], HalfValue(halves[i])) << halves[i];
    ASSERT_EQ(std::signbit(decoded->data()[i]), (halves[i] & 0x8000) != 0) << halves[i];
  }
}

TEST(TensorCodecTest, Bfloat16DecodesEveryFinitePatternExactly) {
  std::vector<uint16_t> halves;
  for (uint32_t half = 0; half < 0x10000; ++half) {
    if ((half & 0x7f80) != 0x7f80) {
      halves.push_back(static_cast<uint16_t>(half));
    }
  }
  const auto rows = static_cast<int64_t>(halves.size());
  const auto decoded = DecodeMatrix(TensorOf(v1::BFLOAT16, rows, 1, BytesOf(halves)), {"x", v1::BFLOAT16, rows, 1});
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  for (size_t i = 0; i < halves.size(); ++i) {
    ASSERT_EQ(decoded->data()[i], Bfloat16Value(halves[i])) << halves[i];
  }
}

TEST(TensorCodecTest, Float16EncodesToNearestEven) { ExpectNearest(v1::FLOAT16, HalfValue, 0x7c00, 65520.0f); }

TEST(TensorCodecTest, Bfloat16EncodesToNearestEven) {
  ExpectNearest(v1::BFLOAT16, Bfloat16Value, 0x7f80, FloatOf(0x7f7f8000));
}

TEST(TensorCodecTest, EmptyMatrixRoundTrips) {
  for (const v1::DataType dtype : {v1::FLOAT32, v1::BFLOAT16, v1::FLOAT16}) {
    v1::Tensor tensor;
    ASSERT_TRUE(EncodeMatrix(Matrix(0, 7), dtype, tensor).ok());
    const auto decoded = DecodeMatrix(tensor, {"x", dtype, 0, 7});
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->rows(), 0);
  }
}

TEST(TensorCodecTest, EncodeReplacesWhatTheTensorHeld) {
  v1::Tensor tensor = TensorOf(v1::FLOAT16, 5, 5, "old");
  tensor.add_shape(3);
  ASSERT_TRUE(EncodeMatrix(Matrix(2, 3), v1::FLOAT32, tensor).ok());
  EXPECT_TRUE(DecodeMatrix(tensor, {"x", v1::FLOAT32, 2, 3}).ok());
}

TEST(TensorCodecTest, EncodeRefusesAnUnknownType) {
  v1::Tensor tensor;
  EXPECT_EQ(EncodeMatrix(Matrix(1, 1), v1::DATA_TYPE_UNSPECIFIED, tensor).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(EncodeMatrix(Matrix(1, 1), static_cast<v1::DataType>(9), tensor).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(TensorCodecTest, EncodeRefusesWhatTheTypeCannotHold) {
  for (const v1::DataType dtype : {v1::FLOAT32, v1::BFLOAT16, v1::FLOAT16}) {
    for (const float value : {kInfinity, -kInfinity, kNan}) {
      Matrix matrix(3, 11);
      matrix.row(1)[7] = value;
      v1::Tensor tensor;
      EXPECT_EQ(EncodeMatrix(matrix, dtype, tensor).code(), absl::StatusCode::kOutOfRange) << dtype << " " << value;
    }
  }
}

TEST(TensorCodecTest, EncodeRefusesExactlyFromWhereRoundingOverflows) {
  const float half_limit = 65520.0f;
  const float bfloat_limit = FloatOf(0x7f7f8000);
  for (const auto& [dtype, limit] : {std::make_pair(v1::FLOAT16, half_limit), {v1::BFLOAT16, bfloat_limit}}) {
    v1::Tensor tensor;
    const float inside = -std::nextafter(limit, 0.0f);
    EXPECT_TRUE(EncodeMatrix({&inside, 1, 1}, dtype, tensor).ok());
    const float outside = -limit;
    EXPECT_EQ(EncodeMatrix({&outside, 1, 1}, dtype, tensor).code(), absl::StatusCode::kOutOfRange);
  }
}

TEST(TensorCodecTest, DecodeRefusesAnotherType) {
  const v1::Tensor tensor = TensorOf(v1::BFLOAT16, 1, 2, std::string(4, '\0'));
  const absl::Status status = DecodeMatrix(tensor, {"activations", v1::FLOAT16, 1, 2}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "activations.dtype: expected FLOAT16, found BFLOAT16");
}

TEST(TensorCodecTest, DecodeRefusesUnknownTypes) {
  const std::string data(4, '\0');
  for (const int dtype : {0, 4, -1}) {
    EXPECT_FALSE(DecodeMatrix(TensorOf(static_cast<v1::DataType>(dtype), 1, 1, data), {"x", v1::FLOAT32, 1, 1}).ok());
    EXPECT_FALSE(DecodeMatrix(TensorOf(static_cast<v1::DataType>(dtype), 1, 1, data),
                              {"x", static_cast<v1::DataType>(dtype), 1, 1})
                     .ok());
  }
}

TEST(TensorCodecTest, DecodeRefusesAnotherShape) {
  const std::string data(4 * 6, '\0');
  v1::Tensor flat = TensorOf(v1::FLOAT32, 2, 3, data);
  flat.mutable_shape()->Truncate(1);
  v1::Tensor deep = TensorOf(v1::FLOAT32, 2, 3, data);
  deep.add_shape(1);
  v1::Tensor none = TensorOf(v1::FLOAT32, 2, 3, data);
  none.clear_shape();
  for (const v1::Tensor& tensor : {TensorOf(v1::FLOAT32, 3, 2, data), TensorOf(v1::FLOAT32, -2, -3, data),
                                   TensorOf(v1::FLOAT32, 1, 6, data), flat, deep, none}) {
    const absl::Status status = DecodeMatrix(tensor, {"gradients", v1::FLOAT32, 2, 3}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("gradients.shape: expected [2, 3], found ["));
  }
}

TEST(TensorCodecTest, DecodeRefusesAnotherLength) {
  for (const size_t bytes : {0, 1, 23, 25, 48}) {
    const absl::Status status =
        DecodeMatrix(TensorOf(v1::FLOAT32, 2, 3, std::string(bytes, '\0')), {"x", v1::FLOAT32, 2, 3}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bytes;
    EXPECT_THAT(std::string(status.message()), HasSubstr("x.data: expected 24 bytes, found "));
  }
}

// 2^41 * 4 bytes would not fit this machine; an allocation would end the test.
TEST(TensorCodecTest, DecodeChecksTheLengthBeforeItAllocates) {
  const int64_t rows = int64_t{1} << 40;
  EXPECT_FALSE(DecodeMatrix(TensorOf(v1::FLOAT32, rows, 2, ""), {"x", v1::FLOAT32, rows, 2}).ok());
}

TEST(TensorCodecTest, DecodeRefusesASizeThatOverflows) {
  const int64_t huge = int64_t{1} << 32;
  EXPECT_FALSE(DecodeMatrix(TensorOf(v1::FLOAT32, huge, huge, ""), {"x", v1::FLOAT32, huge, huge}).ok());
  const int64_t large = int64_t{1} << 31;  // The product of the shape fits, in bytes it does not.
  EXPECT_FALSE(DecodeMatrix(TensorOf(v1::FLOAT32, large, large, ""), {"x", v1::FLOAT32, large, large}).ok());
  EXPECT_FALSE(DecodeMatrix(TensorOf(v1::FLOAT32, -1, 2, ""), {"x", v1::FLOAT32, -1, 2}).ok());
}

TEST(TensorCodecTest, DecodeRefusesValuesThatAreNotFiniteAtEveryPosition) {
  const std::vector<std::pair<v1::DataType, std::vector<std::string>>> cases = {
      {v1::FLOAT32,
       {std::string("\0\0\x80\x7f", 4), std::string("\0\0\x80\xff", 4), std::string("\1\0\x80\x7f", 4),
        std::string("\0\0\xc0\xff", 4)}},
      {v1::BFLOAT16, {"\x80\x7f", "\x80\xff", "\x81\x7f", "\xc0\xff"}},
      {v1::FLOAT16, {std::string("\0\x7c", 2), std::string("\0\xfc", 2), "\x01\x7c", std::string("\0\xfe", 2)}}};
  for (const auto& [dtype, patterns] : cases) {
    for (const std::string& pattern : patterns) {
      for (size_t position = 0; position < 37; ++position) {
        std::string data(37 * pattern.size(), '\x11');
        data.replace(position * pattern.size(), pattern.size(), pattern);
        const absl::Status status = DecodeMatrix(TensorOf(dtype, 37, 1, data), {"x", dtype, 37, 1}).status();
        ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << dtype << " at " << position;
        ASSERT_EQ(status.message(), "x.data: expected finite values, found an infinity or NaN");
      }
    }
  }
}

TEST(TensorCodecTest, DecodeRefusesAMagnitudeAtItsLimit) {
  for (const v1::DataType dtype : {v1::FLOAT32, v1::BFLOAT16}) {
    for (const float value : {1e30f, -1e30f, 4.0f, -4.0f, 3.5f}) {
      v1::Tensor tensor;
      const float values[] = {0, 1, 2, value, -1, 0};
      ASSERT_TRUE(EncodeMatrix({values, 2, 3}, dtype, tensor).ok());
      const absl::Status status = DecodeMatrix(tensor, {"gradients", dtype, 2, 3, 4.0f}).status();
      EXPECT_EQ(status.ok(), value == 3.5f) << value;
      EXPECT_TRUE(DecodeMatrix(tensor, {"gradients", dtype, 2, 3}).ok()) << "without a limit";
    }
  }
}

TEST(TensorCodecTest, ErrorsNeverCarryAValue) {
  const float secret = 31415.0f;
  std::string data(reinterpret_cast<const char*>(&secret), 4);
  const absl::Status wrong_length = DecodeMatrix(TensorOf(v1::FLOAT32, 1, 2, data), {"x", v1::FLOAT32, 1, 2}).status();
  const float values[] = {secret, kNan};
  v1::Tensor tensor;
  const absl::Status not_finite = EncodeMatrix({values, 1, 2}, v1::FLOAT32, tensor);
  for (const absl::Status& status : {wrong_length, not_finite}) {
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(status.ToString(), Not(HasSubstr("31415")));
  }
}

}  // namespace
}  // namespace splitveil
