// The fuzz target on a fixed sequence of mutated files, so that every compiler runs it in every build.
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <string>

#include "deploy/operator/preparation/dataset_writer.h"
#include "deploy/operator/preparation/seeded_draws.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size);

namespace splitveil {
namespace {

constexpr int kMutants = 20000;

// A file of one task with every kind of column, without its digest.
std::string Seed(const Task& task) {
  v1::Preprocessing preprocessing;
  if (task.kind == Task::Kind::kMultiClass) {
    for (const char* text : {"a", "b", "c"}) {
      preprocessing.add_classes(text);
    }
  } else if (task.kind == Task::Kind::kRegression) {
    preprocessing.mutable_target()->set_minimum(-1);
    preprocessing.mutable_target()->set_maximum(1);
  }
  preprocessing.add_numeric()->set_name("n");
  v1::CategoryIndex& index = *preprocessing.add_categorical();
  index.add_blocks()->set_rows(2);
  v1::CategoryIndex::Block& second = *index.add_blocks();
  second.set_first_row(2);
  second.set_rows(1);
  preprocessing.set_embedding_rows(3);
  v1::ImageSize& image = *preprocessing.mutable_image();
  image.set_channels(1);
  image.set_height(1);
  image.set_width(2);
  v1::AttributeValues& sex = *preprocessing.add_attributes();
  sex.set_name("sex");
  sex.add_values("f");
  sex.add_values("m");
  std::vector<Vocabulary> vocabularies(1);
  vocabularies[0].Add("x");
  vocabularies[0].Add("yz");
  const std::string path = std::filesystem::temp_directory_path() / ("splitveil_fuzz_" + std::to_string(getpid()));
  auto writer = *DatasetWriter::Create(path, task, /*has_attributes=*/true);
  for (int row = 0; row < 4; ++row) {
    EXPECT_TRUE(
        writer
            ->Append({"id" + std::to_string(row), 1, 0.25F, {0.5F}, {row % 3}, {7, 9}, {static_cast<uint8_t>(row % 2)}})
            .ok());
  }
  EXPECT_TRUE(writer->Finish(preprocessing, vocabularies).ok());
  EXPECT_TRUE(DatasetWriter::Publish({writer.get()}).ok());
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::filesystem::remove(path);
  bytes.resize(bytes.size() - 32);
  return bytes;
}

void Feed(const std::string& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

TEST(DatasetFuzzTest, SurvivesDamageUnderAFittingDigest) {
  SeededDraws draws(4, 0);
  const std::string seeds[] = {Seed({}), Seed({Task::Kind::kMultiClass, 3}), Seed({Task::Kind::kRegression, 0})};
  for (const std::string& seed : seeds) {
    Feed(seed);
  }
  for (int i = 0; i < kMutants; ++i) {
    std::string bytes = seeds[i % std::size(seeds)];
    for (uint64_t edit = draws.Below(4) + 1; edit > 0; --edit) {
      const size_t at = draws.Below(bytes.size());
      bytes[at] = static_cast<char>(draws.Below(2) == 0 ? draws.Word() : bytes[at] ^ (1U << draws.Below(8)));
    }
    Feed(draws.Below(10) == 0 ? bytes.substr(0, draws.Below(bytes.size())) : bytes);
  }
}

}  // namespace
}  // namespace splitveil
