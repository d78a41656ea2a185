// What a party's program does before all else. Apart from runtime.h: a program that links this is executed again.
#ifndef SPLITVEIL_COMMON_PROCESS_TUNE_RUNTIME_H_
#define SPLITVEIL_COMMON_PROCESS_TUNE_RUNTIME_H_

namespace splitveil {

// Call first in main, before any thread. Forbids core dumps (ForbidCoreDumps), allows as many files as there may be.
// Keeps big blocks from going back to the kernel (mallopt), and Abseil from looking for deadlocks.
//
// OpenBLAS and OpenMP read their environment when they are loaded. So before any library of a program that calls this
// starts, what is unset of it is set, and the program executed again, once: OPENBLAS_NUM_THREADS=1; on a CPU with
// AVX-512 OPENBLAS_CORETYPE=SKYLAKEX (OpenBLAS picks AVX2 kernels on new AMD CPUs); OMP_WAIT_POLICY=passive and
// OPENBLAS_THREAD_TIMEOUT=17, so that threads that wait sleep and leave the cores to those that compute. Values the
// user has set stay. If the program cannot be executed again it continues with what it has. More threads after the
// configuration is read: SetBlasThreads.
void TuneRuntime();

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_PROCESS_TUNE_RUNTIME_H_
