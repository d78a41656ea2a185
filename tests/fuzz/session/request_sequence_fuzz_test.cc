#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "common/process/file.h"
#include "tests/fuzz/mutated_seeds.h"
#include "tests/fuzz/session/request_sequence_fuzz_target.h"

namespace splitveil {
namespace {

SequenceOutcome RunSeed(const std::string& name) {
  const std::string bytes = *ReadFile("tests/fuzz/session/seeds/" + name);
  return RunRequestSequence(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

// Else what comes after the first success of a request would never be tried.
TEST(RequestSequenceFuzzTest, ASeedHasEveryKindOfRequestAnsweredAndCompletes) {
  const SequenceOutcome every = RunSeed("every_request_in_every_state");
  EXPECT_TRUE(every.completed);
  EXPECT_THAT(every.answered, ::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13));
  EXPECT_TRUE(RunSeed("damaged").completed);
}

TEST(RequestSequenceFuzzTest, WhateverIsSentAnHonestPeerCompletesItsRun) {
  FeedMutatedSeeds("tests/fuzz/session/seeds", 50);
}

}  // namespace
}  // namespace splitveil
