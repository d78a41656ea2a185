#include "deploy/operator/audit/verdict_text.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/telemetry/one_line.h"

namespace splitveil {
namespace {

using Line = std::array<std::string, 5>;

constexpr size_t kMaxWidth = 60;  // Of a column; a longer text pushes its own line only.

Line Columns(const Finding& finding) {
  return {finding.outcome == Outcome::kMet ? "PASS" : "FAIL", OneLine(finding.criterion), OneLine(finding.limit),
          OneLine(finding.found), OneLine(finding.where)};
}

std::string Counted(size_t count, const char* one, const char* several) {
  return absl::StrCat(count, " ", count == 1 ? one : several);
}

}  // namespace

std::string VerdictSummary(const std::vector<RunVerdict>& verdicts) {
  size_t criteria = 0, failed = 0, failed_runs = 0;
  for (const RunVerdict& verdict : verdicts) {
    criteria += verdict.findings.size();
    failed_runs += verdict.met() ? 0 : 1;
    failed += std::count_if(verdict.findings.begin(), verdict.findings.end(),
                            [](const Finding& finding) { return finding.outcome != Outcome::kMet; });
  }
  if (PolicyMet(verdicts)) {
    return absl::StrCat("policy met: ", Counted(criteria, "criterion", "criteria"), ", ",
                        Counted(verdicts.size(), "run", "runs"));
  }
  return absl::StrCat("policy not met: ", failed, " of ", Counted(criteria, "criterion", "criteria"), ", ", failed_runs,
                      " of ", Counted(verdicts.size(), "run", "runs"));
}

std::string VerdictText(const std::vector<RunVerdict>& verdicts) {
  std::array<size_t, 5> widths = {};
  for (const RunVerdict& verdict : verdicts) {
    for (const Finding& finding : verdict.findings) {
      const Line line = Columns(finding);
      for (size_t i = 0; i < line.size(); ++i) {
        widths[i] = std::max(widths[i], std::min(line[i].size(), kMaxWidth));
      }
    }
  }
  std::string text;
  for (const RunVerdict& verdict : verdicts) {
    absl::StrAppend(&text, "run ", OneLine(verdict.run_id), ", ", OneLine(verdict.label), "\n");
    for (const Finding& finding : verdict.findings) {
      const Line line = Columns(finding);
      std::string row;
      for (size_t i = 0; i < line.size(); ++i) {
        absl::StrAppend(&row, i == 0 ? "" : "  ", line[i],
                        std::string(widths[i] - std::min(line[i].size(), widths[i]), ' '));
      }
      absl::StrAppend(&text, OneLine(row), "\n");
    }
  }
  return absl::StrCat(text, VerdictSummary(verdicts), "\n");
}

}  // namespace splitveil
