#include "common/dataset/dataset.h"

#include <algorithm>
#include <utility>

#include "common/dataset/features.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

template <typename Number>
absl::string_view RowBytes(absl::Span<const Number> numbers, int64_t row, int64_t columns) {
  return {reinterpret_cast<const char*>(numbers.data() + row * columns), columns * sizeof(Number)};
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Dataset>> Dataset::Open(const std::string& path, int64_t max_resident_bytes) {
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<SectionFile> file, SectionFile::Open(path, SectionFile::Check::kDigest));
  SPLITVEIL_ASSIGN_OR_RETURN(DatasetContents contents, ReadDatasetContents(*file));
  file->ReleaseMemory();
  const bool resident = file->size() <= max_resident_bytes;
  return std::shared_ptr<const Dataset>(new Dataset(std::move(file), std::move(contents), resident));
}

FeatureBatch Dataset::Gather(absl::Span<const uint32_t> rows) const {
  const int64_t pixels = contents_.features.image.pixels();
  const int64_t numeric = contents_.features.numeric - pixels;
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
  std::vector<uint8_t> attribute_storage;
  const int64_t attributes = contents_.preprocessing.attributes_size();
  FeatureBatch batch;
  batch.rows = static_cast<int64_t>(rows.size());
  batch.numeric = Matrix::ToOverwrite(batch.rows, contents_.features.numeric);
  batch.categories.reserve(rows.size() * static_cast<size_t>(contents_.features.categorical));
  batch.attributes.reserve(rows.size() * static_cast<size_t>(attributes));
  for (int64_t i = 0; i < batch.rows; ++i) {
    float* out = batch.numeric.data() + i * contents_.features.numeric;
    const uint8_t* image = row_of(contents_.pixels, rows[i], pixels, pixel_storage);
    out = std::transform(image, image + pixels, out, [](uint8_t pixel) { return static_cast<float>(pixel) / 255.0F; });
    std::copy_n(row_of(contents_.numeric, rows[i], numeric, numeric_storage), numeric, out);
    const int32_t* first = row_of(contents_.categories, rows[i], contents_.features.categorical, category_storage);
    batch.categories.insert(batch.categories.end(), first, first + contents_.features.categorical);
    const uint8_t* values = row_of(contents_.attributes, rows[i], attributes, attribute_storage);
    batch.attributes.insert(batch.attributes.end(), values, values + attributes);
  }
  return batch;
}

absl::StatusOr<std::vector<Vocabulary>> Dataset::ReadVocabularies() const {
  const IdList values(contents_.vocabulary_ends, contents_.vocabulary);
  std::vector<Vocabulary> vocabularies(static_cast<size_t>(contents_.features.categorical));
  size_t next = 0;
  for (size_t column = 0; column < vocabularies.size(); ++column) {
    const v1::CategoryIndex& index = contents_.preprocessing.categorical(static_cast<int>(column));
    int64_t rows = 0;
    for (const v1::CategoryIndex::Block& block : index.blocks()) {
      rows += block.rows();
    }
    const int64_t count = index.hash_buckets() > 0 ? 0 : rows - 1;
    for (int64_t i = 0; i < count; ++i) {
      vocabularies[column].Add(values[next++]);
    }
    if (vocabularies[column].size() != count) {
      return NotPreparedData(*file_, "a vocabulary that holds a value twice");
    }
  }
  file_->ReleaseMemory();
  return vocabularies;
}

}  // namespace splitveil
