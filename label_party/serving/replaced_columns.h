// Values of a request in place of those that are stored of its rows: of the label party's own columns.
#ifndef SPLITVEIL_LABEL_PARTY_SERVING_REPLACED_COLUMNS_H_
#define SPLITVEIL_LABEL_PARTY_SERVING_REPLACED_COLUMNS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/dataset/dataset.h"
#include "common/dataset/features.h"
#include "common/dataset/vocabulary.h"

namespace splitveil {

// Encoded, one value for each id of the request.
struct ReplacedColumns {
  std::vector<std::pair<int64_t, std::vector<float>>> numeric;       // By column of FeatureBatch.numeric.
  std::vector<std::pair<int64_t, std::vector<int64_t>>> categories;  // By column of FeatureBatch.categories.

  bool empty() const { return numeric.empty() && categories.empty(); }
  // Row i of `own` is of id number ids[i].
  void Apply(absl::Span<const size_t> ids, FeatureBatch& own) const;
};

// The columns that a request may replace, and how training encoded them. What says where numbers are missing is no
// column, and pixels are none. Thread-safe.
class OwnColumns {
 public:
  // `data`: must outlive this. Copies the vocabularies. Errors: those of Dataset::ReadVocabularies.
  static absl::StatusOr<OwnColumns> Of(const Dataset& data);

  // `numbers`: one for each id, NaN where it is missing. False: there is no such column of numbers.
  bool AddNumbers(const std::string& name, absl::Span<const double> numbers, ReplacedColumns& to) const;
  // `values`: as the vocabulary has them, empty where one is missing. What training has not seen is encoded as that.
  // False: there is no such column of categories.
  bool AddCategories(const std::string& name, absl::Span<const absl::string_view> values, ReplacedColumns& to) const;

 private:
  OwnColumns(const Dataset* data, std::vector<Vocabulary> vocabularies)
      : data_(data), vocabularies_(std::move(vocabularies)) {}

  const Dataset* data_;
  std::vector<Vocabulary> vocabularies_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SERVING_REPLACED_COLUMNS_H_
