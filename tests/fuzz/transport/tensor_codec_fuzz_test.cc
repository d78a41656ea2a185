// Deterministic mutations of valid tensors through the fuzz target, for every compiler and build.
#include <chrono>
#include <cstdint>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "common/transport/tensor_codec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace splitveil {
namespace {

constexpr std::chrono::seconds kBudget(3);
constexpr int kMinInputs = 2000;  // Also under sanitizers.
constexpr uint32_t kSeed = 20220601;

// What the target expects, then a tensor that fits it, with `extra` bytes of data too many.
std::string Seed(v1::DataType dtype, int rows, int cols, std::mt19937& random, size_t extra = 0) {
  v1::Tensor tensor;
  tensor.set_dtype(dtype);
  tensor.add_shape(rows);
  tensor.add_shape(cols);
  std::string& data = *tensor.mutable_data();
  data.resize(static_cast<size_t>(rows * cols * ElementBytes(dtype)) + extra);
  for (char& byte : data) {
    byte = static_cast<char>(random() & 0x3f);  // Exponents stay finite.
  }
  const std::string expected = {static_cast<char>(dtype), static_cast<char>(rows), static_cast<char>(cols)};
  return expected + tensor.SerializeAsString();
}

TEST(TensorCodecFuzzTest, MutatedTensorsKeepTheProperties) {
  std::mt19937 random(kSeed);
  const auto below = [&](size_t bound) { return random() % bound; };
  const auto end = std::chrono::steady_clock::now() + kBudget;
  int inputs = 0;
  while (inputs < kMinInputs || std::chrono::steady_clock::now() < end) {
    const auto dtype = static_cast<v1::DataType>(1 + below(3));
    std::string input =
        Seed(dtype, static_cast<int>(below(32)), static_cast<int>(below(32)), random, below(8) == 0 ? below(5) : 0);
    for (size_t edits = below(4); edits > 0 && !input.empty(); --edits) {
      const size_t at = below(input.size());
      // Half of the edits hit the header: expectation, type, shape, length.
      const size_t place = below(2) == 0 ? at % 16 % input.size() : at;
      switch (below(4)) {
        case 0:
          input[place] ^= static_cast<char>(1 << below(8));
          break;
        case 1:
          input.erase(place, 1 + below(4));
          break;
        case 2:
          input.insert(place, 1 + below(10), static_cast<char>(below(2) == 0 ? 0xff : below(256)));
          break;
        default:
          input.insert(place, input.substr(below(input.size()), below(20)));
      }
    }
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
    ++inputs;
  }
  std::cout << inputs << " inputs\n";
}

TEST(TensorCodecFuzzTest, EveryPrefixOfATensorKeepsTheProperties) {
  std::mt19937 random(kSeed);
  for (const v1::DataType dtype : {v1::FLOAT32, v1::BFLOAT16, v1::FLOAT16}) {
    const std::string whole = Seed(dtype, 5, 7, random);
    for (size_t size = 0; size <= whole.size(); ++size) {
      LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(whole.data()), size);
    }
  }
}

}  // namespace
}  // namespace splitveil
