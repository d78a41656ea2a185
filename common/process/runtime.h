// What every program does first: memory and BLAS settings, signals.
#ifndef SPLITVEIL_COMMON_PROCESS_RUNTIME_H_
#define SPLITVEIL_COMMON_PROCESS_RUNTIME_H_

#include "absl/status/status.h"

namespace splitveil {

// Call first in main, before any thread. Forbids core dumps (ForbidCoreDumps), allows as many files as there may be.
// Keeps big blocks from going back to the kernel (mallopt), and Abseil from looking for deadlocks. OpenBLAS and OpenMP
// read their environment when they are loaded, before main; so it sets what is unset of it and executes the program
// again, once, with the same `argv`: OPENBLAS_NUM_THREADS=1; on a CPU with AVX-512 OPENBLAS_CORETYPE=SKYLAKEX (OpenBLAS
// picks AVX2 kernels on new AMD CPUs); OMP_WAIT_POLICY=passive and OPENBLAS_THREAD_TIMEOUT=17, so that threads that
// wait sleep and leave the cores to those that compute. Values the user has set stay. Where the program cannot be
// executed again it goes on with what it has. More threads after the configuration is read: SetBlasThreads (blas.h).
void TuneRuntime(char** argv);

// A core dump would leave keys, ids and labels on the disk, or with whoever collects dumps: from now on the kernel
// makes none, and no other process of the user reads this one's memory. SPLITVEIL_CORE_DUMPS=1 in the environment
// allows both, to look for a bug. Executing another program ends it.
void ForbidCoreDumps();

// Lets the process open as many files as the system allows it: whoever reaches the port of a server holds some of them.
// TuneRuntime does.
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
// SIGPIPE is ignored: a run outlives whoever reads its log.
void HandleStopSignals();
// From now on SIGHUP asks for certificates to be read again, which ReloadRequests() counts, instead of killing.
void HandleReloadSignal();
// Lock-free; any thread.
bool StopRequested();
int ReloadRequests();

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_PROCESS_RUNTIME_H_
