// Feeds arbitrary bytes to the reader of TorchScript files.
#include <cstdint>

#include "absl/strings/string_view.h"

#include "common/model/torchscript_file.h"
#include "tests/fuzz/dataset/memory_file.h"

// A file that LibTorch gives up on leaves some of its memory behind, which is not ours to mend.
extern "C" const char* __lsan_default_suppressions() {  // NOLINT(*-reserved-identifier,*-identifier-naming)
  return "leak:libtorch_cpu\n";
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace splitveil;  // NOLINT(google-build-using-namespace): one function.
  const MemoryFile file(absl::string_view(reinterpret_cast<const char*>(bytes), size));
  const absl::StatusOr<torch::jit::Module> module = LoadTorchScript("model", file.path());
  Require(module.ok() || absl::IsInvalidArgument(module.status()));
  if (module.ok()) {
    Require(CountRequiredArguments(*module) >= 0);
    for (const at::Tensor& parameter : TrainedParameters(*module)) {
      Require(parameter.scalar_type() == at::kFloat && parameter.is_contiguous());
    }
  }
  return 0;
}
