#include "common/dataset/dataset.h"

#include <algorithm>
#include <utility>

namespace splitveil {
namespace {

// A page fault in a file maps its neighbours that the page cache holds, 16 pages at Linux's default.
constexpr int64_t kFaultBytes = 16 * 4096;

}  // namespace

FeatureBatch Dataset::Gather(absl::Span<const uint32_t> rows) const {
  const int64_t pixels = features_.image.pixels();
  const int64_t numeric = features_.numeric - pixels;
  FeatureBatch batch;
  batch.rows = static_cast<int64_t>(rows.size());
  batch.numeric = Matrix(batch.rows, features_.numeric);
  batch.categories.reserve(rows.size() * static_cast<size_t>(features_.categorical));
  for (int64_t i = 0; i < batch.rows; ++i) {
    const int64_t row = rows[i];
    float* out = batch.numeric.data() + i * features_.numeric;
    out = std::transform(pixels_.data() + row * pixels, pixels_.data() + (row + 1) * pixels, out,
                         [](uint8_t pixel) { return static_cast<float>(pixel) / 255.0F; });
    std::copy_n(numeric_.data() + row * numeric, numeric, out);
    const int32_t* first = categories_.data() + row * features_.categorical;
    batch.categories.insert(batch.categories.end(), first, first + features_.categorical);
  }
  CountTouched(batch.rows);
  return batch;
}

void Dataset::CountTouched(int64_t rows) const {
  const auto section_bytes = [&](int64_t row_bytes) { return row_bytes > 0 ? row_bytes + kFaultBytes : 0; };
  const int64_t pixels = features_.image.pixels();
  const int64_t row_bytes = section_bytes(pixels) + section_bytes((features_.numeric - pixels) * sizeof(float)) +
                            section_bytes(features_.categorical * sizeof(int32_t));
  // Small data stay mapped for good.
  const int64_t touched = std::min(touched_bytes_ += rows * row_bytes, file_->size());
  if (touched > kMaxResidentBytes) {
    touched_bytes_ = 0;
    file_->ReleaseMemory();
  }
}

absl::StatusOr<std::vector<Vocabulary>> Dataset::ReadVocabularies() const {
  const IdList values(vocabulary_ends_, vocabulary_);
  std::vector<Vocabulary> vocabularies(static_cast<size_t>(features_.categorical));
  size_t next = 0;
  for (size_t column = 0; column < vocabularies.size(); ++column) {
    const v1::CategoryIndex& index = preprocessing_.categorical(static_cast<int>(column));
    int64_t rows = 0;
    for (const v1::CategoryIndex::Block& block : index.blocks()) {
      rows += block.rows();
    }
    const int64_t count = index.hash_buckets() > 0 ? 0 : rows - 1;
    for (int64_t i = 0; i < count; ++i) {
      vocabularies[column].Add(values[next++]);
    }
    if (vocabularies[column].size() != count) {
      return Wrong("a vocabulary that holds a value twice");
    }
  }
  file_->ReleaseMemory();
  return vocabularies;
}

}  // namespace splitveil
