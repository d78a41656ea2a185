// How the value of a column becomes what a model reads, as preprocessing was fitted: in data that are prepared, and in
// values that come later.
#ifndef SPLITVEIL_COMMON_DATASET_COLUMN_ENCODING_H_
#define SPLITVEIL_COMMON_DATASET_COLUMN_ENCODING_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

#include "splitveil/v1/preprocessing.pb.h"

namespace splitveil {

// Where `number` lies between minimum and maximum, clipped to [0, 1]; 0 if they are one.
double PlaceBetween(double number, double minimum, double maximum);
// The logarithm of TableSchema.LOG at place `place`, which makes 0.5 of place `middle`, in (0, 1).
double LogPlace(double place, double middle);
// In [0, 1]. `number`: NaN if missing.
float ScaledNumber(const v1::NumericScaling& scaling, double number);

// Whether this numeric input is no column, but says where the numbers of one are missing: the input of that name.
bool IsMissingIndicator(const v1::NumericScaling& scaling);
std::string MissingIndicatorOf(absl::string_view column);

// Row of the embedding table for value number `number` of the column: below its buckets, or its vocabulary's size + 1.
int32_t EmbeddingRowOf(const v1::CategoryIndex& index, int64_t number);
// The number of `value` among index.hash_buckets(), which is above 0.
int64_t HashBucketOf(const v1::CategoryIndex& index, absl::string_view value);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_DATASET_COLUMN_ENCODING_H_
