#include "tests/fuzz/mutated_seeds.h"

namespace splitveil {
namespace {

TEST(RequestSequenceFuzzTest, WhateverIsSentAnHonestPeerCompletesItsRun) {
  FeedMutatedSeeds("tests/fuzz/session/seeds", 100);
}

}  // namespace
}  // namespace splitveil
