// Factor analysis of gradients whose common factor is a label.
#ifndef SPLITVEIL_COMMON_LEAKAGE_LABEL_FACTOR_H_
#define SPLITVEIL_COMMON_LEAKAGE_LABEL_FACTOR_H_

#include <cereal/access.hpp>
#include <vector>

#include "common/leakage/gradient_views.h"

namespace splitveil {

class Matrix;

// Models a gradient as one of two means, by its label, and Gaussian noise whose covariance is the same for both and may
// be of any shape: a factor model whose factor has two values. One step of expectation and maximisation a batch, with
// moments over all batches so far, begins at the main direction, or, if that shows nothing but noise, at the
// coordinate that is flattest, for so are two classes; the covariance takes noise that differs from direction to
// direction out of the test. Works on the coordinates of GradientViews. Keeps moments, no row. Not thread-safe.
class LabelFactor {
 public:
  // Takes in the next batch; log ratios of positive against negative under the model, by row. All 0 for a batch
  // without information (GradientViews::empty). [rows]
  std::vector<double> Take(const GradientViews& views);

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(moments_, skewness_, kurtosis_, weight_, test_, middle_, prior_log_odds_);
  }

  // Fading means over the batches so far, each row with the chance that it is positive.
  struct Moments {
    double positives = 0;
    std::vector<double> of_positives;  // [coordinates]
    std::vector<double> mean;
    std::vector<double> products;  // [coordinates, coordinates]

    template <typename Archive>
    void serialize(Archive& archive) {
      archive(positives, of_positives, mean, products);
    }
  };
  void Turn(const Matrix& turn);
  // Sets the test to where the fit to the batch begins.
  void Begin(const Matrix& rows);
  // `moments_` with the rows faded in, as the test has their chances.
  Moments Absorb(const Matrix& rows) const;
  void Fit(const Moments& moments);
  double LogRatio(const Matrix& rows, int64_t row) const;

  // Of all batches in the fading means once the latest is in.
  double Weight() const;

  Moments moments_;
  std::vector<double> skewness_, kurtosis_;  // Fading means of the batches' coordinates.
  double weight_ = 0;                        // Of the batches before, below 1.
  std::vector<double> test_;                 // Covariance^-1 (mean of positives - mean of negatives).
  double middle_ = 0;                        // <test, middle of the two means>.
  double prior_log_odds_ = -1;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_LABEL_FACTOR_H_
