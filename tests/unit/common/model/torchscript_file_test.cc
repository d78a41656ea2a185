#include "common/model/torchscript_file.h"

#include <fstream>
#include <gtest/gtest.h>
#include <string>

#include "common/process/file.h"
#include "tests/testing/process/temp_folder.h"
#include "tests/unit/common/model/torchscript_fixtures.h"

namespace splitveil {
namespace {

// LibTorch by itself loads other parameters than were written from one in 27 of these files.
TEST(TorchScriptFileTest, OfADamagedFileNothingIsLoadedButWhatWasWritten) {
  const testing::TempFolder folder;
  const std::string path = folder.File("half.pt");
  torch::manual_seed(3);
  MakeScript("Half", {},
             {{"linear", MakeLinearScript("Linear", torch::randn({3, 5}), torch::randn({3}))},
              {"relu", MakeReluScript("Relu")}},
             "def forward(self, x): return self.relu.forward(self.linear.forward(x))")
      .save(path);
  std::string bytes = *ReadFile(path);
  const auto state = StateOf(*LoadTorchScript("model", path));
  size_t refused = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const char flipped = static_cast<char>(1U << i % 8);
    bytes[i] ^= flipped;
    std::ofstream(path, std::ios::binary) << bytes;
    bytes[i] ^= flipped;
    const absl::StatusOr<torch::jit::Module> loaded = LoadTorchScript("model", path);
    if (!loaded.ok()) {
      EXPECT_TRUE(absl::IsInvalidArgument(loaded.status())) << "byte " << i << ": " << loaded.status();
      ++refused;
      continue;
    }
    const auto found = StateOf(*loaded);
    ASSERT_EQ(found.size(), state.size()) << "byte " << i;
    for (size_t j = 0; j < state.size(); ++j) {
      EXPECT_EQ(found[j].first, state[j].first) << "byte " << i;
      EXPECT_TRUE(torch::equal(found[j].second, state[j].second)) << "byte " << i;
    }
  }
  EXPECT_GT(refused, bytes.size() / 2);
}

}  // namespace
}  // namespace splitveil
