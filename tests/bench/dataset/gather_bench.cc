// Gathering a batch of 1,024 rows at random from a million: where the rows are mapped and stay in memory; read one by
// one, as from data too large to stay; the same from the disk; mapped, but each on a page that this process has not
// touched since.
#include <fcntl.h>
#include <unistd.h>

#include <benchmark/benchmark.h>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/operator/preparation/dataset_writer.h"

#include "common/dataset/dataset.h"
#include "common/dataset/features.h"

namespace splitveil {
namespace {

constexpr int64_t kRows = 1000000;
constexpr int kNumeric = 13, kCategorical = 13;
constexpr int64_t kBatch = 1024;

// A party's data of `kRows` rows, in a temporary folder that goes with it.
class Data {
 public:
  Data() {
    std::string name = std::filesystem::temp_directory_path().string() + "/splitveil_gather_XXXXXX";
    folder_ = mkdtemp(name.data());
    auto writer = *DatasetWriter::Create(path(), /*task=*/std::nullopt);
    std::vector<Vocabulary> vocabularies(kCategorical);
    v1::Preprocessing preprocessing;
    preprocessing.set_embedding_rows(2 * kCategorical);
    EncodedRow row;
    row.numeric.resize(kNumeric);
    for (int c = 0; c < kNumeric; ++c) {
      preprocessing.add_numeric()->set_name(absl::StrCat("n", c));
    }
    for (int c = 0; c < kCategorical; ++c) {
      v1::CategoryIndex& index = *preprocessing.add_categorical();
      index.set_name(absl::StrCat("c", c));
      v1::CategoryIndex::Block& block = *index.add_blocks();
      block.set_first_row(2 * c);
      block.set_rows(2);
      vocabularies[c].Add("value");
      row.categories.push_back(2 * c + 1);
    }
    for (int64_t i = 0; i < kRows; ++i) {
      row.id = absl::StrCat(i);
      (void)writer->Append(row);
    }
    (void)writer->Finish(preprocessing, vocabularies);
    (void)DatasetWriter::Publish({writer.get()});
  }
  ~Data() { std::filesystem::remove_all(folder_); }

  std::string path() const { return folder_ + "/party.data"; }

 private:
  std::string folder_;
};

// Takes the file out of the system's page cache, so that the disk is read.
void Evict(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  fsync(descriptor);
  posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  close(descriptor);
}

void Gather(benchmark::State& state, int64_t max_resident_bytes, bool release, bool evict = false) {
  static const Data data;
  const auto dataset = Dataset::Open(data.path(), max_resident_bytes);
  if (!dataset.ok()) {
    state.SkipWithError(dataset.status().ToString().c_str());
    return;
  }
  std::mt19937 random(3);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  std::vector<uint32_t> rows(kBatch);
  for (auto _ : state) {
    for (uint32_t& row : rows) {
      row = static_cast<uint32_t>(random() % kRows);
    }
    if (evict) {
      state.PauseTiming();
      Evict(data.path());
      state.ResumeTiming();
    }
    benchmark::DoNotOptimize((*dataset)->Gather(rows));
    if (release) {
      (*dataset)->ReleaseMemory();
    }
  }
}

BENCHMARK_CAPTURE(Gather, resident, Dataset::kMaxResidentBytes, false)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Gather, read, 0, false)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Gather, read_from_disk, 0, false, true)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Gather, mapped_again, Dataset::kMaxResidentBytes, true)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace splitveil
