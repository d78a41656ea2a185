// The real data through the whole folder. Skipped where it is not there.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "common/dataset/line_reader.h"
#include "common/dataset/party_data.h"
#include "common/dataset/prepare_criteo.h"
#include "common/dataset/seeded_draws.h"
#include "common/dataset/tsv.h"
#include "tests/unit/common/dataset/scratch_folder.h"

namespace splitveil {
namespace {

constexpr char kCriteo[] = "../shared/data/criteo_kaggle_137k/criteo_kaggle_137k.tsv.gz";

// How often each value occurs in each categorical column of the input, read with nothing but a line splitter.
std::vector<absl::flat_hash_map<std::string, int64_t>> CountCategories(const std::string& path) {
  std::vector<absl::flat_hash_map<std::string, int64_t>> counts(kCriteoCategorical);
  std::unique_ptr<LineReader> lines = *LineReader::Open(path);
  absl::string_view line;
  std::vector<absl::string_view> cells;
  while (*lines->Next(&line)) {
    SplitTabs(line, &cells);
    for (int c = 0; c < kCriteoCategorical; ++c) {
      ++counts[c][cells[1 + kCriteoNumeric + c]];
    }
  }
  return counts;
}

TEST(CriteoKaggleTest, SurvivesTheSplitUnchanged) {
  if (!std::filesystem::exists(kCriteo)) {
    GTEST_SKIP() << "needs " << kCriteo;
  }
  const ScratchFolder folder;
  PrepareCriteoOptions options;
  options.input_path = kCriteo;
  options.out_dir = folder.Path("out");
  options.only_label_fraction = 0;
  absl::StatusOr<PrepareCriteoResult> split = PrepareCriteo(options);
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_EQ(split->rows, 137139);
  EXPECT_EQ(split->positives, 35213);
  EXPECT_EQ(split->nonlabel_rows, 137139);
  EXPECT_EQ(split->common_rows, split->label_rows);
  EXPECT_NEAR(std::accumulate(split->missing_rates.begin(), split->missing_rates.end(), 0.0) / kCriteoFeatures, 0.142,
              0.004);

  // The party that holds every row has the input's categories, each as often: 38,073 of the cells look like floating
  // point numbers, and some of them are the same number or overflow.
  absl::StatusOr<PartyData> data = ReadPartyData(split->nonlabel_path);
  ASSERT_TRUE(data.ok()) << data.status();
  const std::vector<absl::flat_hash_map<std::string, int64_t>> expected = CountCategories(kCriteo);
  for (int c = 0; c < kCriteoCategorical; ++c) {
    const CategoricalColumn& column = data->categorical[c];
    absl::flat_hash_map<std::string, int64_t> counts;
    for (const int32_t code : column.codes) {
      ++counts[column.values[code]];
    }
    EXPECT_EQ(counts.size(), expected[c].size());
    EXPECT_TRUE(counts == expected[c]) << column.name;
  }

  // The independent computation counted 292,006 rows for its own random 90% of the rows.
  std::vector<uint32_t> rows(data->ids.size());
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<uint32_t> train = rows;
  SeededDraws draws(1, 0);
  for (size_t i = train.size() - 1; i > 0; --i) {
    std::swap(train[i], train[draws.Below(i + 1)]);
  }
  train.resize(train.size() * 9 / 10);
  absl::StatusOr<FeatureTable> features = BuildFeatures(*data, rows, train);
  ASSERT_TRUE(features.ok()) << features.status();
  RecordProperty("embedding_rows", std::to_string(features->shape().embedding_rows));
  EXPECT_NEAR(features->shape().embedding_rows, 292006, 1000);
}

}  // namespace
}  // namespace splitveil
