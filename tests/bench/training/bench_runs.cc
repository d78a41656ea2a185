#include "tests/bench/training/bench_runs.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "deploy/operator/local_run/two_party_run.h"

#include "common/ledger/ledger_reader.h"
#include "common/process/file.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

// What one ledger says of its one run.
struct PartySteps {
  std::vector<StepRow> steps;
  std::vector<StepTimeRow> times;
};

absl::StatusOr<PartySteps> ReadSteps(const std::string& path) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<LedgerReader> reader, LedgerReader::Open(path));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<RunRecord> runs, reader->Runs());
  if (runs.size() != 1) {
    return absl::InternalError(absl::StrCat(path, ": expected one run, found ", runs.size()));
  }
  const std::string& run_id = runs.front().run.run_id;
  PartySteps read;
  SPLITVEIL_ASSIGN_OR_RETURN(read.steps, reader->Steps(run_id));
  SPLITVEIL_ASSIGN_OR_RETURN(read.times, reader->StepTimes(run_id));
  if (read.steps.empty() || read.steps.size() != read.times.size()) {
    return absl::InternalError(
        absl::StrCat(path, ": expected steps and their times, found ", read.steps.size(), " and ", read.times.size()));
  }
  return read;
}

StepRow MeanStep(const std::vector<StepRow>& steps) {
  StepRow mean;
  for (const StepRow& step : steps) {
    mean.seconds += step.seconds / static_cast<double>(steps.size());
  }
  return mean;
}

StepTimeRow MeanTimes(const std::vector<StepTimeRow>& rows) {
  StepTimeRow mean;
  for (const StepTimeRow& row : rows) {
    for (double StepTimeRow::*phase : kStepPhases) {
      mean.*phase += row.*phase / static_cast<double>(rows.size());
    }
  }
  return mean;
}

double MedianMilliseconds(const std::vector<StepRow>& steps) {
  std::vector<double> seconds;
  for (const StepRow& step : steps) {
    seconds.push_back(step.seconds);
  }
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
  return 1000 * seconds[seconds.size() / 2];
}

// A step of the largest batch: smaller ones, at the end of an epoch, are other steps.
double BytesPerStep(const std::vector<StepRow>& steps) {
  int64_t examples = 0;
  double bytes = 0;
  for (const StepRow& step : steps) {
    if (step.examples > examples) {
      examples = step.examples;
      bytes = static_cast<double>(step.bytes_sent + step.bytes_received);
    }
  }
  return bytes;
}

absl::StatusOr<nlohmann::json> ParseResult(const std::string& text) {
  nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("test_auc")) {
    return absl::InternalError("RESULT: expected an object with test_auc, found something else");
  }
  return json;
}

double Number(const nlohmann::json& result, const char* key) {
  return result.contains(key) && result[key].is_number() ? result[key].get<double>() : kNothing;
}

absl::StatusOr<BenchRun> RunSplitWatched(const LocalRun& run, BenchFolder& folder, const std::string& where,
                                         const std::function<bool()>& stop) {
  SPLITVEIL_RETURN_IF_ERROR(RunBothParties(run, where, folder.programs(), stop));
  SPLITVEIL_ASSIGN_OR_RETURN(const PartySteps label, ReadSteps(where + "/label_party.db"));
  SPLITVEIL_ASSIGN_OR_RETURN(const PartySteps nonlabel, ReadSteps(where + "/nonlabel_party.db"));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::string text, ReadFile(where + "/label_party.result.json"));
  SPLITVEIL_ASSIGN_OR_RETURN(const nlohmann::json result, ParseResult(text));
  BenchRun measured;
  measured.test_auc = Number(result, "test_auc");
  measured.label_step = MeanStep(label.steps);
  measured.nonlabel_step = MeanStep(nonlabel.steps);
  measured.label_times = MeanTimes(label.times);
  measured.nonlabel_times = MeanTimes(nonlabel.times);
  measured.step_milliseconds = MedianMilliseconds(nonlabel.steps);
  measured.bytes_per_step = BytesPerStep(nonlabel.steps);
  double examples = 0, seconds = 0;
  for (const StepRow& step : nonlabel.steps) {
    examples += static_cast<double>(step.examples);
    seconds += step.seconds;
  }
  measured.examples_per_second = examples / seconds;
  return measured;
}

// VmHWM of the process that was started with `argument`; 0 where there is none.
int64_t PeakResidentBytes(const std::string& argument) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const absl::StatusOr<std::string> command = ReadFile(entry.path().string() + "/cmdline");
    if (!command.ok() || !absl::StrContains(*command, argument)) {
      continue;
    }
    const absl::StatusOr<std::string> status = ReadFile(entry.path().string() + "/status");
    for (absl::string_view line : absl::StrSplit(status.ok() ? *status : "", '\n')) {
      int64_t kibibytes = 0;
      if (absl::ConsumePrefix(&line, "VmHWM:") && absl::ConsumeSuffix(&line, "kB") &&
          absl::SimpleAtoi(absl::StripAsciiWhitespace(line), &kibibytes)) {
        return kibibytes * 1024;
      }
    }
  }
  return 0;
}

}  // namespace

absl::StatusOr<BenchRun> RunSplit(const LocalRun& run, BenchFolder& folder) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::string where, folder.NewRunFolder());
  return RunSplitWatched(run, folder, where, [&] { return folder.stop_requested(); });
}

absl::StatusOr<BenchRun> RunSplitForMemory(const LocalRun& run, BenchFolder& folder, int64_t& peak_bytes) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::string where, folder.NewRunFolder());
  peak_bytes = 0;
  // Its folder sets the process apart from those of other runs.
  const std::string argument = absl::StrCat("--config=", where, "/nonlabel_party.textproto");
  return RunSplitWatched(run, folder, where, [&] {
    peak_bytes = std::max(peak_bytes, PeakResidentBytes(argument));
    return folder.stop_requested();
  });
}

absl::StatusOr<BenchRun> RunCentralizedBaseline(const LocalRun& run, int threads, BenchFolder& folder) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::string where, folder.NewRunFolder());
  SPLITVEIL_RETURN_IF_ERROR(WriteConfigs(run, where));
  SPLITVEIL_RETURN_IF_ERROR(RunProgram(
      folder.programs() + "/centralized_baseline",
      {absl::StrCat("--agreement=", where, "/agreement.textproto"),
       absl::StrCat("--label_config=", where, "/label_party.textproto"),
       absl::StrCat("--nonlabel_config=", where, "/nonlabel_party.textproto"), absl::StrCat("--threads=", threads)},
      where + "/centralized_baseline", [&] { return folder.stop_requested(); }));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::string text, ReadFile(where + "/centralized_baseline.out"));
  SPLITVEIL_ASSIGN_OR_RETURN(const nlohmann::json result, ParseResult(std::string(absl::StripPrefix(text, "RESULT "))));
  BenchRun measured;
  measured.examples_per_second = Number(result, "examples_per_second");
  measured.test_auc = Number(result, "test_auc");
  return measured;
}

}  // namespace splitveil
