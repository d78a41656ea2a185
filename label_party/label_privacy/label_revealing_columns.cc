#include "label_party/label_privacy/label_revealing_columns.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <numeric>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "common/crypto/mixed_bits.h"
#include "common/dataset/features.h"
#include "common/leakage/summary.h"
#include "label_party/label_privacy/boosted_trees.h"

namespace splitveil {
namespace {

constexpr int64_t kMaxRows = 65'536, kFewRows = 4'096;
// What is tried beyond each column by itself, with bounds on its time: a start should take seconds at most.
constexpr size_t kDifferenceColumns = 64, kDifferenceRows = 2'048;
constexpr size_t kTreeCells = size_t{1} << 21, kFewTreeRows = 1'024, kMostTreeRows = 16'384;
constexpr size_t kMostQuestions = 4;
// Columns of rare classes are told apart by chance: with 20 of each, an AUC of 0.95 is seven standard deviations off.
constexpr int64_t kFewOfAClass = 20;
constexpr double kPriorRows = 10;  // With which a category's share of positives is drawn to that of all.
constexpr size_t kNamedColumns = 3;
constexpr double kNamedGain = 0.1;  // Of all gain, for a column to be named.

// 0 or 1. Not the parity of `i`: labels may come in turns, and a half would then say the label of all its rows.
size_t HalfOf(size_t i) { return static_cast<size_t>(MixBits(i + kMixIncrement) >> 63); }

std::vector<uint32_t> EvenlySpacedRows(const Dataset& data) {
  // Every column is ranked once for each class: a start should not take minutes for hundreds of them.
  const int64_t most = std::max(kFewRows, kMaxRows / data.task().outputs());
  std::vector<uint32_t> rows(static_cast<size_t>(std::min(data.rows(), most)));
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = static_cast<uint32_t>(static_cast<int64_t>(i) * data.rows() / static_cast<int64_t>(rows.size()));
  }
  return rows;
}

// What an adversary may want to tell of `rows`, 0 or 1 each: the label, whether it is one class, or above the median,
// or far from it.
std::vector<std::vector<uint8_t>> Questions(const Dataset& data, const std::vector<uint32_t>& rows) {
  std::vector<std::vector<uint8_t>> questions;
  const auto ask = [&](const auto& is_positive) {
    std::vector<uint8_t>& question = questions.emplace_back();
    std::transform(rows.begin(), rows.end(), std::back_inserter(question), is_positive);
  };
  if (!data.targets().empty()) {
    std::vector<float> targets;
    std::transform(rows.begin(), rows.end(), std::back_inserter(targets),
                   [&](uint32_t row) { return data.targets()[row]; });
    // Numbers have no classes: above the median or not is the question with the most even answer.
    const auto middle = targets.begin() + static_cast<std::ptrdiff_t>(targets.size() / 2);
    std::nth_element(targets.begin(), middle, targets.end());
    const float median = *middle;
    ask([&](uint32_t row) { return data.targets()[row] > median ? 1 : 0; });
    // What lies on both sides alike, such as a square, tells how far a number is from the median.
    const auto distance = [&](float target) { return std::abs(target - median); };
    std::transform(targets.begin(), targets.end(), targets.begin(), distance);
    std::nth_element(targets.begin(), middle, targets.end());
    ask([&, far = *middle](uint32_t row) { return distance(data.targets()[row]) > far ? 1 : 0; });
  } else if (data.task().kind == Task::Kind::kMultiClass) {
    for (int64_t of = 0; of < data.task().outputs(); ++of) {
      ask([&, of](uint32_t row) { return data.labels()[row] == of ? 1 : 0; });
    }
  } else {
    ask([&](uint32_t row) { return data.labels()[row]; });
  }
  return questions;
}

// The share of positives that each category has in the other half of the rows; of one that is not there, that of all.
std::vector<float> SharesInTheOtherHalf(const std::vector<int64_t>& categories, const std::vector<uint8_t>& question) {
  // A category that is new in the other half ranks by the overall share, as an adversary would guess.
  struct Count {
    double rows = 0, positives = 0;
  };
  // The other half only: a category of one row would otherwise rank that row by its own label.
  std::unordered_map<int64_t, Count> halves[2];
  for (size_t i = 0; i < categories.size(); ++i) {
    Count& count = halves[HalfOf(i)][categories[i]];
    count.rows += 1;
    count.positives += question[i];
  }
  const double all = std::accumulate(question.begin(), question.end(), 0.0) / static_cast<double>(question.size());
  std::vector<float> shares(categories.size());
  for (size_t i = 0; i < categories.size(); ++i) {
    const auto& other = halves[1 - HalfOf(i)];
    const auto found = other.find(categories[i]);
    shares[i] = static_cast<float>(found == other.end() ? all : found->second.positives / found->second.rows);
  }
  return shares;
}

// The rows looked at, column by column.
struct Sample {
  std::vector<std::string> numeric_names, categorical_names;
  std::vector<std::vector<float>> numeric;
  std::vector<std::vector<int64_t>> categorical;
  std::vector<std::vector<uint8_t>> questions;
};

Sample Take(const Dataset& data) {
  // Evenly spaced, as tables are often sorted by time or by label.
  const std::vector<uint32_t> rows = EvenlySpacedRows(data);
  const FeatureBatch features = data.Gather(rows);
  Sample sample;
  sample.questions = Questions(data, rows);
  // Single pixels do not reveal a label, and there may be thousands of them.
  const int64_t pixels = data.features().image.pixels();
  for (int64_t k = 0; k < data.features().numeric - pixels; ++k) {
    sample.numeric_names.push_back(data.preprocessing().numeric(static_cast<int>(k)).name());
    std::vector<float>& column = sample.numeric.emplace_back();
    for (int64_t i = 0; i < features.rows; ++i) {
      column.push_back(features.numeric.row(i)[static_cast<size_t>(pixels + k)]);
    }
  }
  const auto categorical = static_cast<size_t>(data.features().categorical);
  for (size_t k = 0; k < categorical; ++k) {
    sample.categorical_names.push_back(data.preprocessing().categorical(static_cast<int>(k)).name());
    std::vector<int64_t>& column = sample.categorical.emplace_back();
    for (size_t i = 0; i < rows.size(); ++i) {
      column.push_back(features.categories[i * categorical + k]);
    }
  }
  data.ReleaseMemory();
  return sample;
}

bool HasEnoughOfBoth(const std::vector<uint8_t>& question) {
  const auto positives = std::accumulate(question.begin(), question.end(), int64_t{0});
  return positives >= kFewOfAClass && static_cast<int64_t>(question.size()) - positives >= kFewOfAClass;
}

struct Telling {
  std::string what;
  double auc = 0.5;  // At least.
};

// Scores that were fitted on other rows: the larger, the likelier positive.
void ConsiderFitted(const std::string& what, const std::vector<float>& scores, absl::Span<const uint8_t> question,
                    Telling& most) {
  const absl::StatusOr<double> auc = LeakAuc(scores, question);
  if (auc.ok() && *auc > most.auc) {
    most = {what, *auc};
  }
}

void Consider(const std::string& what, const std::vector<float>& scores, absl::Span<const uint8_t> question,
              Telling& most) {
  const absl::StatusOr<double> auc = LeakAuc(scores, question);
  // A column that ranks the labels backwards reveals as much.
  if (auc.ok() && std::max(*auc, 1 - *auc) > most.auc) {
    most = {what, std::max(*auc, 1 - *auc)};
  }
}

// The bin of each number: a value of its own, or a range with as many rows as the others.
std::vector<uint8_t> BinsOf(const std::vector<float>& column) {
  std::vector<float> ends = column;
  std::sort(ends.begin(), ends.end());
  std::vector<float> distinct = ends;
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  if (distinct.size() > BinnedRows::kBins) {
    for (size_t bin = 0; bin + 1 < BinnedRows::kBins; ++bin) {
      ends[bin] = ends[(bin + 1) * ends.size() / BinnedRows::kBins];
    }
    ends.resize(BinnedRows::kBins - 1);
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  } else {
    ends = std::move(distinct);
    ends.pop_back();
  }
  std::vector<uint8_t> bins;
  std::transform(column.begin(), column.end(), std::back_inserter(bins), [&](float value) {
    return static_cast<uint8_t>(std::lower_bound(ends.begin(), ends.end(), value) - ends.begin());
  });
  return bins;
}

// The column that tells the most by itself, as a rank or value by value.
Telling MostTellingColumn(const Sample& sample) {
  Telling most;
  for (const std::vector<uint8_t>& question : sample.questions) {
    for (size_t k = 0; k < sample.numeric.size(); ++k) {
      Consider(absl::StrCat("column ", sample.numeric_names[k], " alone"), sample.numeric[k], question, most);
    }
    for (size_t k = 0; k < sample.categorical.size(); ++k) {
      ConsiderFitted(absl::StrCat("column ", sample.categorical_names[k], " alone"),
                     SharesInTheOtherHalf(sample.categorical[k], question), question, most);
    }
  }
  // Found already: the costlier searches would only name a second column.
  if (most.auc >= kTellingAuc) {
    return most;
  }
  for (size_t k = 0; k < sample.numeric.size(); ++k) {
    const std::vector<uint8_t> bins = BinsOf(sample.numeric[k]);
    for (const std::vector<uint8_t>& question : sample.questions) {
      if (HasEnoughOfBoth(question)) {
        ConsiderFitted(absl::StrCat("column ", sample.numeric_names[k], " alone, value by value,"),
                       SharesInTheOtherHalf({bins.begin(), bins.end()}, question), question, most);
      }
    }
  }
  return most;
}

// The questions about most rows, as there may be hundreds of classes.
std::vector<std::vector<uint8_t>> MainQuestions(const Sample& sample, size_t rows) {
  std::vector<std::pair<int64_t, std::vector<uint8_t>>> all;
  const size_t step = sample.questions.front().size() / rows;
  for (const std::vector<uint8_t>& question : sample.questions) {
    std::vector<uint8_t> some;
    for (size_t i = 0; i < rows; ++i) {
      some.push_back(question[i * step]);
    }
    if (HasEnoughOfBoth(some)) {
      all.emplace_back(-std::accumulate(some.begin(), some.end(), int64_t{0}), std::move(some));
    }
  }
  // The commonest classes first: of a rare one, chance alone can rank a few rows well.
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::vector<uint8_t>> most;
  for (size_t i = 0; i < std::min(all.size(), kMostQuestions); ++i) {
    most.push_back(std::move(all[i].second));
  }
  return most;
}

std::vector<float> EachOf(const std::vector<float>& column, size_t rows) {
  const size_t step = column.size() / rows;
  std::vector<float> some;
  for (size_t i = 0; i < rows; ++i) {
    some.push_back(column[i * step]);
  }
  return some;
}

// The number that the table has, but for those that were clipped: the inverse of TableSchema.Scaling.
// Two columns are scaled differently, so the difference that matters, such as a date less another, exists in the
// table's units only.
double Unscaled(const v1::NumericScaling& scaling, double scaled) {
  if (scaling.knots_size() > 1) {
    const double place = scaled * (scaling.knots_size() - 1);
    const int below = std::min(static_cast<int>(place), scaling.knots_size() - 2);
    return scaling.knots(below) + (place - below) * (scaling.knots(below + 1) - scaling.knots(below));
  }
  const double range = scaling.maximum() - scaling.minimum();
  if (range <= 0) {
    return scaled;
  }
  if (scaling.has_midpoint()) {
    const double middle = (scaling.midpoint() - scaling.minimum()) / range;
    const double log_square = 2 * std::log((1 - middle) / middle);
    scaled = log_square == 0 ? scaled : std::expm1(scaled * log_square) / std::expm1(log_square);
  }
  return scaling.minimum() + scaled * range;
}

// The difference of two columns, as the table has them, that tells the most.
Telling MostTellingDifference(const Dataset& data, const Sample& sample) {
  const size_t rows = std::min(sample.questions.front().size(), kDifferenceRows);
  const std::vector<std::vector<uint8_t>> questions = MainQuestions(sample, rows);
  std::vector<std::pair<std::string, std::vector<double>>> columns;
  for (size_t k = 0; k < sample.numeric.size() && columns.size() < kDifferenceColumns && !questions.empty(); ++k) {
    const v1::NumericScaling& scaling = data.preprocessing().numeric(static_cast<int>(k));
    if (scaling.minimum() < scaling.maximum() || !scaling.has_missing_value()) {  // Else where a number is missing.
      std::vector<double>& column = columns.emplace_back(scaling.name(), std::vector<double>()).second;
      for (const float scaled : EachOf(sample.numeric[k], rows)) {
        column.push_back(Unscaled(scaling, scaled));
      }
    }
  }
  Telling most;
  std::vector<float> difference(rows);
  for (size_t a = 0; a < columns.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      std::transform(columns[a].second.begin(), columns[a].second.end(), columns[b].second.begin(), difference.begin(),
                     std::minus<>());
      // A label is often the time between two events, or a balance before and after.
      const std::string what = absl::StrCat("the difference of columns ", columns[b].first, " and ", columns[a].first);
      const std::vector<uint8_t> bins = BinsOf(difference);
      for (const std::vector<uint8_t>& question : questions) {
        Consider(what, difference, question, most);
        ConsiderFitted(what, SharesInTheOtherHalf({bins.begin(), bins.end()}, question), question, most);
      }
    }
  }
  return most;
}

// All columns, by bin. Categories are ordered by their share of positives among the rows of `half`, which trees are
// fitted on.
BinnedRows BinAll(const Sample& sample, const std::vector<std::vector<uint8_t>>& numeric,
                  const std::vector<uint8_t>& question, size_t half) {
  const size_t rows = question.size();
  BinnedRows table;
  table.columns = static_cast<int64_t>(numeric.size() + sample.categorical.size());
  table.bins.resize(rows * static_cast<size_t>(table.columns));
  const auto put = [&](size_t column, const std::vector<uint8_t>& bins) {
    for (size_t i = 0; i < rows; ++i) {
      table.bins[i * static_cast<size_t>(table.columns) + column] = bins[i];
    }
  };
  for (size_t k = 0; k < numeric.size(); ++k) {
    put(k, numeric[k]);
  }
  const double all = std::accumulate(question.begin(), question.end(), 0.0) / static_cast<double>(rows);
  for (size_t k = 0; k < sample.categorical.size(); ++k) {
    // Shares come from the half that the trees learn from: from all rows, a category would carry the labels it is tried
    // on.
    const size_t step = sample.categorical[k].size() / rows;
    std::unordered_map<int64_t, std::pair<double, double>> counts;  // Rows, positives.
    for (size_t i = 0; i < rows; ++i) {
      auto& [seen, positives] = counts[sample.categorical[k][i * step]];
      seen += HalfOf(i) == half ? 1 : 0;
      positives += HalfOf(i) == half ? question[i] : 0;
    }
    std::vector<float> shares;
    for (size_t i = 0; i < rows; ++i) {
      const auto& [seen, positives] = counts[sample.categorical[k][i * step]];
      shares.push_back(static_cast<float>((positives + kPriorRows * all) / (seen + kPriorRows)));
    }
    put(numeric.size() + k, BinsOf(shares));
  }
  return table;
}

// Scores of each half of the rows by trees that are fitted on the other; adds to `gains`, by column.
std::vector<float> CrossFittedScores(const Sample& sample, const std::vector<std::vector<uint8_t>>& numeric,
                                     const std::vector<uint8_t>& question, std::vector<double>& gains) {
  std::vector<float> scores(question.size());
  std::vector<double> gains_of[2];
  const auto fit = [&](size_t half) {
    const BinnedRows table = BinAll(sample, numeric, question, half);
    std::vector<uint32_t> fitted, tried;
    for (size_t i = 0; i < question.size(); ++i) {
      (HalfOf(i) == half ? fitted : tried).push_back(static_cast<uint32_t>(i));
    }
    const BoostedTrees trees = BoostedTrees::Fit(table, question, fitted);
    for (const uint32_t row : tried) {
      scores[row] = trees.Score(table, row);
    }
    gains_of[half] = trees.gains();
  };
  // The halves are independent, and this is the slowest part of a start.
  std::thread other(fit, 1);
  fit(0);
  other.join();
  gains.resize(gains_of[0].size());
  for (size_t k = 0; k < gains.size(); ++k) {
    gains[k] = gains_of[0][k] + gains_of[1][k];
  }
  return scores;
}

// "a, b" of the columns with the largest gains.
std::string MostUsed(const Sample& sample, const std::vector<double>& gains) {
  std::vector<size_t> order(gains.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return gains[a] > gains[b]; });
  const double all = std::accumulate(gains.begin(), gains.end(), 0.0);
  std::vector<std::string> names;
  for (const size_t k : order) {
    if (names.size() < kNamedColumns && gains[k] >= kNamedGain * all) {
      names.push_back(k < sample.numeric_names.size() ? sample.numeric_names[k]
                                                      : sample.categorical_names[k - sample.numeric_names.size()]);
    }
  }
  return absl::StrJoin(names, ", ");
}

Telling AllTogether(const Sample& sample) {
  const size_t columns = sample.numeric.size() + sample.categorical.size();
  const size_t rows =
      std::min({sample.questions.front().size(), std::max(kFewTreeRows, kTreeCells / columns), kMostTreeRows});
  std::vector<std::vector<uint8_t>> numeric;
  for (const std::vector<float>& column : sample.numeric) {
    numeric.push_back(BinsOf(EachOf(column, rows)));
  }
  Telling most;
  for (const std::vector<uint8_t>& question : MainQuestions(sample, rows)) {
    std::vector<double> gains;
    const std::vector<float> scores = CrossFittedScores(sample, numeric, question, gains);
    ConsiderFitted(absl::StrCat("the own columns together, above all ", MostUsed(sample, gains), ","), scores, question,
                   most);
  }
  return most;
}

}  // namespace

std::string DescribeLabelRevealingColumns(const Dataset& data) {
  if (!data.has_labels() || data.rows() == 0) {
    return "";
  }
  const Sample sample = Take(data);
  Telling most;
  if (!sample.numeric.empty() || !sample.categorical.empty()) {
    // From cheap to costly; the first that tells enough is named, as it is the one to look at.
    most = MostTellingColumn(sample);
    most = most.auc < kTellingAuc ? MostTellingDifference(data, sample) : most;
    most = most.auc < kTellingAuc ? AllTogether(sample) : most;
  }
  return most.auc < kTellingAuc
             ? ""
             : absl::StrFormat(
                   "%s ranks the labels at AUC %.3f. The model reads it, and what is sent shows "
                   "what the model reads: noise on labels does not hide it. If it is made from the label, "
                   "prepare the data without it (kind: IGNORE)",
                   most.what, most.auc);
}

}  // namespace splitveil
