// What every program does first: memory and BLAS settings, signals.
#ifndef SPLITVEIL_COMMON_PROCESS_RUNTIME_H_
#define SPLITVEIL_COMMON_PROCESS_RUNTIME_H_

#include "absl/status/status.h"

namespace splitveil {

// Call first in main. Keeps big blocks from going back to the kernel (mallopt); where OpenBLAS would pick slow kernels
// or too many threads, re-executes the program once with the right environment. `threads`: of matrix products; applied
// when the program re-executes, so pass what the command line says.
void TuneRuntime(char** argv);

// Says on standard error if matrix products run on the reference BLAS (14-24 times slower).
void WarnIfSlowBlas();

// From now on SIGTERM and SIGINT set the flag StopRequested() instead of killing the process; a second one kills.
void HandleStopSignals();
bool StopRequested();

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_PROCESS_RUNTIME_H_
