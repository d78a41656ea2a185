#include "deploy/operator/audit/audit_report.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "deploy/operator/records/ledger_figures.h"

#include "common/config/text_config.h"
#include "common/crypto/sha256.h"
#include "common/figures/figure_words.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"

namespace splitveil {
namespace {

constexpr char kMissingRemedy[] =
    "Have it measured: name the attack in the agreement's audit.attacks or the label party's label_side_audit, and run "
    "again; or take the limit out of the policy.";

// A ledger that was not given leaves a criterion open. It neither passes nor fails by its absence.
void Complete(Finding& finding, const LedgerRun& run) {
  const bool of_label_party = finding.holder == LedgerHolder::kLabelParty;
  const PartyRecords* holder = of_label_party ? run.label_party() : run.nonlabel_party();
  if (finding.outcome == Outcome::kNotMeasured && holder == nullptr) {
    finding.outcome = Outcome::kNotMeasurable;
    finding.found = absl::StrCat("not measurable without the ", finding.holder_words(), " ledger");
    finding.where.clear();
  }
  if (finding.outcome == Outcome::kNotMeasured) {
    finding.remedy = of_label_party ? kMissingRemedy : finding.remedy;
  } else if (finding.outcome != Outcome::kNotMet && finding.outcome != Outcome::kOpen) {
    finding.remedy.clear();
  }
}

}  // namespace

bool RunVerdict::met() const {
  return !failed() && std::all_of(findings.begin(), findings.end(),
                                  [](const Finding& finding) { return finding.outcome == Outcome::kMet; });
}

bool RunVerdict::failed() const {
  // No criterion at all is no pass: a policy that asks nothing would otherwise approve every training.
  return (findings.empty() && !figures.only_predicts) ||
         std::any_of(findings.begin(), findings.end(), [](const Finding& finding) { return finding.failed(); });
}

std::vector<RunVerdict> JudgeRuns(const std::vector<LedgerRun>& runs, const v1::AuditPolicy& policy) {
  const std::vector<AllRunsBound> bounds = BoundsOfAllRuns(runs);
  std::vector<RunVerdict> verdicts;
  for (size_t i = 0; i < runs.size(); ++i) {
    const LedgerRun& run = runs[i];
    const AllRunsBound& all_runs = bounds[i];
    RunVerdict verdict = {run.run_id(), run.label, {}, FiguresWith(run, all_runs)};
    if (const std::optional<AttributeRecords> attributes = AttributeRecordsOf(run); attributes.has_value()) {
      verdict.further_lines = AttributeLines(*attributes);
    }
    // The promise is about one run and its account; a partner keeps what the earlier ones sent.
    const bool is_doubted = all_runs.possible >= 1 && !all_runs.doubt.empty();
    if (verdict.figures.is_proved() && (is_doubted || !all_runs.not_proved.empty())) {
      verdict.further_lines.push_back(absl::StrCat(
          "not in the promise: ", all_runs.not_proved.empty()
                                      ? all_runs.doubt
                                      : absl::StrCat("what ", all_runs.not_proved,
                                                     " released of the same labels, which nothing proved bounds")));
    }
    if (const PartyRecords* const label = run.label_party(); label != nullptr) {
      if (const std::string answers = DescribeUnprovedAnswers(*label); !answers.empty()) {
        verdict.further_lines.push_back(answers);
      }
    }
    if (const std::string lifetime = LifetimeLine(runs, run, all_runs.not_proved.empty() ? all_runs.possible : 1);
        !lifetime.empty()) {
      verdict.further_lines.push_back(lifetime);
    }
    const auto add = [&verdict](const std::vector<Finding>& findings) {
      verdict.findings.insert(verdict.findings.end(), findings.begin(), findings.end());
    };
    // A prediction releases no gradient, and nobody attacks it.
    if (!verdict.figures.only_predicts) {
      add(ConductFindings(run, policy));
      add(LeakFindings(run, policy));
      add(BoundFindings(run, verdict.figures, policy, all_runs));
      add(AttributeFindings(run, policy));
    }
    add(ActivationFindings(run, policy));
    add(LifetimeFindings(runs, run, policy));
    for (Finding& finding : verdict.findings) {
      Complete(finding, run);
    }
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

namespace {

int64_t TrainedRuns(const std::vector<RunVerdict>& verdicts) {
  return std::count_if(verdicts.begin(), verdicts.end(),
                       [](const RunVerdict& verdict) { return !verdict.figures.only_predicts; });
}

}  // namespace

bool PolicyMet(const std::vector<RunVerdict>& verdicts) {
  return TrainedRuns(verdicts) > 0 &&
         std::all_of(verdicts.begin(), verdicts.end(), [](const RunVerdict& verdict) { return verdict.met(); });
}

bool PolicyFailed(const std::vector<RunVerdict>& verdicts) {
  return verdicts.empty() ||
         std::any_of(verdicts.begin(), verdicts.end(), [](const RunVerdict& verdict) { return verdict.failed(); });
}

namespace {

absl::StatusOr<AuditedFile> Describe(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    return absl::NotFoundError(absl::StrCat(path, ": cannot be opened"));
  }
  // So that a report can be matched with the very files it was made from.
  Sha256Hasher hasher;
  std::vector<char> buffer(1 << 20);
  while (stream.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || stream.gcount() > 0) {
    hasher.Update({buffer.data(), static_cast<size_t>(stream.gcount())});
  }
  if (stream.bad()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read"));
  }
  return AuditedFile{std::filesystem::path(path).filename().string(), absl::BytesToHexString(AsBytes(hasher.Finish()))};
}

}  // namespace

void SetListDefaults(v1::AuditPolicy& policy) {
  if (policy.allowed_disclosures().empty()) {
    // Protobuf has no defaults for lists: an empty one means these, not none.
    policy.add_allowed_disclosures(v1::LABEL_SIDE_ONLY);
    policy.add_allowed_disclosures(v1::ROUNDED);
  }
  if (policy.allowed_gate_decisions().empty()) {
    policy.add_allowed_gate_decisions(v1::RELEASE);
    policy.add_allowed_gate_decisions(v1::RAISE_NOISE);
    policy.add_allowed_gate_decisions(v1::FREEZE_BOTTOM);
  }
}

absl::StatusOr<v1::AuditPolicy> LoadAuditPolicy(const std::string& path) {
  v1::AuditPolicy policy;
  SPLITVEIL_RETURN_IF_ERROR(LoadTextConfig(path, policy));
  for (int i = 0; i < policy.max_measured_leak_size(); ++i) {
    const v1::MeasuredLeakLimit& limit = policy.max_measured_leak(i);
    if (!limit.has_max_mean() && !limit.has_max_p95() && !limit.has_max_pooled()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": max_measured_leak[", i, "]: expected max_mean, max_p95 or max_pooled, found none"));
    }
  }
  SetListDefaults(policy);
  return policy;
}

absl::StatusOr<AuditSubject> DescribeAuditSubject(const std::string& policy_path,
                                                  const std::vector<std::string>& ledger_paths, absl::Time now) {
  AuditSubject subject;
  SPLITVEIL_ASSIGN_OR_RETURN(subject.policy, Describe(policy_path));
  for (const std::string& path : ledger_paths) {
    SPLITVEIL_ASSIGN_OR_RETURN(AuditedFile ledger, Describe(path));
    subject.ledgers.push_back(std::move(ledger));
  }
  subject.judged_at = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", now, absl::UTCTimeZone());
  return subject;
}

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
  if (verdict.figures.only_predicts) {
    return "predicts only: nothing was released by the label party\n";
  }
  std::vector<std::string> lines = {absl::StrCat("verdict: ", VerdictWords(verdict.figures.verdict())),
                                    absl::StrCat("promise: ", PromiseSentence(PromiseOf(verdict.figures)))};
  if (verbose) {
    const std::vector<std::string> details = VerdictLines(verdict.figures);
    lines.insert(lines.end(), details.begin(), details.end());
  }
  lines.insert(lines.end(), verdict.further_lines.begin(), verdict.further_lines.end());
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
  const int64_t trained_runs = TrainedRuns(verdicts);
  size_t criteria = 0, failed = 0, open = 0, failed_runs = 0;
  for (const RunVerdict& verdict : verdicts) {
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
    // What no bound but a proved one covers: that labels move the top model, and with it later noise and gradients.
    const bool conditional = std::any_of(verdicts.begin(), verdicts.end(), [](const RunVerdict& verdict) {
      const PrivacyVerdict of = verdict.figures.verdict();
      return of == PrivacyVerdict::kHolds || of == PrivacyVerdict::kUntested || of == PrivacyVerdict::kNothingClaimed;
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
