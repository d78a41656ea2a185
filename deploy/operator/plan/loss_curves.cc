#include "deploy/operator/plan/loss_curves.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

#include "common/page/embedded.h"
#include "common/privacy/gaussian_privacy.h"
#include "common/status/status_macros.h"

namespace splitveil {

SPLITVEIL_EMBEDDED(LossCurves);

namespace {

constexpr absl::string_view kHeader =
    "rows,epochs,max_run_auc_bound,seeds,none_test_auc,frozen_test_auc,loss,loss_min,loss_max";
constexpr size_t kColumns = 9;
constexpr double kPositivesTolerance = 0.2;  // Relative.
// What is answered by information: how near a point must be (decades), of how many at least; and where.
constexpr double kWindow = 0.35;  // So wide that runs of other tables lie in the interval (README.md).
constexpr size_t kFewestPoints = 4;
constexpr double kLeastPositives = 0.001, kMostEpochs = 30, kFewestRows = 1000;
constexpr double kSettledEpochs = 4;

absl::StatusOr<std::vector<double>> Numbers(absl::string_view line, size_t columns, size_t number) {
  std::vector<double> numbers;
  for (const absl::string_view cell : absl::StrSplit(line, ',')) {
    double value = 0;
    if (!absl::SimpleAtod(cell, &value) || !std::isfinite(value)) {
      numbers.clear();
      break;
    }
    numbers.push_back(value);
  }
  if (numbers.size() != columns) {
    return absl::InvalidArgumentError(
        absl::StrCat("loss curves: line ", number, ": expected ", columns, " numbers, found \"", line, "\""));
  }
  return numbers;
}

void AddTo(std::vector<double>& axis, double value) {
  const auto at = std::lower_bound(axis.begin(), axis.end(), value);
  if (at == axis.end() || *at != value) {
    axis.insert(at, value);
  }
}

// What the axes are linear in.
double LogMu(double auc_bound) { return std::log(NormalQuantile(auc_bound)); }

// Of the Fisher information about the logit that noised labels of so many rows keep.
double LogInformation(double rows, double positives, double auc_bound) {
  const double sigma = 1 / (std::sqrt(2.0) * NormalQuantile(auc_bound));
  return std::log10(rows * positives * (1 - positives) * LabelInformationKept(sigma, positives));
}

std::string Grouped(double value) {
  std::string digits = absl::StrCat(static_cast<int64_t>(std::llround(value)));
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<size_t>(at), ",");
  }
  return digits;
}

std::string FromTo(const std::vector<double>& axis, std::string (*text)(double)) {
  return axis.size() == 1 ? text(axis.front()) : absl::StrCat(text(axis.front()), " to ", text(axis.back()));
}

std::string Plain(double value) { return absl::StrFormat("%g", value); }

std::string Percent(double share) { return absl::StrFormat("%g%%", 100 * share); }

absl::Status Outside(const char* what, const std::string& answered, const std::string& asked) {
  return absl::OutOfRangeError(absl::StrCat("predicted for ", answered, " ", what, ", asked for ", asked));
}

}  // namespace

double LabelInformationKept(double sigma, double p) {
  if (!(p > 0 && p < 1 && sigma >= 0 && std::isfinite(sigma))) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (sigma == 0) {
    return 1;
  }
  // In units of sigma, with the labels at 0 and mu: the trapezoid rule converges exponentially for a smooth integrand
  // that vanishes at both ends; its nearest poles, where the mixture vanishes, are pi / mu off the real line, so that
  // the error is of order e^(-2 pi^2 / (mu step)). Beyond 12 nothing is left.
  const double mu = 1 / sigma;
  constexpr double kEnd = 12;
  const double step = std::min(1. / 64, 0.5 / mu);
  const auto steps = static_cast<int64_t>((2 * kEnd + mu) / step);
  double sum = 0;
  for (int64_t i = 0; i <= steps; ++i) {
    const double x = -kEnd + step * static_cast<double>(i);
    const double phi0 = std::exp(-x * x / 2), phi1 = std::exp(-(x - mu) * (x - mu) / 2);
    const double mixture = p * phi1 + (1 - p) * phi0;
    if (mixture > 0) {
      // expm1 keeps the difference of two densities that nearly agree.
      const double difference =
          phi0 > 0 && std::abs(mu * (x - mu / 2)) < 1 ? phi0 * std::expm1(mu * (x - mu / 2)) : phi1 - phi0;
      sum += difference * difference / mixture;
    }
  }
  constexpr double kInverseRootTwoPi = 0.39894228040143267794;
  return p * (1 - p) * kInverseRootTwoPi * step * sum;
}

// Between the entries `low` and `low` + 1 of an axis, this share of the way.
struct LossCurves::Place {
  size_t low = 0;
  double share = 0;

  size_t high() const { return share > 0 ? low + 1 : low; }
};

LossCurves::Place LossCurves::PlaceOn(const Axis& axis, double at) {
  const auto above = std::upper_bound(axis.begin(), axis.end(), at);
  const auto low = static_cast<size_t>(above - axis.begin()) - 1;
  return {low, above == axis.end() ? 0 : (at - axis[low]) / (axis[low + 1] - axis[low])};
}

absl::StatusOr<LossCurves> LossCurves::Embedded() {
  absl::StatusOr<LossCurves> curves = Parse(EmbeddedLossCurves());
  if (!curves.ok()) {
    return absl::InternalError(curves.status().message());
  }
  return curves;
}

absl::StatusOr<LossCurves> LossCurves::Parse(absl::string_view csv) {
  const std::vector<absl::string_view> lines = absl::StrSplit(csv, '\n', absl::SkipEmpty());
  if (lines.size() < 3 || !absl::StartsWith(lines[0], "positives,") || lines[1] != kHeader) {
    return absl::InvalidArgumentError(
        absl::StrCat("loss curves: expected \"positives,SHARE\", \"", kHeader, "\" and points, found something else"));
  }
  LossCurves curves;
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<double> positives, Numbers(lines[0].substr(10), 1, 1));
  curves.positives_ = positives[0];
  double share = curves.positives_;
  for (size_t i = 2; i < lines.size(); ++i) {
    if (absl::StartsWith(lines[i], "positives,")) {
      SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<double> other, Numbers(lines[i].substr(10), 1, i + 1));
      share = other[0];
      continue;
    }
    SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<double> cells, Numbers(lines[i], kColumns, i + 1));
    if (!(cells[0] >= 1 && cells[1] >= 1 && cells[2] > 0.5 && cells[2] < 1)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "loss curves: line ", i + 1,
          ": expected rows and epochs of at least 1 and a bound above 0.5 and below 1, found \"", lines[i], "\""));
    }
    const double gain = cells[4] - 0.5;
    curves.losses_.push_back({LogInformation(cells[0], share, cells[2]), cells[6] / gain, cells[7] / gain,
                              cells[8] / gain, cells[4], cells[3], cells[1]});
    if (share != curves.positives_) {
      continue;
    }
    AddTo(curves.rows_, cells[0]);
    AddTo(curves.epochs_, cells[1]);
    AddTo(curves.bounds_, cells[2]);
    const ExpectedLoss loss{cells[6], cells[7], cells[8], cells[4], cells[5], cells[3]};
    if (!curves.points_.emplace(std::vector<double>{cells[0], cells[1], cells[2]}, loss).second) {
      return absl::InvalidArgumentError(absl::StrCat("loss curves: line ", i + 1, ": a point again"));
    }
  }
  if (curves.rows_.size() < 2 || curves.bounds_.size() < 2) {
    return absl::InvalidArgumentError(absl::StrCat("loss curves: expected at least 2 rows and bounds, found ",
                                                   curves.rows_.size(), " and ", curves.bounds_.size()));
  }
  for (auto& [at, loss] : curves.points_) {
    // One seed shows no scatter. That of the fewest rows is no smaller than that of more.
    const auto fewest = curves.points_.find({curves.rows_.front(), at[1], at[2]});
    if (loss.seeds == 1 && fewest != curves.points_.end()) {
      loss.loss_min = loss.loss - (fewest->second.loss - fewest->second.loss_min);
      loss.loss_max = loss.loss + (fewest->second.loss_max - fewest->second.loss);
    }
  }
  std::sort(curves.losses_.begin(), curves.losses_.end(),
            [](const Loss& a, const Loss& b) { return a.log_information < b.log_information; });
  return curves;
}

absl::StatusOr<ExpectedLoss> LossCurves::At(const LossQuestion& question) const {
  // Written so that NaN is outside.
  const auto within = [](double least, double value, double most) { return value >= least && value <= most; };
  if (!within(kFewestRows, question.rows, rows_.back())) {
    return Outside("rows", FromTo({kFewestRows, rows_.back()}, Grouped), Grouped(question.rows));
  }
  if (!within(kLeastPositives, question.positives, 1 - kLeastPositives)) {
    return Outside("of the rows positive", FromTo({kLeastPositives, 1 - kLeastPositives}, Percent),
                   Percent(question.positives));
  }
  if (!within(1, question.epochs, kMostEpochs)) {
    return Outside("epochs", FromTo({1, kMostEpochs}, Plain), Plain(question.epochs));
  }
  if (!within(bounds_.front(), question.max_run_auc_bound, bounds_.back())) {
    return Outside("as the bound", FromTo(bounds_, Plain), Plain(question.max_run_auc_bound));
  }
  if (const std::optional<ExpectedLoss> on_grid = OnGrid(question); on_grid.has_value()) {
    return *on_grid;
  }
  ExpectedLoss expected = ByInformation(question);
  for (const double stronger : bounds_) {  // A weaker bound costs no more; points of several tables scatter.
    if (stronger < question.max_run_auc_bound) {
      LossQuestion other = question;
      other.max_run_auc_bound = stronger;
      expected.loss = std::min(expected.loss, ByInformation(other).loss);
    }
  }
  expected.loss_min = std::min(expected.loss_min, expected.loss);
  return expected;
}

ExpectedLoss LossCurves::ByInformation(const LossQuestion& question) const {
  // Beyond the points measured there is either nothing left to learn from, or nothing left to lose.
  const double at = std::clamp(LogInformation(question.rows, question.positives, question.max_run_auc_bound),
                               losses_.front().log_information, losses_.back().log_information);
  std::vector<Loss> nearest;
  for (const Loss& loss : losses_) {  // The first epochs have not learned yet what there is to lose.
    if ((loss.epochs < kSettledEpochs) == (question.epochs < kSettledEpochs)) {
      nearest.push_back(loss);
    }
  }
  nearest = nearest.empty() ? losses_ : nearest;
  std::sort(nearest.begin(), nearest.end(), [&](const Loss& a, const Loss& b) {
    return std::abs(a.log_information - at) < std::abs(b.log_information - at);
  });
  size_t taken = std::min(kFewestPoints, nearest.size());
  while (taken < nearest.size() && std::abs(nearest[taken].log_information - at) <= kWindow) {
    ++taken;
  }
  ExpectedLoss sum;
  double share = 0, least = nearest[0].least, most = nearest[0].most;
  for (size_t i = 0; i < taken; ++i) {
    share += nearest[i].share / static_cast<double>(taken);
    sum.none_test_auc += nearest[i].none_test_auc / static_cast<double>(taken);
    sum.seeds += nearest[i].seeds;
    least = std::min(least, nearest[i].least);
    most = std::max(most, nearest[i].most);
  }
  const double gain = sum.none_test_auc - 0.5;
  sum.loss = share * gain;
  sum.loss_min = std::max(0.0, least * gain);
  sum.loss_max = most * gain;
  sum.positives = question.positives;
  sum.between = true;
  sum.by_information = static_cast<int>(taken);
  return sum;
}

std::optional<ExpectedLoss> LossCurves::OnGrid(const LossQuestion& question) const {
  if (question.rows < rows_.front() || question.epochs < epochs_.front() || question.epochs > epochs_.back() ||
      std::abs(question.positives / positives_ - 1) > kPositivesTolerance) {
    return std::nullopt;
  }
  Axis log_rows, log_mus;
  for (const double rows : rows_) {
    log_rows.push_back(std::log(rows));
  }
  for (const double bound : bounds_) {
    log_mus.push_back(LogMu(bound));
  }
  const Place rows = PlaceOn(log_rows, std::log(question.rows)), epochs = PlaceOn(epochs_, question.epochs),
              bound = PlaceOn(log_mus, LogMu(question.max_run_auc_bound));
  ExpectedLoss sum;
  sum.positives = positives_;
  sum.between = rows.share > 0 || epochs.share > 0 || bound.share > 0;
  sum.seeds = std::numeric_limits<double>::infinity();
  for (int corner = 0; corner < 8; ++corner) {
    const bool upper[] = {(corner & 1) != 0, (corner & 2) != 0, (corner & 4) != 0};
    const std::array<const Place*, 3> places = {&rows, &epochs, &bound};
    double weight = 1;
    for (int i = 0; i < 3; ++i) {
      weight *= upper[i] ? places[i]->share : 1 - places[i]->share;
    }
    if (weight == 0) {
      continue;
    }
    const std::vector<double> at = {rows_[upper[0] ? rows.high() : rows.low],
                                    epochs_[upper[1] ? epochs.high() : epochs.low],
                                    bounds_[upper[2] ? bound.high() : bound.low]};
    const auto point = points_.find(at);
    if (point == points_.end()) {
      return std::nullopt;
    }
    const ExpectedLoss& loss = point->second;
    sum.loss += weight * loss.loss;
    sum.loss_min += weight * loss.loss_min;
    sum.loss_max += weight * loss.loss_max;
    sum.none_test_auc += weight * loss.none_test_auc;
    sum.frozen_test_auc += weight * loss.frozen_test_auc;
    sum.seeds = std::min(sum.seeds, loss.seeds);
  }
  sum.loss_min = std::max(0.0, sum.loss_min);
  return sum;
}

std::string LossCurves::Range() const {
  return absl::StrCat(FromTo(rows_, Grouped), " rows, ", Plain(100 * positives_), "% positive, ",
                      FromTo(epochs_, Plain), " epochs, bounds ", FromTo(bounds_, Plain));
}

}  // namespace splitveil
