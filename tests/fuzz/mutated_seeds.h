// A fuzz target on a fixed sequence of mutants of its seed corpus, so that every compiler runs it in every build.
#ifndef SPLITVEIL_TESTS_FUZZ_MUTATED_SEEDS_H_
#define SPLITVEIL_TESTS_FUZZ_MUTATED_SEEDS_H_

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size);

namespace splitveil {

// Feeds every file of `folder`, below the root of the tree, and then `mutants` of them: up to four bytes or bits
// changed, every tenth cut short.
inline void FeedMutatedSeeds(const std::string& folder, int mutants) {
  std::vector<std::string> paths, seeds;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  const auto feed = [](const std::string& bytes) {
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  };
  for (const std::string& path : paths) {
    std::ifstream file(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    feed(seeds.back());
  }
  ASSERT_FALSE(seeds.empty()) << folder;
  std::mt19937_64 random(23);
  for (int i = 0; i < mutants; ++i) {
    std::string bytes = seeds[i % seeds.size()];
    for (uint64_t edit = random() % 4 + 1; edit > 0; --edit) {
      char& byte = bytes[random() % bytes.size()];
      byte = static_cast<char>(random() % 2 == 0 ? random() : byte ^ (1U << random() % 8));
    }
    feed(random() % 10 == 0 ? bytes.substr(0, random() % bytes.size()) : bytes);
  }
}

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_FUZZ_MUTATED_SEEDS_H_
