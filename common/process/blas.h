// Which library multiplies matrices in this process, and on how many threads.
#ifndef SPLITVEIL_COMMON_PROCESS_BLAS_H_
#define SPLITVEIL_COMMON_PROCESS_BLAS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace splitveil {

// File that answers this process's calls of sgemm (single-precision matrix product), with symbolic links followed:
// Debian's libblas.so.3 is a link of a link to whichever implementation is chosen. Empty where none is loaded.
std::string LoadedBlasPath();

// Whether `resolved_path` is the unoptimised reference BLAS (Netlib): a libblas.so that is in no folder of an optimised
// implementation (OpenBLAS, MKL, BLIS, ATLAS).
bool IsReferenceBlas(absl::string_view resolved_path);

// Sets the threads of OpenBLAS's products, whatever OPENBLAS_NUM_THREADS said at start (LibTorch's own setting does not
// reach it). `threads`: at least 1. False where no OpenBLAS is loaded. Not while products run.
bool SetBlasThreads(int threads);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_PROCESS_BLAS_H_
