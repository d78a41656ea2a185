// The best any adversary can do against one example's release, whatever the classes are like.
#ifndef SPLITVEIL_COMMON_LEAKAGE_CONDITIONAL_LIKELIHOOD_H_
#define SPLITVEIL_COMMON_LEAKAGE_CONDITIONAL_LIKELIHOOD_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"

#include "common/leakage/population.h"
#include "common/matrix/matrix.h"

#include "splitveil/v1/tensor.pb.h"

namespace splitveil {

// What a top model makes of a batch before any label is looked at. By the chain rule an example's clean gradient is
// (p - y) v, v = dlogit/dz: its label moves it along its own v and nowhere else. Borrowed.
struct LabelFreeBatch {
  ConstMatrixView label_directions;       // [batch, d]: v of each row.
  absl::Span<const float> probabilities;  // [batch]: p of each row.
  double clip_norm = 0;                   // To which clean gradients are scaled down; 0: never.
};

// How far a number on the wire may lie from the one that was sent: by a share of itself, and by so much more.
struct Rounding {
  double relative = 0;  // Half a unit in the last place.
  double absolute = 0;  // Of numbers too small for full precision.
};

Rounding RoundingOf(v1::DataType wire);

// By how much rounding, on the wire and of the head's own float32 arithmetic, may have moved `coefficient`, read out of
// a row that is coefficient times v, of a head that predicted `probability`. v_norm > 0: of v [cols]. Thread-safe.
double CoefficientMargin(const Rounding& rounding, double coefficient, double probability, double v_norm, int64_t cols);

// Coefficient of v in the clean gradient of an example with this label: p - label, less if the gradient is clipped.
double CleanCoefficient(double probability, int label, double v_norm, double clip_norm);

// All that is behind a release but the labels and the draw of the noise.
struct ReleasingHead : LabelFreeBatch {
  // Of the noise of each class; NaN if the method states none or adds none.
  NoiseVariances noise_negative, noise_positive;
  // The line that the noise's `along` is on, a unit vector, [d]; empty if along and across are one.
  absl::Span<const float> noise_direction;
  // For noise along each clean gradient that brings its expected square to the square of the longest gradient that any
  // label of the batch could give (max_norm, Li et al., ICLR 2022, section 4.1): that length. 0: for other noise.
  double longest = 0;
  // All that is released of an example is made of one noised label, however often: evidence of it counts once.
  bool releases_repeat = false;
  // What is added to labels has been made a posterior: a clean gradient is (p - p(1 | noised label)) v.
  bool releases_posterior = false;
  // The row is made of a label that may have been flipped: of one of two, and nothing between.
  bool has_flipped_label = false;
  // mu of the noise on the label that the row is made of, for labels as far apart as two can be; 0: none is known.
  double label_mu = 0;
  // Where each row lies between what the two labels that are left would send, 0 to 1, NaN where they send the same,
  // [batch]: of labels of several classes, and of numbers, for which v and p stand for no pair. Not empty: read in
  // place of all that describes v, p and noise above.
  absl::Span<const float> places;
  absl::Span<const float> separations;  // [batch]: distance of the two as a share of the largest.
  absl::Span<const uint8_t> exact;      // [batch]: whether the place is as stated; if not, it tells nothing.
  absl::Span<const float> margins;      // [batch]: by how much rounding may have moved the place; empty: not at all.
  Rounding rounding;                    // Of the released row's numbers.
  // True labels, or which candidate is true, [batch]. If given, each row counts as rounding may have moved it against
  // its label, and as 0 if rounding alone may have made it evidence of either: v and p decide how much a row is
  // rounded, so that what this adds to a score ranks by features, and would be taken for something that was read.
  // Empty: rows count as they are.
  absl::Span<const uint8_t> labels;
};

// log p(released row | positive) - log p(released row | negative), given all of `head`: no scoring function has a
// higher AUC on one release (Neyman-Pearson), and sums of it over releases with independent noise none over several. No
// class moments enter, so that nothing is assumed of the gradients' distribution. Of max_norm's noise, x = a v with a ~
// N(c, M^2 / ||v||^2 - c^2), c = p - y, M = `longest`: the label moves place and spread. A row with c = 0, which has no
// line of its own, has noise in every direction, and is recognised by that. If the noise is not stated, the
// place of the row on the line of v between what either label would send, -1/2 (negative) to 1/2 (positive): exact
// if nothing is added; monotone in the log ratio if the label itself has Gaussian noise; or, of a posterior, its
// log odds less those of p: the log ratio itself. Of flipped labels, the nearer of the two ends, 0 if v is so short
// that the wire may have rounded the label away. Of `places`, the place less 1/2 times the squared
// separation, which is the log ratio in units of the noise. 0 for a row whose label moves nothing (v = 0). A variance
// of zero counts as the smallest that a float resolves, of max_norm also as what rounding has moved the row off its
// line, so that every score is finite. `released` [batch, d], as the head's. [batch]. Thread-safe.
std::vector<double> ConditionalLogRatios(ConstMatrixView released, const ReleasingHead& head);

// By how much evidence of this release counts in a sum over independent ones: by label_mu^2 if ConditionalLogRatios
// are places, in units of the noise on the label; else by 1. Thread-safe.
double EvidenceWeight(const ReleasingHead& head);

// How exactly each row of releases that repeat reveals its noised label, to compare the releases of one example: one
// over what rounding may have moved it by, times p (1 - p) if a posterior was released, which rounding hides if p is
// next to 0 or 1; 0 if the row reveals nothing. An adversary remembers releases and keeps the most exact one. [batch].
// Thread-safe.
std::vector<double> RepeatPrecisions(const ReleasingHead& head);

// What no adversary can exceed on any one example of a batch, whatever it knows of the others and of the model.

// The AUC at which the release of a row shows which label it has, given all of `head` (v and p of the
// row, the law of the noise), for the most exposed row of the batch: two Gaussians whose means lie (p - 0) v and
// (p - 1) v, clipped, with the noise of either class. With equal noise it is exact, GaussianAucBound of their
// symmetrised KL divergence; else Theorem 1 on that. Nothing is assumed of the classes, so it holds for activations
// that the peer has made up; it depends on no draw. Of this release alone: those of several epochs add.
//
// 1 if the noise is not stated, `head` is of releases that repeat, of a posterior or of pairs (`places`), v is not
// given, and if a row's label moves it across all noise. Reads the part of `head` down to noise_direction.
// Thread-safe.
double ConditionalAucBound(const ReleasingHead& head);

// Of one row. If the noise is as stated, there is a number from `low` to `high`, which rounding hides, that has the law
// N(0, 1) if the row is negative, whatever its features, p and v: a feature that predicts the label cannot move it, as
// it does log ratios, whose scale and centre differ from row to row. If the row is positive, and both classes get the
// same noise, N(shift, 1). What is concluded must hold for every number of the range: features decide how wide it is.
struct LabelResidual {
  double low = std::numeric_limits<double>::quiet_NaN();
  double high = low;
  double shift = 0;

  bool is_known() const { return shift > 0; }
};

// One of each row of `released` [batch, d], as the head's; none is known if the label moves nothing (v = 0).
//
// Noise stated on gradients: the place of the row along S^-1 v, S the covariance of a negative's noise, from where a
// negative would stand, in units of its standard deviation; the best linear test of one label (Fisher, Ann. Eugenics
// 1936). Noise on labels (`label_mu` > 0, the mu of one release): label_mu times the noised label, which
// ConditionalLogRatios takes out of the row. Not known there if rows are clipped, which cuts off noise by an amount
// that p decides, nor outside [kLeastProbability, 1 - kLeastProbability], where the posterior of a label
// (head.releases_posterior) is mostly lost to rounding. Of `head.places`, label_mu times separation times place, if
// that is exact: the mu of a pair of labels that are less than the largest distance apart is as much smaller. Neither:
// none is known. Ignores head.labels. Thread-safe.
std::vector<LabelResidual> LabelResiduals(ConstMatrixView released, const ReleasingHead& head, double label_mu);

inline constexpr double kLeastProbability = 1e-3;

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_CONDITIONAL_LIKELIHOOD_H_
