#include "common/dataset/dataset_contents.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

// Bounds that keep every product below from overflowing.
constexpr int64_t kMaxRows = std::numeric_limits<uint32_t>::max();
constexpr int64_t kMaxColumns = int64_t{1} << 20;
constexpr int64_t kMaxPixels = int64_t{1} << 26;
// Of a label that is one byte.
constexpr int kMinClasses = 3, kMaxClasses = 256;
// Of an attribute, whose unknown value takes one number of a byte.
constexpr int kMinAttributeValues = 2, kMaxAttributeValues = kUnknownAttribute - 1;
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
    // Descending ends would give a length below zero, and a view of almost all memory.
    if (end < previous || (end == previous && !empty_allowed)) {
      return false;
    }
    previous = end;
  }
  return previous == bytes.size();
}

// Not empty, and none twice.
bool AreDistinctTexts(const google::protobuf::RepeatedPtrField<std::string>& texts) {
  std::vector<absl::string_view> sorted(texts.begin(), texts.end());
  std::sort(sorted.begin(), sorted.end());
  return (sorted.empty() || !sorted.front().empty()) &&
         std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
}

// Fills DatasetContents stage by stage; each believes only what those before it have checked.
class ContentsReader {
 public:
  // `knows_features`: they were found valid before; the rest is small.
  ContentsReader(const SectionFile& file, bool knows_features) : file_(file), knows_features_(knows_features) {}
  absl::StatusOr<DatasetContents> Read();

 private:
  absl::Status ReadPreprocessing();
  absl::Status ReadTask();
  absl::Status CheckClasses() const;
  absl::Status CheckTargetScaling() const;
  absl::Status ReadShape();
  absl::Status CheckAttributes() const;
  absl::Status ReadSections();
  template <typename Number>
  absl::Status ReadSection(absl::string_view name, int64_t count, absl::Span<const Number>& numbers) const;
  absl::Status CheckIds() const;
  absl::Status CheckFeatures() const;
  absl::Status CheckValues() const;
  absl::Status Wrong(absl::string_view found) const { return NotPreparedData(file_, found); }
  int64_t rows() const { return contents_.preprocessing.rows(); }

  const SectionFile& file_;
  const bool knows_features_;
  DatasetContents contents_;
};

absl::StatusOr<DatasetContents> ContentsReader::Read() {
  SPLITVEIL_RETURN_IF_ERROR(ReadPreprocessing());
  SPLITVEIL_RETURN_IF_ERROR(ReadTask());
  SPLITVEIL_RETURN_IF_ERROR(ReadShape());
  SPLITVEIL_RETURN_IF_ERROR(CheckAttributes());
  SPLITVEIL_RETURN_IF_ERROR(ReadSections());
  SPLITVEIL_RETURN_IF_ERROR(CheckIds());
  SPLITVEIL_RETURN_IF_ERROR(CheckValues());
  SPLITVEIL_RETURN_IF_ERROR(knows_features_ ? absl::OkStatus() : CheckFeatures());
  return std::move(contents_);
}

absl::Status ContentsReader::ReadPreprocessing() {
  SPLITVEIL_ASSIGN_OR_RETURN(const absl::string_view bytes, file_.section("preprocessing"));
  if (bytes.size() > std::numeric_limits<int>::max() ||
      !contents_.preprocessing.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Wrong("another description of its preprocessing");
  }
  const double test_fraction = contents_.preprocessing.test_fraction();
  const double auxiliary_fraction = contents_.preprocessing.auxiliary_fraction();
  const double validation_fraction = contents_.preprocessing.validation_fraction();
  // Before anything is multiplied by rows.
  if (rows() < 1 || rows() > kMaxRows || !(test_fraction >= 0 && test_fraction < 1) || !(auxiliary_fraction >= 0) ||
      !(validation_fraction >= 0 && test_fraction + auxiliary_fraction + validation_fraction < 1)) {
    return Wrong("rows, a test_fraction, an auxiliary_fraction or a validation_fraction out of range");
  }
  return absl::OkStatus();
}

absl::Status ContentsReader::ReadTask() {
  const v1::Preprocessing& preprocessing = contents_.preprocessing;
  const bool multi_class = !preprocessing.classes().empty(), regression = preprocessing.has_target();
  if ((preprocessing.has_positives() ? 1 : 0) + (multi_class ? 1 : 0) + (regression ? 1 : 0) > 1) {
    return Wrong("more than one of positives, classes and a target");
  }
  // One task only: the labels are read in one way.
  if (multi_class) {
    SPLITVEIL_RETURN_IF_ERROR(CheckClasses());
    contents_.task = {Task::Kind::kMultiClass, preprocessing.classes_size()};
  } else if (regression) {
    SPLITVEIL_RETURN_IF_ERROR(CheckTargetScaling());
    const v1::TargetScaling& target = preprocessing.target();
    contents_.task = {Task::Kind::kRegression, 0, target.maximum() - target.minimum()};
  }
  return absl::OkStatus();
}

absl::Status ContentsReader::CheckClasses() const {
  const auto& texts = contents_.preprocessing.classes();
  // Two classes would be a binary task under another name, with other attacks and bounds.
  if (texts.size() < kMinClasses || texts.size() > kMaxClasses || !AreDistinctTexts(texts)) {
    return Wrong("classes that are not 3 to 256 distinct texts");
  }
  return absl::OkStatus();
}

absl::Status ContentsReader::CheckTargetScaling() const {
  const v1::TargetScaling& target = contents_.preprocessing.target();
  if (!std::isfinite(target.minimum()) || !std::isfinite(target.maximum()) || !(target.minimum() < target.maximum()) ||
      target.clipped() < 0 || target.clipped() > rows()) {
    return Wrong("a target's range or clipped rows out of range");
  }
  return absl::OkStatus();
}

absl::Status ContentsReader::CheckAttributes() const {
  const auto& attributes = contents_.preprocessing.attributes();
  if (attributes.size() > kMaxColumns) {
    return Wrong("too many attributes");
  }
  // Attacks are configured by these names.
  std::set<absl::string_view> names;
  for (const v1::AttributeValues& attribute : attributes) {
    if (attribute.name().empty() || !names.insert(attribute.name()).second) {
      return Wrong("attributes without a name of their own");
    }
    if (attribute.values_size() < kMinAttributeValues || attribute.values_size() > kMaxAttributeValues ||
        !AreDistinctTexts(attribute.values())) {
      return Wrong("values of an attribute that are not 2 to 254 distinct texts");
    }
    if (attribute.missing() < 0 || attribute.missing() > rows()) {
      return Wrong("missing values of an attribute out of range");
    }
  }
  return absl::OkStatus();
}

absl::Status ContentsReader::ReadShape() {
  const v1::ImageSize& image = contents_.preprocessing.image();
  contents_.features.image = {image.channels(), image.height(), image.width()};
  if (contents_.preprocessing.has_image() &&
      (image.channels() < 1 || image.height() < 1 || image.width() < 1 || image.channels() > kMaxPixels ||
       // By division: the product of three 64-bit numbers from a file may overflow.
       image.height() > kMaxPixels / image.channels() ||
       image.width() > kMaxPixels / image.channels() / image.height())) {
    return Wrong("an image size out of range");
  }
  if (contents_.preprocessing.numeric_size() > kMaxColumns ||
      contents_.preprocessing.categorical_size() > kMaxColumns) {
    return Wrong("too many columns");
  }
  contents_.features.numeric = contents_.preprocessing.numeric_size() + contents_.features.image.pixels();
  contents_.features.categorical = contents_.preprocessing.categorical_size();
  contents_.features.embedding_rows = contents_.preprocessing.embedding_rows();
  if (contents_.features.embedding_rows < 0 ||
      contents_.features.embedding_rows > std::numeric_limits<int32_t>::max()) {
    return Wrong("embedding rows out of range");
  }
  // Columns share one table: their blocks must fill it without gaps, or a category would read a stranger's row.
  int64_t embedding_rows = 0;
  for (const v1::CategoryIndex& index : contents_.preprocessing.categorical()) {
    int64_t column_rows = 0;
    for (const v1::CategoryIndex::Block& block : index.blocks()) {
      if (block.first_row() < 0 || block.rows() < 1 || block.rows() > contents_.features.embedding_rows ||
          block.first_row() > contents_.features.embedding_rows - block.rows()) {
        return Wrong("embedding rows of a column out of range");
      }
      column_rows += block.rows();
    }
    embedding_rows += column_rows;
    // A hash is taken modulo the buckets, so that its rows must be exactly as many.
    const int64_t buckets = index.hash_buckets();
    if (index.blocks().empty() || buckets < 0 || (buckets > 0 && buckets != column_rows) ||
        embedding_rows > contents_.features.embedding_rows) {
      return Wrong("embedding rows of a column that do not fit its values");
    }
  }
  return embedding_rows == contents_.features.embedding_rows ? absl::OkStatus() : Wrong("embedding rows of no column");
}

template <typename Number>
absl::Status ContentsReader::ReadSection(absl::string_view name, int64_t count,
                                         absl::Span<const Number>& numbers) const {
  SPLITVEIL_ASSIGN_OR_RETURN(const absl::string_view bytes, file_.section(name));
  // Exact, and not at least: a longer section is another file's.
  if (bytes.size() != count * sizeof(Number)) {
    return Wrong(absl::StrCat(bytes.size(), " bytes of ", name, " instead of ", count * sizeof(Number)));
  }
  numbers = {reinterpret_cast<const Number*>(bytes.data()), static_cast<size_t>(count)};
  return absl::OkStatus();
}

absl::Status ContentsReader::ReadSections() {
  int64_t values = 0;
  for (const v1::CategoryIndex& index : contents_.preprocessing.categorical()) {
    for (const v1::CategoryIndex::Block& block : index.blocks()) {
      values += index.hash_buckets() > 0 ? 0 : block.rows();
    }
    // The row for unseen values has no text.
    values -= index.hash_buckets() > 0 ? 0 : 1;
  }
  absl::Status status = ReadSection("id_ends", rows(), contents_.id_ends);
  const bool has_labels = !contents_.preprocessing.unlabelled();
  const bool labelled =
      has_labels && (contents_.preprocessing.has_positives() || !contents_.preprocessing.classes().empty());
  status.Update(ReadSection("labels", labelled ? rows() : 0, contents_.labels));
  // Files written before there were regressions have no such section, nor have those whose numbers are not known.
  if (const bool numbers = has_labels && contents_.preprocessing.has_target();
      numbers || file_.has_section("targets")) {
    status.Update(ReadSection("targets", numbers ? rows() : 0, contents_.targets));
  }
  status.Update(ReadSection("numeric", rows() * contents_.preprocessing.numeric_size(), contents_.numeric));
  status.Update(ReadSection("categories", rows() * contents_.features.categorical, contents_.categories));
  status.Update(ReadSection("pixels", rows() * contents_.features.image.pixels(), contents_.pixels));
  // Nor those written before there were attributes.
  const int64_t attributes = contents_.preprocessing.attributes_size();
  if (attributes > 0 || file_.has_section("attributes")) {
    status.Update(ReadSection("attributes", rows() * attributes, contents_.attributes));
  }
  const v1::Preprocessing& preprocessing = contents_.preprocessing;
  if (const bool by_tables = preprocessing.split_by_group() || !preprocessing.test_after().empty();
      by_tables || file_.has_section("parts")) {
    status.Update(ReadSection("parts", by_tables ? rows() : 0, contents_.parts));
  }
  status.Update(ReadSection("vocabulary_ends", values, contents_.vocabulary_ends));
  for (const auto& [name, bytes] :
       {std::pair{"ids", &contents_.id_bytes}, std::pair{"vocabulary", &contents_.vocabulary}}) {
    const absl::StatusOr<absl::string_view> section = file_.section(name);
    status.Update(section.status());
    *bytes = section.value_or("");
  }
  contents_.ids = IdList(contents_.id_ends, contents_.id_bytes);
  return status;
}

absl::Status ContentsReader::CheckIds() const {
  if (!AreEnds(contents_.id_ends, contents_.id_bytes, /*empty_allowed=*/false)) {
    return Wrong("ids that overlap or are empty");
  }
  if (!AreEnds(contents_.vocabulary_ends, contents_.vocabulary, /*empty_allowed=*/true)) {
    return Wrong("vocabulary values that overlap");
  }
  return absl::OkStatus();
}

absl::Status ContentsReader::CheckValues() const {
  const int64_t classes = contents_.task.classes;
  if (!AllOf(file_, contents_.labels, [classes](uint8_t label) { return label < classes; })) {
    return Wrong(contents_.task.kind == Task::Kind::kBinary ? "labels besides 0 and 1" : "labels of no class");
  }
  if (!AllOf(file_, contents_.targets, [](float target) { return target >= 0 && target <= 1; })) {
    return Wrong("targets outside [0, 1]");
  }
  if (!AllOf(file_, contents_.parts, [](uint8_t part) { return part < kSplitParts; })) {
    return Wrong("a row in no part of the split");
  }
  // By column; contents_.attributes is row-major.
  std::vector<uint8_t> values;
  for (const v1::AttributeValues& attribute : contents_.preprocessing.attributes()) {
    values.push_back(static_cast<uint8_t>(attribute.values_size()));
  }
  size_t column = 0;
  // Row-major: the column advances with each value and wraps around; AllOf reads in order.
  const auto is_value = [&](uint8_t value) {
    const bool valid = value < values[column] || value == kUnknownAttribute;
    column = column + 1 == values.size() ? 0 : column + 1;
    return valid;
  };
  return AllOf(file_, contents_.attributes, is_value) ? absl::OkStatus() : Wrong("an attribute without such a value");
}

absl::Status ContentsReader::CheckFeatures() const {
  const FeatureShape& features = contents_.features;
  if (!AllOf(file_, contents_.categories, [&](int32_t row) { return IsEmbeddingRow(row, features); })) {
    return Wrong("category indices out of range");
  }
  return AllOf(file_, contents_.numeric, IsFinite) ? absl::OkStatus() : Wrong("numbers that are not finite");
}

}  // namespace

absl::Status NotPreparedData(const SectionFile& file, absl::string_view found) {
  return absl::InvalidArgumentError(absl::StrCat(file.path(), ": expected data of `splitveil prepare`, found ", found));
}

absl::StatusOr<DatasetContents> ReadDatasetContents(const SectionFile& file, bool knows_features) {
  return ContentsReader(file, knows_features).Read();
}

}  // namespace splitveil
