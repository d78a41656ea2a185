// Threads of matrix products.
#ifndef SPLITVEIL_COMMON_MODEL_COMPUTE_THREADS_H_
#define SPLITVEIL_COMMON_MODEL_COMPUTE_THREADS_H_

namespace splitveil {

// Sets the threads of LibTorch's own loops and, where it is loaded, of OpenBLAS, which at::set_num_threads does not
// reach. Call before the first product.
void SetComputeThreads(int threads);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MODEL_COMPUTE_THREADS_H_
