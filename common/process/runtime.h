// What a program asks of the system: memory and BLAS settings, signals; and its version.
#ifndef SPLITVEIL_COMMON_PROCESS_RUNTIME_H_
#define SPLITVEIL_COMMON_PROCESS_RUNTIME_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace splitveil {

// A core dump would leave keys, ids and labels on the disk, or with the service that collects dumps: from now on the
// kernel makes none, and no other process of the user reads this one's memory. SPLITVEIL_CORE_DUMPS=1 in the
// environment allows both, to look for a bug. Executing another program ends it.
void ForbidCoreDumps();

// Raises the limit of open files to what the system allows: anyone who reaches a server's port holds some of them.
// TuneRuntime calls it.
void RaiseFileLimit();

// Keeps gRPC's own log lines, which no person can act on, off standard error: errors reach the user as ours do. A
// GRPC_VERBOSITY that the user has set stays. Call before any gRPC function and any thread; TuneRuntime does.
void SilenceGrpc();

// Returns free memory to the system: call it after work that took much more memory than what follows. Thread-safe.
void ReturnFreeMemory();

// Lowers the priority of the calling thread (nice + 5): when there are more threads than processors, it gets a third of
// another thread's time. For work that nobody waits for yet. If the system schedules by group (sessions, containers),
// this counts only within the group.
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

// File of the unoptimised reference BLAS (Netlib), with symbolic links followed, if that answers this process's calls
// of sgemm (single-precision matrix product): a libblas.so with nothing of OpenBLAS, MKL, BLIS or ATLAS in it or behind
// it. Else empty.
std::string ReferenceBlasPath();

// Sets the threads of OpenBLAS's products, whatever OPENBLAS_NUM_THREADS said at start (LibTorch's own setting does not
// reach it). `threads`: at least 1. False if no OpenBLAS is loaded. Not while products run.
bool SetBlasThreads(int threads);

// The version of the programs, for example "0.1.0": CMakeLists.txt's project(VERSION).
const char* Version();

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_PROCESS_RUNTIME_H_
