// Generated tables of several classes or of a number to be predicted, with a known best score.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_SYNTHETIC_TABLE_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_SYNTHETIC_TABLE_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/dataset/task.h"

#include "splitveil/v1/table_schema.pb.h"

namespace splitveil {

struct SyntheticTableOptions {
  // kMultiClass or kRegression; of two classes: synthetic_criteo.h.
  Task::Kind kind = Task::Kind::kMultiClass;
  // The files to write: the table, plain text, and its schema. Their folders must exist.
  std::string path, schema_path;
  // At least 1.
  int64_t rows = 70000;
  // Draws the rows. The law they are drawn from is the same for every seed.
  uint64_t seed = 1;
};

struct SyntheticTableResult {
  int64_t rows = 0;
  // Of several classes: rows of each, in the order of the schema, and the best macro AUC that any model can expect on
  // these rows (BayesMacroAuc; NaN if it is not defined).
  std::vector<int64_t> class_rows;
  double bayes_macro_auc = std::numeric_limits<double>::quiet_NaN();
  // Of a regression: mean of the targets, and the best R^2 that any model can expect on these rows (BayesRSquared).
  double target_mean = std::numeric_limits<double>::quiet_NaN();
  double bayes_r_squared = std::numeric_limits<double>::quiet_NaN();
};

// Writes independent rows as comma-separated text under a header line: `id`, the numbers n1 to n8, whole and uniform
// from 0 to 100, and the categories c1 to c4, uniform over eight letters. The label party holds n6 to n8 and c4, the
// non-label party the others; every column bears on what is predicted. With x_j = n_j / 50 - 1 a row's score for output
// k is
//
//   s_k = sum_j e_kj x_j + 0.8 sum_i e_ki(c_i) + e_k x_1 x_6 + 0.8 e_k(c_1, c_4)
//
// where every e is a fixed effect, uniform in [-1, 1). The last two terms join columns of both parties: they need a
// deep model, the first two do not.
//
// kMultiClass: `product` is one of five classes, of probabilities p_k = softmax(b_k + s_k), b from 0.8 to -0.8. The
// best macro AUC is about 0.85.
//
// kRegression: `spend` is uniform within min(m, 100 - m) of its mean m = 100 / (1 + exp(-s)), so that it lies between 0
// and 100, as the schema says, and is written with two decimals. The best R^2 is about 0.71.
//
// The same options give the same bytes everywhere, up to a rounding of exp that would have to fall on a drawn number.
// Both files appear complete or neither does. Errors: InvalidArgument for options and if a file cannot be made;
// Internal if it cannot be written.
absl::StatusOr<SyntheticTableResult> GenerateSyntheticTable(const SyntheticTableOptions& options);

// The schema of such a table, with the holders of a split. `kind`: as in the options.
v1::TableSchema SyntheticTableSchema(Task::Kind kind);

// Mean over the classes of the best AUC of each against the rest that any score can expect (BayesAuc) when labels are
// drawn with these probabilities; classes without one are left out. A model may score each class apart, and the true
// probabilities are best for all of them at once. probabilities: by class, [rows] each. NaN if no class has one.
double BayesMacroAuc(absl::Span<const std::vector<double>> probabilities);

// Best R^2 that any model can expect when targets are drawn independently with these means and variances, [rows] each:
// no prediction has a smaller expected squared error than the mean. A quotient of expectations, as BayesAuc:
//
//   1 - sum_i var_i / (sum_i (mean_i - mean)^2 + (1 - 1/n) sum_i var_i)
//
// NaN if the denominator is 0.
double BayesRSquared(absl::Span<const double> means, absl::Span<const double> variances);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_SYNTHETIC_TABLE_H_
