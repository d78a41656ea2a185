#include "deploy/operator/drift/drift_table.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "deploy/operator/records/figure_cells.h"

#include "common/status/status_macros.h"
#include "common/storage/file_system.h"
#include "common/telemetry/log.h"

namespace splitveil {
namespace {

using Verdict = ColumnDrift::Verdict;

constexpr double kNotableChance = 0.25;  // What would be a large shift.

constexpr char kHeader[] =
    "column,verdict,psi,missing_in_training,missing_here,clipped_or_unseen_in_training,clipped_or_unseen_here\n";

constexpr char kMetricsHeader[] =
    "# HELP splitveil_prediction_drift_psi Population stability index of a column: the rows that were predicted "
    "against "
    "those of the training.\n# TYPE splitveil_prediction_drift_psi gauge\n";
constexpr mode_t kGroupMode = 0640;  // The node exporter runs as another user.

bool IsCompared(const ColumnDrift& drift) { return drift.verdict != Verdict::kNotCompared; }

const char* VerdictWord(Verdict verdict) {
  switch (verdict) {
    case Verdict::kNotCompared:
      return "not compared";
    case Verdict::kSame:
      return "same";
    case Verdict::kMoved:
      return "moved";
    case Verdict::kShifted:
      return "shifted";
    case Verdict::kGone:
      return "gone";
  }
  return "";
}

std::string Percent(bool known, double share) { return known ? absl::StrFormat("%.1f%%", 100 * share) : "-"; }

}  // namespace

std::string DriftText(const std::vector<ColumnDrift>& drifts) {
  if (drifts.empty()) {
    return "";
  }
  std::vector<std::vector<std::string>> rows = {
      {"  column", "shift (PSI)", "missing", "in training", "outside", "in training"}};
  std::string notes;
  double chance = 0;
  for (const ColumnDrift& drift : drifts) {
    const bool known = IsCompared(drift);
    const std::string name = OneLine(drift.name);
    rows.push_back({"  " + name, known ? FixedCell(drift.index, 2) : "-", Percent(true, drift.here.missing),
                    Percent(known, drift.training.missing),
                    Percent(true, drift.here.outside) + (drift.is_number ? " clipped" : " unseen"),
                    Percent(known, drift.training.outside)});
    chance = std::max(chance, drift.chance_index);
    if (!drift.what.empty()) {
      const bool moderate = drift.verdict == Verdict::kMoved;
      absl::StrAppendFormat(&notes, "  %s: \"%s\" differs %sfrom the training: PSI %.2f; %s\n",
                            moderate ? "NOTE" : "WARNING", name, moderate ? "somewhat " : "", drift.index, drift.what);
    }
    if (drift.rewritten > 0) {
      absl::StrAppend(&notes, "  \"", name, "\": ", drift.rewritten,
                      " rows write a number otherwise than the training, such as 3.0 for 3: taken as the same\n");
    }
  }
  if (chance > kNotableChance) {
    absl::StrAppendFormat(&notes, "  with so few rows a PSI up to %.2g may be chance\n", chance);
  }
  if (!std::all_of(drifts.begin(), drifts.end(), IsCompared)) {
    absl::StrAppend(
        &notes,
        "  columns without a PSI are not compared: the training data or these have no counts of their values\n");
  }
  return AlignedTable(rows) + notes;
}

absl::Status CheckDriftTablePath(const std::string& path) { return CheckOwnTable(path, kHeader); }

absl::Status WriteDriftTable(const std::string& path, const std::vector<ColumnDrift>& drifts) {
  SPLITVEIL_RETURN_IF_ERROR(CheckDriftTablePath(path));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<PendingFile> file, PendingFile::Create(path));
  SPLITVEIL_RETURN_IF_ERROR(file->Append(kHeader));
  for (const ColumnDrift& drift : drifts) {
    const auto cell = [](bool known, double figure) {
      return CsvCell(known ? std::optional<double>(figure) : std::nullopt);
    };
    const bool known = IsCompared(drift);
    SPLITVEIL_RETURN_IF_ERROR(file->Append(absl::StrCat(
        absl::StrJoin({CsvCell(drift.name), std::string(VerdictWord(drift.verdict)), cell(known, drift.index),
                       cell(known, drift.training.missing), cell(true, drift.here.missing),
                       cell(known, drift.training.outside), cell(true, drift.here.outside)},
                      ","),
        "\n")));
  }
  PendingFile* const all[] = {file.get()};
  return PendingFile::Publish(all);
}

absl::Status WriteDriftMetrics(const std::string& path, absl::string_view party,
                               const std::vector<ColumnDrift>& drifts) {
  SPLITVEIL_RETURN_IF_ERROR(CheckOwnTable(path, kMetricsHeader));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<PendingFile> file, PendingFile::Create(path, kGroupMode));
  SPLITVEIL_RETURN_IF_ERROR(file->Append(kMetricsHeader));
  for (const ColumnDrift& drift : drifts) {
    if (IsCompared(drift)) {
      const std::string column = absl::StrReplaceAll(drift.name, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}});
      SPLITVEIL_RETURN_IF_ERROR(file->Append(absl::StrFormat(
          "splitveil_prediction_drift_psi{party=\"%s\",column=\"%s\"} %.9g\n", party, column, drift.index)));
    }
  }
  PendingFile* const all[] = {file.get()};
  return PendingFile::Publish(all);
}

}  // namespace splitveil
