#include "deploy/operator/audit/audit_report.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "deploy/operator/records/attribute_records.h"
#include "deploy/operator/records/ledger_figures.h"

#include "common/config/text_config.h"
#include "common/crypto/sha256.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr char kMissingRemedy[] =
    "Have it measured: name the attack in the agreement's audit.attacks or the label party's label_side_audit, and run "
    "again; or take the limit out of the policy.";

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
  return (only_predicts || !findings.empty()) &&
         std::all_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.outcome == Outcome::kMet; });
}

bool RunVerdict::failed() const {
  return (!only_predicts && findings.empty()) ||
         std::any_of(findings.begin(), findings.end(), [](const Finding& finding) { return finding.failed(); });
}

std::vector<RunVerdict> JudgeRuns(const std::vector<LedgerRun>& runs, const v1::AuditPolicy& policy) {
  std::vector<RunVerdict> verdicts;
  std::vector<LabelRun> label_runs;  // Up to the one that is judged.
  for (const LedgerRun& run : runs) {
    RunVerdict verdict = {run.run_id(), run.label, {}, FiguresOf(run)};
    verdict.only_predicts = run.only_predicts();
    if (const std::optional<AttributeRecords> attributes = AttributeRecordsOf(run); attributes.has_value()) {
      verdict.attribute_lines = AttributeLines(*attributes);
    }
    if (std::optional<LabelRun> released = LabelRunOf(run); released.has_value()) {
      label_runs.push_back(*std::move(released));
    }
    AllRunsBound all_runs;
    if (run.label_party() != nullptr && !verdict.only_predicts) {
      all_runs = BoundOfAllRuns(label_runs);
      if (all_runs.runs > 1) {  // Alone, the run's own figure says the same.
        verdict.figures.all_runs_auc_bound =
            std::max(verdict.figures.all_runs_auc_bound, std::optional(all_runs.known));
      }
    }
    if (const std::string lifetime = LifetimeLine(runs, run, all_runs.possible); !lifetime.empty()) {
      verdict.attribute_lines.push_back(lifetime);
    }
    const auto add = [&verdict](const std::vector<Finding>& findings) {
      verdict.findings.insert(verdict.findings.end(), findings.begin(), findings.end());
    };
    if (!verdict.only_predicts) {
      add(ConductFindings(run, policy));
      add(LeakFindings(run, policy));
      add(BoundFindings(run, policy, all_runs));
    }
    add(AttributeFindings(run, policy));
    add(LifetimeFindings(runs, run, policy));
    for (Finding& finding : verdict.findings) {
      Complete(finding, run);
    }
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

bool PolicyMet(const std::vector<RunVerdict>& verdicts) {
  return !std::all_of(verdicts.begin(), verdicts.end(), [](const RunVerdict& verdict) {
    return verdict.only_predicts;
  }) && std::all_of(verdicts.begin(), verdicts.end(), [](const RunVerdict& verdict) { return verdict.met(); });
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

}  // namespace splitveil
