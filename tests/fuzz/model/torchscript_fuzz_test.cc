#include <gtest/gtest.h>

#include "common/model/torchscript_file.h"
#include "tests/fuzz/mutated_seeds.h"

namespace splitveil {
namespace {

// Else every damaged one would be refused before it is read.
TEST(TorchScriptFuzzTest, ASeedIsAModule) {
  const auto module = LoadTorchScript("model", "tests/fuzz/model/seeds/mlp.pt");
  ASSERT_TRUE(module.ok()) << module.status();
  EXPECT_EQ(TrainedParameters(*module).size(), 4);
}

TEST(TorchScriptFuzzTest, SurvivesDamage) { FeedMutatedSeeds("tests/fuzz/model/seeds", 1000); }

}  // namespace
}  // namespace splitveil
