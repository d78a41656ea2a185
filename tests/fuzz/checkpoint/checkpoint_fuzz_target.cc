// Feeds arbitrary bytes, under a digest that fits them, to the reader of checkpoints and checks what a run that resumes
// relies on.
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>

#include "common/checkpoint/checkpoint.h"
#include "common/crypto/sha256.h"
#include "tests/fuzz/dataset/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace splitveil;  // NOLINT(google-build-using-namespace): one function.
  std::string contents(reinterpret_cast<const char*>(bytes), size);
  const Digest digest = Sha256(contents);
  contents.append(AsBytes(digest).data(), digest.size());
  const MemoryFile file(contents);
  const absl::StatusOr<std::unique_ptr<Checkpoint>> checkpoint = Checkpoint::Open(file.path());
  if (!checkpoint.ok()) {
    Require(checkpoint.status().code() == absl::StatusCode::kInvalidArgument);
    return 0;
  }
  const v1::CheckpointHeader& header = (*checkpoint)->header();
  Require(!header.run_id().empty() && !(*checkpoint)->name().empty());
  const absl::StatusOr<NamedParameters> state = (*checkpoint)->State();
  if (!state.ok()) {
    Require(state.status().code() == absl::StatusCode::kInvalidArgument);
    return 0;
  }
  Require(state->size() == static_cast<size_t>(header.sections_size()));
  for (size_t i = 0; i < state->size(); ++i) {
    const auto& [name, values] = (*state)[i];
    Require(name == header.sections(static_cast<int>(i)).name() &&
            values.size() == header.sections(static_cast<int>(i)).values());
    for (const float value : values) {
      Require(std::isfinite(value));
    }
  }
  return 0;
}
