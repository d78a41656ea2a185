#include "common/operations/run_expectation.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace splitveil {
namespace {

// OPERATIONS.md, "Sizing". 200,000 rows: 0.21 GiB, 1 million: 0.35, 10 million: 1.33, 45 million: 5.1.
constexpr double kProgramBytes = 0.2 * (1 << 30);
constexpr double kBytesPerRow = 122;
// 10 million ids at each party: 22 minutes of two processors, which both parties share.
constexpr double kAlignmentProcessorSecondsPerId = 22.0 * 60 * 2 / 20e6;
// With a protection and attacks on every batch: half of the 120,000 to 150,000 examples a second without.
constexpr double kExamplesPerSecond = 65'000;
constexpr double kEvaluationShare = 0.3;  // What a test example costs of a training example.
// An embedding's row of four numbers and two moments of each.
constexpr double kBytesPerEmbeddingRow = 48;

std::string DurationText(double seconds) {
  if (seconds < 1) {
    return "under 1 s";
  }
  if (seconds < 120) {
    return absl::StrFormat("about %.0f s", seconds);
  }
  return seconds < 7200 ? absl::StrFormat("about %.0f min", seconds / 60)
                        : absl::StrFormat("about %.1f h", seconds / 3600);
}

std::string BytesText(double bytes) {
  return bytes < 1e9 ? absl::StrFormat("%.0f MB", std::ceil(bytes / 1e6)) : absl::StrFormat("%.1f GB", bytes / 1e9);
}

}  // namespace

RunExpectation ExpectRun(const v1::RunAgreement& agreement, int64_t rows, int64_t embedding_rows, int processors) {
  const auto examples = static_cast<double>(rows);
  const double test = examples * agreement.test_fraction();
  const double epochs = agreement.epochs();
  const double number_bytes = agreement.wire_dtype() == v1::FLOAT32 ? 4 : 2;
  RunExpectation expected;
  expected.peak_memory_bytes = static_cast<int64_t>(kProgramBytes + kBytesPerRow * examples +
                                                    kBytesPerEmbeddingRow * static_cast<double>(embedding_rows));
  expected.alignment_seconds = 2 * examples * kAlignmentProcessorSecondsPerId / processors;
  expected.training_seconds = epochs * (examples - test + kEvaluationShare * test) / kExamplesPerSecond;
  expected.bytes_each_way = epochs * (examples - test) * agreement.cut_width() * number_bytes;
  return expected;
}

std::string RunExpectationText(const RunExpectation& expected) {
  return absl::StrCat("memory at the peak about ", BytesText(static_cast<double>(expected.peak_memory_bytes)),
                      "; alignment ", DurationText(expected.alignment_seconds), ", training ",
                      DurationText(expected.training_seconds), " and ", BytesText(expected.bytes_each_way),
                      " each way (scaled from OPERATIONS.md, Sizing, with as many rows at the peer)");
}

int64_t AvailableMemoryBytes() {
  std::ifstream stream("/proc/meminfo");
  std::string name;
  int64_t kibibytes = 0;
  std::string unit;
  while (stream >> name >> kibibytes) {
    std::getline(stream, unit);
    if (name == "MemAvailable:") {
      return kibibytes * 1024;
    }
  }
  return 0;
}

}  // namespace splitveil
