// Verdicts as lines of text.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_AUDIT_VERDICT_TEXT_H_
#define SPLITVEIL_DEPLOY_OPERATOR_AUDIT_VERDICT_TEXT_H_

#include <string>
#include <vector>

#include "deploy/operator/audit/audit_verdict.h"

namespace splitveil {

// For each run, as on the page: its name, what it promises in one sentence (PromiseSentence) and of attributes; a line
// per criterion that failed, in aligned columns (FAIL, criterion, limit, found, where), and what helps against these;
// one line for all that these ledgers cannot show; how many criteria hold. `verbose`: these line by line (PASS), and
// the figures of the run (RankingLines). Then one closing line. Text from a ledger cannot steer a terminal.
std::string VerdictText(const std::vector<RunVerdict>& verdicts, bool verbose = false);

// "policy met by this run against the attacks that were run: 9 criteria", "policy not met: 2 of 9 criteria failed",
// where no run trains "policy not decided: no run trained", or, where nothing failed but not all is measurable, "policy
// not decided: 2 of 9 criteria met; 7 not measurable from the ledgers given".
std::string VerdictSummary(const std::vector<RunVerdict>& verdicts);

// What may help, and which of the run's failures against.
struct Remedy {
  std::string words;                  // One sentence.
  std::vector<std::string> criteria;  // One at least.
};

// Each remedy once.
std::vector<Remedy> Remedies(const RunVerdict& verdict);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_AUDIT_VERDICT_TEXT_H_
