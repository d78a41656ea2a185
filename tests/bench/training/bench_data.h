// Tables of random numbers, for what `splitveil generate` has no data of. Nothing can be learnt from them.
#ifndef SPLITVEIL_TESTS_BENCH_TRAINING_BENCH_DATA_H_
#define SPLITVEIL_TESTS_BENCH_TRAINING_BENCH_DATA_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace splitveil {

// A table in Criteo's format where nearly every category occurs once: its rows are spread over the whole of a hashed
// embedding table.
absl::Status WriteRandomClicks(const std::string& path, int64_t rows);

// In `folder`: table.csv of ids and labels, images of `side` x `side` in table.images, and schema.textproto for them.
absl::Status WriteRandomImages(const std::string& folder, int64_t rows, int64_t side);

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_BENCH_TRAINING_BENCH_DATA_H_
