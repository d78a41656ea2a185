// What noise leaves of a label to learn from.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PLAN_LABEL_INFORMATION_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PLAN_LABEL_INFORMATION_H_

namespace splitveil {

// Share of the label's Fisher information that y + sigma xi keeps, y in {0, 1} with P(y = 1) = p and xi normal:
//
//   Var(P(y = 1 | y + sigma xi)) / Var(y)  =  p (1 - p) int (phi_1 - phi_0)^2 / (p phi_1 + (1 - p) phi_0) dx
//
// with phi_k the density of N(k, sigma^2). The left side is the ratio of the informations about the logit of p, since
// the score of the noised label is the expectation of that of the label given it. N rows with such labels tell a model
// about as much as this share of N rows with true labels would, where predictions stay near p. In (0, 1]: 1 for sigma =
// 0, about p (1 - p) / sigma^2 for a large one. NaN unless 0 < p < 1 and sigma >= 0 is finite. Relative error below
// 1e-9.
double LabelInformationKept(double sigma, double p);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PLAN_LABEL_INFORMATION_H_
