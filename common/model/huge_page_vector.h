// Vectors whose rows are read at random. In a table of gigabytes nearly every row is then on a page of memory of its
// own, and finding that page takes as long as reading the row; huge pages make them few.
#ifndef SPLITVEIL_COMMON_MODEL_HUGE_PAGE_VECTOR_H_
#define SPLITVEIL_COMMON_MODEL_HUGE_PAGE_VECTOR_H_

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>
#include <vector>

namespace splitveil {

// Asks the system for huge pages if a block has room for some. Blocks are those of malloc otherwise.
template <typename T>
struct HugePageAllocator {
  using value_type = T;
  static constexpr size_t kPageBytes = size_t{2} << 20;

  HugePageAllocator() = default;
  template <typename U>
  HugePageAllocator(const HugePageAllocator<U>& /*other*/) {}  // NOLINT(google-explicit-constructor)

  T* allocate(size_t count) {
    if (count > (std::numeric_limits<size_t>::max() - kPageBytes) / sizeof(T)) {
      throw std::bad_array_new_length();
    }
    const bool huge = count * sizeof(T) >= 2 * kPageBytes;
    const size_t bytes = huge ? (count * sizeof(T) + kPageBytes - 1) / kPageBytes * kPageBytes : count * sizeof(T);
    void* block = huge ? std::aligned_alloc(kPageBytes, bytes) : std::malloc(bytes);
    if (block == nullptr) {
      throw std::bad_alloc();
    }
    if (huge) {
      (void)madvise(block, bytes, MADV_HUGEPAGE);  // Advice: without such pages it is only slower.
    }
    return static_cast<T*>(block);
  }
  void deallocate(T* block, size_t /*count*/) { std::free(block); }

  friend bool operator==(const HugePageAllocator&, const HugePageAllocator&) { return true; }
  friend bool operator!=(const HugePageAllocator&, const HugePageAllocator&) { return false; }
};

template <typename T>
using HugePageVector = std::vector<T, HugePageAllocator<T>>;

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MODEL_HUGE_PAGE_VECTOR_H_
