#include "deploy/operator/local_run/two_party_run.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "deploy/operator/local_run/party_process.h"
#include "google/protobuf/text_format.h"

#include "common/process/exit_code.h"
#include "common/process/file.h"
#include "common/process/runtime.h"
#include "common/process/steady_time.h"
#include "common/status/status_macros.h"
#include "common/storage/file_system.h"
#include "common/telemetry/log.h"

namespace splitveil {
namespace {

using Json = nlohmann::ordered_json;

absl::StatusOr<Json> ParseObject(absl::string_view text) {
  Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError("expected a JSON object");
  }
  return json;
}

std::optional<double> Number(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

std::vector<AttackFigure> Attacks(const Json& leak) {
  std::vector<AttackFigure> attacks;
  for (const auto& [layer, of_layer] : leak.items()) {
    for (const auto& [attack, summary] : of_layer.items()) {
      const bool measured = summary.is_object() && Number(summary, "mean") && Number(summary, "p95");
      if (!measured || attack == "strongest") {  // That names one of the others.
        continue;
      }
      AttackFigure& figure = attacks.emplace_back(AttackFigure{layer, attack});
      figure.batches = {*Number(summary, "mean"), 0, *Number(summary, "p95"), /*steps=*/1};  // How many is not told.
      if (const std::optional<double> pooled = Number(summary, "pooled"); pooled.has_value()) {
        figure.last_epoch.emplace().auc = *pooled;
        figure.last_epoch->tpr_1pct = figure.last_epoch->tpr_01pct = std::nan("");
      }
    }
  }
  std::stable_sort(attacks.begin(), attacks.end(), IsStronger);
  return attacks;
}

}  // namespace

absl::StatusOr<std::string> FinishedRunJson(absl::string_view result_json, const std::string& configuration_sha256,
                                            double seconds) {
  const absl::StatusOr<Json> result = ParseObject(result_json);
  if (!result.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("RESULT: ", result.status().message()));
  }
  Json finished = {{"configuration_sha256", configuration_sha256}, {"seconds", seconds}};
  // The digest comes first and the party's own keys after it, in their order.
  finished.update(*result);
  return finished.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<RunFigures> ParseFinishedRun(absl::string_view json, const std::string& configuration_sha256) {
  SPLITVEIL_ASSIGN_OR_RETURN(const Json parsed, ParseObject(json));
  const Json& result = parsed;
  const auto digest = result.find("configuration_sha256");
  if (digest == result.end() || !digest->is_string() || !result.contains("steps") || !result["steps"].is_number()) {
    return absl::InvalidArgumentError("expected configuration_sha256 and steps, found neither or one");
  }
  // The folder may hold the result of an earlier configuration, which must not count for this one.
  if (digest->get<std::string>() != configuration_sha256) {
    return absl::FailedPreconditionError("this is the result of a different configuration");
  }
  RunFigures figures;
  // A key that the result file lacks stays unknown: a regression has no AUC, a run without attacks no leak.
  figures.test = {Number(result, "test_log_loss"), Number(result, "test_auc"),
                  Number(result, "test_accuracy"), std::nullopt,
                  Number(result, "test_rmse"),     Number(result, "test_r2")};
  figures.validation.auc = Number(result, "validation_auc");
  figures.validation.log_loss = Number(result, "validation_log_loss");
  figures.validation.r_squared = Number(result, "validation_r2");
  figures.final_test.auc = Number(result, "final_test_auc");
  figures.final_test.r_squared = Number(result, "final_test_r2");
  figures.run_auc_bound = Number(result, "run_auc_bound");
  figures.auc_bound_p95 = Number(result, "auc_bound_p95");
  figures.sum_kl_mean = Number(result, "sum_kl_mean");
  figures.steps = result["steps"].get<int64_t>();
  figures.seconds = Number(result, "seconds");
  if (result.contains("leak")) {
    figures.attacks = Attacks(result["leak"]);
  }
  return figures;
}

namespace {

absl::Status MakeEmptyFolder(const std::string& folder) {
  std::error_code error;
  // Half a ledger or checkpoint of an interrupted run would be taken for one of this run.
  std::filesystem::remove_all(folder, error);
  if (!error) {
    error = MakeFolders(folder);
  }
  return error ? absl::InvalidArgumentError(absl::StrCat(folder, ": cannot be made: ", error.message()))
               : absl::OkStatus();
}

constexpr char kLabelParty[] = "label_party";
constexpr char kNonLabelParty[] = "nonlabel_party";
constexpr absl::Duration kPollInterval = absl::Milliseconds(20);
// A party that was asked to stop finishes the step under way and its ledger.
constexpr absl::Duration kStopLimit = absl::Seconds(10);

absl::StatusOr<std::unique_ptr<PartyProcess>> StartParty(const std::string& party, const std::string& folder,
                                                         const std::string& programs,
                                                         std::vector<std::string> arguments = {}) {
  arguments.push_back(absl::StrCat("--agreement=", folder, "/agreement.textproto"));
  arguments.push_back(absl::StrCat("--config=", folder, "/", party, ".textproto"));
  return PartyProcess::Start({absl::StrCat(programs, "/", party), std::move(arguments),
                              absl::StrCat(folder, "/", party, ".out"), absl::StrCat(folder, "/", party, ".log")});
}

// The last line of the party's log: its error, where it ended with one.
std::string LastWords(const std::string& party, const std::string& folder) {
  const absl::StatusOr<std::string> log = ReadFile(absl::StrCat(folder, "/", party, ".log"));
  const std::vector<std::string> lines = absl::StrSplit(log.ok() ? *log : "", '\n', absl::SkipEmpty());
  return lines.empty() ? "no log" : lines.back();
}

absl::Status Failure(const std::string& party, int exit_code, const std::string& folder) {
  return absl::InternalError(absl::StrCat(party, " ended with exit code ", exit_code, ": ", LastWords(party, folder)));
}

// Waits for the label party to listen; its port.
absl::StatusOr<int> WaitForPort(PartyProcess& label, const std::string& folder,
                                const std::function<bool()>& stop_requested) {
  while (!stop_requested()) {
    // Asked first: what it wrote before it ended is then there to be read.
    const std::optional<int> ended = label.exit_code();
    const absl::StatusOr<std::string> log = ReadFile(absl::StrCat(folder, "/", kLabelParty, ".log"));
    if (const int port = log.ok() ? ListeningPort(*log) : 0; port > 0) {
      return port;
    }
    if (ended) {
      return Failure(kLabelParty, *ended, folder);
    }
    absl::SleepFor(kPollInterval);
  }
  return absl::CancelledError("stopped on request");
}

// Waits until both have ended, but not for ever.
void AwaitBoth(PartyProcess& label, PartyProcess& nonlabel) {
  const SteadyTime deadline = SteadyAfter(kStopLimit);
  while ((!label.exit_code() || !nonlabel.exit_code()) && SteadyNow() < deadline) {
    absl::SleepFor(kPollInterval);
  }
}

// Asks both to stop; what does not is killed with its object.
void StopBoth(PartyProcess& label, PartyProcess& nonlabel) {
  label.Terminate();
  nonlabel.Terminate();
  AwaitBoth(label, nonlabel);
}

// The error of the party to blame; OK if none has failed. The peer of a party that failed ends with
// kPeerUnreachable, because it has nobody to talk to, and often first: the other party's end is waited for then.
absl::Status Blame(PartyProcess& label, PartyProcess& nonlabel, const std::string& folder) {
  constexpr int kUnreachable = static_cast<int>(ExitCode::kPeerUnreachable);
  if (label.exit_code() == kUnreachable || nonlabel.exit_code() == kUnreachable) {
    AwaitBoth(label, nonlabel);
  }
  const int label_code = label.exit_code().value_or(0), nonlabel_code = nonlabel.exit_code().value_or(0);
  if (nonlabel_code != 0 && (label_code == 0 || label_code == kUnreachable)) {
    return Failure(kNonLabelParty, nonlabel_code, folder);
  }
  return label_code != 0 ? Failure(kLabelParty, label_code, folder) : absl::OkStatus();
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
  // Last and at once: a folder with result.json holds a whole run, whatever was interrupted before.
  SPLITVEIL_RETURN_IF_ERROR(WriteFile(folder + "/result.json", finished));
  return figures;
}

absl::Status WriteText(const std::string& path, const google::protobuf::Message& message) {
  std::string text;
  if (!google::protobuf::TextFormat::PrintToString(message, &text)) {
    return absl::InternalError(absl::StrCat(path, ": cannot be written as text"));
  }
  return WriteFile(path, text);
}

absl::Status WriteConfigs(const LocalRun& run, const std::string& folder) {
  SPLITVEIL_RETURN_IF_ERROR(WriteText(folder + "/agreement.textproto", run.agreement));
  SPLITVEIL_RETURN_IF_ERROR(WriteText(folder + "/label_party.textproto", run.label_config));
  return WriteText(folder + "/nonlabel_party.textproto", run.nonlabel_config);
}

int ListeningPort(absl::string_view log) {
  constexpr absl::string_view kMarker = "listens on port ";
  const size_t at = log.find(kMarker);
  int port = 0;
  if (at == log.npos) {
    return 0;
  }
  log.remove_prefix(at + kMarker.size());
  const size_t end = log.find('\n');  // A line without its end may lack digits.
  return end != log.npos && absl::SimpleAtoi(log.substr(0, end), &port) ? port : 0;
}

absl::Status CheckBothParties(const LocalRun& run, const std::string& folder, const std::string& programs) {
  SPLITVEIL_RETURN_IF_ERROR(WriteConfigs(run, folder));
  for (const char* party : {kLabelParty, kNonLabelParty}) {
    SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<PartyProcess> check,
                               StartParty(party, folder, programs, {"--check"}));
    while (!check->exit_code()) {
      absl::SleepFor(kPollInterval);
    }
    if (check->exit_code() != 0) {
      return absl::InvalidArgumentError(LastWords(party, folder));
    }
  }
  return absl::OkStatus();
}

absl::Status RunBothParties(const LocalRun& run, const std::string& folder, const std::string& programs,
                            const std::function<bool()>& stop_requested) {
  SPLITVEIL_RETURN_IF_ERROR(WriteConfigs(run, folder));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<PartyProcess> label, StartParty(kLabelParty, folder, programs));
  SPLITVEIL_ASSIGN_OR_RETURN(const int port, WaitForPort(*label, folder, stop_requested));
  v1::NonLabelPartyConfig nonlabel_config = run.nonlabel_config;
  // The system chose a free port, so that runs fit side by side on one machine.
  nonlabel_config.set_peer_address(absl::StrCat("127.0.0.1:", port));
  SPLITVEIL_RETURN_IF_ERROR(WriteText(folder + "/nonlabel_party.textproto", nonlabel_config));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<PartyProcess> nonlabel,
                             StartParty(kNonLabelParty, folder, programs));
  while (true) {
    if (stop_requested()) {
      StopBoth(*label, *nonlabel);
      return absl::CancelledError("stopped on request");
    }
    // A failure is looked for first: the peer of a party that failed would wait until its deadline.
    const bool both_ended = label->exit_code().has_value() && nonlabel->exit_code().has_value();
    if (absl::Status failure = Blame(*label, *nonlabel, folder); !failure.ok() || both_ended) {
      StopBoth(*label, *nonlabel);
      return failure;
    }
    absl::SleepFor(kPollInterval);
  }
}

absl::StatusOr<std::unique_ptr<FolderLock>> FolderLock::Take(const std::string& folder) {
  MakeFolders(folder);  // Where it cannot, opening the file says it.
  const std::string path = folder + "/run.lock";
  std::error_code ignored;
  for (const char* const name : {"check", "runs", "sweep.csv", "tradeoff.html", "stream.csv", "tune.csv"}) {
    if (!std::filesystem::exists(path, ignored) && std::filesystem::exists(folder + "/" + name, ignored)) {
      return absl::AlreadyExistsError(
          absl::StrCat(folder, "/", name,
                       ": expected a folder of earlier runs, or one without this name, found one that no sweep, "
                       "search or stream has made, and would be replaced: use a different --out"));
    }
  }
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be opened: ", std::strerror(errno)));
  }
  std::unique_ptr<FolderLock> lock(new FolderLock(descriptor));
  // The kernel drops the lock when the process ends, however it ends: no stale lock to remove.
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(folder,
                                                   ": runs of a different sweep, search or stream are going on in this "
                                                   "folder: wait for them, or use a different --out"));
  }
  return lock;
}

FolderLock::~FolderLock() { close(descriptor_); }

void ForEachRun(const LocalRunsOptions& options, size_t count, const std::function<void(size_t)>& run) {
  std::atomic<size_t> next{0};
  std::vector<std::thread> workers;
  for (size_t worker = 0; worker < std::min(static_cast<size_t>(options.jobs), count); ++worker) {
    workers.emplace_back([&] {
      for (size_t i = next++; i < count && !options.stop_requested(); i = next++) {
        run(i);
      }
    });
  }
  for (std::thread& worker : workers) {
    worker.join();
  }
}

absl::StatusOr<std::string> OwnFolder() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) {
    return absl::InternalError("/proc/self/exe: cannot be read: " + error.message());
  }
  return program.parent_path().string();
}

absl::Status FindLocalPrograms(LocalRunsOptions& options) {
  if (options.jobs == 0) {
    // Each run is two processes.
    options.jobs = static_cast<int>(std::max(1u, std::thread::hardware_concurrency() / 2));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(options.programs, OwnFolder());
  options.stop_requested = &StopRequested;
  HandleStopSignals();
  return absl::OkStatus();
}

RunProgress::RunProgress(int64_t total, int64_t done, int fd)
    : total_(total), done_before_(done), fd_(fd), line_("runs", /*unit=*/"", fd) {
  const absl::MutexLock lock(&mutex_);
  if (done > 0) {
    Write(absl::StrCat(done, " of ", total, " runs are finished already"));
  }
  if (done < total) {
    Draw();  // The time left is measured from here on.
  }
}

void RunProgress::Finished(const std::string& run, const RunFigures& figures) {
  const std::string leak =
      figures.strongest() != nullptr ? absl::StrFormat(", strongest attack AUC %.3f", figures.strongest()->auc()) : "";
  Finished(run, absl::StrFormat("test %s %.4f%s, %.0f s", figures.test.is_regression() ? "R^2" : "AUC",
                                figures.test.quality().value_or(std::nan("")), leak, figures.seconds.value_or(0)));
}

void RunProgress::Finished(const std::string& run, const std::string& how) {
  const absl::MutexLock lock(&mutex_);
  ++finished_;
  Ended(run, how);
}

void RunProgress::Failed(const std::string& run, const std::string& name, const absl::Status& error) {
  const absl::MutexLock lock(&mutex_);
  failed_.push_back(absl::StrCat(name, ": ", error.message()));
  Ended(run, "FAILED");
}

void RunProgress::Write(const std::string& text) { WriteLine(fd_, absl::StrCat(OneLine(text), "\n")); }

void RunProgress::Ended(const std::string& run, const std::string& how) {
  Write(absl::StrFormat("[%d/%d] %s: %s", SoFar(), total_, run, how));
  Draw();
}

int64_t RunProgress::SoFar() const { return done_before_ + finished_ + static_cast<int64_t>(failed_.size()); }

void RunProgress::Draw() {
  ProgressUpdate update;
  update.step = SoFar();
  update.total_steps = total_;
  line_.Update(update);
}

void RunProgress::Finish() {
  const absl::MutexLock lock(&mutex_);
  line_.Finish();
}

absl::Status RunProgress::Outcome() {
  const absl::MutexLock lock(&mutex_);
  for (const std::string& failure : failed_) {
    Write(absl::StrCat("failed: ", failure));
  }
  const int64_t missing = total_ - done_before_ - finished_;
  if (missing == 0) {
    return absl::OkStatus();
  }
  // Missing and not failed: they never ran.
  const int64_t stopped = missing - static_cast<int64_t>(failed_.size());
  return absl::InternalError(
      stopped > 0
          ? absl::StrCat("stopped on request with ", missing, " of ", total_, " runs missing; the same command resumes")
          : absl::StrCat(missing, " of ", total_, " runs failed; the same command repeats only those"));
}

}  // namespace splitveil
