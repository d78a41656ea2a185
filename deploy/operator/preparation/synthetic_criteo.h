// Generated data in Criteo's format, with a known best AUC.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_SYNTHETIC_CRITEO_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_SYNTHETIC_CRITEO_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace splitveil {

struct SyntheticCriteoOptions {
  // The file to write, plain text; its folder must exist.
  std::string path;
  // At least 1.
  int64_t rows = 70000;
  // Draws the rows. The law they are drawn from is the same for every seed.
  uint64_t seed = 1;
};

struct SyntheticCriteoResult {
  int64_t rows = 0;
  int64_t positives = 0;
  // Best AUC any model can expect on these rows (BayesAuc); 0.5 if it is not defined.
  double bayes_auc = 0;
  // Share of empty feature cells, in [0, 1].
  double missing_rate = 0;
};

// Writes independent rows (known_tables.h) with label ~ Bernoulli(p) and
//
//   logit p = b + sum_n slope_n x_n + sum_c a_c e_c(v_c) + sum_(c,d) a_cd e_cd(v_c, v_d) + a_I8 s(v_C17) (x_I8 - 1/3)
//
// x_n: number n over the scale of its column (an empty cell counts as 0, as the preprocessing has it), six columns with
// bounded numbers; v_c: the category of column c, empty being one of them; e: fixed effects, uniform in [-1, 1), of the
// 32 most frequent values of seven columns and of the 8x8 most frequent pairs of two pairs of columns; s: a fixed sign,
// which makes the effect of I8 turn with C17. The last two sums need a deep model, the first two do not.
//
// The best AUC is about 0.80 at about 25% positives. The Wide & Deep model of A.6.2 on 62,000 of 70,000 rows (Adam
// 1e-3, batch 1024) comes within 0.02 to 0.04 of it in its second epoch and then over-fits the rare categories, which
// carry no signal, as it does on the real data.
//
// Quirks kept from the real data: 14% of the cells empty, columns missing together; counts with heavy tails; I2 below
// zero; categories from 3 to 4,000 seen in a column, with long tails of values seen once; category names that read as
// numbers, of which two of C9, 00001e10 and 00010e09, are the same number and have opposite effects.
//
// The same options give the same bytes everywhere, up to a rounding of exp that would have to fall on a drawn number.
// The file appears complete or not at all. Errors: InvalidArgument for options and if the file cannot be made;
// Internal if it cannot be written.
absl::StatusOr<SyntheticCriteoResult> GenerateSyntheticCriteo(const SyntheticCriteoOptions& options);

// Expected share of (positive, negative) pairs ranked rightly by the true probabilities p, ties counting a half, when
// the labels are drawn independently with these probabilities:
//
//   sum_{i != j} p_i (1 - p_j) [1(p_i > p_j) + 1/2 1(p_i = p_j)]  /  sum_{i != j} p_i (1 - p_j)
//
// The terms i = j are left out of both sums: an example is not paired with itself. No score, the labels unseen, has a
// larger quotient (Neyman-Pearson). It is a quotient of expectations; the AUC of one
// draw of the labels differs by its sampling error. O(n log n). NaN if the denominator is 0. Thread-safe.
double BayesAuc(absl::Span<const double> probabilities);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_SYNTHETIC_CRITEO_H_
