#include "common/process/blas.h"

#include <dlfcn.h>

#include <cstdlib>
#include <memory>

#include "absl/strings/match.h"

namespace splitveil {
namespace {

constexpr absl::string_view kOptimised[] = {"openblas", "mkl", "blis", "atlas"};

}  // namespace

std::string LoadedBlasPath() {
  // The definition that the dynamic linker resolves to, where several libraries bring one.
  const void* sgemm = dlsym(RTLD_DEFAULT, "sgemm_");
  Dl_info library = {};
  if (sgemm == nullptr || dladdr(sgemm, &library) == 0 || library.dli_fname == nullptr) {
    return "";
  }
  const std::unique_ptr<char, void (*)(void*)> resolved(realpath(library.dli_fname, nullptr), std::free);
  return resolved != nullptr ? resolved.get() : library.dli_fname;
}

bool IsReferenceBlas(absl::string_view resolved_path) {
  for (const absl::string_view name : kOptimised) {
    if (absl::StrContains(resolved_path, name)) {
      return false;
    }
  }
  const size_t slash = resolved_path.rfind('/');
  const absl::string_view file = slash == absl::string_view::npos ? resolved_path : resolved_path.substr(slash + 1);
  return absl::StartsWith(file, "libblas.so");
}

bool SetBlasThreads(int threads) {
  const auto set_threads = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
  if (set_threads == nullptr || threads < 1) {
    return false;
  }
  set_threads(threads);
  return true;
}

}  // namespace splitveil
