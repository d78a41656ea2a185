// The real data through the whole folder. Skipped where it is not there.
#include <cstdint>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_split.h"
#include "deploy/operator/preparation/line_reader.h"
#include "deploy/operator/preparation/prepare.h"
#include "deploy/operator/preparation/table_schema.h"

#include "common/dataset/dataset.h"
#include "common/dataset/features.h"
#include "tests/testing/scratch_folder.h"

namespace splitveil {
namespace {

constexpr char kCriteo[] = "../shared/data/criteo_kaggle_137k/criteo_kaggle_137k.tsv.gz";

// How often each value occurs in each categorical column of the input, read with nothing but a line splitter.
std::vector<absl::flat_hash_map<std::string, int64_t>> CountCategories(const std::string& path) {
  std::vector<absl::flat_hash_map<std::string, int64_t>> counts(kCriteoCategorical);
  std::unique_ptr<LineReader> lines = *LineReader::Open(path);
  absl::string_view line;
  while (*lines->Next(&line)) {
    const std::vector<absl::string_view> cells = absl::StrSplit(line, '\t');
    for (int c = 0; c < kCriteoCategorical; ++c) {
      ++counts[c][cells[1 + kCriteoNumeric + c]];
    }
  }
  return counts;
}

TEST(CriteoKaggleTest, KeepsEveryCategoryOfTheInput) {
  if (!std::filesystem::exists(kCriteo)) {
    GTEST_SKIP() << "needs " << kCriteo;
  }
  const ScratchFolder folder;
  PrepareOptions options;
  options.rows.input_paths = {kCriteo};
  options.rows.schema = CriteoSchema();
  options.out_dir = folder.Path("out");
  options.only_label_fraction = 0;
  options.test_fraction = options.validation_fraction = 0;
  absl::StatusOr<PrepareResult> split = Prepare(options);
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_EQ(split->rows, 137139);
  EXPECT_EQ(split->positives, 35213);

  // The party that holds every row has the input's categories, each as often: 38,073 of the cells look like floating
  // point numbers, and some of them are the same number or overflow.
  const std::shared_ptr<const Dataset> data = *Dataset::Open(split->parties[1].path);
  ASSERT_EQ(data->rows(), 137139);
  std::vector<int64_t> shown(static_cast<size_t>(data->features().embedding_rows));
  for (uint32_t row = 0; row < data->rows(); ++row) {
    for (const int64_t category : data->Gather({row}).categories) {
      ++shown[category];
    }
  }
  int64_t missing = 0;
  for (const v1::NumericScaling& column : data->preprocessing().numeric()) {
    missing += column.missing();
  }
  const std::vector<Vocabulary> vocabularies = *data->ReadVocabularies();
  const std::vector<absl::flat_hash_map<std::string, int64_t>> expected = CountCategories(kCriteo);
  for (int c = 0; c < kCriteoCategorical; ++c) {
    const v1::CategoryIndex& index = data->preprocessing().categorical(c);
    missing += index.missing();
    EXPECT_EQ(vocabularies[c].size(), expected[c].size());
    EXPECT_EQ(shown[index.blocks(0).first_row()], 0) << index.name();  // Of values unseen.
    for (const auto& [value, count] : expected[c]) {
      EXPECT_EQ(shown[index.blocks(0).first_row() + vocabularies[c].Find(value)], count) << index.name();
    }
  }
  EXPECT_NEAR(static_cast<double>(missing) / (137139.0 * kCriteoFeatures), 0.142, 0.0005);
}

// An independent computation counted 292,006 rows for its own random 90% of the rows.
TEST(CriteoKaggleTest, HasTheVocabularyOfItsTrainingPart) {
  if (!std::filesystem::exists(kCriteo)) {
    GTEST_SKIP() << "needs " << kCriteo;
  }
  const ScratchFolder folder;
  PrepareOptions options;
  options.rows.input_paths = {kCriteo};
  options.rows.schema = CriteoSchema();
  options.out_dir = folder.Path("out");
  options.only_label_fraction = 0;
  options.validation_fraction = 0;  // As the papers, whose training part it is.
  absl::StatusOr<PrepareResult> split = Prepare(options);
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_NEAR(split->parties[1].preprocessing.embedding_rows(), 292006, 1000);
}

}  // namespace
}  // namespace splitveil
