// The short table that a run ends with, for the person who started it.
#ifndef SPLITVEIL_COMMON_OPERATIONS_RUN_SUMMARY_H_
#define SPLITVEIL_COMMON_OPERATIONS_RUN_SUMMARY_H_

#include <string>

#include "common/figures/run_figures.h"

namespace splitveil {

// Where a party writes every figure of a run: beside its ledger, LEDGER without ".db" + ".result.json"; of one that
// only predicts with the model of a training, whose figures stay, + ".prediction.json".
std::string ResultPath(const std::string& ledger_path, bool only_predicts);

// A headline, then "  name            figures" in lines that end in '\n', in the order of the report's page: the
// verdict, the promise in one sentence, what it rests on, what the model is good for, the run. What this party does not
// know is left out. At most kSummaryLines lines unless `verbose`, which adds the attacks one by one. `details`: path of
// the file with every figure; may be empty.
inline constexpr int kSummaryLines = 12;
std::string RunSummaryTable(const RunFigures& figures, const std::string& details, bool verbose = false);

// Writes it to standard error.
void PrintRunSummary(const RunFigures& figures, const std::string& details, bool verbose = false);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_OPERATIONS_RUN_SUMMARY_H_
