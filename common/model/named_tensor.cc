#include "common/model/named_tensor.h"

#include <ATen/ATen.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace splitveil {
namespace {

constexpr int kDigitBits = 16;  // So that each digit is a finite float, exactly.

}  // namespace

size_t NamedTensor::size() const {
  // An odd byte takes a digit of its own.
  return is_exact ? (tensor.nbytes() + 1) * 8 / kDigitBits : static_cast<size_t>(tensor.numel());
}

std::vector<float> NamedTensor::Read() const {
  std::vector<float> numbers(size());
  const at::Tensor packed = tensor.detach().contiguous();
  if (!is_exact) {
    at::from_blob(numbers.data(), tensor.sizes(), at::kFloat).copy_(packed);
    return numbers;
  }
  // Not by value: an int64 counter and a -inf in a mask would not survive as float32.
  std::vector<uint16_t> digits(numbers.size());
  std::memcpy(digits.data(), packed.data_ptr(), tensor.nbytes());
  std::copy(digits.begin(), digits.end(), numbers.begin());
  return numbers;
}

bool NamedTensor::Fits(const std::vector<float>& numbers) const {
  // NaN fails the first comparison; what is no digit would be undefined as uint16_t.
  return numbers.size() == size() && (!is_exact || std::all_of(numbers.begin(), numbers.end(), [](float digit) {
           return digit >= 0 && digit < (1 << kDigitBits) && digit == std::floor(digit);
         }));
}

void NamedTensor::Write(const std::vector<float>& numbers) {
  if (!is_exact) {
    tensor.copy_(at::from_blob(const_cast<float*>(numbers.data()), tensor.sizes(), at::kFloat));
    return;
  }
  const std::vector<uint16_t> digits(numbers.begin(), numbers.end());
  // By way of a packed copy: the tensor itself may have gaps between its rows.
  at::Tensor packed = at::empty(tensor.sizes(), tensor.options().requires_grad(false));
  std::memcpy(packed.data_ptr(), digits.data(), packed.nbytes());
  tensor.copy_(packed);
}

}  // namespace splitveil
