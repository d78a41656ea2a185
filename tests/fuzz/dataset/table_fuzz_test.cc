// The fuzz target on a fixed sequence of mutated tables, so that every compiler runs it in every build.
#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <string>

#include "deploy/operator/preparation/seeded_draws.h"

#include "tests/unit/deploy/operator/preparation/gzip_bytes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size);

namespace splitveil {
namespace {

constexpr int kMutants = 20000;
constexpr uint64_t kMaxEdits = 6;

const char* const kFragments[] = {",",        "\n",    "\r\n", "id", "label",        "a",   "?",
                                  "1e309",    "nan",   "0",    "-",  "\xef\xbb\xbf", "\"",  "1e-46",
                                  "\x1f\x8b", "0x1p3", "inf",  "",   ",,,",          "\"\""};

std::string Seed() {
  std::string text = "id,label,a,b,c\n";
  for (int row = 0; row < 12; ++row) {
    text += "row" + std::to_string(row) + "," + std::to_string(row % 2) + "," + std::to_string(row * 1.5) + "," +
            (row % 3 == 0 ? "" : "-2e3") + "," + (row % 4 == 0 ? "?" : "\"0000" + std::to_string(row % 5) + "e10\"") +
            "\n";
  }
  return text;
}

// One to kMaxEdits edits: a byte changed, a span removed, repeated or replaced by a fragment, or the end cut off.
std::string Mutate(std::string text, SeededDraws* draws) {
  for (uint64_t edit = draws->Below(kMaxEdits) + 1; edit > 0 && !text.empty(); --edit) {
    const size_t at = draws->Below(text.size());
    const size_t length = draws->Below(16);
    switch (draws->Below(6)) {
      case 0:
        text[at] = static_cast<char>(draws->Word());
        break;
      case 1:
        text[at] = static_cast<char>(text[at] ^ (1 << draws->Below(8)));
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(at, text.substr(at, length));
        break;
      case 4:
        text.replace(at, length, kFragments[draws->Below(std::size(kFragments))]);
        break;
      default:
        text.resize(at);
    }
  }
  return text;
}

void Feed(const std::string& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

TEST(TableFuzzTest, SurvivesMutatedTables) {
  SeededDraws draws(1, 0);
  const std::string seed = Seed();
  for (int i = 0; i < kMutants; ++i) {
    Feed(Mutate(seed, &draws));
  }
}

TEST(TableFuzzTest, SurvivesMutatedTablesInsideGzip) {
  SeededDraws draws(2, 0);
  const std::string seed = Seed();
  for (int i = 0; i < kMutants / 10; ++i) {
    Feed(GzipBytes(Mutate(seed, &draws)));
  }
}

TEST(TableFuzzTest, SurvivesMutatedGzipStreams) {
  SeededDraws draws(3, 0);
  const std::string seed = GzipBytes(Seed()) + GzipBytes("last,1,2,3,x\n");
  for (int i = 0; i < kMutants / 3; ++i) {
    Feed(Mutate(seed, &draws));
  }
}

}  // namespace
}  // namespace splitveil
