// What is left to do once a run of the label party has ended.
#ifndef SPLITVEIL_LABEL_PARTY_SESSION_RUN_CLOSING_H_
#define SPLITVEIL_LABEL_PARTY_SESSION_RUN_CLOSING_H_

#include <functional>
#include <optional>

#include "absl/status/status.h"

#include "label_party/session/result_json.h"
#include "label_party/session/run.h"
#include "label_party/session/run_work.h"

namespace splitveil {

// Not thread-safe.
class RunClosing {
 public:
  // Keeps the figures of a run that has ended.
  using KeepReport = std::function<absl::Status(const RunFigures&)>;

  // `keep_report`: null: nowhere. `run`: not owned; must outlive this.
  RunClosing(KeepReport keep_report, Run* run);

  // Last figures, export, ledger, report; the first call does it. `work`: null if it never began. Returns the
  // run's outcome, which is an error, too, where one of these fails.
  absl::Status Finish(RunWork* work);

 private:
  absl::Status FinishLedger(RunWork* work);
  absl::Status Export(const RunWork* work) const;

  const KeepReport keep_report_;
  Run* const run_;
  std::optional<absl::Status> finished_;  // What Finish has returned.
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SESSION_RUN_CLOSING_H_
