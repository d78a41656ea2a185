#include "common/operations/dry_run.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace splitveil {
namespace {

// One line of printable text, whatever a file's name or an error brings.
std::string OneLine(absl::string_view text) {
  std::string line(text);
  std::replace_if(
      line.begin(), line.end(), [](char c) { return absl::ascii_iscntrl(c); }, ' ');
  return line;
}

}  // namespace

bool DryRun::Check(absl::string_view what, const absl::Status& status, absl::string_view detail) {
  items_.push_back({status.ok() ? Outcome::kOk : Outcome::kProblem, std::string(what),
                    OneLine(status.ok() ? detail : status.message())});
  return status.ok();
}

void DryRun::Warn(absl::string_view what, absl::string_view text) {
  items_.push_back({Outcome::kWarning, std::string(what), OneLine(text)});
}

void DryRun::Problem(absl::string_view what, absl::string_view text) {
  items_.push_back({Outcome::kProblem, std::string(what), OneLine(text)});
}

std::string DryRun::Text() const {
  std::string text;
  for (const Item& item : items_) {
    const char* const outcome = item.outcome == Outcome::kOk        ? "ok"
                                : item.outcome == Outcome::kWarning ? "warning"
                                                                    : "problem";
    absl::StrAppendFormat(&text, "%-7s  %-15s  %s\n", outcome, item.what, item.text);
  }
  return text;
}

absl::Status DryRun::status() const {
  const auto is_problem = [](const Item& item) { return item.outcome == Outcome::kProblem; };
  const auto problems = std::count_if(items_.begin(), items_.end(), is_problem);
  if (problems == 0) {
    return absl::OkStatus();
  }
  const Item& first = *std::find_if(items_.begin(), items_.end(), is_problem);
  return absl::InvalidArgumentError(absl::StrCat("dry run: ", problems, " of ", items_.size(),
                                                 " checks failed, the first: ", first.what, ": ", first.text));
}

}  // namespace splitveil
