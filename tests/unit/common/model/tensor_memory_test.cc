// The allocator of the programs, put in place for this test program's other tests, too.
#include "common/model/tensor_memory.h"

#include <ATen/ATen.h>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

namespace splitveil {
namespace {

class TensorMemoryTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { ReuseTensorMemory(); }
};

TEST_F(TensorMemoryTest, EveryTensorStartsAtACacheLine) {
  std::vector<at::Tensor> tensors;
  for (int64_t size : {1, 3, 16, 17, 1000, 65536, 1 << 20}) {
    tensors.push_back(at::empty({size}, at::kByte));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensors.back().data_ptr()) % 64, 0) << size;
  }
}

TEST_F(TensorMemoryTest, ATensorOfNothingHasNoMemory) { EXPECT_EQ(at::empty({0}).data_ptr(), nullptr); }

TEST_F(TensorMemoryTest, TensorsDoNotOverlap) {
  std::vector<at::Tensor> tensors;
  for (int64_t size = 1; size < 300; ++size) {
    tensors.push_back(at::full({size}, static_cast<double>(size)));
  }
  for (int64_t size = 2; size < 300; size += 2) {
    tensors[static_cast<size_t>(size - 1)] = at::full({size}, static_cast<double>(-size));
  }
  for (int64_t size = 1; size < 300; ++size) {
    EXPECT_TRUE(tensors[static_cast<size_t>(size - 1)].eq(size % 2 == 0 ? -size : size).all().item<bool>()) << size;
  }
}

TEST_F(TensorMemoryTest, RefusesWhatCannotBeHad) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer stops the process instead.";
#endif
  EXPECT_THROW(at::empty({int64_t{1} << 60}, at::kByte), c10::Error);
  EXPECT_THROW(at::empty({std::numeric_limits<int64_t>::max()}, at::kByte), c10::Error);
}

}  // namespace
}  // namespace splitveil
