#include <gtest/gtest.h>

#include "tests/fuzz/mutated_seeds.h"

namespace splitveil {
namespace {

TEST(ImageFuzzTest, SurvivesDamagedImages) { FeedMutatedSeeds("tests/fuzz/dataset/seeds/image", 10000); }

}  // namespace
}  // namespace splitveil
