// The label party's own attacks on the bytes that it sends: those of the attack module, those that take the classes'
// true moments, and the adversary that knows all but which of two labels.
#ifndef SPLITVEIL_LABEL_PARTY_AUDIT_LABEL_SIDE_AUDIT_H_
#define SPLITVEIL_LABEL_PARTY_AUDIT_LABEL_SIDE_AUDIT_H_

#include <cereal/access.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/dataset/task.h"
#include "common/leakage/attack_scorer.h"
#include "common/leakage/attack_traits.h"
#include "common/leakage/conditional_likelihood.h"
#include "common/leakage/population.h"
#include "common/matrix/matrix.h"

#include "splitveil/v1/party.pb.h"

namespace splitveil {

// Two labels of an example, one of them the true one, between which an adversary that knows everything else must
// decide. A guarantee against any such adversary holds for every pair; attacks are tried on this pair.
struct LabelCandidates {
  float low = 0, high = 1;  // Of two classes; low < high.
};

// The true label and a wrong one. Of several classes any wrong one, drawn from `position`, so that it is the same in
// all epochs. Of a number the end of [0, 1] that is farther away: its distance, at least 1/2, shows most.
LabelCandidates CandidatesOf(const Task& task, float label, uint32_t position);

// What a head of several outputs, or of a number, released, and from what. K: outputs of the task. Borrowed.
struct CandidateEvidence {
  ConstMatrixView released;             // [batch, d]
  ConstMatrixView output_directions;    // [batch, K d]: d output_k / dz, output by output.
  absl::Span<const float> predictions;  // [batch * K]
  double label_mu = 0;                  // Of the noise on labels, for the largest distance of two; 0: none.
  // ReleasingHead.releases_posterior.
  bool releases_posterior = false;
  Rounding rounding = {};  // Of `released`.
};

// Where each release lies between what its two candidates would send without noise. [batch] each.
struct CandidatePlaces {
  // 0 at the lower one, 1 at the higher; of labels with noise, N(0 or 1, 1 / (mu separation)^2). NaN if the label
  // moves nothing, or directions are dependent.
  std::vector<float> places;
  std::vector<float> separations;  // Distance of the two as a share of the largest that two labels can have.
  // Whether the place follows the law above. It does not if directions of outputs are dependent, nor if rounding has
  // lost what a posterior says.
  std::vector<uint8_t> exact;
  std::vector<float> margins;  // By how much rounding may have moved the place.
};

// With noise on labels: least squares along the directions of the outputs (normal equations with a ridge of 1e-6 of
// their trace). If those are independent, this gives back each output's residual, and with the predictions the noised
// label. If they are not, for instance with more classes than numbers in a gradient or in a layer behind it, there is
// no place. Without noise: the place on the line between what the two labels would send. On all cores. Thread-safe.
CandidatePlaces PlacesBetween(absl::Span<const LabelCandidates> candidates, const CandidateEvidence& evidence);

// A batch whose gradients are sent: what is needed to judge scores of it, and no gradient.
struct ReleasedBatch {
  int64_t step = 0;
  uint32_t epoch = 0;
  uint32_t batch = 0;
  // What attacks try to infer, 0 or 1: the label; of several classes, whether it is the audited one; of a number,
  // whether it is above the median of the training examples.
  std::vector<uint8_t> labels;
  // Of several classes, and of numbers: the two labels between which an adversary that knows all else must decide, and
  // whether the label is the higher one. Empty for two classes, whose candidates are 0 and 1: `labels` says which.
  std::vector<LabelCandidates> candidates;
  std::vector<uint8_t> is_higher;
  // Aligned positions of the rows.
  std::vector<uint32_t> positions;
  // Whether the peer's scores of this batch get an answer under disclosure ROUNDED.
  bool is_answered = false;
  // Whether the operator had lowered the disclosure by then: the peer's scores get no answer.
  bool is_disclosure_lowered = false;
  // Up to kMaxHints rows of positives, drawn secretly; empty in a batch without positives.
  std::vector<uint32_t> hint_rows;

  // What this attack tries to infer for each row.
  const std::vector<uint8_t>& LabelsFor(v1::Attack attack) const {
    return TraitsOf(attack).needs == SideInformation::kReleasingHead ? pair_labels() : labels;
  }
  // Whether a row's label is the higher one of its candidates.
  const std::vector<uint8_t>& pair_labels() const { return candidates.empty() ? labels : is_higher; }

  // g+ of the cosine attack: the first hint row of the batch's `clean` gradients [batch, cut_width]; empty without
  // hints.
  absl::Span<const float> CleanPositive(ConstMatrixView clean) const {
    return hint_rows.empty() ? absl::Span<const float>() : clean.row(hint_rows.front());
  }
};

// What was sent of a batch, and from what it was made. All [batch, cut_width]; borrowed for the call.
struct ReleaseEvidence {
  ConstMatrixView released;            // Decoded from the bytes that were sent; empty if the audit does not read it.
  ConstMatrixView clean;               // Before the protection.
  ConstMatrixView activations;         // As received.
  NoiseVariances noise_negative = {};  // As the protection states it; NaN if the method states none.
  NoiseVariances noise_positive = {};
  double sum_kl = 0;              // Of this release; NaN if the method has none.
  double accumulated_sum_kl = 0;  // Largest sum over the releases of one example, this one included.
  // What the model that computed `clean` knew of each row, see ReleasingHead; empty if the gradients are not its own
  // alone (a regulariser's were added).
  ConstMatrixView label_directions = {};       // [batch, outputs * cut_width]
  absl::Span<const float> probabilities = {};  // [batch * outputs]: predictions.
  double clip_norm = 0;
  bool releases_repeat = false;
  bool releases_posterior = false;
  // The gradients are made of labels with Gaussian noise, whose mu is sqrt(sum_kl).
  bool has_label_noise = false;
  // They are made of flipped labels, and their claim is the mu of those flips (ClaimChecker).
  bool has_flipped_labels = false;
  double spread_negative = std::numeric_limits<double>::quiet_NaN();  // Of the classes that the noise was made for.
  double spread_positive = std::numeric_limits<double>::quiet_NaN();
  absl::Span<const float> noise_direction = {};  // ReleasingHead's, as is
  double longest = 0;
  // What the run claims: the divergence of all that it may release of an example, if that is known beforehand. NaN: the
  // claim is accumulated_sum_kl, about what has been released.
  double run_sum_kl = std::numeric_limits<double>::quiet_NaN();
  Rounding rounding = {};  // Of `released`.
};

// One attack's scores of a release.
struct BatchScores {
  AttackVariant attack;
  std::vector<float> scores;  // [batch]
};

// Not thread-safe.
class LabelSideAudit {
 public:
  // `sample`: the aligned examples, and which of them cumulative attacks remember.
  LabelSideAudit(const v1::LabelSideAudit& config, const ExampleSample& sample);

  // Whether all attacks run on the release of `step`: every n-th (config.every_batches).
  bool Attacks(int64_t step) const { return step % every_batches_ == 0; }
  // Whether Score has anything to do with the release of `step`: it is attacked, or a cumulative attack takes it in,
  // or the classes' moments are estimated from it.
  bool Reads(int64_t step) const { return reads_all_ || Attacks(step); }

  // Scores of the configured attacks on one release, at the cut layer. Cumulative attacks run on every one. Attacks
  // whose side information is lacking (no positive to hint at, no class moments yet) are left out. Errors: of
  // AttackScorer, and InvalidArgument if the evidence is not of the batch's rows.
  absl::StatusOr<std::vector<BatchScores>> Score(const ReleasedBatch& batch, const ReleaseEvidence& evidence);

  // What the attacks on single examples used for the release that Score was last called for; nullopt if it is not
  // known. Borrows from `evidence` and from this, until the next Score.
  std::optional<ReleasingHead> HeadOf(const ReleaseEvidence& evidence) const;

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(scorer_, estimator_, population_);
  }

  absl::Status EstimateNext(const ReleasedBatch& batch, const ReleaseEvidence& evidence);
  void Place(const ReleasedBatch& batch, const ReleaseEvidence& evidence);
  bool KnowsPlaces() const;  // Of any row.

  std::vector<AttackVariant> attacks_;
  bool needs_population_ = false;  // An attack takes the classes' true moments.
  bool reads_all_ = false;         // Reads holds for every step.
  const int64_t every_batches_;
  AttackScorer scorer_;
  PopulationEstimator estimator_;
  // Of the latest batch that held both classes: what the strongest adversary would use on one that does not.
  std::optional<Population> population_;
  CandidatePlaces places_;  // Of the release that is scored; empty if its labels are of two classes.
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_AUDIT_LABEL_SIDE_AUDIT_H_
