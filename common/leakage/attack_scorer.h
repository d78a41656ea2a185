// Every attack on a batch at one layer, and what an adversary remembers of it over the run.
#ifndef SPLITVEIL_COMMON_LEAKAGE_ATTACK_SCORER_H_
#define SPLITVEIL_COMMON_LEAKAGE_ATTACK_SCORER_H_

#include <cereal/access.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/leakage/attack_traits.h"
#include "common/leakage/conditional_likelihood.h"
#include "common/leakage/example_sample.h"
#include "common/leakage/gradient_views.h"
#include "common/leakage/label_factor.h"
#include "common/leakage/population.h"
#include "common/leakage/scores.h"
#include "common/leakage/surrogate_head.h"
#include "common/matrix/matrix.h"

#include "splitveil/v1/leak_audit.pb.h"

namespace splitveil {

// What there is to see of a batch at one layer. Borrowed; lives from AttackScorer::Begin to the last Score.
struct AttackInput {
  ConstMatrixView gradients;               // [batch, units], as received and back-propagated to the layer.
  absl::Span<const uint32_t> positions;    // Aligned positions of the rows, [batch].
  ConstMatrixView activations;             // [batch, cut_width], as sent; if needs_activations().
  absl::Span<const uint32_t> hint_rows;    // Rows known to be positive; empty without an oracle.
  absl::Span<const float> clean_positive;  // Clean gradient of the first of them at this layer, [units], or empty.
  // The label party's own attacks only:
  const Population* population = nullptr;  // the classes' true moments,
  const ReleasingHead* head = nullptr;     // what the gradients were made of.
};

// The scores of one adversary at one layer. Stateful: the sign of the principal direction is kept consistent from batch
// to batch, and cumulative attacks keep evidence by position. Not thread-safe.
class AttackScorer {
 public:
  // `sample`: the aligned examples, and which of them cumulative attacks remember.
  explicit AttackScorer(const ExampleSample& sample);

  // Takes up the next batch. Each variant is scored at most once per batch. Errors: InvalidArgument for shapes that do
  // not fit each other or a row outside the batch.
  absl::Status Begin(const AttackInput& input);

  // One score per row, finite for finite gradients; larger means "positive". For cumulative attacks: the sum of the
  // evidence of this and all earlier batches that held the example, or this batch's alone if the sample lacks it.
  // Errors: FailedPrecondition if the attack needs what is not there (AttackTraits::needs), or runs once per run.
  absl::StatusOr<std::vector<float>> Score(AttackVariant variant);

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(sample_, gradient_direction_, gradient_clusters_, activation_clusters_, splitter_, surrogate_,
            label_factor_, cumulative_direction_, remembered_, most_exact_);
  }

  // Adds the batch's evidence to what is remembered of its rows; the sums. Both [batch].
  std::vector<double> Remember(v1::Attack attack, const std::vector<double>& evidence);
  // The same of releases that repeat, whose evidence counts once: what the most exact release of each row told.
  std::vector<double> KeepMostExact(const std::vector<double>& evidence);
  // Errors: FailedPrecondition if `input_` lacks what the attack needs.
  absl::Status CheckKnown(const AttackTraits& traits) const;
  const std::vector<double>& Spectral();
  std::vector<float> ScoreCumulative();
  std::vector<float> ScoreByHints(AttackVariant variant);
  std::vector<float> ScoreByLikelihood(v1::Attack attack);
  std::vector<float> ScoreByDirection(v1::Attack attack);
  std::vector<float> ScoreByHead(v1::Attack attack);
  std::vector<float> ScoreBySurrogate(v1::Attack attack);
  std::vector<float> ScoreByFactor(v1::Attack attack);
  const GradientViews& Views();
  // Two clusters of each of a stream of batches.
  struct Clusters {
    PrincipalDirection direction;
    double votes = 0;  // Positive if the cluster along the direction was the smaller one, over the batches so far.

    template <typename Archive>
    void serialize(Archive& archive) {
      archive(direction, votes);
    }
  };
  static std::vector<float> ScoreClusters(ConstMatrixView rows, Clusters& clusters);

  ExampleSample sample_;
  AttackInput input_;
  PrincipalDirection gradient_direction_;
  Clusters gradient_clusters_, activation_clusters_;
  GradientSplitter splitter_;
  SurrogateHead surrogate_;
  LabelFactor label_factor_;
  PrincipalDirection cumulative_direction_;               // Leans towards what is remembered of the rows.
  std::map<v1::Attack, std::vector<double>> remembered_;  // [sample] each; made when first used.
  struct Repeated {
    double precision = 0, evidence = 0;

    template <typename Archive>
    void serialize(Archive& archive) {
      archive(precision, evidence);
    }
  };
  std::vector<Repeated> most_exact_;  // [sample]; made when first used.
  // Of this batch, computed when first asked for.
  struct Batch {
    std::optional<HintScores> hint_scores;
    std::optional<std::vector<double>> spectral;  // Projections, without the vote on their orientation.
    std::optional<std::vector<float>> likelihood_ratio, projection;
    std::optional<std::vector<double>> conditional_log_ratio;
    std::optional<GradientViews> views;
    std::optional<SurrogateScores> surrogate_scores;
    std::optional<std::vector<double>> factor_log_ratio;
  };
  Batch batch_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_ATTACK_SCORER_H_
