#include "common/evaluation/evaluation.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/leakage/summary.h"
#include "common/matrix/matrix.h"
#include "common/process/parallel_for.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

absl::Status CheckPredictions(absl::Span<const float> logits, absl::Span<const uint8_t> labels) {
  if (logits.empty() || logits.size() != labels.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("evaluation: expected as many labels as logits and at least one, found ", labels.size(), " and ",
                     logits.size()));
  }
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(logits[i])) {
      return absl::InvalidArgumentError(absl::StrCat("evaluation: logit ", i, " is not finite"));
    }
    if (labels[i] > 1) {
      return absl::InvalidArgumentError(absl::StrCat("evaluation: label ", i, " is neither 0 nor 1"));
    }
  }
  return absl::OkStatus();
}

double Sigmoid(double logit) {
  // The exponent is never positive, so that nothing overflows.
  const double decay = std::exp(-std::abs(logit));
  return (logit >= 0 ? 1 : decay) / (1 + decay);
}

double LogLoss(absl::Span<const float> logits, absl::Span<const uint8_t> labels) {
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double z = logits[i];
    // log(1 + e^z) - y z, written so that e^z cannot overflow.
    sum += std::max(z, 0.0) - z * labels[i] + std::log1p(std::exp(-std::abs(z)));
  }
  return sum / static_cast<double>(logits.size());
}

double Accuracy(absl::Span<const float> logits, absl::Span<const uint8_t> labels) {
  int64_t correct = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    // A logit of 0 counts as a negative prediction.
    correct += (logits[i] > 0) == (labels[i] == 1);
  }
  return static_cast<double>(correct) / static_cast<double>(logits.size());
}

// Predicted probability minus share of positives among the rows of equal logit, ascending by logit. [rows]
std::vector<double> SortedResiduals(absl::Span<const float> logits, absl::Span<const uint8_t> labels) {
  std::vector<std::pair<float, uint8_t>> ranked;
  ranked.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    ranked.emplace_back(logits[i], labels[i]);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<double> residuals(ranked.size());
  // Equal logits share their mean, or the order among them would change the bins.
  for (size_t begin = 0; begin < ranked.size();) {
    size_t end = begin;
    double positives = 0;
    for (; end < ranked.size() && ranked[end].first == ranked[begin].first; ++end) {
      positives += ranked[end].second;
    }
    const double residual = Sigmoid(ranked[begin].first) - positives / static_cast<double>(end - begin);
    for (; begin < end; ++begin) {
      residuals[begin] = residual;
    }
  }
  return residuals;
}

double AdaptiveCalibrationError(absl::Span<const float> logits, absl::Span<const uint8_t> labels) {
  const std::vector<double> residuals = SortedResiduals(logits, labels);
  const int64_t rows = static_cast<int64_t>(residuals.size());
  // No empty bins for few examples.
  const int64_t bins = std::min(kCalibrationBins, rows);
  double error = 0;
  for (int64_t bin = 0; bin < bins; ++bin) {
    // Bins of equal size (adaptive): equal widths would leave most bins empty for rare positives.
    const int64_t begin = rows * bin / bins;
    const int64_t end = rows * (bin + 1) / bins;
    double sum = 0;
    for (int64_t i = begin; i < end; ++i) {
      sum += residuals[i];
    }
    error += std::abs(sum) / static_cast<double>(end - begin);
  }
  return error / static_cast<double>(bins);
}

absl::Status CheckClassPredictions(ConstMatrixView logits, absl::Span<const uint8_t> labels) {
  if (logits.rows() < 1 || static_cast<size_t>(logits.rows()) != labels.size() || logits.cols() < 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "evaluation: expected logits of as many rows as labels, at least one, and of at least two classes, "
        "found ",
        logits.rows(), " x ", logits.cols(), " and ", labels.size()));
  }
  const absl::Span<const float> values = logits.values();
  if (!std::all_of(values.begin(), values.end(), [](float logit) { return std::isfinite(logit); })) {
    return absl::InvalidArgumentError("evaluation: expected finite logits, found one that is not finite");
  }
  if (std::any_of(labels.begin(), labels.end(), [&](uint8_t label) { return label >= logits.cols(); })) {
    return absl::InvalidArgumentError(
        absl::StrCat("evaluation: expected labels below ", logits.cols(), ", found a larger one"));
  }
  return absl::OkStatus();
}

// Logarithms of a row's softmax probabilities, each precise however close its probability is to 0 or 1: the largest
// logit's is -log(1 + rest), where `rest` is what the others add to it.
class LogSoftmax {
 public:
  explicit LogSoftmax(absl::Span<const float> logits)
      : logits_(logits), best_(std::max_element(logits.begin(), logits.end()) - logits.begin()) {
    double rest = 0;
    for (size_t i = 0; i < logits_.size(); ++i) {
      rest += i == best_ ? 0 : std::exp(Below(i));
    }
    log_total_ = std::log1p(rest);
  }

  // The class of the largest logit, the first of those that tie.
  size_t best() const { return best_; }
  double at(size_t label) const { return Below(label) - log_total_; }

 private:
  double Below(size_t i) const { return static_cast<double>(logits_[i]) - static_cast<double>(logits_[best_]); }

  absl::Span<const float> logits_;
  size_t best_;
  double log_total_ = 0;  // Of all exponentials over the largest.
};

// Of one class: the score of each row, and whether it is a member.
using ClassScores = std::vector<std::pair<double, bool>>;

// Exact AUC of scores, all finite, against membership, ties counted half. NaN where there are no members or no others.
// Among hundreds of classes nearly all rows are others, far from any member: it sorts only the rows of those bins of
// equal width that have a member, and counts the rest.
double RankedAuc(const ClassScores& rows) {
  constexpr size_t kBins = size_t{1} << 16;
  const auto [lowest, highest] = std::minmax_element(rows.begin(), rows.end());
  const double least = lowest->first, spread = highest->first - least;
  const auto bin_of = [&](double score) {  // Never less for a higher score.
    return spread > 0 ? std::min(kBins - 1, static_cast<size_t>((score - least) / spread * kBins)) : 0;
  };
  std::vector<bool> has_member(kBins);
  for (const auto& [score, is_member] : rows) {
    if (is_member) {
      has_member[bin_of(score)] = true;
    }
  }
  ClassScores ranked;
  std::vector<uint32_t> apart(kBins);  // Others in bins without a member.
  for (const auto& row : rows) {
    const size_t bin = bin_of(row.first);
    if (has_member[bin]) {
      ranked.push_back(row);
    } else {
      ++apart[bin];
    }
  }
  std::sort(ranked.begin(), ranked.end());
  double right = 0, members = 0, others = 0;
  size_t next_bin = 0;
  for (size_t begin = 0; begin < ranked.size();) {
    for (const size_t bin = bin_of(ranked[begin].first); next_bin < bin; ++next_bin) {
      others += apart[next_bin];
    }
    double tied_members = 0, tied_others = 0;
    size_t end = begin;
    for (; end < ranked.size() && ranked[end].first == ranked[begin].first; ++end) {
      (ranked[end].second ? tied_members : tied_others) += 1;
    }
    // Ties count half (Mann-Whitney).
    right += tied_members * (others + tied_others / 2);
    members += tied_members;
    others += tied_others;
    begin = end;
  }
  others = static_cast<double>(rows.size()) - members;
  return members > 0 && others > 0 ? right / (members * others) : Evaluation::kNone;
}

double MacroAuc(const std::vector<LogSoftmax>& rows, absl::Span<const uint8_t> labels, int64_t classes) {
  constexpr size_t kWorthThreads = size_t{1} << 18;  // Scores.
  const auto count = static_cast<size_t>(classes);
  const size_t threads = rows.size() * count < kWorthThreads ? 1 : std::max(1U, std::thread::hardware_concurrency());
  std::vector<double> aucs(count);
  ParallelFor(threads, threads, [&](size_t share) {
    ClassScores scores(rows.size());
    for (size_t label = count * share / threads; label < count * (share + 1) / threads; ++label) {
      for (size_t i = 0; i < rows.size(); ++i) {
        scores[i] = {rows[i].at(label), labels[i] == label};
      }
      aucs[label] = RankedAuc(scores);
    }
  });
  double sum = 0;
  int64_t counted = 0;
  for (const double auc : aucs) {
    // A class that the examples lack, or that is all of them, has no AUC and is left out of the mean.
    if (!std::isnan(auc)) {
      sum += auc;
      ++counted;
    }
  }
  return counted > 0 ? sum / static_cast<double>(counted) : Evaluation::kNone;
}

}  // namespace

absl::StatusOr<Evaluation> Evaluate(absl::Span<const float> logits, absl::Span<const uint8_t> labels) {
  SPLITVEIL_RETURN_IF_ERROR(CheckPredictions(logits, labels));
  Evaluation evaluation;
  evaluation.examples = static_cast<int64_t>(logits.size());
  evaluation.log_loss = LogLoss(logits, labels);
  evaluation.auc = LeakAuc(logits, labels).value_or(std::numeric_limits<double>::quiet_NaN());
  evaluation.accuracy = Accuracy(logits, labels);
  evaluation.calibration_error = AdaptiveCalibrationError(logits, labels);
  return evaluation;
}

absl::StatusOr<Evaluation> EvaluateClasses(ConstMatrixView logits, absl::Span<const uint8_t> labels) {
  SPLITVEIL_RETURN_IF_ERROR(CheckClassPredictions(logits, labels));
  std::vector<LogSoftmax> rows;
  rows.reserve(labels.size());
  double loss = 0;
  int64_t right = 0;
  for (int64_t i = 0; i < logits.rows(); ++i) {
    rows.emplace_back(logits.row(i));
    loss -= rows.back().at(labels[i]);
    right += rows.back().best() == labels[i] ? 1 : 0;
  }
  Evaluation evaluation;
  evaluation.examples = logits.rows();
  evaluation.log_loss = loss / static_cast<double>(logits.rows());
  evaluation.auc = MacroAuc(rows, labels, logits.cols());
  evaluation.accuracy = static_cast<double>(right) / static_cast<double>(logits.rows());
  return evaluation;
}

absl::StatusOr<Evaluation> EvaluateRegression(absl::Span<const float> predictions, absl::Span<const float> targets) {
  if (predictions.empty() || predictions.size() != targets.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("evaluation: expected as many targets as predictions and at least one, found ", targets.size(),
                     " and ", predictions.size()));
  }
  const auto rows = static_cast<double>(targets.size());
  double mean = 0;
  for (size_t i = 0; i < targets.size(); ++i) {
    if (!std::isfinite(predictions[i]) || !std::isfinite(targets[i])) {
      return absl::InvalidArgumentError(
          "evaluation: expected finite predictions and targets, found one that is not finite");
    }
    mean += targets[i] / rows;
  }
  // R^2 compares with the best constant, the mean of these targets.
  double errors = 0, spread = 0;
  for (size_t i = 0; i < targets.size(); ++i) {
    const double error = static_cast<double>(predictions[i]) - static_cast<double>(targets[i]);
    const double distance = static_cast<double>(targets[i]) - mean;
    errors += error * error;
    spread += distance * distance;
  }
  Evaluation evaluation;
  evaluation.examples = static_cast<int64_t>(targets.size());
  evaluation.rmse = std::sqrt(errors / rows);
  // The mean is rounded, so that equal targets may seem to lie next to it.
  const bool varies = std::any_of(targets.begin(), targets.end(), [&](float target) { return target != targets[0]; });
  evaluation.r_squared = varies ? 1 - errors / spread : Evaluation::kNone;
  return evaluation;
}

}  // namespace splitveil
