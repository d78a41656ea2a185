// Threads that a step really uses: counted by the kernel, in a thread that has used LibTorch for nothing else before,
// as those are that serve a gRPC call.
#include "common/model/compute_threads.h"

#include <cstddef>
#include <filesystem>
#include <gtest/gtest.h>
#include <iterator>
#include <memory>
#include <random>
#include <thread>

#include "common/model/layer_stack.h"
#include "tests/unit/common/model/model_fixtures.h"

namespace splitveil {
namespace {

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
