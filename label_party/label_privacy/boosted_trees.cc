#include "label_party/label_privacy/boosted_trees.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace splitveil {
namespace {

constexpr int kTrees = 50;
constexpr double kLearningRate = 0.3;
constexpr double kRidge = 1;           // Added to the curvature of a leaf: few rows move it little.
constexpr double kLeastCurvature = 1;  // Of a leaf: a row has at most 1/4.

}  // namespace

// Of the rows that are fitted, by their position among them.
struct BoostedTrees::Growth {
  absl::Span<const uint32_t> rows;
  std::vector<float> scores;
  std::vector<float> gradients, curvatures;
  std::vector<uint8_t> nodes;
  std::vector<Sums> histogram;  // [nodes of a level, columns, bins]
};

BoostedTrees::Question BoostedTrees::BestQuestion(const BinnedRows& table, const Sums* histogram, double* gain) const {
  // The reduction of the loss by a leaf's best constant, to second order (Chen and Guestrin, KDD 2016, equation 6).
  const auto value = [](const Sums& sums) { return sums.gradient * sums.gradient / (sums.curvature + kRidge); };
  Question best;
  *gain = 0;
  for (int64_t column = 0; column < table.columns; ++column) {
    const Sums* const bins = histogram + column * BinnedRows::kBins;
    Sums all;
    for (int bin = 0; bin < BinnedRows::kBins; ++bin) {
      all.gradient += bins[bin].gradient;
      all.curvature += bins[bin].curvature;
    }
    Sums left;
    for (int bin = 0; bin + 1 < BinnedRows::kBins; ++bin) {
      left.gradient += bins[bin].gradient;
      left.curvature += bins[bin].curvature;
      const Sums right = {all.gradient - left.gradient, all.curvature - left.curvature};
      // A leaf of a few rows would learn their labels by heart, and any column would seem to reveal them.
      if (left.curvature < kLeastCurvature || right.curvature < kLeastCurvature) {
        continue;
      }
      const double gained = value(left) + value(right) - value(all);
      if (gained > *gain) {
        *gain = gained;
        best = {column, bin};
      }
    }
  }
  return best;
}

void BoostedTrees::Grow(const BinnedRows& table, Growth& growth) {
  Tree& tree = trees_.emplace_back();
  std::fill(growth.nodes.begin(), growth.nodes.end(), 0);
  const auto node_size = static_cast<size_t>(table.columns * BinnedRows::kBins);
  for (int level = 0; level < kDepth; ++level) {
    const int first = (1 << level) - 1;
    // Histograms of bins, not sorted rows: a pass over the rows per level, whatever the number of split points.
    growth.histogram.assign(node_size << level, Sums());
    for (size_t i = 0; i < growth.rows.size(); ++i) {
      const uint8_t* const bins = table.bins.data() + growth.rows[i] * table.columns;
      Sums* const sums = growth.histogram.data() + node_size * (growth.nodes[i] - first);
      for (int64_t column = 0; column < table.columns; ++column) {
        Sums& sum = sums[column * BinnedRows::kBins + bins[column]];
        sum.gradient += growth.gradients[i];
        sum.curvature += growth.curvatures[i];
      }
    }
    for (int node = 0; node < 1 << level; ++node) {
      double gain = 0;
      Question& question = tree.questions[first + node];
      question = BestQuestion(table, growth.histogram.data() + node_size * node, &gain);
      gains_[question.column] += gain;
    }
    for (size_t i = 0; i < growth.rows.size(); ++i) {
      const Question& question = tree.questions[growth.nodes[i]];
      const bool right = table.bins[growth.rows[i] * table.columns + question.column] > question.last_left;
      growth.nodes[i] = static_cast<uint8_t>(2 * growth.nodes[i] + (right ? 2 : 1));
    }
  }
  std::array<Sums, 1 << kDepth> leaves;
  for (size_t i = 0; i < growth.rows.size(); ++i) {
    Sums& leaf = leaves[growth.nodes[i] - kInner];
    leaf.gradient += growth.gradients[i];
    leaf.curvature += growth.curvatures[i];
  }
  for (size_t leaf = 0; leaf < leaves.size(); ++leaf) {
    tree.leaves[leaf] = static_cast<float>(-kLearningRate * leaves[leaf].gradient / (leaves[leaf].curvature + kRidge));
  }
}

BoostedTrees BoostedTrees::Fit(const BinnedRows& table, absl::Span<const uint8_t> labels,
                               absl::Span<const uint32_t> rows) {
  BoostedTrees fitted;
  fitted.gains_.resize(static_cast<size_t>(table.columns));
  Growth growth;
  growth.rows = rows;
  growth.scores.resize(rows.size());
  growth.gradients.resize(rows.size());
  growth.curvatures.resize(rows.size());
  growth.nodes.resize(rows.size());
  for (int round = 0; round < kTrees; ++round) {
    for (size_t i = 0; i < rows.size(); ++i) {
      const float probability = 1 / (1 + std::exp(-growth.scores[i]));
      // Of the log loss: the same p - y that the model itself would send.
      growth.gradients[i] = probability - static_cast<float>(labels[rows[i]]);
      growth.curvatures[i] = probability * (1 - probability);
    }
    fitted.Grow(table, growth);
    for (size_t i = 0; i < rows.size(); ++i) {
      growth.scores[i] += fitted.trees_.back().leaves[growth.nodes[i] - kInner];
    }
  }
  return fitted;
}

float BoostedTrees::Score(const BinnedRows& table, uint32_t row) const {
  const uint8_t* const bins = table.bins.data() + row * table.columns;
  float score = 0;
  for (const Tree& tree : trees_) {
    int node = 0;
    while (node < kInner) {
      node = 2 * node + (bins[tree.questions[node].column] > tree.questions[node].last_left ? 2 : 1);
    }
    score += tree.leaves[node - kInner];
  }
  return score;
}

}  // namespace splitveil
