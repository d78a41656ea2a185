// Where tensors lie.
#ifndef SPLITVEIL_COMMON_MODEL_TENSOR_MEMORY_H_
#define SPLITVEIL_COMMON_MODEL_TENSOR_MEMORY_H_

namespace splitveil {

// From now on LibTorch takes memory by malloc and aligns it itself. It takes it by posix_memalign otherwise, to which
// glibc gives fresh pages where the block that the same step freed before would do: half as much memory again, and a
// tenth of the time of a convolutional network. Call before the first tensor.
void ReuseTensorMemory();

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MODEL_TENSOR_MEMORY_H_
