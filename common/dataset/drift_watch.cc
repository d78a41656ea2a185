#include "common/dataset/drift_watch.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "common/dataset/column_encoding.h"
#include "common/dataset/vocabulary.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity();
constexpr size_t kDeciles = 10;
constexpr int64_t kSecondsOfDay = 86400;

int64_t Sum(absl::Span<const int64_t> counts) { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

// What the training had, by the data that are asked for.
template <typename Column>
const v1::ValueCounts& TrainingCounts(const Column& column, bool trained_on_data) {
  return trained_on_data ? column.counts() : column.earlier_counts();
}

// The edges of a column's buckets as the model reads numbers, and `counts` of the buckets between them.
std::pair<std::vector<float>, std::vector<int64_t>> ScaledBuckets(const v1::NumericScaling& scaling,
                                                                  const v1::ValueCounts& counts) {
  const int last = counts.buckets_size() - 1;
  std::vector<float> edges;
  std::vector<int64_t> rows = {counts.buckets(last) + counts.buckets(last - 1)};  // Clipped to the end of the range.
  double above = scaling.maximum();
  float scaled_above = ScaledNumber(scaling, above);
  // From the last bucket to the first.
  for (int i = scaling.bucket_edges_size() - 1; i >= 0; --i) {
    const double edge = scaling.bucket_edges(i);
    float scaled = ScaledNumber(scaling, edge);
    if (scaled >= scaled_above && edge == std::nextafter(above, -std::numeric_limits<double>::infinity())) {
      scaled = std::nextafter(scaled_above, -kInfinite);  // Parts a frequent number from all that are smaller.
    }
    if (scaled < scaled_above) {
      edges.push_back(scaled);
      rows.push_back(0);
      scaled_above = scaled;
    }  // Else nothing tells the two buckets apart any more.
    rows.back() += counts.buckets(i + 1);
    above = edge;
  }
  rows.back() += counts.buckets(0);
  std::reverse(edges.begin(), edges.end());
  std::reverse(rows.begin(), rows.end());
  return {std::move(edges), std::move(rows)};
}

}  // namespace

double PopulationStabilityIndex(absl::Span<const int64_t> training, absl::Span<const int64_t> here) {
  const double added = static_cast<double>(training.size()) / 2;
  const double training_rows = static_cast<double>(Sum(training)) + added;
  const double here_rows = static_cast<double>(Sum(here)) + added;
  double index = 0;
  for (size_t i = 0; i < training.size(); ++i) {
    const double p = (static_cast<double>(training[i]) + 0.5) / training_rows;
    const double q = (static_cast<double>(here[i]) + 0.5) / here_rows;
    index += (q - p) * std::log(q / p);
  }
  return index;
}

v1::ScoreCounts CountScores(std::vector<float> scores) {
  v1::ScoreCounts counted;
  if (scores.empty()) {
    return counted;
  }
  std::sort(scores.begin(), scores.end());
  for (size_t i = 1; i < kDeciles; ++i) {
    const float decile = scores[i * (scores.size() - 1) / kDeciles];
    const int known = counted.edges_size();
    if (known > 0 && counted.edges(known - 1) == decile) {
      // A frequent score: the edge below it, unless it has one already.
      const float below = std::nextafter(decile, -kInfinite);
      if (known == 1 || counted.edges(known - 2) < below) {
        counted.set_edges(known - 1, below);
        counted.add_edges(decile);
      }
    } else {
      counted.add_edges(decile);
    }
  }
  auto from = scores.begin();
  for (const float edge : counted.edges()) {
    const auto to = std::upper_bound(from, scores.end(), edge);
    counted.add_counts(to - from);
    from = to;
  }
  counted.add_counts(scores.end() - from);
  return counted;
}

size_t DriftWatch::Column::BucketOf(float number) const {
  return static_cast<size_t>(std::lower_bound(edges.begin(), edges.end(), number) - edges.begin());
}

size_t DriftWatch::Column::BucketOf(absl::Span<const float> numbers) const {
  return missing_input < numbers.size() && numbers[missing_input] > 0 ? training.size() - 1 : BucketOf(numbers[input]);
}

size_t DriftWatch::Column::BucketOf(int64_t code) const {
  return static_cast<size_t>(std::find(codes.begin(), codes.end(), code) - codes.begin());
}

bool DriftWatch::Column::operator==(const Column& other) const {
  return name == other.name && is_number == other.is_number && input == other.input &&
         missing_input == other.missing_input && edges == other.edges && codes == other.codes &&
         training == other.training;
}

void DriftWatch::AddNumbers(const Dataset& data, bool trained_on_data, std::vector<Column>& columns) {
  const auto& inputs = data.preprocessing().numeric();
  const auto pixels = static_cast<size_t>(data.features().image.pixels());  // They come first.
  for (int i = 0; i < inputs.size(); ++i) {
    const v1::NumericScaling& scaling = inputs[i];
    const v1::ValueCounts& counts = TrainingCounts(scaling, trained_on_data);
    if (IsMissingIndicator(scaling) || counts.buckets_size() != scaling.bucket_edges_size() + 3) {
      continue;
    }
    Column column;
    column.name = scaling.name();
    column.input = pixels + static_cast<size_t>(i);
    std::tie(column.edges, column.training) = ScaledBuckets(scaling, counts);
    const auto indicator = std::find_if(inputs.begin(), inputs.end(), [&](const v1::NumericScaling& input) {
      return IsMissingIndicator(input) && input.name() == MissingIndicatorOf(scaling.name());
    });
    if (indicator != inputs.end()) {
      column.missing_input = pixels + static_cast<size_t>(indicator - inputs.begin());
      column.training.push_back(counts.missing());
    } else {
      const float stands_for_missing = ScaledNumber(scaling, std::numeric_limits<double>::quiet_NaN());
      column.training[column.BucketOf(stands_for_missing)] += counts.missing();
    }
    columns.push_back(std::move(column));
  }
}

absl::Status DriftWatch::AddCategories(const Dataset& data, bool trained_on_data, std::vector<Column>& columns) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<Vocabulary> vocabularies, data.ReadVocabularies());
  const auto& inputs = data.preprocessing().categorical();
  for (int i = 0; i < inputs.size(); ++i) {
    const v1::CategoryIndex& index = inputs[i];
    const v1::ValueCounts& counts = TrainingCounts(index, trained_on_data);
    if (counts.buckets_size() != index.bucket_rows_size() + 2) {
      continue;
    }
    Column column;
    column.name = index.name();
    column.is_number = false;
    column.input = static_cast<size_t>(i);
    column.codes.assign(index.bucket_rows().begin(), index.bucket_rows().end());
    // Values that one row had: of later rows nothing tells which these were, so that they count with the others.
    int64_t others = counts.buckets(0) + counts.buckets(counts.buckets_size() - 1);
    column.training.assign(counts.buckets().begin() + 1, counts.buckets().end() - 1);
    const int32_t missing = index.hash_buckets() > 0 ? 0 : vocabularies[static_cast<size_t>(i)].Find("");
    if (missing != Vocabulary::kUnseen) {
      column.codes.push_back(EmbeddingRowOf(index, missing));
      column.training.push_back(counts.missing());
    } else {
      others += counts.missing();
    }
    column.training.push_back(others);
    columns.push_back(std::move(column));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<DriftWatch>> DriftWatch::Create(const Dataset& data, bool trained_on_data,
                                                               const v1::ScoreCounts& scores) {
  std::vector<Column> columns;
  AddNumbers(data, trained_on_data, columns);
  SPLITVEIL_RETURN_IF_ERROR(AddCategories(data, trained_on_data, columns));
  Column& of_scores = columns.emplace_back();
  of_scores.edges.assign(scores.edges().begin(), scores.edges().end());
  of_scores.training.assign(scores.counts().begin(), scores.counts().end());
  of_scores.training.resize(of_scores.edges.size() + 1);
  return std::shared_ptr<DriftWatch>(new DriftWatch(std::move(columns)));
}

bool DriftWatch::SameTraining(const DriftWatch& other) const { return columns_ == other.columns_; }

void DriftWatch::Count(const FeatureBatch& rows, absl::Span<const float> scores, int64_t day) {
  const size_t categories = rows.rows > 0 ? rows.categories.size() / static_cast<size_t>(rows.rows) : 0;
  const absl::MutexLock lock(&mutex_);
  Counts& counts = days_[day];
  counts.rows += rows.rows;
  counts.columns.resize(columns_.size());
  for (size_t i = 0; i < columns_.size(); ++i) {
    const Column& column = columns_[i];
    std::vector<int64_t>& buckets = counts.columns[i];
    buckets.resize(column.training.size());
    if (i + 1 == columns_.size()) {
      for (const float score : scores) {
        ++buckets[column.BucketOf(score)];
      }
      continue;
    }
    for (int64_t row = 0; row < rows.rows; ++row) {
      ++buckets[column.is_number
                    ? column.BucketOf(rows.numeric.row(row))
                    : column.BucketOf(rows.categories[static_cast<size_t>(row) * categories + column.input])];
    }
  }
  // Not at each request: how the indices move would tell the values of one row.
  if (counts.rows / kLeastRows > counts.indexed_rows / kLeastRows) {
    counts.indexed_rows = counts.rows;
    counts.indices.clear();
    for (size_t i = 0; i < columns_.size(); ++i) {
      counts.indices.push_back(IndexOf(columns_[i], counts.columns[i]));
    }
  }
  // A clock that was ahead has counted days to come; one of them may be a request at midnight.
  days_.erase(days_.upper_bound(day + 1), days_.end());
  while (days_.size() > 2) {
    days_.erase(days_.begin());
  }
}

double DriftWatch::IndexOf(const Column& column, const std::vector<int64_t>& here) {
  return column.training.size() < 2 || Sum(column.training) < kLeastRows || Sum(here) < kLeastRows
             ? std::numeric_limits<double>::quiet_NaN()
             : PopulationStabilityIndex(column.training, here);
}

std::vector<DriftWatch::Day> DriftWatch::Days(int64_t today) const {
  std::vector<Day> days;
  const absl::MutexLock lock(&mutex_);
  for (int64_t days_ago = 0; days_ago < 2; ++days_ago) {
    const auto found = days_.find(today - days_ago);
    if (found == days_.end()) {
      continue;
    }
    Day& day = days.emplace_back();
    day.days_ago = days_ago;
    const Counts& counts = found->second;
    day.rows = counts.rows;
    constexpr double kTooFew = std::numeric_limits<double>::quiet_NaN();
    for (size_t i = 0; i + 1 < columns_.size(); ++i) {
      day.columns.emplace_back(columns_[i].name, counts.indices.empty() ? kTooFew : counts.indices[i]);
    }
    day.scores = counts.indices.empty() ? kTooFew : counts.indices.back();
  }
  return days;
}

int64_t DriftWatch::Today() {
  const int64_t seconds = absl::ToUnixSeconds(absl::Now());
  return seconds / kSecondsOfDay;
}

std::shared_ptr<DriftWatch> DriftWatches::Shared(const std::string& model, std::shared_ptr<DriftWatch> created) {
  const absl::MutexLock lock(&mutex_);
  const auto found = std::find_if(used_.begin(), used_.end(), [&](const auto& used) {
    return used.first == model && used.second->SameTraining(*created);
  });
  // The latest used last.
  std::pair<std::string, std::shared_ptr<DriftWatch>> latest = {model, std::move(created)};
  if (found != used_.end()) {
    latest = std::move(*found);
    used_.erase(found);
  }
  used_.push_back(std::move(latest));
  if (used_.size() > kKept) {
    used_.erase(used_.begin());
  }
  return used_.back().second;
}

}  // namespace splitveil
