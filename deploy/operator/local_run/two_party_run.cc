#include "deploy/operator/local_run/two_party_run.h"

#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "deploy/operator/local_run/party_process.h"
#include "google/protobuf/text_format.h"

#include "common/process/exit_code.h"
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

constexpr char kLabelParty[] = "label_party";
constexpr char kNonLabelParty[] = "nonlabel_party";
constexpr absl::Duration kPollInterval = absl::Milliseconds(20);
// A party that was asked to stop finishes the step under way and its ledger.
constexpr absl::Duration kStopLimit = absl::Seconds(10);

absl::Status WriteText(const std::string& path, const google::protobuf::Message& message) {
  std::string text;
  if (!google::protobuf::TextFormat::PrintToString(message, &text)) {
    return absl::InternalError(absl::StrCat(path, ": cannot be written as text"));
  }
  return WriteFile(path, text);
}

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
  SPLITVEIL_RETURN_IF_ERROR(WriteFile(folder + "/result.json", finished));
  return figures;
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
  nonlabel_config.set_peer_address(absl::StrCat("127.0.0.1:", port));
  SPLITVEIL_RETURN_IF_ERROR(WriteText(folder + "/nonlabel_party.textproto", nonlabel_config));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<PartyProcess> nonlabel,
                             StartParty(kNonLabelParty, folder, programs));
  while (true) {
    if (stop_requested()) {
      StopBoth(*label, *nonlabel);
      return absl::CancelledError("stopped on request");
    }
    const bool both_ended = label->exit_code().has_value() && nonlabel->exit_code().has_value();
    if (absl::Status failure = Blame(*label, *nonlabel, folder); !failure.ok() || both_ended) {
      StopBoth(*label, *nonlabel);
      return failure;
    }
    absl::SleepFor(kPollInterval);
  }
}

}  // namespace splitveil
