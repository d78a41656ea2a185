// Whether recorded runs meet a privacy policy: the policy that is read, the verdicts and their text, and the files that
// they are of, so that a page on a desk says which files it speaks of.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_AUDIT_AUDIT_REPORT_H_
#define SPLITVEIL_DEPLOY_OPERATOR_AUDIT_AUDIT_REPORT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "deploy/operator/audit/criteria.h"
#include "deploy/operator/records/run_records.h"

#include "common/figures/run_figures.h"

#include "splitveil/v1/audit_policy.pb.h"

namespace splitveil {

struct RunVerdict {
  std::string run_id, label;
  // The same criteria in the same order for every run that trains, one at least.
  std::vector<Finding> findings;
  RunFigures figures = {};
  // AttributeLines, what earlier runs disclosed that the promise does not cover, and LifetimeLine, where they say
  // something.
  std::vector<std::string> further_lines = {};

  bool met() const;
  // Whether any criterion failed. Neither met nor failed: what the ledgers given can show is met, the rest is open.
  bool failed() const;
};

// One verdict per run. Figures on labels are taken from the label party's ledger only, those on attributes from the
// non-label party's: it alone has them exact and complete. Without it they are not measurable, and what the other
// ledger does show is judged alone. A run that only predicts releases no gradient and is attacked by nobody: of it a
// policy limits the bound of the activations alone. `policy` as LoadAuditPolicy gives it.
std::vector<RunVerdict> JudgeRuns(const std::vector<LedgerRun>& runs, const v1::AuditPolicy& policy);

// Whether every run meets the policy in every criterion; false where none trains.
bool PolicyMet(const std::vector<RunVerdict>& verdicts);

// Whether some run fails a criterion. Neither this nor PolicyMet: not decided.
bool PolicyFailed(const std::vector<RunVerdict>& verdicts);

// Reads `path` (policy.textproto) and writes the defaults of the lists into it. Errors: as LoadTextConfig;
// InvalidArgument for a max_measured_leak that limits nothing.
absl::StatusOr<v1::AuditPolicy> LoadAuditPolicy(const std::string& path);

// Writes the defaults of the lists into `policy` where they are empty.
void SetListDefaults(v1::AuditPolicy& policy);

// A file by its name without its folder, and the SHA-256 of its bytes in hexadecimal.
struct AuditedFile {
  std::string name, sha256;
};

struct AuditSubject {
  AuditedFile policy;
  std::vector<AuditedFile> ledgers;
  std::string judged_at;  // RFC 3339, UTC, seconds.
};

struct AuditReport {
  std::vector<RunVerdict> verdicts;  // One a run, in the order of the runs.
  AuditSubject subject;
};

// Reads the files once more. The digest of a ledger that is being written is that of what is in its main file. Errors:
// NotFound, InvalidArgument where one cannot be read.
absl::StatusOr<AuditSubject> DescribeAuditSubject(const std::string& policy_path,
                                                  const std::vector<std::string>& ledger_paths, absl::Time now);

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

#endif  // SPLITVEIL_DEPLOY_OPERATOR_AUDIT_AUDIT_REPORT_H_
