// A tensor of a TorchScript module as the floats that checkpoints hold. Shows LibTorch: for the sources of common/model
// only.
#ifndef SPLITVEIL_COMMON_MODEL_NAMED_TENSOR_H_
#define SPLITVEIL_COMMON_MODEL_NAMED_TENSOR_H_

#include <ATen/core/Tensor.h>
#include <cstddef>
#include <string>
#include <vector>

namespace splitveil {

// The numbers of one parameter. A tensor that is not trained may have any type: its bytes are kept as digits, two bytes
// in each float. Not thread-safe; throws c10::Error.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;      // On the CPU.
  bool is_exact = false;  // Its bytes, in digits; else float32.

  // Of what Read gives.
  size_t size() const;
  // A copy, in the order of the tensor's dimensions whatever its strides.
  std::vector<float> Read() const;
  // Whether Write may be given them: as many, and whole digits where the tensor is exact.
  bool Fits(const std::vector<float>& numbers) const;
  // In place: all that share the tensor see it. Not through autograd: the caller holds a NoGradGuard.
  void Write(const std::vector<float>& numbers);
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MODEL_NAMED_TENSOR_H_
