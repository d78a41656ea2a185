#include <gtest/gtest.h>
#include <memory>
#include <string>

#include "common/checkpoint/checkpoint.h"
#include "common/crypto/sha256.h"
#include "common/process/file.h"
#include "tests/fuzz/dataset/memory_file.h"
#include "tests/fuzz/mutated_seeds.h"

namespace splitveil {
namespace {

// Else every damaged one would be refused before it is read.
TEST(CheckpointFuzzTest, ASeedIsACheckpoint) {
  std::string contents = ReadFile("tests/fuzz/checkpoint/seeds/two_sections").value();
  const Digest digest = Sha256(contents);
  contents.append(AsBytes(digest).data(), digest.size());
  const MemoryFile file(contents);
  const absl::StatusOr<std::unique_ptr<Checkpoint>> checkpoint = Checkpoint::Open(file.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ((*checkpoint)->State()->size(), 2);
}

TEST(CheckpointFuzzTest, SurvivesDamageUnderAFittingDigest) { FeedMutatedSeeds("tests/fuzz/checkpoint/seeds", 10000); }

}  // namespace
}  // namespace splitveil
