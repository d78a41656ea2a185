// Scores made up to read labels out of leak AUCs (Whitehill, "How does knowledge of the AUC constrain the set of
// possible ground-truth labelings?", AAAI 2019; "Exploiting an oracle that reports AUC scores in machine learning
// contests", AAAI 2016): exact AUCs tell them, AUCs that are only rounded tell them in small batches and to who knows
// the others, answers under disclosure ROUNDED do not.
#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "common/leakage/summary.h"
#include "label_party/policy/release_gate.h"

namespace splitveil {
namespace {

constexpr int64_t kTarget = 17;  // Whose label is to be read.

// A batch in which the adversary knows every label but one.
struct Batch {
  std::vector<float> scores;
  std::vector<uint8_t> labels;

  std::vector<uint8_t> With(uint8_t label) const {
    std::vector<uint8_t> with = labels;
    with[kTarget] = label;
    return with;
  }
};

Batch BatchOf(size_t examples, size_t positives) {
  Batch batch = {std::vector<float>(examples, 0), std::vector<uint8_t>(examples, 0)};
  for (size_t i = 0; i < positives; ++i) {
    batch.labels[kTarget + 1 + i] = 1;
  }
  return batch;
}

// One score of 1, the rest 0: the AUC is 1/2 + 1/(2 n1) or 1/2 - 1/(2 n0).
Batch OneScore(size_t examples, size_t positives) {
  Batch batch = BatchOf(examples, positives);
  batch.scores[kTarget] = 1;
  return batch;
}

// Known positives above known negatives as far as brings the AUC to within one label of where rounding turns: with the
// target at the top, its label decides. Needs a search only because ranks are whole numbers.
Batch AtARoundingBoundary(size_t examples, size_t positives) {
  Batch batch = OneScore(examples, positives);
  for (size_t i = 0; i < examples - kTarget - positives - 1; ++i) {
    const double negative = *LeakAuc(batch.scores, batch.With(0));
    const double positive = *LeakAuc(batch.scores, batch.With(1));
    if (std::round(100 * negative) != std::round(100 * positive)) {
      return batch;
    }
    batch.scores[kTarget + 1 + positives + i] = -1;  // A known negative below all others raises the AUC a little.
  }
  ADD_FAILURE() << "no boundary found";
  return batch;
}

double Rounded(double auc) { return std::round(100 * auc) / 100; }

// AUC of the answers themselves as a score of the target's label, over as many batches with either label.
double ReadsLabel(int batches, const std::function<double(uint8_t)>& answer) {
  std::vector<float> answers;
  std::vector<uint8_t> truth;
  for (int i = 0; i < 2 * batches; ++i) {
    truth.push_back(i % 2 == 0 ? 1 : 0);
    answers.push_back(static_cast<float>(answer(truth.back())));
  }
  return *LeakAuc(answers, truth);
}

TEST(CraftedScoresTest, AnExactAucTellsTheLabelInAnyBatch) {
  for (const size_t examples : {64, 1024, 16384}) {
    const Batch batch = OneScore(examples, examples / 4);
    EXPECT_EQ(ReadsLabel(10, [&](uint8_t label) { return *LeakAuc(batch.scores, batch.With(label)); }), 1);
  }
}

// What ROUNDED was: a small batch gives the label away to anybody, a large one to who knows the others.
TEST(CraftedScoresTest, RoundingAloneTellsTheLabel) {
  for (const Batch& batch : {OneScore(64, 4), AtARoundingBoundary(1024, 256), AtARoundingBoundary(4096, 1024)}) {
    EXPECT_EQ(ReadsLabel(10, [&](uint8_t label) { return Rounded(*LeakAuc(batch.scores, batch.With(label))); }), 1);
  }
}

// The bound is Phi(mu / sqrt 2) whatever the scores; an AUC of 20,000 answers of each kind scatters by at most
// sqrt((2 * 20000 + 1) / (12 * 20000^2)) = 0.0029 around it, so that each comparison fails by chance less than once in
// 10^9 runs (6 standard deviations).
TEST(CraftedScoresTest, RoundedAnswersKeepToTheirBound) {
  constexpr int kBatches = 20000;
  constexpr double kScatter = 6 * 0.0029;
  for (const double mu : {0.1, 1.0}) {
    v1::RoundedAnswers config;
    config.set_mu(mu);
    const double bound = boost::math::cdf(boost::math::normal(), mu / std::sqrt(2));
    // Few positives, so that an exact answer moves by 0.1; and many, at a boundary.
    for (const Batch& batch : {OneScore(256, 4), OneScore(256, 0), AtARoundingBoundary(256, 64)}) {
      const double reached =
          ReadsLabel(kBatches, [&](uint8_t label) { return RoundedAnswer(config, batch.scores, batch.With(label)); });
      EXPECT_LE(std::abs(reached - 0.5), bound - 0.5 + kScatter) << "mu " << mu;
    }
  }
}

// The test above can fail: half of the noise passes the bound of mu = 1, 0.760, by ten times what chance does.
TEST(CraftedScoresTest, HalfOfTheNoiseWouldShow) {
  v1::RoundedAnswers config;
  config.set_mu(1);
  // Of two batches at once, as one answer with half of the noise would be: the mean of four independent ones.
  const Batch batch = OneScore(256, 64);
  const double reached = ReadsLabel(20000, [&](uint8_t label) {
    double sum = 0;
    for (int i = 0; i < 4; ++i) {
      sum += RoundedAnswer(config, batch.scores, batch.With(label));
    }
    return sum;
  });
  EXPECT_GT(reached, boost::math::cdf(boost::math::normal(), 1 / std::sqrt(2.0)) + 6 * 0.0029);
}

}  // namespace
}  // namespace splitveil
