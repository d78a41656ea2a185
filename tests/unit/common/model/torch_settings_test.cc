// The allocator of the programs, put in place for this test program's other tests, too.
#include "common/model/torch_settings.h"

#include <ATen/ATen.h>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <gtest/gtest.h>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "common/model/layer_stack.h"
#include "tests/unit/common/model/model_fixtures.h"

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

std::ptrdiff_t CountThreads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
}

// Threads that a step of a convolution and a fully connected layer adds to the one that takes it.
std::ptrdiff_t ThreadsAddedByAStep(int compute_threads) {
  SetComputeThreads(compute_threads);
  LayerStack::Options options;
  options.chain.input_width = 8 * 16 * 16;
  options.chain.input_image = {8, 16, 16};
  v1::Layer& convolution = options.chain.layers.emplace_back();
  convolution.set_name("convolution");
  convolution.mutable_convolution()->set_channels(16);
  convolution.mutable_convolution()->set_max_pool(2);
  options.chain.layers.push_back(MakeLayer("connected", 256));
  const auto stack = LayerStack::Create(options);
  EXPECT_TRUE(stack.ok()) << stack.status();
  std::mt19937 generator(1);
  const Matrix input = RandomMatrix(64, options.chain.input_width, generator);
  std::ptrdiff_t added = -1;
  std::thread([&] {
    const std::ptrdiff_t before = CountThreads();
    auto pass = (*stack)->Forward(input);
    EXPECT_TRUE(pass.ok() && (*stack)->Backward(*pass, Matrix(64, 256), {}).ok());
    EXPECT_TRUE(LayerStack::Update({stack->get()}).ok());
    added = CountThreads() - before;
  }).join();
  SetComputeThreads(1);
  return added;
}

TEST(ComputeThreadsTest, OneThreadComputesAlone) { EXPECT_EQ(ThreadsAddedByAStep(1), 0); }

TEST(ComputeThreadsTest, ThreeThreadsShareAStep) { EXPECT_EQ(ThreadsAddedByAStep(3), 2); }

}  // namespace
}  // namespace splitveil
