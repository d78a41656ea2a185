#include "common/dataset/dataset.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/crypto/sha256.h"
#include "common/dataset/dataset_contents.h"
#include "common/status/status_macros.h"
#include "common/storage/check_record.h"
#include "common/storage/file_system.h"

namespace splitveil {
namespace {

// Changes where a file must be checked again.
constexpr char kChecks[] = "prepared data, 1";

template <typename Number>
absl::string_view RowBytes(absl::Span<const Number> numbers, int64_t row, int64_t columns) {
  return {reinterpret_cast<const char*>(numbers.data() + row * columns), columns * sizeof(Number)};
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Dataset>> Dataset::Open(const std::string& path, int64_t max_resident_bytes,
                                                             Check check) {
  const bool remembers = check == Check::kRemembered;
  SPLITVEIL_ASSIGN_OR_RETURN(
      std::unique_ptr<SectionFile> file,
      SectionFile::Open(path, remembers ? SectionFile::Check::kStructure : SectionFile::Check::kDigest));
  CheckRecord record(file.get(), kChecks);
  const bool is_known = remembers && record.Matches();
  SPLITVEIL_RETURN_IF_ERROR(remembers && !is_known ? record.CheckWhole() : absl::OkStatus());
  SPLITVEIL_ASSIGN_OR_RETURN(DatasetContents contents, ReadDatasetContents(*file, is_known));
  record.Keep();
  file->ReleaseMemory();  // The check has read all of it; a run gathers a part.
  const bool resident = file->size() <= max_resident_bytes;
  return std::shared_ptr<const Dataset>(new Dataset(std::move(file), std::move(contents), resident));
}

void Dataset::AskFor(absl::Span<const uint32_t> rows) const {
  // A batch's rows are random; in the file's order the disk reads ahead.
  std::vector<uint32_t> in_order(rows.begin(), rows.end());
  std::sort(in_order.begin(), in_order.end());
  const auto ask = [&](const auto& numbers, int64_t columns) {
    for (size_t i = 0; columns > 0 && i < in_order.size(); ++i) {
      file_->WillNeed(RowBytes(numbers, in_order[i], columns));
    }
  };
  const int64_t pixels = contents_.features.image.pixels();
  ask(contents_.pixels, pixels);
  ask(contents_.numeric, contents_.features.numeric - pixels);
  ask(contents_.categories, contents_.features.categorical);
  ask(contents_.attributes, contents_.preprocessing.attributes_size());
}

FeatureBatch Dataset::Gather(absl::Span<const uint32_t> rows) const {
  // Pixels are stored as bytes and come first among the numbers.
  const int64_t pixels = contents_.features.image.pixels();
  const int64_t numeric = contents_.features.numeric - pixels;
  // The columns of one row: where they are mapped, or a copy in `storage`.
  const auto row_of = [&](const auto& numbers, int64_t row, int64_t columns, auto& storage) {
    // Mapped pages of large data would push everything else out of the memory: those rows are read.
    if (resident_ || columns == 0) {
      return numbers.data() + row * columns;
    }
    storage.resize(columns);
    file_->Read(RowBytes(numbers, row, columns), storage.data());
    return static_cast<decltype(numbers.data())>(storage.data());
  };
  if (!resident_) {
    AskFor(rows);
  }
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
  // Values were found valid when the file was last read as a whole; an index that is not would be another's memory.
  const bool valid = std::all_of(batch.categories.begin(), batch.categories.end(),
                                 [&](int64_t row) { return IsEmbeddingRow(row, contents_.features); }) &&
                     std::all_of(batch.numeric.data(), batch.numeric.data() + batch.numeric.size(), IsFinite);
  if (!valid) {
    EndForChangedFile(file_->path());
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
    // One row of each column is for values that training has not seen.
    const int64_t count = index.hash_buckets() > 0 ? 0 : rows - 1;
    for (int64_t i = 0; i < count; ++i) {
      vocabularies[column].Add(values[next++]);
    }
    // Two equal values would share a number and shift all that follow.
    if (vocabularies[column].size() != count) {
      return NotPreparedData(*file_, "a vocabulary that holds a value twice");
    }
  }
  file_->ReleaseMemory();
  return vocabularies;
}

int AttributeColumn(const v1::Preprocessing& preprocessing, absl::string_view name) {
  const auto& attributes = preprocessing.attributes();
  const auto found = std::find_if(attributes.begin(), attributes.end(),
                                  [&](const v1::AttributeValues& attribute) { return attribute.name() == name; });
  return static_cast<int>(found - attributes.begin());
}

std::vector<std::string> AttributeValueDigests(const v1::Preprocessing& preprocessing,
                                               const google::protobuf::RepeatedPtrField<std::string>& names) {
  std::vector<std::string> digests;
  for (const std::string& name : names) {
    std::string text = "splitveil.v1 attribute values\n";
    const int column = AttributeColumn(preprocessing, name);
    for (int i = 0; column < preprocessing.attributes_size() && i < preprocessing.attributes(column).values_size();
         ++i) {
      // With their lengths, so that no two lists give one text.
      const std::string& value = preprocessing.attributes(column).values(i);
      absl::StrAppend(&text, value.size(), ":", value);
    }
    digests.emplace_back(AsBytes(Sha256(text)));
  }
  return digests;
}

}  // namespace splitveil
