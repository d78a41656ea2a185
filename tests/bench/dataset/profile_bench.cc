// One pass over a table of 40 columns that finds out how its cells are written, beside reading and splitting its lines
// alone: both in each turn, so that what else runs on the machine slows down both. `ratio` is that of the times on the
// clock, `processor_ratio` that of the processor times of all threads, which other work on the machine hardly changes,
// and `reader_ratio` that of the thread that reads: the first with so many idle processors that nobody waits for
// others.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <benchmark/benchmark.h>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/operator/init/table_profile.h"
#include "deploy/operator/preparation/line_reader.h"
#include "deploy/operator/preparation/seeded_draws.h"

namespace splitveil {
namespace {

constexpr int kTurns = 3;

// A file that goes with it: an id, 13 counts, 12 amounts of which one in twenty is missing, 4 measurements of many
// digits, and 10 columns of codes, from two to a million of them.
class Table {
 public:
  explicit Table(int64_t rows) {
    std::string name = std::filesystem::temp_directory_path().string() + "/splitveil_profile_XXXXXX";
    close(mkstemp(name.data()));
    path_ = name;
    std::ofstream file(path_, std::ios::binary);
    std::string line = "customer";
    for (int column = 1; column < 40; ++column) {
      absl::StrAppend(&line, ",c", column);
    }
    SeededDraws draws(7, 7);
    for (int64_t row = 0; row < rows; ++row) {
      file << line << "\n";
      line = absl::StrCat("C", absl::Hex(MixBits(static_cast<uint64_t>(row)), absl::kZeroPad16));
      for (int i = 0; i < 13; ++i) {
        absl::StrAppend(&line, ",", draws.Below(uint64_t{10} << (2 * i)));
      }
      for (int i = 0; i < 12; ++i) {
        absl::StrAppend(&line, ",", draws.Below(20) == 0 ? "" : absl::StrFormat("%.2f", 1e4 * draws.Uniform()));
      }
      for (int i = 0; i < 4; ++i) {
        absl::StrAppend(&line, ",", absl::StrFormat("%.9f", draws.Uniform()));
      }
      for (int i = 0; i < 10; ++i) {
        absl::StrAppend(&line, ",k", absl::Hex(MixBits(draws.Below(uint64_t{2} << (2 * i))) >> 32));
      }
    }
    file << line << "\n";
  }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  ~Table() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

size_t ReadAndSplit(const std::string& path) {
  const auto reader = LineReader::Open(path);
  CellSplitter splitter(',', /*quotes=*/true, /*trim=*/false);
  std::vector<absl::string_view> cells;
  absl::string_view line;
  size_t count = 0;
  while (*(*reader)->Next(&line)) {
    splitter.Split(line, cells);
    count += cells.size();
  }
  return count;
}

struct Cost {
  double wall, processor, reader;  // In s; the second of all threads, the third of this one.
};

double ThreadSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double ProcessorSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

template <typename Work>
Cost CostOf(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  const double processor = ProcessorSeconds(), reader = ThreadSeconds();
  benchmark::DoNotOptimize(work());
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
          ProcessorSeconds() - processor, ThreadSeconds() - reader};
}

double Median(std::vector<double> numbers) {
  std::nth_element(numbers.begin(), numbers.begin() + static_cast<int64_t>(numbers.size() / 2), numbers.end());
  return numbers[numbers.size() / 2];
}

void Profile(benchmark::State& state) {
  const int64_t rows = state.range(0);
  const Table table(rows);
  (void)ReadAndSplit(table.path());  // Into the page cache.
  std::vector<double> ratios, processor_ratios, reader_ratios, nanoseconds;
  for (auto _ : state) {
    for (int turn = 0; turn < kTurns; ++turn) {
      const Cost split = CostOf([&] { return ReadAndSplit(table.path()); });
      const Cost profile = CostOf([&] { return ProfileTable({table.path()}, {})->rows; });
      ratios.push_back(profile.wall / split.wall);
      processor_ratios.push_back(profile.processor / split.processor);
      reader_ratios.push_back(profile.reader / split.reader);
      nanoseconds.push_back(1e9 * profile.processor / (40.0 * static_cast<double>(rows)));
    }
  }
  state.counters["ratio"] = Median(ratios);
  state.counters["processor_ratio"] = Median(processor_ratios);
  state.counters["reader_ratio"] = Median(reader_ratios);
  state.counters["ns_a_cell"] = Median(nanoseconds);
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["peak_MB"] = static_cast<double>(usage.ru_maxrss) / 1e3;
}

BENCHMARK(Profile)->Arg(500'000)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace splitveil
