#include "common/model/torchscript_file.h"

#include <fstream>
#include <gtest/gtest.h>
#include <string>

#include "absl/strings/str_cat.h"

#include "common/process/file.h"
#include "tests/testing/process/temp_folder.h"
#include "tests/unit/common/model/torchscript_fixtures.h"

namespace splitveil {
namespace {

// LibTorch by itself loads other parameters than were written from some of these files.
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
  // All bits of the archive's directory, one of every other byte.
  const size_t directory = bytes.find("PK\x01\x02");
  ASSERT_LT(directory, bytes.size());
  size_t damaged = 0, refused = 0;
  for (size_t bit = 0; bit < 8 * bytes.size(); bit += bit < 8 * directory ? 9 : 1) {
    SCOPED_TRACE(absl::StrCat("bit ", bit));
    ++damaged;
    bytes[bit / 8] ^= static_cast<char>(1U << bit % 8);
    std::ofstream(path, std::ios::binary) << bytes;
    bytes[bit / 8] ^= static_cast<char>(1U << bit % 8);
    const absl::StatusOr<torch::jit::Module> loaded = LoadTorchScript("model", path);
    if (!loaded.ok()) {
      EXPECT_TRUE(absl::IsInvalidArgument(loaded.status())) << loaded.status();
      ++refused;
      continue;
    }
    const auto found = StateOf(*loaded);
    ASSERT_EQ(found.size(), state.size());
    for (size_t i = 0; i < state.size(); ++i) {
      EXPECT_EQ(found[i].first, state[i].first);
      EXPECT_TRUE(torch::equal(found[i].second, state[i].second));
    }
  }
  EXPECT_GT(refused, damaged / 2);
}

}  // namespace
}  // namespace splitveil
