#include <gtest/gtest.h>

#include "tests/fuzz/mutated_seeds.h"

namespace splitveil {
namespace {

TEST(CheckpointFuzzTest, SurvivesDamageUnderAFittingDigest) { FeedMutatedSeeds("tests/fuzz/checkpoint/seeds", 10000); }

}  // namespace
}  // namespace splitveil
