// LibTorch's settings of the whole process: threads and memory.
#ifndef SPLITVEIL_COMMON_MODEL_TORCH_SETTINGS_H_
#define SPLITVEIL_COMMON_MODEL_TORCH_SETTINGS_H_

namespace splitveil {

// Sets the threads of LibTorch's own loops and, if it is loaded, of OpenBLAS, which at::set_num_threads does not
// reach. `threads`: at least 1. Call before the first product, once: other threads take the number over when they first
// compute.
void SetComputeThreads(int threads);

// From now on LibTorch's memory comes from malloc and is aligned here. By itself LibTorch takes it from posix_memalign,
// to which glibc gives fresh pages where a block that has just been freed would do: a convolutional network touches
// half as many pages again and takes up to a tenth longer. Call before the first tensor.
void ReuseTensorMemory();

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MODEL_TORCH_SETTINGS_H_
