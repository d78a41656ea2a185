// Started by runtime_test.cc: prints how it was started, and what the process is after TuneRuntime.
#include <malloc.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>

#include "common/process/tune_runtime.h"

namespace {

void PrintVariable(const char* name) {
  const char* value = std::getenv(name);
  std::printf("%s=%s\n", name, value != nullptr ? value : "(unset)");
}

// As the libraries of a program do.
__attribute__((constructor)) void OnLoad() {
  const char* value = std::getenv("OPENBLAS_NUM_THREADS");
  std::printf("started with OPENBLAS_NUM_THREADS=%s\n", value != nullptr ? value : "(unset)");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  splitveil::TuneRuntime();
  PrintVariable("OPENBLAS_NUM_THREADS");
  PrintVariable("OPENBLAS_CORETYPE");
  PrintVariable("OMP_WAIT_POLICY");
  PrintVariable("OPENBLAS_THREAD_TIMEOUT");
  PrintVariable("GRPC_VERBOSITY");
  for (int i = 0; i < argc; ++i) {
    std::printf("argv[%d]=%s\n", i, argv[i]);
  }
  char name[16] = {};
  prctl(PR_GET_NAME, name);
  std::printf("name=%s\n", name);
  rlimit core = {};
  getrlimit(RLIMIT_CORE, &core);
  std::printf("dumpable=%d core_bytes=%ld\n", prctl(PR_GET_DUMPABLE), static_cast<long>(core.rlim_cur));
  rlimit files = {};
  getrlimit(RLIMIT_NOFILE, &files);
  std::printf("all_files=%d\n", files.rlim_cur == files.rlim_max ? 1 : 0);
  void* block = std::malloc(200 << 20);
  std::printf("mapped_blocks=%zu\n", static_cast<size_t>(mallinfo2().hblks));
  std::free(block);
  return 0;
}
