#include "tests/bench/training/bench_data.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/operator/preparation/seeded_draws.h"
#include "deploy/operator/preparation/table_schema.h"

#include "common/process/file.h"

namespace splitveil {
namespace {

constexpr int64_t kChannels = 3;

}  // namespace

absl::Status WriteRandomClicks(const std::string& path, int64_t rows) {
  SeededDraws draws(/*seed=*/1, /*stream=*/0);
  std::string table;
  for (int64_t row = 0; row < rows; ++row) {
    absl::StrAppend(&table, draws.Below(4) == 0 ? 1 : 0);
    for (int column = 0; column < kCriteoNumeric; ++column) {
      absl::StrAppend(&table, "\t", draws.Below(100));
    }
    for (int column = 0; column < kCriteoCategorical; ++column) {
      absl::StrAppendFormat(&table, "\t%08x", static_cast<uint32_t>(draws.Word()));
    }
    absl::StrAppend(&table, "\n");
  }
  return WriteFile(path, table);
}

absl::Status WriteRandomImages(const std::string& folder, int64_t rows, int64_t side) {
  SeededDraws draws(/*seed=*/1, /*stream=*/1);
  std::string table = "id,label\n";
  for (int64_t row = 0; row < rows; ++row) {
    absl::StrAppend(&table, row, ",", draws.Below(4) == 0 ? 1 : 0, "\n");
  }
  std::string pixels(static_cast<size_t>(rows * side * side * kChannels), '\0');
  for (size_t i = 0; i < pixels.size(); i += sizeof(uint64_t)) {
    const uint64_t word = draws.Word();
    std::memcpy(&pixels[i], &word, std::min(sizeof word, pixels.size() - i));
  }
  const std::string schema =
      absl::StrCat("columns { name: \"id\" kind: ID } columns { name: \"label\" kind: LABEL }\nimages {",
                   " height: ", side, " width: ", side, " holder: NONLABEL_PARTY }\n");
  absl::Status status = WriteFile(folder + "/table.csv", table);
  status.Update(WriteFile(folder + "/table.images", pixels));
  status.Update(WriteFile(folder + "/schema.textproto", schema));
  return status;
}

}  // namespace splitveil
