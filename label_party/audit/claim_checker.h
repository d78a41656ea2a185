// Holds the mu that a run claims against what the run's own releases show.
#ifndef SPLITVEIL_LABEL_PARTY_AUDIT_CLAIM_CHECKER_H_
#define SPLITVEIL_LABEL_PARTY_AUDIT_CLAIM_CHECKER_H_

#include <cereal/access.hpp>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"

#include "common/leakage/bounds.h"
#include "common/leakage/conditional_likelihood.h"
#include "common/leakage/example_sample.h"
#include "common/ledger/ledger.h"
#include "common/privacy/mu_lower_bound.h"
#include "label_party/audit/label_side_audit.h"

namespace splitveil {

// A run claims mu = sqrt(evidence.run_sum_kl), or for what has been released so far sqrt(evidence.accumulated_sum_kl).
// The noise on its labels promises it, or, for Gaussian classes, the noise on its gradients, whose AUC bound
// Phi(sqrt(sum_kl / 2)) a mu-GDP mechanism has too. Five tests, chosen here once and for all, share two error
// probabilities: each takes a fifth of the one at which a run fails, and each of the first three a third of the one of
// the reported bound:
//   own         an example's residuals (LabelResiduals), weighted by their shifts and summed over its releases; their
//               mean if all are made of one noised label. Finds too little noise, noise that one class lacks, noise
//               drawn again if the claim is of one draw.
//   neighbour   the same less the noise of the row beside it, whose label is taken as known (mu-GDP protects an example
//               among known ones). Finds noise that examples share. Every other row of a batch is tested, so that no
//               noise enters two scores.
//   difference  the first release's residual less the latest's, of releases that claim noise of their own. Finds noise
//               that releases share, if its size changes between them.
//   noise       two: how many examples of either class `own` leaves within a standard deviation of where their label
//               puts them, which is noise alone if that is on labels. Finds too little noise among far fewer examples
//               than the others, which must tell the classes apart for that.
// Rounding leaves a range of each score, and how wide it is features decide. So each test takes the end of it that
// speaks for the claim: rounding, which a peer can make as coarse as it likes, makes tests weaker and never refutes.
// Of flipped labels the first two alone, each row being read as the label that it was made of: with probability
// f = 1 / (1 + e^epsilon) it is the wrong one, which is mu-GDP for mu = -2 Phi^-1(f), and no smaller one (its trade-off
// function meets that of mu at (f, f), and is linear on either side).
//
// All have one law for all negatives, whatever their features, and so satisfy what LowerBoundMu asks. None sees
// what the releasing head itself has learned: p and v are taken as known. That a head learns from nothing but noised
// labels takes labels that are drawn at random (tests/statistical/audit) or flipped, not a run on real ones.
//
// Not thread-safe. Memory: 45 bytes an example of the sample, from the first release that claims anything.
class ClaimChecker {
 public:
  static constexpr double kConfidence = 0.95;
  // Of failing_mu_lower. With the attacks that are held against bounds an honest run is failed once in ten thousand
  // draws of its noise. Runs of one account share the draw, and with it a false alarm.
  static constexpr double kFailingConfidence = 1 - (kFalseAlarmRisk - kAttacksRisk);
  static constexpr double kDelta = 1e-5;
  // Splits the examples, of every run alike: it cannot have been chosen by what came out.
  static constexpr uint64_t kSeed = 1;

  // `sample`: the aligned examples, and which of them are tested.
  explicit ClaimChecker(const ExampleSample& sample) : sample_(sample) {}

  // Takes up one release. Nothing if it claims no mu: no noise is stated, neither on gradients nor on labels
  // (evidence.has_label_noise, has_flipped_labels), or no finite sum_kl. Whatever has candidates and no noise on labels
  // is left out.
  void Add(const ReleasedBatch& batch, const ReleaseEvidence& evidence, const ReleasingHead& head);

  // Of all releases so far; nullopt if none claimed anything, or fewer than two examples of a class were released.
  std::optional<ClaimCheckRow> Finish() const;

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(sample_, claimed_sum_kl_, releases_repeat_, first_epoch_, seen_epoch_, seen_sum_kl_, squared_separations_,
            separations_, is_scatter_exact_, labels_, own_, own_shifts_, neighbour_, first_, latest_);
  }

  // Of each example the ends of a range. [sample]
  struct Ranges {
    std::vector<float> low, high;

    template <typename Archive>
    void serialize(Archive& archive) {
      archive(low, high);
    }
  };
  // Each example's sum of evidence, and that sum's variance; of a mean, how many it is of. [sample]
  struct Sums {
    Ranges evidence;
    std::vector<float> weights;

    void Add(uint32_t slot, double factor, const LabelResidual& residual, double weight);

    template <typename Archive>
    void serialize(Archive& archive) {
      archive(evidence, weights);
    }
  };
  // Examples that a test scores.
  struct Scored {
    std::vector<ScoreRange> scores;
    std::vector<uint8_t> labels;
    std::vector<double> centres;  // Of `own`: where the labels put the scores.
  };

  void Allocate();
  void AddOwn(const ReleasedBatch& batch, absl::Span<const LabelResidual> residuals);
  void AddNeighbours(const ReleasedBatch& batch, absl::Span<const LabelResidual> residuals);
  double UnitOf(double weight) const;
  Scored Own() const;
  Scored Neighbour() const;
  Scored Difference() const;
  static OpenScores OpenOf(const Scored& own, uint8_t label);
  static void AddNoiseTest(const Scored& own, uint8_t label, ClaimCheckRow& row);

  ExampleSample sample_;
  double claimed_sum_kl_ = 0;
  bool releases_repeat_ = false;
  uint32_t first_epoch_ = 0;
  std::optional<uint32_t> seen_epoch_;  // The latest.
  // Of one release of each epoch: of noised labels, less than is claimed if this run resumes an earlier one.
  double seen_sum_kl_ = 0;
  double squared_separations_ = 0;  // Of the candidates of noised labels that are known: their sum,
  int64_t separations_ = 0;         // and of how many releases.
  // Whether residuals scatter as the noise does: not if those of several outputs are told apart with a ridge, which
  // shrinks what lies along nearly dependent directions.
  bool is_scatter_exact_ = true;
  std::vector<uint8_t> labels_;  // [sample]; of those released.
  Sums own_, neighbour_;
  std::vector<float> own_shifts_;  // [sample]: what the label adds to own_.evidence if it is positive.
  Ranges first_, latest_;          // Residuals; NaN before there is one.
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_AUDIT_CLAIM_CHECKER_H_
