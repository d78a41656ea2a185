// What an audit finds of one criterion of the policy.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_AUDIT_FINDING_H_
#define SPLITVEIL_DEPLOY_OPERATOR_AUDIT_FINDING_H_

#include <string>

namespace splitveil {

enum class Outcome { kMet, kNotMet, kNotMeasured };  // Only kMet passes.

// What was found of one criterion.
struct Finding {
  Outcome outcome = Outcome::kNotMeasured;
  std::string criterion;  // In words.
  std::string limit;      // "at most 0.6", "marvell".
  std::string found;      // The figure that decided: the worst.
  std::string where;      // Its layer, attack and observer, step or epoch; what is missing. Empty: the run as a whole.
};

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_AUDIT_FINDING_H_
