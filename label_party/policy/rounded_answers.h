// What the attack module may read of the AUC of its scores (architecture rule 5).
#ifndef SPLITVEIL_LABEL_PARTY_POLICY_ROUNDED_ANSWERS_H_
#define SPLITVEIL_LABEL_PARTY_POLICY_ROUNDED_ANSWERS_H_

#include <cereal/access.hpp>
#include <cstdint>
#include <optional>

#include "absl/types/span.h"

#include "splitveil/v1/agreement.pb.h"

namespace splitveil {

// What the attack module reads of a leak AUC as it is. ORACLE: all of it, where there is one. Every other disclosure,
// an unknown one among them: nothing; what ROUNDED gives is made of other numbers (RoundedAnswer).
std::optional<double> DisclosedAuc(v1::DisclosureLevel disclosure, std::optional<double> auc);

// With n examples, n1 of them positive, ties counted half, AUC = 1/2 + W / (2 n1 (n - n1)), where W is the sum over the
// positives of R_i = #{s_j < s_i} - #{s_j > s_i}. One label more or less moves W by at most n - 1, whatever the scores,
// and n1 by 1. An answer is made of W and n1 with discrete Gaussian noise (Canonne, Kamath, Steinke, NeurIPS 2020), of
// which 4/5 and 1/5 of mu^2 are: mu-GDP in each label, and so is all that is made of them, the AUC and its rounding.
//
// Why not the AUC itself, rounded: scores are the peer's to choose, so an AUC is an equation in the labels (Whitehill,
// AAAI 2016). With one score of 1 and all others 0, it is 1/2 + 1/(2 n1) or 1/2 - 1/(2 (n - n1)), which 0.01 tells
// apart in a batch with few positives; and where the peer knows the others' labels, scores can be found in any batch
// for which one label decides on which side of a rounding boundary the AUC lies.
//
// Not thread-safe.
class RoundedAnswers {
 public:
  // `audit`: of a canonical agreement. No answer is ever due unless its disclosure is ROUNDED.
  explicit RoundedAnswers(const v1::AuditAgreement& audit) : audit_(audit) {}

  // Whether the scores of a batch that is about to be released get an answer. By public facts alone: the step, the
  // batch's examples, how many were answered before.
  bool IsDue(int64_t step, int64_t examples) const;
  // Counts one. A batch whose scores never come counts, too.
  void Spend() { ++spent_; }
  uint32_t spent() const { return spent_; }
  // Symmetrised divergence of an answer in each label of its batch: mu^2.
  double sum_kl() const { return audit_.rounded().mu() * audit_.rounded().mu(); }
  bool any() const { return audit_.disclosure() == v1::ROUNDED; }

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(spent_);
  }

  const v1::AuditAgreement audit_;
  uint32_t spent_ = 0;  // In all of a run, whatever it was interrupted.
};

// An answer on `scores` (finite) of a batch's `labels`, 0 or 1 and as many, at least two: in [0, 1], a multiple of
// 0.01. New noise is drawn each time: asked twice, it discloses twice. Batches of one class are answered like all
// others.
double RoundedAnswer(const v1::RoundedAnswers& config, absl::Span<const float> scores,
                     absl::Span<const uint8_t> labels);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_POLICY_ROUNDED_ANSWERS_H_
