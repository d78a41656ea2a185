#include "deploy/operator/local_run/run_to_result.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "deploy/operator/local_run/two_party_run.h"

#include "common/process/file.h"
#include "common/process/steady_time.h"
#include "common/status/status_macros.h"
#include "common/storage/file_system.h"

namespace splitveil {
namespace {

absl::Status MakeEmptyFolder(const std::string& folder) {
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  if (!error) {
    error = MakeFolders(folder);
  }
  return error ? absl::InvalidArgumentError(absl::StrCat(folder, ": cannot be made: ", error.message()))
               : absl::OkStatus();
}

}  // namespace

absl::Status CheckFirst(const LocalRun& run, const std::string& folder, const std::string& programs) {
  SPLITVEIL_RETURN_IF_ERROR(MakeEmptyFolder(folder));
  absl::Status status = CheckBothParties(run, folder, programs);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return status;
}

absl::StatusOr<RunFigures> FindResult(const LocalRun& run, const std::string& folder) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::string json, ReadFile(folder + "/result.json"));
  return ParseFinishedRun(json, run.configuration_sha256);
}

absl::StatusOr<RunFigures> RunToResult(const LocalRun& run, const std::string& folder, const std::string& programs,
                                       const std::function<bool()>& stop_requested) {
  SPLITVEIL_RETURN_IF_ERROR(MakeEmptyFolder(folder));
  const SteadyTime started = SteadyNow();
  SPLITVEIL_RETURN_IF_ERROR(RunBothParties(run, folder, programs, stop_requested));
  const double seconds = SecondsSince(started);
  SPLITVEIL_ASSIGN_OR_RETURN(const std::string result,
                             ReadFile(absl::StrCat(folder, "/", run.label_config.result_path())));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::string finished, FinishedRunJson(result, run.configuration_sha256, seconds));
  SPLITVEIL_ASSIGN_OR_RETURN(RunFigures figures, ParseFinishedRun(finished, run.configuration_sha256));
  SPLITVEIL_RETURN_IF_ERROR(WriteFile(folder + "/result.json", finished));
  return figures;
}

}  // namespace splitveil
