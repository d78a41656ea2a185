#include "deploy/operator/preparation/preprocessor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/operator/preparation/column_drift.h"
#include "deploy/operator/preparation/extended_data.h"

#include "common/dataset/column_encoding.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"

namespace splitveil {
namespace {

constexpr int64_t kMaxEmbeddingRows = std::numeric_limits<int32_t>::max();

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
  return absl::c_accumulate(index.blocks(), int64_t{0},
                            [](int64_t rows, const auto& block) { return rows + block.rows(); });
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
    // The neutral elements of minimum and maximum, so that the first row needs no case of its own.
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
  // Where nothing is fitted, or values have no rows of their own, no value can be dropped.
  result.rare_below_ = options.only_applies || options.hash_buckets > 0 ? 1 : options.rare_below;
  result.value_rows_.resize(result.categorical_.size());
  result.only_applies_ = options.only_applies;
  result.preprocessing_.mutable_allowed_changes()->Assign(options.allowed_changes.begin(),
                                                          options.allowed_changes.end());
  if (options.extends != nullptr) {
    SPLITVEIL_RETURN_IF_ERROR(result.Extend(*options.extends));
  }
  return result;
}

absl::Status Preprocessor::Extend(const Dataset& old) {
  const v1::Preprocessing& theirs = old.preprocessing();
  if (only_applies_ && !label_.has_value() && old.has_labels()) {  // Rows to predict: the task is theirs.
    preprocessing_.set_unlabelled(true);
    *preprocessing_.mutable_classes() = theirs.classes();
    if (theirs.has_target()) {
      // For predictions to be turned back into the target's unit.
      *preprocessing_.mutable_target() = theirs.target();
      preprocessing_.mutable_target()->clear_clipped();
    }
  } else {
    SPLITVEIL_RETURN_IF_ERROR(CheckSameTask(label_, preprocessing_, old));
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckSameColumns(preprocessing_, old));
  if (!TakeNumeric(theirs)) {
    return DoesNotExtend(old, "columns or image size differ from those of the data to extend");
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
    if (only_applies_) {
      known_writings_.emplace_back(vocabulary);
      lookalikes_.push_back(0);
    }
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
    // The scales of trained weights stay: another scale would give the same number another meaning.
    if (training && !extends_) {
      // MIN_MAX has no value for missing numbers but 0, which its range must therefore hold.
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
    // Of the training part alone: a vocabulary that knew the test rows' values would give them rows of their own,
    // untrained.
    if (training && !only_applies_ && index.hash_buckets() == 0 && !vocabularies_[i].Add(value)) {
      return absl::InvalidArgumentError(absl::StrCat(index.name(), ": more than 2^31 - 1 distinct values in training"));
    }
    if (training && rare_below_ > 1) {
      // Number 0 is what training has not seen.
      value_rows_[i].resize(static_cast<size_t>(vocabularies_[i].size()) + 1);
      ++value_rows_[i][static_cast<size_t>(vocabularies_[i].Find(value))];
    }
  }
  for (size_t i = 0; i < attributes_.size(); ++i) {
    v1::AttributeValues& attribute = *preprocessing_.mutable_attributes(static_cast<int>(i));
    attribute.set_missing(attribute.missing() + (row.attributes[attributes_[i]] == kUnknownAttribute ? 1 : 0));
  }
  return absl::OkStatus();
}

void Preprocessor::DropRare(size_t column, int64_t kept) {
  std::vector<int64_t>& rows = value_rows_[column];
  if (rare_below_ == 1 || rows.empty()) {
    return;
  }
  Vocabulary& all = vocabularies_[column];
  Vocabulary frequent;
  for (int32_t number = 1; number <= all.size(); ++number) {
    // Values of the data that are extended stay, however rare they are now: they have trained rows.
    if (number <= kept || rows[static_cast<size_t>(number)] >= rare_below_) {
      frequent.Add(all.value(number));
    }
  }
  all = std::move(frequent);
  rows.clear();
}

absl::Status Preprocessor::AddBlock(int64_t rows, v1::CategoryIndex& index) {
  if (rows > kMaxEmbeddingRows - preprocessing_.embedding_rows()) {
    return absl::InvalidArgumentError("categorical columns: expected at most 2^31 - 1 embedding rows, found more");
  }
  // New rows go behind all others, in a block of the column's own: the rows that are trained keep their numbers.
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
    if (scalings_[i] != v1::TableSchema::MIN_MAX && lacks_some_[i]) {
      AddIndicator(i);
    }
  }
  // Nothing reads them once the scales are known.
  samples_.clear();
  for (size_t i = 0; i < vocabularies_.size(); ++i) {
    v1::CategoryIndex& index = *preprocessing_.mutable_categorical(static_cast<int>(i));
    DropRare(i, std::max<int64_t>(RowsOf(index) - 1, 0));
    const int64_t rows = index.hash_buckets() > 0 ? index.hash_buckets() : 1 + vocabularies_[i].size();
    if (rows > RowsOf(index)) {
      // Only what the data before did not have.
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
  indicator.set_name(MissingIndicatorOf(preprocessing_.numeric(static_cast<int>(column)).name()));
  // Minimum and maximum are equal, so every number becomes 0, and a missing one becomes missing_value: an indicator
  // needs no kind of its own.
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
      // The columns come first and in order, their indicators behind them.
      if (scaling.name() != preprocessing_.numeric(input).name()) {
        return false;
      }
      continue;
    }
    const auto begin = theirs.numeric().begin();
    const auto named = std::find_if(begin, begin + columns, [&](const v1::NumericScaling& column) {
      return scaling.name() == MissingIndicatorOf(column.name());
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
  // Only where rows are predicted: in training both writings are values of their own, and a warning names them.
  const std::string plainest = PlainestWriting(value);
  if (const auto found = rewritten_[column].find(plainest); found != rewritten_[column].end()) {
    return found->second;
  }
  return plainest.empty() ? Vocabulary::kUnseen : vocabularies_[column].Find(plainest);
}

int32_t Preprocessor::EmbeddingRow(size_t column, absl::string_view value) const {
  const v1::CategoryIndex& index = preprocessing_.categorical(static_cast<int>(column));
  return EmbeddingRowOf(index, index.hash_buckets() > 0 ? HashBucketOf(index, value) : NumberOf(column, value));
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
    // Buckets hold any value, so nothing is unseen there.
    const bool may_be_other = only_applies_ && index.hash_buckets() == 0;
    const bool is_unseen = encoded.categories[i] == index.blocks(0).first_row();
    const bool is_rewritten = may_be_other && !is_unseen && vocabularies_[i].Find(value) == Vocabulary::kUnseen;
    if (may_be_other && is_unseen && known_writings_[i].Has(value)) {
      ++lookalikes_[i];
    }
    index.mutable_counts()->set_rewritten(index.counts().rewritten() + (is_rewritten ? 1 : 0));
  }
}

void Preprocessor::FinishCounts() {
  for (size_t i = 0; i < categorical_.size(); ++i) {
    v1::CategoryIndex& index = *preprocessing_.mutable_categorical(static_cast<int>(i));
    CountCategories(embedding_row_counts_, preprocessing_.extended_embedding_rows(), index);
    const int64_t rows = preprocessing_.training_rows() - index.counts().missing();
    std::string warning;
    if (only_applies_) {
      warning = lookalikes_[i] == 0 ? ""
                                    : absl::StrFormat(
                                          "column \"%s\": %.2g%% of the rows have a value that the training knows in a "
                                          "different writing (zeros in front, capitals, blanks): they count as unseen. "
                                          "Write them as the training does",
                                          OneLine(index.name()),
                                          100.0 * static_cast<double>(lookalikes_[i]) / static_cast<double>(rows));
    } else if (index.hash_buckets() == 0) {
      warning = DescribeTwins(
          index.name(), vocabularies_[i],
          [&](int32_t number) {
            return int64_t{embedding_row_counts_[static_cast<size_t>(EmbeddingRowOf(index, number))]};
          },
          rows);
    }
    if (!warning.empty()) {
      writing_warnings_.push_back(std::move(warning));
    }
  }
  embedding_row_counts_.clear();
}

void Preprocessor::Encode(const TableRow& row, EncodedRow& encoded) const {
  encoded.label = row.label;
  encoded.target = IsRegression() ? static_cast<float>(PlaceBetween(row.target, label_->minimum, label_->maximum)) : 0;
  encoded.numeric.clear();
  encoded.categories.clear();
  for (int i = 0; i < preprocessing_.numeric_size(); ++i) {
    const v1::NumericScaling& scaling = preprocessing_.numeric(i);
    encoded.numeric.push_back(ScaledNumber(scaling, row.numeric[SourceOf(static_cast<size_t>(i))]));
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
