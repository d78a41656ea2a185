#include "deploy/operator/preparation/synthetic_criteo.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/operator/preparation/seeded_draws.h"
#include "deploy/operator/preparation/table_schema.h"

#include "common/status/status_macros.h"
#include "common/storage/file_system.h"

namespace splitveil {
namespace {

constexpr double kIntercept = -2.13;

// Columns of one group are empty together, as in the real data; rates of the Kaggle sample.
enum Missing { kNever, kI1I10, kI3, kI4I13, kI5, kI6, kI7I9I11, kI12, kC3Group, kC6, kC19Group, kC22, kMissingGroups };
constexpr std::array<double, kMissingGroups> kMissingRates = {0,     0.446, 0.210, 0.213, 0.028, 0.226,
                                                              0.043, 0.770, 0.036, 0.136, 0.431, 0.770};

enum class Tail { kBounded, kHeavy };

// kBounded: floor(scale u^2), within the reach of a linear scaling. kHeavy: floor(scale (1/(1-u) - 1)), infinite mean,
// cut at 1000 scale. u is uniform in [0, 1).
struct NumericLaw {
  Missing missing;
  Tail tail;
  int64_t scale;
  int64_t shift;  // Added to the number.
  double slope;   // Of the logit over the scaled number; 0 for heavy tails.
};

constexpr std::array<NumericLaw, kCriteoNumeric> kNumericLaws = {{
    {kI1I10, Tail::kHeavy, 2, 0, 0},
    {kNever, Tail::kBounded, 120, -2, 1.2},
    {kI3, Tail::kHeavy, 8, 0, 0},
    {kI4I13, Tail::kBounded, 40, 0, -1.0},
    {kI5, Tail::kHeavy, 2500, 0, 0},
    {kI6, Tail::kHeavy, 60, 0, 0},
    {kI7I9I11, Tail::kBounded, 60, 0, 1.3},
    {kNever, Tail::kBounded, 50, 0, 0.5},
    {kI7I9I11, Tail::kHeavy, 50, 0, 0},
    {kI1I10, Tail::kBounded, 7, 0, 1.0},
    {kI7I9I11, Tail::kBounded, 30, 0, -1.1},
    {kI12, Tail::kHeavy, 1, 0, 0},
    {kI4I13, Tail::kHeavy, 5, 0, 0},
}};
constexpr int64_t kHeavyTailCut = 1000;
constexpr int kI8 = 7;

// Rank 1 + floor(values u^k), k = 2^squarings, u uniform in [0, 1): the density falls like rank^(-(1 - 1/k)). Rank 0 is
// the empty cell. Columns that are empty together share u, so that their rare values fall into the same rows.
struct CategoryLaw {
  Missing missing;
  int64_t values;
  int squarings;
  double amplitude;  // Of the logit over the column's effect; 0: no signal.
};

constexpr std::array<CategoryLaw, kCriteoCategorical> kCategoryLaws = {{
    {kNever, 400, 4, 0},     {kNever, 490, 4, 0},     {kC3Group, 60000, 6, 0}, {kC3Group, 24000, 6, 0},
    {kNever, 120, 3, 0.9},   {kC6, 11, 2, 0.9},       {kNever, 6900, 6, 0},    {kNever, 200, 3, 0.9},
    {kNever, 3, 2, 0.5},     {kNever, 9300, 6, 0},    {kNever, 3500, 6, 0},    {kC3Group, 48000, 6, 0},
    {kNever, 2700, 6, 0},    {kNever, 25, 2, 0.9},    {kNever, 4400, 6, 0},    {kC3Group, 36000, 6, 0},
    {kNever, 10, 2, 0.9},    {kNever, 2200, 6, 0},    {kC19Group, 1000, 6, 0}, {kC19Group, 3, 2, 0},
    {kC3Group, 42000, 6, 0}, {kC22, 11, 2, 0},        {kNever, 14, 2, 0.9},    {kC3Group, 8700, 6, 0},
    {kC19Group, 50, 2, 0},   {kC19Group, 6600, 6, 0},
}};
constexpr uint64_t kRanksWithEffect = 32;
constexpr int kC9 = 8;
constexpr int kC17 = 16;

struct PairLaw {
  int first;
  int second;
  double amplitude;
};

// (C14, C17) and (C6, C23).
constexpr std::array<PairLaw, 2> kPairLaws = {{{13, 16, 0.7}, {5, 22, 0.7}}};
constexpr uint64_t kPairRanks = 8;
constexpr double kI8Amplitude = 1.2;
constexpr double kMeanOfSquare = 1.0 / 3;  // Of u^2.

// Three names of C9 that read as numbers; the first two as the same one.
constexpr std::array<const char*, 3> kC9Names = {"00001e10", "00010e09", "12345e10"};
constexpr std::array<double, 4> kC9Effects = {0, 1, -1, 0};

double CategoryEffect(int column, uint64_t rank) {
  if (column == kC9) {
    return kC9Effects[rank];
  }
  return rank < kRanksWithEffect ? FixedEffect(0, static_cast<uint64_t>(column), rank) : 0;
}

double PairEffect(size_t pair, uint64_t first, uint64_t second) {
  return first < kPairRanks && second < kPairRanks ? FixedEffect(1 + pair, first, second) : 0;
}

// One row before it is text.
struct Row {
  std::array<bool, kMissingGroups> missing = {};
  std::array<int64_t, kCriteoNumeric> numbers = {};  // 0 if missing.
  std::array<double, kCriteoNumeric> scaled = {};
  std::array<uint64_t, kCriteoCategorical> ranks = {};  // 0 if missing.
};

Row DrawRow(SeededDraws* draws) {
  Row row;
  for (int g = 0; g < kMissingGroups; ++g) {
    row.missing[g] = draws->Uniform() < kMissingRates[g];
  }
  for (int n = 0; n < kCriteoNumeric; ++n) {
    const NumericLaw& law = kNumericLaws[n];
    const double u = draws->Uniform();
    const double scale = static_cast<double>(law.scale);
    const double draw =
        law.tail == Tail::kBounded ? scale * u * u : scale * std::min<double>(kHeavyTailCut, u / (1 - u));
    if (!row.missing[law.missing]) {
      row.numbers[n] = static_cast<int64_t>(draw) + law.shift;
      row.scaled[n] = static_cast<double>(row.numbers[n]) / scale;
    }
  }
  std::array<double, kMissingGroups> shared;
  for (double& u : shared) {
    u = draws->Uniform();
  }
  for (int c = 0; c < kCriteoCategorical; ++c) {
    const CategoryLaw& law = kCategoryLaws[c];
    double power = law.missing == kNever ? draws->Uniform() : shared[law.missing];
    for (int i = 0; i < law.squarings; ++i) {
      power *= power;
    }
    if (!row.missing[law.missing]) {
      row.ranks[c] = 1 + static_cast<uint64_t>(static_cast<double>(law.values) * power);
    }
  }
  return row;
}

double Probability(const Row& row) {
  double logit = kIntercept;
  for (int n = 0; n < kCriteoNumeric; ++n) {
    logit += kNumericLaws[n].slope * row.scaled[n];
  }
  for (int c = 0; c < kCriteoCategorical; ++c) {
    if (kCategoryLaws[c].amplitude > 0) {
      logit += kCategoryLaws[c].amplitude * CategoryEffect(c, row.ranks[c]);
    }
  }
  for (size_t i = 0; i < kPairLaws.size(); ++i) {
    const PairLaw& pair = kPairLaws[i];
    logit += pair.amplitude * PairEffect(i, row.ranks[pair.first], row.ranks[pair.second]);
  }
  const double sign = row.ranks[kC17] % 2 == 0 ? 1 : -1;
  logit += kI8Amplitude * sign * (row.scaled[kI8] - kMeanOfSquare);
  return 1 / (1 + std::exp(-logit));
}

// 8 hexadecimal digits that name a category; the same in every file.
std::string CategoryName(int column, uint64_t rank) {
  if (column == kC9) {
    return kC9Names[rank - 1];
  }
  const uint64_t word = MixBits(MixBits(static_cast<uint64_t>(column) + 1) + rank);
  return absl::StrFormat("%08x", static_cast<uint32_t>(word >> 32));
}

// Appends the row's line to `text` and returns how many feature cells are empty.
int64_t AppendLine(const Row& row, bool label, std::string* text) {
  int64_t empty = 0;
  text->push_back(label ? '1' : '0');
  for (int n = 0; n < kCriteoNumeric; ++n) {
    text->push_back('\t');
    if (row.missing[kNumericLaws[n].missing]) {
      ++empty;
    } else {
      absl::StrAppend(text, row.numbers[n]);
    }
  }
  for (int c = 0; c < kCriteoCategorical; ++c) {
    text->push_back('\t');
    if (row.ranks[c] == 0) {
      ++empty;
    } else {
      absl::StrAppend(text, CategoryName(c, row.ranks[c]));
    }
  }
  text->push_back('\n');
  return empty;
}

}  // namespace

absl::StatusOr<SyntheticCriteoResult> GenerateSyntheticCriteo(const SyntheticCriteoOptions& options) {
  if (options.rows < 1) {
    return absl::InvalidArgumentError(absl::StrCat("rows: expected at least 1, found ", options.rows));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<PendingFile> file, PendingFile::Create(options.path));
  SyntheticCriteoResult result;
  SeededDraws draws(options.seed, 0);
  std::vector<double> probabilities;
  probabilities.reserve(static_cast<size_t>(options.rows));
  int64_t empty_cells = 0;
  std::string text;
  for (result.rows = 0; result.rows < options.rows; ++result.rows) {
    const Row row = DrawRow(&draws);
    probabilities.push_back(Probability(row));
    const bool label = draws.Uniform() < probabilities.back();
    result.positives += label ? 1 : 0;
    text.clear();
    empty_cells += AppendLine(row, label, &text);
    SPLITVEIL_RETURN_IF_ERROR(file->Append(text));
  }
  const double best_auc = BayesAuc(probabilities);
  result.bayes_auc = std::isnan(best_auc) ? 0.5 : best_auc;
  result.missing_rate = static_cast<double>(empty_cells) / (static_cast<double>(options.rows) * kCriteoFeatures);
  SPLITVEIL_RETURN_IF_ERROR(PendingFile::Publish({file.get()}));
  return result;
}

double BayesAuc(absl::Span<const double> probabilities) {
  std::vector<double> sorted(probabilities.begin(), probabilities.end());
  std::sort(sorted.begin(), sorted.end());
  double right = 0;
  double negatives = 0;  // Of the examples below the current ones; of all after the loop.
  double positives = 0;
  double same_example = 0;
  for (size_t begin = 0; begin < sorted.size();) {
    size_t end = begin;
    while (end < sorted.size() && sorted[end] == sorted[begin]) {
      ++end;
    }
    const double p = sorted[begin];
    const auto tied = static_cast<double>(end - begin);
    right += tied * p * (negatives + 0.5 * (tied - 1) * (1 - p));
    negatives += tied * (1 - p);
    positives += tied * p;
    same_example += tied * p * (1 - p);
    begin = end;
  }
  const double pairs = positives * negatives - same_example;
  return pairs > 0 ? right / pairs : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace splitveil
