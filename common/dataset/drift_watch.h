// How the rows that a model is asked for differ from those that it was trained on, day by day.
#ifndef SPLITVEIL_COMMON_DATASET_DRIFT_WATCH_H_
#define SPLITVEIL_COMMON_DATASET_DRIFT_WATCH_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"

#include "common/dataset/dataset.h"
#include "common/dataset/features.h"

#include "splitveil/v1/serving.pb.h"

namespace splitveil {

// The population stability index of two distributions over the same buckets: sum (q - p) ln(q / p), the symmetric
// Kullback-Leibler divergence, in nats. Half a row is added to each bucket, so that an empty one has a logarithm.
// Customary reading: below 0.1 no shift, above 0.25 a large one (Siddiqi, "Credit Risk Scorecards", 2006). Both of one
// size, not empty.
double PopulationStabilityIndex(absl::Span<const int64_t> training, absl::Span<const int64_t> here);

// The deciles of `scores`, each finite, and how many of these lie in each; a score that is several deciles has a bucket
// of its own. Nothing for none.
v1::ScoreCounts CountScores(std::vector<float> scores);

// Counts rows as the model reads them, against what prepared data say of the training part (v1.ValueCounts). No row and
// no score is kept. A day is one of UTC; the latest two are kept. Thread-safe.
//
// Numbers fall into the buckets of NumericScaling.bucket_edges: deciles of the training and frequent numbers. What lies
// beyond the scale's range was clipped to its ends, and counts with these. Missing numbers have a bucket of their own
// if the model has an input for them, else they count as the number that stands for them. Categories: each of the 18
// most frequent of the training, missing ones if the training had any, and all others together, also those that
// training does not know. Pixels are not counted, nor is a column of which data that are older have no counts.
class DriftWatch {
 public:
  // Of the training, and of a day: with fewer rows there is no figure. From 500 rows of each on, chance alone lifts an
  // index over 20 buckets above 0.26 less than once in a million, and with 5,000 training rows above 0.15
  // (ChanceIndex).
  static constexpr int64_t kLeastRows = 500;

  struct Day {
    int64_t days_ago = 0;  // 0 or 1.
    int64_t rows = 0;
    // The indices: by column, in the order of the features, and of the scores. NaN: too few rows, or not known.
    std::vector<std::pair<std::string, double>> columns;
    double scores = 0;
  };

  // `data`: what is asked for; `trained_on_data`: whether these are the data of the training, else those that they
  // were encoded after are. `scores`: of the training, as CountScores; none are watched without. Errors: those of
  // Dataset::ReadVocabularies.
  static absl::StatusOr<std::shared_ptr<DriftWatch>> Create(const Dataset& data, bool trained_on_data,
                                                            const v1::ScoreCounts& scores = {});

  // Whether both compare with the same distributions, so that one may count for both.
  bool SameTraining(const DriftWatch& other) const;
  // `scores`: of each row, or none. `day`: since 1970.
  void Count(const FeatureBatch& rows, absl::Span<const float> scores, int64_t day) ABSL_LOCKS_EXCLUDED(mutex_);
  // Of `today`, since 1970, and the day before, as far as rows have come; the indices change with each kLeastRows more.
  std::vector<Day> Days(int64_t today) const ABSL_LOCKS_EXCLUDED(mutex_);

  // The day of now.
  static int64_t Today();

 private:
  // What its values are counted into.
  struct Column {
    std::string name;  // Empty: the scores.
    bool is_number = true;
    size_t input = 0;                 // Among those of its kind (FeatureBatch).
    size_t missing_input = SIZE_MAX;  // The number that is 1 where this one is missing; SIZE_MAX: there is none.
    std::vector<float> edges;         // Of numbers, ascending: a bucket up to each, and one above.
    std::vector<int64_t> codes;       // Of categories: embedding rows with a bucket each, and one for all others.
    std::vector<int64_t> training;    // Rows by bucket; of numbers with a missing_input these come last.

    size_t BucketOf(float number) const;
    size_t BucketOf(absl::Span<const float> numbers) const;  // Of a row, by its inputs.
    size_t BucketOf(int64_t code) const;
    bool operator==(const Column& other) const;
  };
  struct Counts {
    int64_t rows = 0;
    std::vector<std::vector<int64_t>> columns;  // By bucket; the last one is of the scores.
    std::vector<double> indices;                // Of these columns when there were `indexed_rows`.
    int64_t indexed_rows = 0;
  };

  static void AddNumbers(const Dataset& data, bool trained_on_data, std::vector<Column>& columns);
  static absl::Status AddCategories(const Dataset& data, bool trained_on_data, std::vector<Column>& columns);
  static double IndexOf(const Column& column, const std::vector<int64_t>& here);

  explicit DriftWatch(std::vector<Column> columns) : columns_(std::move(columns)) {}

  const std::vector<Column> columns_;  // The last one is of the scores.
  mutable absl::Mutex mutex_;
  std::map<int64_t, Counts> days_ ABSL_GUARDED_BY(mutex_);
};

// Those of the versions of a server. Thread-safe.
class DriftWatches {
 public:
  // `created`, or the one that was in use of late for the same model (its checkpoint's name) and training: a new
  // version goes on counting its day, also after a moment without any.
  std::shared_ptr<DriftWatch> Shared(const std::string& model, std::shared_ptr<DriftWatch> created)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  static constexpr size_t kKept = 2;  // As many as there are versions that can be asked for.

  absl::Mutex mutex_;
  std::vector<std::pair<std::string, std::shared_ptr<DriftWatch>>> used_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_DATASET_DRIFT_WATCH_H_
