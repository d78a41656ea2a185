// What every program does first: memory and BLAS settings, signals.
#ifndef SPLITVEIL_COMMON_PROCESS_RUNTIME_H_
#define SPLITVEIL_COMMON_PROCESS_RUNTIME_H_

#include "absl/status/status.h"

namespace splitveil {

// Call first in main, before any thread. Keeps big blocks from going back to the kernel (mallopt). OpenBLAS and OpenMP
// read their environment when they are loaded, before main; so where OMP_WAIT_POLICY, OPENBLAS_NUM_THREADS or, on a CPU
// with AVX-512, OPENBLAS_CORETYPE is unset, sets them (passive: threads that wait sleep; 1; SKYLAKEX: OpenBLAS picks
// AVX2 kernels on new AMD CPUs) and executes the program again, once, with the same `argv`. Values the user has set
// stay. Where the program cannot be executed again it goes on with what it has. More threads after the configuration is
// read: SetBlasThreads (blas.h).
void TuneRuntime(char** argv);

// Says on standard error if matrix products run on the reference BLAS (14-24 times slower).
void WarnIfSlowBlas();

// From now on SIGTERM and SIGINT set the flag StopRequested() instead of killing the process; a second one kills.
// SIGPIPE is ignored: a run outlives whoever reads its log.
void HandleStopSignals();
// Lock-free; any thread.
bool StopRequested();

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_PROCESS_RUNTIME_H_
