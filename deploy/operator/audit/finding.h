// What an audit finds of one criterion of the policy.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_AUDIT_FINDING_H_
#define SPLITVEIL_DEPLOY_OPERATOR_AUDIT_FINDING_H_

#include <string>

namespace splitveil {

// What stands in Finding.found where there is no figure: it was not recorded, or there was nothing to record.
inline constexpr char kNotMeasured[] = "not measured";
inline constexpr char kNothingLeft[] = "no gradient left the label party";

enum class Outcome {
  kMet,
  kNotMet,
  kNotMeasured,    // Should have been recorded, and was not: counts as not met.
  kNotMeasurable,  // Stands in a ledger only that was not given: decides nothing.
};

// Whose ledger shows it.
enum class LedgerHolder { kLabelParty, kNonLabelParty };

// What was found of one criterion.
struct Finding {
  Outcome outcome = Outcome::kNotMeasured;
  std::string criterion;    // In words.
  std::string limit;        // "at most 0.6", "marvell".
  std::string found;        // The figure that decided, the worst, and what it is; or "not measured" and why.
  std::string where;        // Its layer, attack and observer, step or epoch, nothing else. Empty: the run as a whole.
  std::string remedy = "";  // What helps, one sentence; empty where nothing is wrong.
  LedgerHolder holder = LedgerHolder::kLabelParty;

  // "label party's", "non-label party's".
  const char* holder_words() const {
    return holder == LedgerHolder::kLabelParty ? "label party's" : "non-label party's";
  }

  bool failed() const { return outcome == Outcome::kNotMet || outcome == Outcome::kNotMeasured; }
};

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_AUDIT_FINDING_H_
