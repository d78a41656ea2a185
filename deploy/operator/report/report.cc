#include "deploy/operator/report/report.h"

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "deploy/operator/page/page.h"
#include "deploy/operator/report/report_json.h"

#include "common/page/embedded.h"
#include "common/process/file.h"
#include "common/status/status_macros.h"

namespace splitveil {

SPLITVEIL_EMBEDDED(ReportHtml);
SPLITVEIL_EMBEDDED(ReportCss);
SPLITVEIL_EMBEDDED(ReportJs);

namespace {

// A reader of `path` sees the old page or the new one, never half of it.
absl::Status ReplaceFile(const std::string& path, const std::string& contents) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty() && !std::filesystem::is_directory(folder, error)) {
    return absl::NotFoundError(absl::StrCat(path, ": its folder does not exist"));
  }
  return WriteFile(path, contents);
}

}  // namespace

absl::Status WriteReport(const std::vector<std::string>& ledger_paths, const std::string& out_path) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<LedgerRun> runs, ReadRuns(ledger_paths));
  return ReplaceFile(
      out_path, RenderPage({EmbeddedReportHtml(), "Splitveil leak report", EmbeddedReportCss(), EmbeddedReportJs()},
                           ReportJson(runs, nullptr)));
}

absl::Status WriteAuditReport(const std::vector<LedgerRun>& runs, const AuditReport& audit,
                              const std::string& out_path) {
  return ReplaceFile(out_path,
                     RenderPage({EmbeddedReportHtml(), "Splitveil audit", EmbeddedReportCss(), EmbeddedReportJs()},
                                ReportJson(runs, &audit)));
}

}  // namespace splitveil
