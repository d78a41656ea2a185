// Labels of several classes, and numbers, as the strongest adversary meets them: it knows all but which of two.
#ifndef SPLITVEIL_LABEL_PARTY_AUDIT_LABEL_CANDIDATES_H_
#define SPLITVEIL_LABEL_PARTY_AUDIT_LABEL_CANDIDATES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "common/dataset/task.h"
#include "common/matrix/matrix.h"

namespace splitveil {

// The two labels of an example that an adversary with all side information but the label itself is left with, one of
// them the true one. A guarantee for any such adversary is one for every pair: this pair is what it is tried on.
struct LabelCandidates {
  float low = 0, high = 1;  // Of two classes; low < high.
};

// The true label and another: of several classes any other one, alike in all epochs, which `position` draws; of a
// number the end of [0, 1] that is farther, whose distance, at least 1/2, shows most.
LabelCandidates CandidatesOf(const Task& task, float label, uint32_t position);

// A head of several outputs, or of a number, and what it released. K: outputs of the task. Borrowed.
struct CandidateEvidence {
  ConstMatrixView released;             // [batch, d]
  ConstMatrixView output_directions;    // [batch, K d]: d output_k / dz, output by output.
  absl::Span<const float> predictions;  // [batch * K]
  double label_mu = 0;                  // Of the noise on labels, for the largest distance of two; 0: none.
  // ReleasingHead.releases_posterior.
  bool releases_posterior = false;
};

// Where each release lies between what its two candidates would send without noise. [batch] each.
struct CandidatePlaces {
  // 0 at the lower one, 1 at the higher; of labels with noise, N(0 or 1, 1 / (mu separation)^2). NaN where the label
  // moves nothing.
  std::vector<float> places;
  std::vector<float> separations;  // Distance of the two as a share of the largest that two labels can have.
  // Whether the law of the place is the one stated: not where directions of outputs cannot be told apart, nor where
  // floats have rounded away what a posterior says.
  std::vector<uint8_t> exact;
};

// Of labels with noise, least squares along the directions of the outputs (normal equations with a ridge of 1e-6 of
// their trace): where those are independent, that gives back each output's residual, and with the predictions the
// noised label; where they are not, as with more classes than numbers in a gradient, places are not exact. Without
// noise, the place on the line between what the two would send. Thread-safe.
CandidatePlaces PlacesBetween(absl::Span<const LabelCandidates> candidates, const CandidateEvidence& evidence);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_AUDIT_LABEL_CANDIDATES_H_
