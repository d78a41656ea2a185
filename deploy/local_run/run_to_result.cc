#include "deploy/local_run/run_to_result.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "deploy/local_run/two_party_run.h"

#include "common/process/file.h"

namespace splitveil {
namespace {

absl::Status MakeEmptyFolder(const std::string& folder) {
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  if (!error) {
    std::filesystem::create_directories(folder, error);
  }
  return error ? absl::InvalidArgumentError(absl::StrCat(folder, ": cannot be made: ", error.message()))
               : absl::OkStatus();
}

}  // namespace

absl::Status CheckFirst(const LocalRun& run, const std::string& folder, const std::string& programs) {
  absl::Status status = MakeEmptyFolder(folder);
  if (status.ok()) {
    status = CheckBothParties(run, folder, programs);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return status;
}

absl::StatusOr<RunFigures> FindResult(const LocalRun& run, const std::string& folder) {
  const absl::StatusOr<std::string> json = ReadFile(folder + "/result.json");
  return json.ok() ? ParseFinishedRun(*json, run.configuration_sha256) : json.status();
}

absl::StatusOr<RunFigures> RunToResult(const LocalRun& run, const std::string& folder, const std::string& programs,
                                       const std::function<bool()>& stop_requested) {
  if (absl::Status status = MakeEmptyFolder(folder); !status.ok()) {
    return status;
  }
  const absl::Time started = absl::Now();
  if (absl::Status status = RunBothParties(run, folder, programs, stop_requested); !status.ok()) {
    return status;
  }
  const double seconds = absl::ToDoubleSeconds(absl::Now() - started);
  const absl::StatusOr<std::string> result = ReadFile(absl::StrCat(folder, "/", run.label_config.result_path()));
  if (!result.ok()) {
    return result.status();
  }
  const absl::StatusOr<std::string> finished = FinishedRunJson(*result, run.configuration_sha256, seconds);
  if (!finished.ok()) {
    return finished.status();
  }
  absl::StatusOr<RunFigures> figures = ParseFinishedRun(*finished, run.configuration_sha256);
  if (figures.ok()) {
    if (absl::Status status = WriteFile(folder + "/result.json", *finished); !status.ok()) {
      return status;
    }
  }
  return figures;
}

}  // namespace splitveil
