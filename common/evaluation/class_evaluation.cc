#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/evaluation/evaluation.h"
#include "common/matrix/matrix.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

absl::Status CheckPredictions(ConstMatrixView logits, absl::Span<const uint8_t> labels) {
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

// Exact AUC of scores against membership, ties counted half. NaN where there are no members or no others.
double RankedAuc(std::vector<std::pair<double, bool>>& ranked) {
  std::sort(ranked.begin(), ranked.end());
  double right = 0, members = 0, others = 0;
  for (size_t begin = 0; begin < ranked.size();) {
    double tied_members = 0, tied_others = 0;
    size_t end = begin;
    for (; end < ranked.size() && ranked[end].first == ranked[begin].first; ++end) {
      (ranked[end].second ? tied_members : tied_others) += 1;
    }
    right += tied_members * (others + tied_others / 2);
    members += tied_members;
    others += tied_others;
    begin = end;
  }
  return members > 0 && others > 0 ? right / (members * others) : Evaluation::kNone;
}

double MacroAuc(const std::vector<LogSoftmax>& rows, absl::Span<const uint8_t> labels, int64_t classes) {
  std::vector<std::pair<double, bool>> ranked(rows.size());
  double sum = 0;
  int64_t counted = 0;
  for (int64_t label = 0; label < classes; ++label) {
    for (size_t i = 0; i < rows.size(); ++i) {
      ranked[i] = {rows[i].at(static_cast<size_t>(label)), labels[i] == label};
    }
    if (const double auc = RankedAuc(ranked); !std::isnan(auc)) {
      sum += auc;
      ++counted;
    }
  }
  return counted > 0 ? sum / static_cast<double>(counted) : Evaluation::kNone;
}

}  // namespace

absl::StatusOr<Evaluation> EvaluateClasses(ConstMatrixView logits, absl::Span<const uint8_t> labels) {
  SPLITVEIL_RETURN_IF_ERROR(CheckPredictions(logits, labels));
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

}  // namespace splitveil
