#include "label_party/label_privacy/label_revealing_columns.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"

#include "common/dataset/features.h"
#include "common/leakage/leak_auc.h"

namespace splitveil {
namespace {

constexpr int64_t kMaxRows = 65'536, kFewRows = 4'096;

std::vector<uint32_t> EvenlySpacedRows(const Dataset& data) {
  // Every column is ranked once for each class: a start should not take minutes for hundreds of them.
  const int64_t most = std::max(kFewRows, kMaxRows / data.task().outputs());
  std::vector<uint32_t> rows(static_cast<size_t>(std::min(data.rows(), most)));
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = static_cast<uint32_t>(static_cast<int64_t>(i) * data.rows() / static_cast<int64_t>(rows.size()));
  }
  return rows;
}

// What an adversary may want to tell of `rows`, 0 or 1 each: the label, whether it is one class, or above the median.
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
    ask([&, median = *middle](uint32_t row) { return data.targets()[row] > median ? 1 : 0; });
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
  struct Count {
    double rows = 0, positives = 0;
  };
  // The other half only: a category of one row would otherwise rank that row by its own label.
  std::unordered_map<int64_t, Count> halves[2];
  for (size_t i = 0; i < categories.size(); ++i) {
    Count& count = halves[i % 2][categories[i]];
    count.rows += 1;
    count.positives += question[i];
  }
  const double all = std::accumulate(question.begin(), question.end(), 0.0) / static_cast<double>(question.size());
  std::vector<float> shares(categories.size());
  for (size_t i = 0; i < categories.size(); ++i) {
    const auto found = halves[1 - i % 2].find(categories[i]);
    shares[i] =
        static_cast<float>(found == halves[1 - i % 2].end() ? all : found->second.positives / found->second.rows);
  }
  return shares;
}

struct Telling {
  std::string name;
  double auc = 0.5;  // At least.
};

void Consider(const std::string& name, const std::vector<float>& scores, const std::vector<uint8_t>& question,
              Telling& most) {
  const absl::StatusOr<double> auc = LeakAuc(scores, question);
  // A column that ranks the labels backwards reveals as much.
  if (auc.ok() && std::max(*auc, 1 - *auc) > most.auc) {
    most = {name, std::max(*auc, 1 - *auc)};
  }
}

}  // namespace

std::string DescribeLabelRevealingColumn(const Dataset& data) {
  if (!data.has_labels() || data.rows() == 0) {
    return "";
  }
  // Evenly spaced, as tables are often sorted by time or by label.
  const std::vector<uint32_t> rows = EvenlySpacedRows(data);
  const FeatureBatch features = data.Gather(rows);
  const std::vector<std::vector<uint8_t>> questions = Questions(data, rows);
  const auto numeric = static_cast<int64_t>(data.features().numeric);
  const auto categorical = static_cast<size_t>(data.features().categorical);
  Telling most;
  for (const std::vector<uint8_t>& question : questions) {
    std::vector<float> column(rows.size());
    for (int64_t k = 0; k < numeric; ++k) {
      for (size_t i = 0; i < rows.size(); ++i) {
        column[i] = features.numeric.row(static_cast<int64_t>(i))[static_cast<size_t>(k)];
      }
      Consider(data.preprocessing().numeric(static_cast<int>(k)).name(), column, question, most);
    }
    std::vector<int64_t> categories(rows.size());
    for (size_t k = 0; k < categorical; ++k) {
      for (size_t i = 0; i < rows.size(); ++i) {
        categories[i] = features.categories[i * categorical + k];
      }
      Consider(data.preprocessing().categorical(static_cast<int>(k)).name(), SharesInTheOtherHalf(categories, question),
               question, most);
    }
  }
  data.ReleaseMemory();
  return most.auc < kTellingAuc
             ? ""
             : absl::StrFormat(
                   "column %s alone ranks the labels at AUC %.3f. The model reads it, and what leaves shows "
                   "what the model reads: noise on labels does not hide it. If it is made from the label, "
                   "prepare the data without it (kind: IGNORE)",
                   most.name, most.auc);
}

}  // namespace splitveil
