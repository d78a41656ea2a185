// Where tensors lie.
#ifndef SPLITVEIL_COMMON_MODEL_TENSOR_MEMORY_H_
#define SPLITVEIL_COMMON_MODEL_TENSOR_MEMORY_H_

namespace splitveil {

// From now on LibTorch's memory comes from malloc and is aligned here. By itself LibTorch takes it from posix_memalign,
// to which glibc gives fresh pages where a block that has just been freed would do: a convolutional network touches
// half as many pages again and takes up to a tenth longer. Call before the first tensor.
void ReuseTensorMemory();

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MODEL_TENSOR_MEMORY_H_
