#include "common/model/compute_threads.h"

#include <ATen/Parallel.h>

#include "common/process/blas.h"

namespace splitveil {

void SetComputeThreads(int threads) {
  at::set_num_threads(threads);
  SetBlasThreads(threads);
}

}  // namespace splitveil
