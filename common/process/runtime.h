// What every program does first: memory and BLAS settings, signals; and its version.
#ifndef SPLITVEIL_COMMON_PROCESS_RUNTIME_H_
#define SPLITVEIL_COMMON_PROCESS_RUNTIME_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace splitveil {

// Call first in main, before any thread. Forbids core dumps (ForbidCoreDumps), allows as many files as there may be.
// Keeps big blocks from going back to the kernel (mallopt), and Abseil from looking for deadlocks. OpenBLAS and OpenMP
// read their environment when they are loaded, before main; so it sets what is unset of it and executes the program
// again, once, with the same `argv`: OPENBLAS_NUM_THREADS=1; on a CPU with AVX-512 OPENBLAS_CORETYPE=SKYLAKEX (OpenBLAS
// picks AVX2 kernels on new AMD CPUs); OMP_WAIT_POLICY=passive and OPENBLAS_THREAD_TIMEOUT=17, so that threads that
// wait sleep and leave the cores to those that compute. Values the user has set stay. Where the program cannot be
// executed again it continues with what it has. More threads after the configuration is read: SetBlasThreads.
void TuneRuntime(char** argv);

// A core dump would leave keys, ids and labels on the disk, or with the service that collects dumps: from now on the
// kernel makes none, and no other process of the user reads this one's memory. SPLITVEIL_CORE_DUMPS=1 in the
// environment allows both, to look for a bug. Executing another program ends it.
void ForbidCoreDumps();

// Lets the process open as many files as the system allows it: anyone who reaches the port of a server holds some of
// them. TuneRuntime does.
void RaiseFileLimit();

// Keeps gRPC's own log lines, which no person can act on, off standard error: errors reach the user as ours do. The
// user's GRPC_VERBOSITY stays. Call before any gRPC function and any thread; TuneRuntime does.
void SilenceGrpc();

// Gives back what is free now: for after work that took much more memory than what follows. Thread-safe.
void ReturnFreeMemory();

// From now on the calling thread gets a third of what another thread gets where there are more of them than processors
// (5 nicer than before): for work that nobody waits for yet, but may in the end. Where the system ranks processes in
// groups (sessions, containers) it gives way within its own.
void GiveWayToOtherThreads();

// Says on standard error if matrix products run on the reference BLAS (14-24 times slower).
void WarnIfSlowBlas();

// From now on SIGTERM and SIGINT set the flag StopRequested() instead of killing the process; a second one kills.
// SIGPIPE is ignored: a run outlives the reader of its log.
void HandleStopSignals();
// From now on SIGHUP asks for certificates to be read again, which ReloadRequests() counts, instead of killing.
void HandleReloadSignal();
// Lock-free; any thread.
bool StopRequested();
int ReloadRequests();

// File that answers this process's calls of sgemm (single-precision matrix product), with symbolic links followed:
// Debian's libblas.so.3 is a link of a link to whichever implementation is chosen. Empty where none is loaded.
std::string LoadedBlasPath();

// Whether `resolved_path` is the unoptimised reference BLAS (Netlib): a libblas.so that is in no folder of an optimised
// implementation (OpenBLAS, MKL, BLIS, ATLAS).
bool IsReferenceBlas(absl::string_view resolved_path);

// Sets the threads of OpenBLAS's products, whatever OPENBLAS_NUM_THREADS said at start (LibTorch's own setting does not
// reach it). `threads`: at least 1. False where no OpenBLAS is loaded. Not while products run.
bool SetBlasThreads(int threads);

// The version of the programs, for example "0.1.0": CMakeLists.txt's project(VERSION).
const char* Version();

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_PROCESS_RUNTIME_H_
