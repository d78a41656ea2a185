// A small ensemble of shallow decision trees: how well columns together tell a question of two answers.
#ifndef SPLITVEIL_LABEL_PARTY_LABEL_PRIVACY_BOOSTED_TREES_H_
#define SPLITVEIL_LABEL_PARTY_LABEL_PRIVACY_BOOSTED_TREES_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace splitveil {

// Values of columns as the numbers of their bins, row by row.
struct BinnedRows {
  static constexpr int kBins = 64;

  int64_t columns = 0;
  std::vector<uint8_t> bins;  // [rows, columns], each below kBins.
};

// Gradient boosting (Friedman, Annals of Statistics 2001) with the logistic loss, Newton's step in each leaf, and trees
// of three questions in a row. The same input gives the same trees. Immutable once it is fitted.
class BoostedTrees {
 public:
  // Fits `rows` of `table`, at least one, whose answers are in `labels`, 0 or 1, by row of the table. O(rows x
  // columns).
  static BoostedTrees Fit(const BinnedRows& table, absl::Span<const uint8_t> labels, absl::Span<const uint32_t> rows);

  // The larger, the likelier 1.
  float Score(const BinnedRows& table, uint32_t row) const;
  // How much the loss fell by questions about each column; not negative.
  const std::vector<double>& gains() const { return gains_; }

 private:
  static constexpr int kDepth = 3, kInner = (1 << kDepth) - 1;
  struct Question {
    int64_t column = 0;
    int last_left = BinnedRows::kBins;  // Bins up to here go left; all of them: no question.
  };
  struct Tree {
    std::array<Question, kInner> questions;  // Children of i: 2i + 1 and 2i + 2.
    std::array<float, 1 << kDepth> leaves = {};
  };
  struct Sums {
    double gradient = 0, curvature = 0;
  };
  struct Growth;

  // A tree that lowers the loss of `growth`, and the rows' places in it.
  void Grow(const BinnedRows& table, Growth& growth);
  Question BestQuestion(const BinnedRows& table, const Sums* histogram, double* gain) const;

  std::vector<Tree> trees_;
  std::vector<double> gains_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_LABEL_PRIVACY_BOOSTED_TREES_H_
