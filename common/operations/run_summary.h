// The short table that a run ends with, for the person who started it; and the end of a complete run, from when it is
// recorded until the process has told of it by its exit code.
#ifndef SPLITVEIL_COMMON_OPERATIONS_RUN_SUMMARY_H_
#define SPLITVEIL_COMMON_OPERATIONS_RUN_SUMMARY_H_

#include <optional>
#include <string>

#include "absl/status/status.h"

#include "common/figures/run_figures.h"

#include "splitveil/v1/agreement.pb.h"

namespace splitveil {

// Where a party writes every figure of a run: beside its ledger, LEDGER without ".db" + ".result.json"; of one that
// only predicts with the model of a training, whose figures stay, + ".prediction.json".
std::string ResultPath(const std::string& ledger_path);
std::string PredictionPath(const std::string& ledger_path);

// A headline, then "  name            figures" in lines that end in '\n', in the order of the report's page: the
// verdict, the promise in one sentence, what it rests on, what the model is good for, the run. What this party does not
// know is left out. At most kSummaryLines lines unless `verbose`, which adds the attacks one by one. `details`: path of
// the file with every figure; may be empty.
inline constexpr int kSummaryLines = 12;
std::string RunSummaryTable(const RunFigures& figures, const std::string& details, bool verbose = false);

// Writes the table to standard error, where it does not mix with the RESULT line.
void PrintRunSummary(const RunFigures& figures, const std::string& details, bool verbose = false);

// A party that is killed in between and restarted, for instance by a supervisor, would otherwise wait again and again
// for a peer that has ended. Kept in a file of three lines, LEDGER.ended. Not thread-safe: one process per ledger.
struct UntoldEnd {
  std::string run_id;
  std::string result;  // The line for standard output; empty: none.
};

// Errors: see WriteFile.
absl::Status KeepUntoldEnd(const std::string& ledger_path, const v1::RunAgreement& agreement, const UntoldEnd& end);

// nullopt: the latest run of this agreement has reported its end, or has none.
std::optional<UntoldEnd> FindUntoldEnd(const std::string& ledger_path, const v1::RunAgreement& agreement);

// Removes the file: the end was reported, or a new run begins. Does nothing if there is none.
void ForgetUntoldEnd(const std::string& ledger_path);

// Reports the end in the log and on standard output, as the run itself would have, and forgets it.
void TellOf(const UntoldEnd& end, const std::string& ledger_path);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_OPERATIONS_RUN_SUMMARY_H_
