// Feeds arbitrary bytes to the reader of TorchScript files.
#include <cstdint>

#include "absl/strings/string_view.h"

#include "common/model/torchscript_file.h"
#include "tests/fuzz/dataset/memory_file.h"

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
