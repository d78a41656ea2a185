#include <algorithm>
#include <array>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "deploy/operator/audit/audit_report.h"
#include "deploy/operator/records/ledger_figures.h"

#include "common/figures/figure_words.h"
#include "common/figures/promise.h"
#include "common/telemetry/log.h"

namespace splitveil {
namespace {

using Line = std::array<std::string, 5>;

constexpr size_t kMaxWidth = 60;  // Of a column; a longer text pushes its own line only.

// OneLine everywhere: text from a ledger may be the other party's, and must not be able to forge a line of the verdict.
Line Columns(const Finding& finding) {
  return {finding.outcome == Outcome::kMet ? "PASS"
          : finding.failed()               ? "FAIL"
                                           : "OPEN",
          OneLine(finding.criterion), OneLine(finding.limit), OneLine(finding.found), OneLine(finding.where)};
}

std::string Counted(size_t count, const char* one, const char* several) {
  return absl::StrCat(count, " ", count == 1 ? one : several);
}

std::string AlignedRow(const Line& line, const std::array<size_t, 5>& widths) {
  std::string row;
  for (size_t i = 0; i < line.size(); ++i) {
    absl::StrAppend(&row, i == 0 ? "" : "  ", line[i],
                    std::string(widths[i] - std::min(line[i].size(), widths[i]), ' '));
  }
  return OneLine(row);
}

// All that stands in this ledger, which was not given, in one line; empty where all is there.
std::string NotMeasurableLine(const RunVerdict& verdict, LedgerHolder holder) {
  std::vector<std::string> criteria;
  const char* words = "";
  for (const Finding& finding : verdict.findings) {
    if (finding.outcome == Outcome::kNotMeasurable && finding.holder == holder) {
      criteria.push_back(finding.criterion);
      words = finding.holder_words();
    }
  }
  if (criteria.empty()) {
    return "";
  }
  return OneLine(absl::StrCat("not measurable from this ledger, only from the ", words, " (",
                              Counted(criteria.size(), "criterion", "criteria"),
                              "): ", absl::StrJoin(criteria, "; "))) +
         "\n";
}

// Listed line by line: what fails, and what these ledgers leave open.
bool IsShown(const Finding& finding) { return finding.failed() || finding.outcome == Outcome::kOpen; }

bool IsMet(const Finding& finding) { return finding.outcome == Outcome::kMet; }

template <typename Predicate>
std::string Rows(const RunVerdict& verdict, const std::array<size_t, 5>& widths, Predicate shown) {
  std::string rows;
  for (const Finding& finding : verdict.findings) {
    if (std::invoke(shown, finding)) {
      absl::StrAppend(&rows, AlignedRow(Columns(finding), widths), "\n");
    }
  }
  return rows;
}

// What is said of the run before its criteria.
std::string RunText(const RunVerdict& verdict, bool verbose) {
  if (verdict.only_predicts) {
    return "predicts only: nothing was released by the label party\n";
  }
  std::vector<std::string> lines = {absl::StrCat("verdict: ", VerdictWords(verdict.figures.verdict())),
                                    absl::StrCat("promise: ", PromiseSentence(PromiseOf(verdict.figures)))};
  if (verbose) {
    const std::vector<std::string> details = VerdictLines(verdict.figures);
    lines.insert(lines.end(), details.begin(), details.end());
  }
  lines.insert(lines.end(), verdict.attribute_lines.begin(), verdict.attribute_lines.end());
  std::string text;
  for (const std::string& line : lines) {
    absl::StrAppend(&text, OneLine(line), "\n");
  }
  return text;
}

}  // namespace

std::vector<Remedy> Remedies(const RunVerdict& verdict) {
  std::vector<Remedy> remedies;
  for (const Finding& finding : verdict.findings) {
    if (finding.remedy.empty()) {
      continue;
    }
    auto known = std::find_if(remedies.begin(), remedies.end(),
                              [&](const Remedy& remedy) { return remedy.words == finding.remedy; });
    if (known == remedies.end()) {
      known = remedies.insert(remedies.end(), {finding.remedy, {}});
    }
    known->criteria.push_back(finding.criterion);
  }
  return remedies;
}

std::string VerdictSummary(const std::vector<RunVerdict>& verdicts) {
  size_t criteria = 0, failed = 0, open = 0, failed_runs = 0, trained_runs = 0;
  for (const RunVerdict& verdict : verdicts) {
    trained_runs += verdict.only_predicts ? 0 : 1;
    criteria += verdict.findings.size();
    failed_runs += verdict.failed() ? 1 : 0;
    for (const Finding& finding : verdict.findings) {
      failed += finding.failed() ? 1 : 0;
      open += !finding.failed() && finding.outcome != Outcome::kMet ? 1 : 0;
    }
  }
  const std::string of_criteria = Counted(criteria, "criterion", "criteria");
  const std::string not_measurable =
      open == 0 ? "" : absl::StrCat("; ", open, " not measurable from the ledgers given");
  if (PolicyMet(verdicts)) {
    // What such a bound does not cover: that labels move the top model, and with it later noise and gradients.
    const bool conditional = std::any_of(verdicts.begin(), verdicts.end(), [](const RunVerdict& verdict) {
      return verdict.figures.verdict() == PrivacyVerdict::kHolds;
    });
    return absl::StrCat("policy met by ",
                        trained_runs == 1 ? "this run" : absl::StrCat("these ", trained_runs, " runs"),
                        " against the attacks that were run: ", of_criteria,
                        conditional ? "; not against a peer that reads a label from what it does to the top model, and "
                                      "so to later steps: only noise on labels bounds that"
                                    : "");
  }
  if (!PolicyFailed(verdicts) && trained_runs == 0) {
    return "policy not decided: no run trained";
  }
  if (!PolicyFailed(verdicts)) {
    return absl::StrCat("policy not decided: ", criteria - open, " of ", of_criteria, " met", not_measurable);
  }
  return absl::StrCat("policy not met: ", failed, " of ", of_criteria, " failed",
                      verdicts.size() == 1 ? "" : absl::StrCat(", in ", failed_runs, " of ", verdicts.size(), " runs"),
                      not_measurable);
}

std::string VerdictText(const std::vector<RunVerdict>& verdicts, bool verbose) {
  const auto shown = [&](const Finding& finding) {
    return IsShown(finding) || (verbose && finding.outcome == Outcome::kMet);
  };
  std::array<size_t, 5> widths = {};
  for (const RunVerdict& verdict : verdicts) {
    for (const Finding& finding : verdict.findings) {
      const Line line = Columns(finding);
      for (size_t i = 0; i < line.size() && shown(finding); ++i) {
        widths[i] = std::max(widths[i], std::min(line[i].size(), kMaxWidth));
      }
    }
  }
  std::string text;
  for (const RunVerdict& verdict : verdicts) {
    absl::StrAppend(&text, "run ", OneLine(verdict.run_id), ", ", OneLine(verdict.label), "\n",
                    RunText(verdict, verbose), Rows(verdict, widths, IsShown));
    for (const Remedy& remedy : Remedies(verdict)) {
      absl::StrAppend(&text, "what helps: ", OneLine(remedy.words), "\n");
      for (const std::string& criterion : remedy.criteria) {
        absl::StrAppend(&text, "  for: ", OneLine(criterion), "\n");
      }
    }
    absl::StrAppend(&text, NotMeasurableLine(verdict, LedgerHolder::kLabelParty),
                    NotMeasurableLine(verdict, LedgerHolder::kNonLabelParty));
    const auto met = std::count_if(verdict.findings.begin(), verdict.findings.end(), IsMet);
    if (verbose) {
      absl::StrAppend(&text, Rows(verdict, widths, IsMet));
    } else if (met > 0) {
      absl::StrAppend(&text, Counted(static_cast<size_t>(met), "criterion holds", "criteria hold"),
                      "; --verbose lists what holds\n");
    }
  }
  return absl::StrCat(text, VerdictSummary(verdicts), "\n");
}

}  // namespace splitveil
