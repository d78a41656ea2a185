#include "deploy/operator/preparation/preprocessor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "deploy/operator/preparation/column_drift.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr int64_t kMaxEmbeddingRows = std::numeric_limits<int32_t>::max();

constexpr char kIndicatorSuffix[] = " is missing";

// The same on every machine: FNV-1a (Fowler, Noll, Vo), its bits spread.
uint64_t HashOf(absl::string_view value) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : value) {
    hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3;
  }
  return MixBits(hash);
}

// The plainest writing of a decimal number: "3" of "3.0", "-1.5" of "-1.50"; "" of any other text. Zeros in front make
// another code of it, not another writing.
std::string PlainestWriting(absl::string_view text) {
  absl::string_view digits = absl::StripPrefix(text, "-");
  const size_t point = std::min(digits.find('.'), digits.size());
  const auto are_digits = [](absl::string_view part) {
    return std::all_of(part.begin(), part.end(), [](char c) { return absl::ascii_isdigit(c); });
  };
  if (point == 0 || (point > 1 && digits[0] == '0') || !are_digits(digits.substr(0, point)) ||
      (point < digits.size() && !are_digits(digits.substr(point + 1)))) {
    return "";
  }
  if (point < digits.size()) {
    digits = digits.substr(0, digits.find_last_not_of('0') + 1);
    digits = absl::StripSuffix(digits, ".");
  }
  return absl::StrCat(digits != "0" && absl::StartsWith(text, "-") ? "-" : "", digits);
}

// Whether `party` has what the schema gives to `holder`.
bool Holds(v1::TableSchema::Holder party, v1::TableSchema::Holder holder) {
  return party == v1::TableSchema::BOTH || holder == v1::TableSchema::BOTH ||
         holder == v1::TableSchema::HOLDER_UNSPECIFIED || holder == party;
}

// Numbers of the columns that `holder` has.
template <typename Column>
std::vector<size_t> Held(const std::vector<Column>& features, v1::TableSchema::Holder holder) {
  std::vector<size_t> held;
  for (size_t i = 0; i < features.size(); ++i) {
    if (Holds(holder, features[i].holder)) {
      held.push_back(i);
    }
  }
  return held;
}

int64_t RowsOf(const v1::CategoryIndex& index) {
  int64_t rows = 0;
  for (const v1::CategoryIndex::Block& block : index.blocks()) {
    rows += block.rows();
  }
  return rows;
}

template <typename Columns>
bool SameNames(const Columns& a, const Columns& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& left, const auto& right) { return left.name() == right.name(); });
}

}  // namespace

absl::StatusOr<Preprocessor> Preprocessor::Create(const TableColumns& columns, const Options& options) {
  Preprocessor result;
  result.numeric_ = Held(columns.numeric, options.holder);
  result.categorical_ = Held(columns.categorical, options.holder);
  for (const size_t i : result.numeric_) {
    v1::NumericScaling& scaling = *result.preprocessing_.add_numeric();
    result.samples_.emplace_back(result.samples_.size());
    result.lacks_some_.push_back(false);
    result.scalings_.push_back(options.scaling != v1::TableSchema::SCALING_UNSPECIFIED ? options.scaling
                                                                                       : columns.numeric[i].scaling);
    scaling.set_name(columns.numeric[i].name);
    scaling.set_minimum(std::numeric_limits<double>::infinity());
    scaling.set_maximum(-std::numeric_limits<double>::infinity());
  }
  for (const size_t i : result.categorical_) {
    v1::CategoryIndex& index = *result.preprocessing_.add_categorical();
    index.set_name(columns.categorical[i].name);
    index.set_hash_buckets(options.hash_buckets);
  }
  result.attributes_ = Held(columns.attributes, options.holder);
  for (const size_t i : result.attributes_) {
    v1::AttributeValues& attribute = *result.preprocessing_.add_attributes();
    attribute.set_name(columns.attributes[i].name);
    attribute.mutable_values()->Assign(columns.attributes[i].values.begin(), columns.attributes[i].values.end());
  }
  result.has_image_ = columns.image.channels > 0 && Holds(options.holder, columns.image_holder);
  if (result.has_image_) {
    v1::ImageSize& image = *result.preprocessing_.mutable_image();
    image.set_channels(columns.image.channels);
    image.set_height(columns.image.height);
    image.set_width(columns.image.width);
  }
  if (columns.label.has_value() && Holds(options.holder, v1::TableSchema::LABEL_PARTY)) {
    result.label_ = columns.label;
    result.preprocessing_.mutable_classes()->Assign(columns.label->classes.begin(), columns.label->classes.end());
  }
  if (result.IsRegression()) {
    v1::TargetScaling& target = *result.preprocessing_.mutable_target();
    target.set_minimum(columns.label->minimum);
    target.set_maximum(columns.label->maximum);
    target.set_clipped(0);
  }
  result.vocabularies_.resize(result.categorical_.size());
  result.only_applies_ = options.only_applies;
  result.preprocessing_.mutable_allowed_changes()->Assign(options.allowed_changes.begin(),
                                                          options.allowed_changes.end());
  if (options.extends != nullptr) {
    SPLITVEIL_RETURN_IF_ERROR(result.Extend(*options.extends));
  }
  return result;
}

absl::Status Preprocessor::CheckSameTask(const Dataset& old) const {
  const v1::Preprocessing& theirs = old.preprocessing();
  if (label_.has_value() != old.has_labels() || (label_.has_value() && label_->task.kind != old.task().kind)) {
    return absl::InvalidArgumentError(
        absl::StrCat(old.path(),
                     ": expected data of the same kind of label (LABEL, CLASS_LABEL, TARGET, none) to "
                     "extend, found a different kind"));
  }
  if (!std::equal(theirs.classes().begin(), theirs.classes().end(), preprocessing_.classes().begin(),
                  preprocessing_.classes().end())) {
    return absl::InvalidArgumentError(absl::StrCat(
        old.path(), ": the classes differ from those of the data to extend: use the same ones in the same order"));
  }
  if (theirs.target().minimum() != preprocessing_.target().minimum() ||
      theirs.target().maximum() != preprocessing_.target().maximum()) {
    return absl::InvalidArgumentError(
        absl::StrCat(old.path(), ": target_minimum, target_maximum: expected ", theirs.target().minimum(), " and ",
                     theirs.target().maximum(), " as in the data to extend, found ", preprocessing_.target().minimum(),
                     " and ", preprocessing_.target().maximum()));
  }
  return absl::OkStatus();
}

absl::Status Preprocessor::CheckSameAttributes(const Dataset& old) const {
  const auto same = [](const v1::AttributeValues& a, const v1::AttributeValues& b) {
    return a.name() == b.name() &&
           std::equal(a.values().begin(), a.values().end(), b.values().begin(), b.values().end());
  };
  const auto &ours = preprocessing_.attributes(), &theirs = old.preprocessing().attributes();
  return std::equal(ours.begin(), ours.end(), theirs.begin(), theirs.end(), same)
             ? absl::OkStatus()
             : absl::InvalidArgumentError(absl::StrCat(old.path(),
                                                       ": the attributes or their values differ from those of the data "
                                                       "to extend: use the same ones in the same order"));
}

void Preprocessor::TakeTask(const v1::Preprocessing& theirs) {
  preprocessing_.set_unlabelled(true);
  *preprocessing_.mutable_classes() = theirs.classes();
  if (theirs.has_target()) {
    *preprocessing_.mutable_target() = theirs.target();
    preprocessing_.mutable_target()->clear_clipped();
  }
}

absl::Status Preprocessor::Extend(const Dataset& old) {
  if (only_applies_ && !label_.has_value() && old.has_labels()) {
    TakeTask(old.preprocessing());
  } else {
    SPLITVEIL_RETURN_IF_ERROR(CheckSameTask(old));
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckSameAttributes(old));
  const v1::Preprocessing& theirs = old.preprocessing();
  const auto same_buckets = [](const v1::CategoryIndex& a, const v1::CategoryIndex& b) {
    return a.hash_buckets() == b.hash_buckets();
  };
  if (!TakeNumeric(theirs) || !SameNames(theirs.categorical(), preprocessing_.categorical()) ||
      theirs.image().SerializeAsString() != preprocessing_.image().SerializeAsString()) {
    return absl::InvalidArgumentError(
        absl::StrCat(old.path(), ": columns or image size differ from those of the data to extend"));
  }
  if (!std::equal(theirs.categorical().begin(), theirs.categorical().end(), preprocessing_.categorical().begin(),
                  same_buckets)) {
    return absl::InvalidArgumentError(
        absl::StrCat(old.path(), ": hash_buckets differs from that of the data to extend"));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(vocabularies_, old.ReadVocabularies());
  *preprocessing_.mutable_categorical() = theirs.categorical();
  // What theirs counted is what these rows are compared with.
  const auto begin_counts = [](auto& column) {
    column.clear_missing();
    column.clear_earlier_counts();
    if (column.has_counts()) {
      *column.mutable_earlier_counts() = std::move(*column.mutable_counts());
      column.clear_counts();
    }
  };
  for (v1::NumericScaling& scaling : *preprocessing_.mutable_numeric()) {
    begin_counts(scaling);
    scaling.clear_clipped();
  }
  samples_.clear();
  for (v1::CategoryIndex& index : *preprocessing_.mutable_categorical()) {
    begin_counts(index);
  }
  for (const Vocabulary& vocabulary : vocabularies_) {
    absl::flat_hash_map<std::string, int32_t>& rewritten = rewritten_.emplace_back();
    for (int32_t number = 1; only_applies_ && number <= vocabulary.size(); ++number) {
      const std::string plainest = PlainestWriting(vocabulary.value(number));
      if (!plainest.empty() && plainest != vocabulary.value(number)) {
        rewritten.emplace(plainest, number);
      }
    }
  }
  preprocessing_.set_embedding_rows(theirs.embedding_rows());
  preprocessing_.set_extended_embedding_rows(theirs.embedding_rows());
  preprocessing_.set_extends_sha256(std::string(AsBytes(old.digest())));
  extends_ = true;
  return absl::OkStatus();
}

absl::Status Preprocessor::Fit(const TableRow& row, bool training) {
  preprocessing_.set_training_rows(preprocessing_.training_rows() + (training ? 1 : 0));
  if (IsRegression() && (row.target < label_->minimum || row.target > label_->maximum)) {
    preprocessing_.mutable_target()->set_clipped(preprocessing_.target().clipped() + 1);
  }
  for (size_t i = 0; i < numeric_.size(); ++i) {
    v1::NumericScaling& scaling = *preprocessing_.mutable_numeric(static_cast<int>(i));
    const double number = row.numeric[numeric_[i]];
    scaling.set_missing(scaling.missing() + (std::isnan(number) ? 1 : 0));
    if (training && !extends_) {
      const double filled = std::isnan(number) ? 0 : number;
      scaling.set_minimum(std::min(scaling.minimum(), filled));
      scaling.set_maximum(std::max(scaling.maximum(), filled));
      lacks_some_[i] = lacks_some_[i] || std::isnan(number);
      if (!std::isnan(number)) {
        samples_[i].Add(number);
      }
    }
  }
  for (size_t i = 0; i < categorical_.size(); ++i) {
    v1::CategoryIndex& index = *preprocessing_.mutable_categorical(static_cast<int>(i));
    const absl::string_view value = row.categories[categorical_[i]];
    index.set_missing(index.missing() + (value.empty() ? 1 : 0));
    if (training && !only_applies_ && index.hash_buckets() == 0 && !vocabularies_[i].Add(value)) {
      return absl::InvalidArgumentError(absl::StrCat(index.name(), ": more than 2^31 - 1 distinct values in training"));
    }
  }
  for (size_t i = 0; i < attributes_.size(); ++i) {
    v1::AttributeValues& attribute = *preprocessing_.mutable_attributes(static_cast<int>(i));
    attribute.set_missing(attribute.missing() + (row.attributes[attributes_[i]] == kUnknownAttribute ? 1 : 0));
  }
  return absl::OkStatus();
}

absl::Status Preprocessor::AddBlock(int64_t rows, v1::CategoryIndex& index) {
  if (rows > kMaxEmbeddingRows - preprocessing_.embedding_rows()) {
    return absl::InvalidArgumentError("categorical columns: expected at most 2^31 - 1 embedding rows, found more");
  }
  v1::CategoryIndex::Block& block = *index.add_blocks();
  block.set_first_row(preprocessing_.embedding_rows());
  block.set_rows(rows);
  preprocessing_.set_embedding_rows(preprocessing_.embedding_rows() + rows);
  return absl::OkStatus();
}

absl::Status Preprocessor::FinishFit() {
  if (preprocessing_.training_rows() == 0) {
    return absl::InvalidArgumentError("expected rows of the training part to fit the preprocessing on, found none");
  }
  for (size_t i = 0; i < samples_.size(); ++i) {
    FitScaling(samples_[i], scalings_[i], *preprocessing_.mutable_numeric(static_cast<int>(i)));
  }
  for (size_t i = 0; i < samples_.size(); ++i) {
    if (scalings_[i] != v1::TableSchema::MIN_MAX && lacks_some_[i]) {
      AddIndicator(i);
    }
  }
  samples_.clear();
  for (size_t i = 0; i < vocabularies_.size(); ++i) {
    v1::CategoryIndex& index = *preprocessing_.mutable_categorical(static_cast<int>(i));
    const int64_t rows = index.hash_buckets() > 0 ? index.hash_buckets() : 1 + vocabularies_[i].size();
    if (rows > RowsOf(index)) {
      SPLITVEIL_RETURN_IF_ERROR(AddBlock(rows - RowsOf(index), index));
    }
    index.mutable_counts()->set_missing(0);
  }
  for (size_t i = 0; i < numeric_.size(); ++i) {
    v1::NumericScaling& scaling = *preprocessing_.mutable_numeric(static_cast<int>(i));
    scaling.mutable_counts()->set_missing(0);
    scaling.mutable_counts()->mutable_buckets()->Resize(NumberBuckets(scaling), 0);
  }
  embedding_row_counts_.assign(static_cast<size_t>(preprocessing_.embedding_rows()), 0);
  return absl::OkStatus();
}

void Preprocessor::AddIndicator(size_t column) {
  v1::NumericScaling& indicator = *preprocessing_.add_numeric();
  indicator.set_name(absl::StrCat(preprocessing_.numeric(static_cast<int>(column)).name(), kIndicatorSuffix));
  indicator.set_minimum(0);
  indicator.set_maximum(0);
  indicator.set_missing_value(1);
  indicated_.push_back(column);
}

bool Preprocessor::TakeNumeric(const v1::Preprocessing& theirs) {
  const auto columns = static_cast<int>(numeric_.size());
  if (theirs.numeric_size() < columns) {
    return false;
  }
  for (int input = 0; input < theirs.numeric_size(); ++input) {
    const v1::NumericScaling& scaling = theirs.numeric(input);
    if (input < columns) {
      if (scaling.name() != preprocessing_.numeric(input).name()) {
        return false;
      }
      continue;
    }
    const auto begin = theirs.numeric().begin();
    const auto named = std::find_if(begin, begin + columns, [&](const v1::NumericScaling& column) {
      return scaling.name() == absl::StrCat(column.name(), kIndicatorSuffix);
    });
    if (named == begin + columns || !IsMissingIndicator(scaling)) {
      return false;
    }
    indicated_.push_back(static_cast<size_t>(named - begin));
  }
  *preprocessing_.mutable_numeric() = theirs.numeric();
  return true;
}

size_t Preprocessor::SourceOf(size_t input) const {
  return numeric_[input < numeric_.size() ? input : indicated_[input - numeric_.size()]];
}

int32_t Preprocessor::NumberOf(size_t column, absl::string_view value) const {
  const int32_t number = vocabularies_[column].Find(value);
  if (number != Vocabulary::kUnseen || !only_applies_) {
    return number;
  }
  const std::string plainest = PlainestWriting(value);
  if (const auto found = rewritten_[column].find(plainest); found != rewritten_[column].end()) {
    return found->second;
  }
  return plainest.empty() ? Vocabulary::kUnseen : vocabularies_[column].Find(plainest);
}

int32_t Preprocessor::EmbeddingRow(size_t column, absl::string_view value) const {
  const v1::CategoryIndex& index = preprocessing_.categorical(static_cast<int>(column));
  int64_t number = index.hash_buckets() > 0
                       ? static_cast<int64_t>(HashOf(value) % static_cast<uint64_t>(index.hash_buckets()))
                       : NumberOf(column, value);
  auto block = index.blocks().begin();
  for (; number >= block->rows(); ++block) {
    number -= block->rows();
  }
  return static_cast<int32_t>(block->first_row() + number);
}

void Preprocessor::Count(const TableRow& row, const EncodedRow& encoded) {
  const bool training = encoded.part == SplitPart::kTraining;
  for (size_t i = 0; i < numeric_.size(); ++i) {
    v1::NumericScaling& scaling = *preprocessing_.mutable_numeric(static_cast<int>(i));
    const double number = row.numeric[numeric_[i]];  // NaN, if it is missing, lies nowhere.
    scaling.set_clipped(scaling.clipped() + (number < scaling.minimum() || number > scaling.maximum() ? 1 : 0));
    v1::ValueCounts& counts = *scaling.mutable_counts();
    if (training && std::isnan(number)) {
      counts.set_missing(counts.missing() + 1);
    } else if (training) {
      ++*counts.mutable_buckets()->Mutable(NumberBucket(scaling, number));
    }
  }
  for (size_t i = 0; training && i < categorical_.size(); ++i) {
    v1::CategoryIndex& index = *preprocessing_.mutable_categorical(static_cast<int>(i));
    const absl::string_view value = row.categories[categorical_[i]];
    if (value.empty()) {
      index.mutable_counts()->set_missing(index.counts().missing() + 1);
      continue;
    }
    ++embedding_row_counts_[static_cast<size_t>(encoded.categories[i])];
    const bool is_rewritten = only_applies_ && index.hash_buckets() == 0 &&
                              encoded.categories[i] != index.blocks(0).first_row() &&
                              vocabularies_[i].Find(value) == Vocabulary::kUnseen;
    index.mutable_counts()->set_rewritten(index.counts().rewritten() + (is_rewritten ? 1 : 0));
  }
}

void Preprocessor::FinishCounts() {
  for (v1::CategoryIndex& index : *preprocessing_.mutable_categorical()) {
    CountCategories(embedding_row_counts_, preprocessing_.extended_embedding_rows(), index);
  }
  embedding_row_counts_.clear();
}

void Preprocessor::Encode(const TableRow& row, EncodedRow& encoded) const {
  encoded.label = row.label;
  encoded.target = IsRegression() ? ScaledBetween(row.target, label_->minimum, label_->maximum) : 0;
  encoded.numeric.clear();
  encoded.categories.clear();
  for (int i = 0; i < preprocessing_.numeric_size(); ++i) {
    const v1::NumericScaling& scaling = preprocessing_.numeric(i);
    const double number = row.numeric[SourceOf(static_cast<size_t>(i))];
    encoded.numeric.push_back(ScaledNumber(scaling, number));
  }
  for (size_t i = 0; i < categorical_.size(); ++i) {
    encoded.categories.push_back(EmbeddingRow(i, row.categories[categorical_[i]]));
  }
  encoded.attributes.clear();
  for (const size_t column : attributes_) {
    encoded.attributes.push_back(row.attributes[column]);
  }
  if (has_image_) {
    encoded.pixels = row.pixels;
  }
}

}  // namespace splitveil
