// What the rows have in each column, counted, and how it differs from the training.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_COLUMN_DRIFT_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_COLUMN_DRIFT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "deploy/operator/preparation/column_profile.h"

#include "splitveil/v1/preprocessing.pb.h"
#include "splitveil/v1/table_schema.pb.h"

namespace splitveil {

// Of ValueCounts.buckets. `number`: not NaN.
int NumberBucket(const v1::NumericScaling& scaling, double number);
int NumberBuckets(const v1::NumericScaling& scaling);
// Fills index.counts().buckets from `rows`, the rows with a value, by row of the embedding table. `first_new_row`:
// where the values begin that these data were the first to have; 0 if they extend none: then it picks `bucket_rows`,
// too, and counts the values that a single row has as new, because their share is what later rows of the same kind lack
// (Good, "The population frequencies of species", 1953).
void CountCategories(absl::Span<const uint32_t> rows, int64_t first_new_row, v1::CategoryIndex& index);

// Where the PopulationStabilityIndex of `training` and `here` rows of one distribution over `buckets`, at least 2, lies
// once in a million: it is (1/training + 1/here) chi-squared with buckets - 1 degrees of freedom (Yurdakul,
// "Statistical properties of population stability index", 2018); the quantile is that of Wilson and Hilferty, 1931,
// which is up to a sixth too high.
double ChanceIndex(int64_t training, int64_t here, int64_t buckets);

// How a column of data that were encoded as earlier ones differs from the training part of these. Shares are in [0, 1].
struct ColumnDrift {
  enum class Verdict {
    kNotCompared,  // The training data or these have no counts of its values (ValueCounts), or no row.
    kSame,
    kMoved,    // An index of 0.1 or more that chance does not explain.
    kShifted,  // An index of 0.25 or more, or a share that moved by 0.05 or more, if chance does not explain it.
    kGone,     // Hardly a row, at most 1%, has a value that the training knows, and chance does not explain it.
  };
  struct Shares {
    double missing = 0;
    double outside = 0;  // Clipped numbers, unseen categories.
  };
  std::string name;
  bool is_number = false;
  Verdict verdict = Verdict::kNotCompared;
  double index = 0;  // Population stability index.
  double chance_index = 0;
  Shares training, here;
  int64_t rewritten = 0;  // Rows whose category is a number in another writing.
  // Of a column that shifted or is gone: both figures, such as "100.0% missing, in the training 0.2%"; if no such share
  // moved, those of the bucket that grew most.
  std::string what;
};

// One for each numeric and categorical column; none if the data do not extend any.
std::vector<ColumnDrift> CompareColumns(const v1::Preprocessing& preprocessing);

// One warning for each column of numbers of which a single one stands in at least 1% of the rows of `profile` and
// beyond all that the training had, if chance does not explain it: 999, -1 or 0 for a number that is not known.
// `profile`: of the rows that are compared; its columns are the schema's. None if the data do not extend any.
std::vector<std::string> DescribeNewNumbers(const v1::TableSchema& schema, const TableProfile& profile,
                                            const v1::Preprocessing& preprocessing);

// Preprocessing.warnings, one a line; "" if there are none.
std::string ReadingWarnings(const v1::Preprocessing& preprocessing);

// Error: InvalidArgument that names the columns that are gone and not among preprocessing.allowed_changes(), and what
// to do. `source`: the table or the data, for the message.
absl::Status CheckColumnsAreThere(const std::string& source, const v1::Preprocessing& preprocessing);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_COLUMN_DRIFT_H_
