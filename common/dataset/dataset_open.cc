// Opening prepared data: nothing of the file is believed before it is checked here.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/dataset/dataset.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

// Bounds that keep every product below from overflowing.
constexpr int64_t kMaxRows = std::numeric_limits<uint32_t>::max();
constexpr int64_t kMaxColumns = int64_t{1} << 20;
constexpr int64_t kMaxPixels = int64_t{1} << 26;
// Numbers checked before the memory they lie in is handed back.
constexpr size_t kCheckedAtATime = size_t{1} << 24;

// Whether `valid` holds for every number, with little memory.
template <typename Number, typename Valid>
bool AllOf(const SectionFile& file, absl::Span<const Number> numbers, Valid valid) {
  for (size_t begin = 0; begin < numbers.size(); begin += kCheckedAtATime) {
    const absl::Span<const Number> part = numbers.subspan(begin, kCheckedAtATime);
    file.WillNeed({reinterpret_cast<const char*>(part.data()), part.size() * sizeof(Number)});
    // Counts rather than stops: without a branch the compiler makes it a vector loop.
    if (std::count_if(part.begin(), part.end(), valid) != part.size()) {
      return false;
    }
    file.ReleaseMemory();
  }
  return true;
}

// Ends of byte strings back to back: ascending, the last the number of bytes.
bool AreEnds(absl::Span<const uint64_t> ends, absl::string_view bytes, bool empty_allowed) {
  uint64_t previous = 0;
  for (const uint64_t end : ends) {
    if (end < previous || (end == previous && !empty_allowed)) {
      return false;
    }
    previous = end;
  }
  return previous == bytes.size();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Dataset>> Dataset::Open(const std::string& path, int64_t max_resident_bytes) {
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<SectionFile> file, SectionFile::Open(path, SectionFile::Check::kDigest));
  const bool resident = file->size() <= max_resident_bytes;
  std::shared_ptr<Dataset> dataset(new Dataset(std::move(file), resident));
  for (absl::Status (Dataset::*stage)() : {&Dataset::ReadPreprocessing, &Dataset::ReadShape, &Dataset::ReadSections}) {
    SPLITVEIL_RETURN_IF_ERROR(((*dataset).*stage)());
  }
  for (absl::Status (Dataset::*check)() const : {&Dataset::CheckIds, &Dataset::CheckValues}) {
    SPLITVEIL_RETURN_IF_ERROR(((*dataset).*check)());
  }
  dataset->ReleaseMemory();
  return std::shared_ptr<const Dataset>(std::move(dataset));
}

absl::Status Dataset::Wrong(absl::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(path(), ": expected data of `splitveil prepare`, found ", what));
}

absl::Status Dataset::ReadPreprocessing() {
  SPLITVEIL_ASSIGN_OR_RETURN(const absl::string_view bytes, file_->section("preprocessing"));
  if (bytes.size() > std::numeric_limits<int>::max() ||
      !preprocessing_.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Wrong("another description of its preprocessing");
  }
  const double test_fraction = preprocessing_.test_fraction();
  if (rows() < 1 || rows() > kMaxRows || !(test_fraction >= 0 && test_fraction < 1)) {
    return Wrong("rows or a test_fraction out of range");
  }
  return absl::OkStatus();
}

absl::Status Dataset::ReadShape() {
  const v1::ImageSize& image = preprocessing_.image();
  features_.image = {image.channels(), image.height(), image.width()};
  if (preprocessing_.has_image() && (image.channels() < 1 || image.height() < 1 || image.width() < 1 ||
                                     image.channels() > kMaxPixels || image.height() > kMaxPixels / image.channels() ||
                                     image.width() > kMaxPixels / image.channels() / image.height())) {
    return Wrong("an image size out of range");
  }
  if (preprocessing_.numeric_size() > kMaxColumns || preprocessing_.categorical_size() > kMaxColumns) {
    return Wrong("too many columns");
  }
  features_.numeric = preprocessing_.numeric_size() + features_.image.pixels();
  features_.categorical = preprocessing_.categorical_size();
  features_.embedding_rows = preprocessing_.embedding_rows();
  if (features_.embedding_rows < 0 || features_.embedding_rows > std::numeric_limits<int32_t>::max()) {
    return Wrong("embedding rows out of range");
  }
  int64_t embedding_rows = 0;
  for (const v1::CategoryIndex& index : preprocessing_.categorical()) {
    int64_t column_rows = 0;
    for (const v1::CategoryIndex::Block& block : index.blocks()) {
      if (block.first_row() < 0 || block.rows() < 1 || block.rows() > features_.embedding_rows ||
          block.first_row() > features_.embedding_rows - block.rows()) {
        return Wrong("embedding rows of a column out of range");
      }
      column_rows += block.rows();
    }
    embedding_rows += column_rows;
    const int64_t buckets = index.hash_buckets();
    if (index.blocks().empty() || buckets < 0 || (buckets > 0 && buckets != column_rows) ||
        embedding_rows > features_.embedding_rows) {
      return Wrong("embedding rows of a column that do not fit its values");
    }
  }
  return embedding_rows == features_.embedding_rows ? absl::OkStatus() : Wrong("embedding rows of no column");
}

template <typename Number>
absl::Status Dataset::ReadSection(absl::string_view name, int64_t count, absl::Span<const Number>& numbers) const {
  SPLITVEIL_ASSIGN_OR_RETURN(const absl::string_view bytes, file_->section(name));
  if (bytes.size() != count * sizeof(Number)) {
    return Wrong(absl::StrCat(bytes.size(), " bytes of ", name, " instead of ", count * sizeof(Number)));
  }
  numbers = {reinterpret_cast<const Number*>(bytes.data()), static_cast<size_t>(count)};
  return absl::OkStatus();
}

absl::Status Dataset::ReadSections() {
  int64_t values = 0;
  for (const v1::CategoryIndex& index : preprocessing_.categorical()) {
    for (const v1::CategoryIndex::Block& block : index.blocks()) {
      values += index.hash_buckets() > 0 ? 0 : block.rows();
    }
    values -= index.hash_buckets() > 0 ? 0 : 1;
  }
  absl::Status status = ReadSection("id_ends", rows(), id_ends_);
  status.Update(ReadSection("labels", has_labels() ? rows() : 0, labels_));
  status.Update(ReadSection("numeric", rows() * preprocessing_.numeric_size(), numeric_));
  status.Update(ReadSection("categories", rows() * features_.categorical, categories_));
  status.Update(ReadSection("pixels", rows() * features_.image.pixels(), pixels_));
  status.Update(ReadSection("vocabulary_ends", values, vocabulary_ends_));
  for (const auto& [name, bytes] : {std::pair{"ids", &id_bytes_}, std::pair{"vocabulary", &vocabulary_}}) {
    const absl::StatusOr<absl::string_view> section = file_->section(name);
    status.Update(section.status());
    *bytes = section.value_or("");
  }
  ids_ = IdList(id_ends_, id_bytes_);
  return status;
}

absl::Status Dataset::CheckIds() const {
  if (!AreEnds(id_ends_, id_bytes_, /*empty_allowed=*/false)) {
    return Wrong("ids that overlap or are empty");
  }
  if (!AreEnds(vocabulary_ends_, vocabulary_, /*empty_allowed=*/true)) {
    return Wrong("vocabulary values that overlap");
  }
  return absl::OkStatus();
}

absl::Status Dataset::CheckValues() const {
  if (!AllOf(*file_, labels_, [](uint8_t label) { return label <= 1; })) {
    return Wrong("labels besides 0 and 1");
  }
  const auto embedding_rows = static_cast<uint32_t>(features_.embedding_rows);
  if (!AllOf(*file_, categories_, [&](int32_t row) { return static_cast<uint32_t>(row) < embedding_rows; })) {
    return Wrong("category indices out of range");
  }
  if (!AllOf(*file_, numeric_, [](float number) { return std::abs(number) <= std::numeric_limits<float>::max(); })) {
    return Wrong("numbers that are not finite");
  }
  return absl::OkStatus();
}

}  // namespace splitveil
