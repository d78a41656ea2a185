// What --dry_run of either party found, check by check.
#ifndef SPLITVEIL_COMMON_OPERATIONS_DRY_RUN_H_
#define SPLITVEIL_COMMON_OPERATIONS_DRY_RUN_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace splitveil {

// A list of checks, each ok, a warning or a problem. Never holds a label, an id or a row. Not thread-safe.
class DryRun {
 public:
  // What has been looked at, and how it stands: `detail` where `status` is OK, else its message. Returns whether it is.
  bool Check(absl::string_view what, const absl::Status& status, absl::string_view detail = "");
  // Something that does not stop a run, but that a person should know.
  void Warn(absl::string_view what, absl::string_view text);
  void Problem(absl::string_view what, absl::string_view text);

  // One line per check: "ok       certificates   ...", in the order of the calls.
  std::string Text() const;
  // OK without problems; else InvalidArgument "dry run: 2 of 9 checks failed, the first: ...".
  absl::Status status() const;

 private:
  enum class Outcome { kOk, kWarning, kProblem };
  struct Item {
    Outcome outcome;
    std::string what;
    std::string text;
  };

  std::vector<Item> items_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_OPERATIONS_DRY_RUN_H_
