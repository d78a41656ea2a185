#include "common/model/torch_settings.h"

#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <cstdint>
#include <cstdlib>
#include <torch/version.h>

#include "common/process/runtime.h"

namespace splitveil {

void SetComputeThreads(int threads) {
  at::set_num_threads(threads);
  // OpenBLAS has threads of its own, which would multiply with LibTorch's.
  SetBlasThreads(threads);
}

namespace {

constexpr uintptr_t kAlignment = 64;  // As LibTorch's own: a cache line, a vector of AVX-512.

void Free(void* block) {
  // The pointer that malloc gave is stored right before the block (Aligned).
  if (block != nullptr) {
    std::free(static_cast<void**>(block)[-1]);
  }
}

// Thread-safe.
class TensorMemory final : public c10::Allocator {
 public:
#if TORCH_VERSION_MAJOR >= 2  // Debian 13's.
  c10::DataPtr allocate(size_t bytes) override { return Allocate(bytes); }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
#else  // Debian 12's.
  c10::DataPtr allocate(size_t bytes) const override { return Allocate(bytes); }
#endif
  c10::DeleterFnPtr raw_deleter() const override { return &Free; }

 private:
  static c10::DataPtr Allocate(size_t bytes) {
    void* const block = bytes == 0 ? nullptr : Aligned(bytes);
    return {block, block, &Free, c10::Device(c10::DeviceType::CPU)};
  }
  // The pointer that malloc gave is stored right before the block, for Free.
  static void* Aligned(size_t bytes) {
    // Room for the alignment and for the pointer before the block; the bound keeps the sum from overflowing.
    void* const given = bytes <= SIZE_MAX / 2 ? std::malloc(bytes + kAlignment + sizeof(void*)) : nullptr;
    TORCH_CHECK(given != nullptr, "not enough memory for a tensor of ", bytes, " bytes");
    const uintptr_t first = reinterpret_cast<uintptr_t>(given) + sizeof(void*);
    const uintptr_t aligned = (first + kAlignment - 1) / kAlignment * kAlignment;
    auto* const block = reinterpret_cast<void**>(static_cast<char*>(given) + sizeof(void*) + (aligned - first));
    block[-1] = given;
    return block;
  }
};

}  // namespace

void ReuseTensorMemory() {
  static auto* const memory = new TensorMemory();  // Tensors may outlive what is destroyed at exit.
  c10::SetCPUAllocator(memory, /*priority=*/1);
}

}  // namespace splitveil
