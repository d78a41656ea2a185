#include "label_party/serving/replaced_columns.h"

#include "common/dataset/column_encoding.h"
#include "common/status/status_macros.h"

namespace splitveil {

void ReplacedColumns::Apply(absl::Span<const size_t> ids, FeatureBatch& own) const {
  const size_t columns = ids.empty() ? 0 : own.categories.size() / ids.size();
  for (size_t row = 0; row < ids.size(); ++row) {
    for (const auto& [column, values] : numeric) {
      own.numeric.row(static_cast<int64_t>(row))[static_cast<size_t>(column)] = values[ids[row]];
    }
    for (const auto& [column, values] : categories) {
      own.categories[row * columns + static_cast<size_t>(column)] = values[ids[row]];
    }
  }
}

absl::StatusOr<OwnColumns> OwnColumns::Of(const Dataset& data) {
  SPLITVEIL_ASSIGN_OR_RETURN(std::vector<Vocabulary> vocabularies, data.ReadVocabularies());
  return OwnColumns(&data, std::move(vocabularies));
}

bool OwnColumns::AddNumbers(const std::string& name, absl::Span<const double> numbers, ReplacedColumns& to) const {
  bool found = false;
  const std::string indicator = MissingIndicatorOf(name);
  const v1::Preprocessing& preprocessing = data_->preprocessing();
  for (int input = 0; input < preprocessing.numeric_size(); ++input) {
    const v1::NumericScaling& scaling = preprocessing.numeric(input);
    const bool is_indicator = IsMissingIndicator(scaling);
    if (scaling.name() != (is_indicator ? indicator : name)) {
      continue;
    }
    found = found || !is_indicator;
    std::vector<float> scaled;
    scaled.reserve(numbers.size());
    for (const double number : numbers) {
      scaled.push_back(ScaledNumber(scaling, number));
    }
    // Pixels come first.
    to.numeric.emplace_back(data_->features().image.pixels() + input, std::move(scaled));
  }
  return found;
}

bool OwnColumns::AddCategories(const std::string& name, absl::Span<const absl::string_view> values,
                               ReplacedColumns& to) const {
  for (int column = 0; column < data_->preprocessing().categorical_size(); ++column) {
    const v1::CategoryIndex& index = data_->preprocessing().categorical(column);
    if (index.name() != name) {
      continue;
    }
    std::vector<int64_t> rows;
    rows.reserve(values.size());
    for (const absl::string_view value : values) {
      rows.push_back(EmbeddingRowOf(index, index.hash_buckets() > 0
                                               ? HashBucketOf(index, value)
                                               : vocabularies_[static_cast<size_t>(column)].Find(value)));
    }
    to.categories.emplace_back(column, std::move(rows));
    return true;
  }
  return false;
}

}  // namespace splitveil
