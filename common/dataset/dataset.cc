#include "common/dataset/dataset.h"

#include <algorithm>
#include <utility>

namespace splitveil {
namespace {

template <typename Number>
absl::string_view RowBytes(absl::Span<const Number> numbers, int64_t row, int64_t columns) {
  return {reinterpret_cast<const char*>(numbers.data() + row * columns), columns * sizeof(Number)};
}

}  // namespace

FeatureBatch Dataset::Gather(absl::Span<const uint32_t> rows) const {
  const int64_t pixels = features_.image.pixels();
  const int64_t numeric = features_.numeric - pixels;
  // The columns of one row: where they are mapped, or a copy in `storage`.
  const auto row_of = [&](const auto& numbers, int64_t row, int64_t columns, auto& storage) {
    if (resident_ || columns == 0) {
      return numbers.data() + row * columns;
    }
    storage.resize(columns);
    file_->Read(RowBytes(numbers, row, columns), storage.data());
    return static_cast<decltype(numbers.data())>(storage.data());
  };
  std::vector<uint8_t> pixel_storage;
  std::vector<float> numeric_storage;
  std::vector<int32_t> category_storage;
  FeatureBatch batch;
  batch.rows = static_cast<int64_t>(rows.size());
  batch.numeric = Matrix::ToOverwrite(batch.rows, features_.numeric);
  batch.categories.reserve(rows.size() * static_cast<size_t>(features_.categorical));
  for (int64_t i = 0; i < batch.rows; ++i) {
    float* out = batch.numeric.data() + i * features_.numeric;
    const uint8_t* image = row_of(pixels_, rows[i], pixels, pixel_storage);
    out = std::transform(image, image + pixels, out, [](uint8_t pixel) { return static_cast<float>(pixel) / 255.0F; });
    std::copy_n(row_of(numeric_, rows[i], numeric, numeric_storage), numeric, out);
    const int32_t* first = row_of(categories_, rows[i], features_.categorical, category_storage);
    batch.categories.insert(batch.categories.end(), first, first + features_.categorical);
  }
  return batch;
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
