// The end of a complete run, from when it is recorded until the process has told of it by its exit code.
#ifndef SPLITVEIL_COMMON_OPERATIONS_UNTOLD_END_H_
#define SPLITVEIL_COMMON_OPERATIONS_UNTOLD_END_H_

#include <optional>
#include <string>

#include "absl/status/status.h"

#include "splitveil/v1/agreement.pb.h"

namespace splitveil {

// A party that is killed in between and started again, by a supervisor for instance, would else wait for a peer that
// has ended, and that again and again. Kept in a file of three lines, LEDGER.ended.
struct UntoldEnd {
  std::string run_id;
  std::string result;  // What it says on standard output; empty: nothing.
};

// Errors: as WriteFile.
absl::Status KeepUntoldEnd(const std::string& ledger_path, const v1::RunAgreement& agreement, const UntoldEnd& end);

// nullopt: the latest run of this agreement has told of its end, or has none.
std::optional<UntoldEnd> FindUntoldEnd(const std::string& ledger_path, const v1::RunAgreement& agreement);

// It is told, or a run begins. Nothing where there is none.
void ForgetUntoldEnd(const std::string& ledger_path);

// Tells of it, for the run itself, and forgets it.
void TellOf(const UntoldEnd& end, const std::string& ledger_path);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_OPERATIONS_UNTOLD_END_H_
