#include "common/model/compute_threads.h"

#include <dlfcn.h>

#include <ATen/Parallel.h>

namespace splitveil {

void SetComputeThreads(int threads) {
  at::set_num_threads(threads);
  // Looked up by name, so that another BLAS may be loaded instead.
  if (void* symbol = dlsym(RTLD_DEFAULT, "openblas_set_num_threads"); symbol != nullptr) {
    reinterpret_cast<void (*)(int)>(symbol)(threads);
  }
}

}  // namespace splitveil
