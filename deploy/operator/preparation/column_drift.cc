#include "deploy/operator/preparation/column_drift.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/operator/preparation/number_scaling.h"

#include "common/dataset/column_encoding.h"
#include "common/dataset/drift_watch.h"
#include "common/telemetry/log.h"

namespace splitveil {
namespace {

// The most frequent values of a column, each of which has a bucket of its own.
constexpr size_t kBucketValues = 18;
constexpr double kModerateIndex = 0.1, kLargeIndex = 0.25, kLargeMove = 0.05;
// Of a column that is gone: the most that is left, and how much more training had.
constexpr double kLeft = 0.0101, kTimesMore = 10;
constexpr double kNewNumberShare = 0.01;
// Once in a million: with a hundred columns, one false warning in ten thousand predictions.
constexpr double kChance = 1e-6, kChanceDeviations = 4.75;

double Share(int64_t part, int64_t rows) { return static_cast<double>(part) / static_cast<double>(rows); }

// Rows by bucket, with those that lack a value as the last one.
std::vector<int64_t> WithMissing(const v1::ValueCounts& counts) {
  std::vector<int64_t> all(counts.buckets().begin(), counts.buckets().end());
  all.push_back(counts.missing());
  return all;
}

int64_t Sum(const std::vector<int64_t>& counts) { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

// Whether chance does not explain that a share of `here` rows is this one, if it is `training` of so many rows: by the
// bound of Chernoff, 1952, exp(-rows D(here || training)), which holds for a single row, too.
bool HasMoved(double training, double here, int64_t training_rows, int64_t rows) {
  // With a row of each kind more, because none in training does not mean that there never is one (Laplace).
  const auto known = static_cast<double>(training_rows), all = static_cast<double>(rows);
  const double expected = (training * known + 1) / (known + 2);
  const auto divergence = [](double p, double q) { return p > 0 ? p * std::log(p / q) : 0; };
  return known * all / (known + all) * (divergence(here, expected) + divergence(1 - here, 1 - expected)) >
         -std::log(kChance);
}

// Whether hardly a row has a value that training knows.
bool IsGone(const ColumnDrift& drift, int64_t training_rows, int64_t rows) {
  const double without = drift.here.missing + drift.here.outside;
  const double training_without = drift.training.missing + drift.training.outside;
  return 1 - without < kLeft && 1 - training_without >= kTimesMore * (1 - without) &&
         HasMoved(training_without, without, training_rows, rows);
}

const char* OutsideWord(const ColumnDrift& drift) { return drift.is_number ? "clipped" : "unseen"; }

// The shares that moved, with both figures.
std::string Moves(const ColumnDrift& drift, int64_t training_rows, int64_t rows) {
  std::string text;
  for (const auto& [word, training, here] :
       {std::tuple("missing", drift.training.missing, drift.here.missing),
        std::tuple(OutsideWord(drift), drift.training.outside, drift.here.outside)}) {
    const bool moved = std::abs(here - training) >= kLargeMove && HasMoved(training, here, training_rows, rows);
    if (moved || (drift.verdict == ColumnDrift::Verdict::kGone && here > 0)) {
      absl::StrAppendFormat(&text, "%s%.1f%% %s, in the training %.1f%%", text.empty() ? "" : "; ", 100 * here, word,
                            100 * training);
    }
  }
  return text;
}

// What the rows of a bucket have. Names no category.
std::string InBucket(const v1::NumericScaling& column, size_t bucket) {
  const auto& edges = column.bucket_edges();
  const auto edge = [&](size_t i) {
    return i < static_cast<size_t>(edges.size()) ? edges[static_cast<int>(i)] : column.maximum();
  };
  if (bucket < 2) {
    return absl::StrFormat("at %.5g", edge(0));
  }
  const std::string from = absl::StrFormat("%.5g", edge(bucket - 2)), to = absl::StrFormat("%.5g", edge(bucket - 1));
  return from == to ? absl::StrCat("at ", to) : absl::StrCat("from ", from, " to ", to);
}

std::string InBucket(const v1::CategoryIndex& column, size_t bucket) {
  return static_cast<int>(bucket) > column.bucket_rows_size()
             ? "have a rarer value"
             : absl::StrCat("have the value that is number ", bucket, " by frequency");
}

// `outside`: which buckets hold what training does not know.
template <typename Column>
ColumnDrift Compare(const Column& column, const std::vector<int>& outside, bool is_number) {
  ColumnDrift drift;
  drift.name = column.name();
  drift.is_number = is_number;
  drift.rewritten = column.counts().rewritten();
  const std::vector<int64_t> here = WithMissing(column.counts()), training = WithMissing(column.earlier_counts());
  const int64_t rows = Sum(here), training_rows = Sum(training);
  const auto shares = [&](const std::vector<int64_t>& counts, int64_t all) {
    ColumnDrift::Shares result{Share(counts.back(), all), 0};
    for (const int bucket : outside) {
      result.outside += Share(counts[static_cast<size_t>(bucket)], all);
    }
    return result;
  };
  if (here.size() > 2 && rows > 0) {
    drift.here = shares(here, rows);
  }
  // Buckets cannot be told apart where a column was not counted, has one bucket alone, or no row.
  if (!column.has_counts() || here.size() != training.size() || here.size() <= 2 || rows == 0 || training_rows == 0) {
    return drift;
  }
  drift.training = shares(training, training_rows);
  drift.index = PopulationStabilityIndex(training, here);
  int64_t used = 0;
  size_t grown = 0;
  const auto growth = [&](size_t i) { return Share(here[i], rows) - Share(training[i], training_rows); };
  for (size_t i = 0; i < here.size(); ++i) {
    used += here[i] > 0 || training[i] > 0 ? 1 : 0;
    grown = growth(i) > growth(grown) ? i : grown;
  }
  drift.chance_index = used > 1 ? ChanceIndex(training_rows, rows, used) : 0;
  drift.verdict = ColumnDrift::Verdict::kSame;
  if (IsGone(drift, training_rows, rows)) {
    drift.verdict = ColumnDrift::Verdict::kGone;
  } else if (drift.index >= std::max(kLargeIndex, drift.chance_index) || !Moves(drift, training_rows, rows).empty()) {
    drift.verdict = ColumnDrift::Verdict::kShifted;
  } else if (drift.index >= std::max(kModerateIndex, drift.chance_index)) {
    drift.verdict = ColumnDrift::Verdict::kMoved;
  }
  if (drift.verdict != ColumnDrift::Verdict::kSame) {
    drift.what = Moves(drift, training_rows, rows);
    if (drift.what.empty()) {
      const bool is_outside = std::find(outside.begin(), outside.end(), static_cast<int>(grown)) != outside.end();
      const std::string have = grown + 1 == here.size() ? "missing"
                               : is_outside             ? OutsideWord(drift)
                                                        : InBucket(column, grown);
      drift.what = absl::StrFormat("%.1f%% %s, in the training %.1f%%", 100 * Share(here[grown], rows), have,
                                   100 * Share(training[grown], training_rows));
    }
  }
  return drift;
}

}  // namespace

int NumberBucket(const v1::NumericScaling& scaling, double number) {
  if (number < scaling.minimum() || number > scaling.maximum()) {
    return number < scaling.minimum() ? 0 : NumberBuckets(scaling) - 1;
  }
  const auto& edges = scaling.bucket_edges();
  return 1 + static_cast<int>(std::lower_bound(edges.begin(), edges.end(), number) - edges.begin());
}

int NumberBuckets(const v1::NumericScaling& scaling) { return scaling.bucket_edges_size() + 3; }

void CountCategories(absl::Span<const uint32_t> rows, int64_t first_new_row, v1::CategoryIndex& index) {
  std::vector<std::pair<int64_t, int32_t>> frequent;  // Minus the rows, and the embedding row.
  int64_t fresh = 0, others = 0;
  for (const v1::CategoryIndex::Block& block : index.blocks()) {
    for (int64_t row = block.first_row(); row < block.first_row() + block.rows(); ++row) {
      const int64_t count = rows[static_cast<size_t>(row)];
      // The first row has what training does not know, or pools as too rare. A bucket of a hash is no value: nothing is
      // new there.
      const bool is_new = index.hash_buckets() == 0 && (row == index.blocks(0).first_row() ||
                                                        (first_new_row > 0 ? row >= first_new_row : count == 1));
      (is_new ? fresh : others) += count;
      if (count > 1 && !is_new) {
        frequent.emplace_back(-count, static_cast<int32_t>(row));
      }
    }
  }
  if (first_new_row == 0) {
    std::sort(frequent.begin(), frequent.end());
    for (size_t i = 0; i < std::min(kBucketValues, frequent.size()); ++i) {
      index.add_bucket_rows(frequent[i].second);
    }
  }
  v1::ValueCounts& counts = *index.mutable_counts();
  counts.add_buckets(fresh);
  for (const int32_t row : index.bucket_rows()) {
    const int64_t count = static_cast<size_t>(row) < rows.size() ? rows[static_cast<size_t>(row)] : 0;
    counts.add_buckets(count);
    others -= count;
  }
  counts.add_buckets(others);
}

double ChanceIndex(int64_t training, int64_t here, int64_t buckets) {
  const auto degrees = static_cast<double>(buckets - 1);
  const double root = 1 - 2 / (9 * degrees) + kChanceDeviations * std::sqrt(2 / (9 * degrees));
  return (1 / static_cast<double>(training) + 1 / static_cast<double>(here)) * degrees * root * root * root;
}

std::vector<ColumnDrift> CompareColumns(const v1::Preprocessing& preprocessing) {
  std::vector<ColumnDrift> drifts;
  if (!preprocessing.has_extends_sha256()) {
    return drifts;
  }
  for (const v1::NumericScaling& column : preprocessing.numeric()) {
    if (!IsMissingIndicator(column)) {
      drifts.push_back(Compare(column, {0, std::max(0, column.counts().buckets_size() - 1)}, true));
    }
  }
  for (const v1::CategoryIndex& column : preprocessing.categorical()) {
    drifts.push_back(Compare(column, {0}, false));
  }
  return drifts;
}

std::string ReadingWarnings(const v1::Preprocessing& preprocessing) {
  std::string text;
  for (const std::string& warning : preprocessing.warnings()) {
    absl::StrAppend(&text, "  WARNING: ", warning, "\n");
  }
  return text;
}

std::vector<std::string> DescribeNewNumbers(const v1::TableSchema& schema, const TableProfile& profile,
                                            const v1::Preprocessing& preprocessing) {
  std::vector<std::string> warnings;
  for (int i = 0; i < schema.columns_size() && preprocessing.has_extends_sha256(); ++i) {
    const auto scaling = std::find_if(preprocessing.numeric().begin(), preprocessing.numeric().end(),
                                      [&](const auto& one) { return one.name() == schema.columns(i).name(); });
    if (scaling == preprocessing.numeric().end() || !scaling->has_least() || !scaling->has_earlier_counts() ||
        IsMissingIndicator(*scaling)) {
      continue;
    }
    const ColumnProfile& column = profile.columns[static_cast<size_t>(i)];
    const int64_t training_rows = Sum(WithMissing(scaling->earlier_counts()));
    const auto judge = [&](bool is_beyond, double number, int64_t rows) {
      const double share = Share(rows, column.rows());
      if (is_beyond && share >= kNewNumberShare && HasMoved(0, share, training_rows, column.rows())) {
        const std::string text = NumberText(number);
        warnings.push_back(
            absl::StrFormat("column \"%s\": %s in %.2g%% of the rows, beyond all numbers of the training: if it stands "
                            "for a number that "
                            "is not known, add missing: \"%s\" to the column in the schema",
                            OneLine(scaling->name()), text, 100 * share, text));
      }
    };
    // Of a declared format the profile has one reading.
    for (const Extremes::Extreme& end : column.extremes(/*decimal_comma=*/false).least()) {
      judge(end.number < scaling->least(), end.number, end.rows);
    }
    for (const Extremes::Extreme& end : column.extremes(/*decimal_comma=*/false).negated_greatest()) {
      judge(-end.number > scaling->greatest(), -end.number, end.rows);
    }
  }
  return warnings;
}

absl::Status CheckColumnsAreThere(const std::string& source, const v1::Preprocessing& preprocessing) {
  std::string gone;
  for (const ColumnDrift& drift : CompareColumns(preprocessing)) {
    const auto& allowed = preprocessing.allowed_changes();
    if (drift.verdict == ColumnDrift::Verdict::kGone &&
        std::find(allowed.begin(), allowed.end(), drift.name) == allowed.end()) {
      const char* const reason = drift.here.missing >= drift.here.outside ? "see whether the table lacks its values"
                                 : drift.is_number                        ? "see whether its unit has changed"
                                                   : "see whether its values are written or coded otherwise now";
      absl::StrAppend(&gone, gone.empty() ? "" : "; ", "column \"", OneLine(drift.name), "\": ", drift.what, ": ",
                      reason, ", or accept it with --allow_changed=", OneLine(drift.name));
    }
  }
  return gone.empty() ? absl::OkStatus() : absl::InvalidArgumentError(absl::StrCat(source, ": ", gone));
}

}  // namespace splitveil
