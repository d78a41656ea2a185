#include "deploy/operator/status/status_command.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "deploy/operator/commands.h"
#include "deploy/operator/party_config/party_config.h"

#include "common/figures/figure_words.h"
#include "common/ledger/ledger_database.h"
#include "common/ledger/ledger_reader.h"
#include "common/operations/operator_server.h"
#include "common/process/steady_time.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "common/transport/client_call.h"

#include "grpc/health/v1/health.grpc.pb.h"
#include "splitveil/v1/operations.grpc.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {
namespace {

constexpr int kAttacksShown = 4, kEventsShown = 5, kPhasesShown = 4;

class Lines {
 public:
  void Add(absl::string_view name, absl::string_view text) {
    absl::StrAppendFormat(&text_, "  %-12s%s\n", name, OneLine(text));
  }
  std::string text() const { return text_; }

 private:
  std::string text_;
};

std::string Headline(const v1::GetStatusResponse& status, ServingStatus health) {
  std::string text =
      absl::StrCat(status.role(), " ", status.version(), ": ",
                   grpc::health::v1::HealthCheckResponse::ServingStatus_Name(health), ", ", status.phase());
  if (!status.run_id().empty()) {
    absl::StrAppend(&text, ", run ", status.run_id());
    if (status.phase() == "aligning") {
      if (status.ids_to_mask() > 0) {  // Known once both parties have told how many ids they hold.
        absl::StrAppend(&text, ", ", status.masked_ids(), " of ", status.ids_to_mask(),
                        " ids masked, own and the peer's");
        if (status.alignment_seconds_left() > 0) {
          absl::StrAppend(&text, ", about ",
                          absl::FormatDuration(absl::Seconds(std::round(status.alignment_seconds_left()))), " left");
        }
      }
    } else {
      absl::StrAppend(&text, ", epoch ", status.epoch() + 1, ", step ", status.step(), "/", status.total_steps(), ", ",
                      status.aligned_examples(), " aligned examples");
    }
    if (status.bound_exceeded() > 0) {
      absl::StrAppend(&text, ", BOUND EXCEEDED ", status.bound_exceeded(), " times");
    }
    if (status.role() == kLabelPartyRole && status.step() > 0) {
      absl::StrAppendFormat(&text, ", loss %.4f", status.loss());
    }
  }
  return OneLine(text);
}

std::string ProgressText(const v1::GetStatusResponse& status) {
  if (!status.ended().empty()) {
    return status.ended();
  }
  std::string text = status.steps_per_second() > 0 ? absl::StrFormat("%.3g steps per second", status.steps_per_second())
                                                   : "rate not known yet";
  if (status.seconds_left() > 0) {
    absl::StrAppend(&text, ", about ", absl::FormatDuration(absl::Seconds(std::round(status.seconds_left()))), " left");
  }
  return text;
}

std::string Times(const v1::GetStatusResponse& status) {
  std::vector<std::pair<double, std::string>> phases;
  for (const v1::PhaseSeconds& phase : status.phases()) {
    phases.emplace_back(phase.seconds(), phase.phase());
  }
  std::sort(phases.rbegin(), phases.rend());
  phases.resize(std::min<size_t>(phases.size(), kPhasesShown));
  const double whole = std::max(status.step_seconds(), 1e-9);
  return absl::StrJoin(phases, ", ", [whole](std::string* out, const auto& phase) {
    absl::StrAppendFormat(out, "%s %.0f%%", phase.second, 100 * phase.first / whole);
  });
}

double Strength(const v1::MeasuredLeak& leak) { return std::max(leak.auc(), leak.epoch_auc()); }

void AddLeaks(const v1::LabelPartyFigures& figures, Lines& lines) {
  std::vector<v1::MeasuredLeak> leaks(figures.leaks().begin(), figures.leaks().end());
  std::stable_sort(leaks.begin(), leaks.end(),
                   [](const auto& left, const auto& right) { return Strength(left) > Strength(right); });
  leaks.resize(std::min<size_t>(leaks.size(), kAttacksShown));
  if (!leaks.empty()) {
    lines.Add("leak", absl::StrJoin(leaks, ", ", [](std::string* out, const v1::MeasuredLeak& leak) {
                absl::StrAppendFormat(out, "%s at %s %.3f", leak.attack(), leak.layer(), Strength(leak));
              }));
  }
}

void AddLabelParty(const v1::LabelPartyFigures& figures, Lines& lines) {
  lines.Add("protection", absl::StrCat(figures.protection(), figures.frozen() ? ", bottom model frozen" : ""));
  AddLeaks(figures, lines);
  if (figures.run_auc_bound() > 0) {
    std::string bound = absl::StrCat(BoundText(figures.run_auc_bound()), " over the run so far, ",
                                     figures.bound_proved() ? "proved" : "conditional");
    if (figures.max_run_auc_bound() > 0) {
      absl::StrAppendFormat(&bound, "; limit %s, %.0f%% of the budget left", BoundText(figures.max_run_auc_bound()),
                            100 * figures.budget_left());
    }
    lines.Add("bound", bound);
  }
  if (!figures.tests().empty()) {
    const v1::TestFigures& test = figures.tests(figures.tests_size() - 1);
    lines.Add("test", std::isfinite(test.r_squared())
                          ? absl::StrFormat("R^2 %.4f, RMSE %.4f", test.r_squared(), test.rmse())
                          : absl::StrFormat("AUC %.4f, log loss %.4f", test.auc(), test.log_loss()));
  }
  if (!figures.gate().empty()) {
    lines.Add("gate", absl::StrJoin(figures.gate(), ", ", [](std::string* out, const v1::GateCount& count) {
                absl::StrAppend(out, count.steps(), " ", count.action());
              }));
  }
}

}  // namespace

std::string StatusText(const v1::GetStatusResponse& status, ServingStatus health) {
  std::string text = absl::StrCat(Headline(status, health), "\n");
  if (status.steps_done() == 0) {
    return text;
  }
  Lines lines;
  lines.Add("progress", ProgressText(status));
  if (status.has_label_party()) {
    AddLabelParty(status.label_party(), lines);
  }
  lines.Add("time", Times(status));
  lines.Add("traffic", absl::StrFormat("%.1f MB sent, %.1f MB received, %d interruptions",
                                       static_cast<double>(status.bytes_sent()) / 1e6,
                                       static_cast<double>(status.bytes_received()) / 1e6, status.interruptions()));
  const int first = std::max(0, status.events_size() - kEventsShown);
  for (int i = first; i < status.events_size(); ++i) {
    const v1::RunEvent& event = status.events(i);
    lines.Add(i == first ? "events" : "",
              absl::StrCat(event.at(), " ", event.kind(), event.detail().empty() ? "" : ": ", event.detail()));
  }
  absl::StrAppend(&text, lines.text());
  return text;
}

namespace {

constexpr int kMaxAnswerBytes = 1 << 18;
constexpr double kWatchSeconds = 2, kLeastWatchSeconds = 0.1, kMostWatchSeconds = 3600;
constexpr char kClearTerminal[] = "\033[H\033[2J";

struct StatusFlags {
  std::string config;
  std::string role;
  double timeout_seconds = 5;
  std::string watch;                          // Empty or "true", as CLI11 has the flag alone: kWatchSeconds.
  const CLI::Option* watch_option = nullptr;  // Not given: ask once.
};

// What the party answers, which is shown.
absl::StatusOr<v1::GetStatusResponse> Ask(const std::string& socket, absl::Duration limit, bool redraws) {
  const SteadyTime deadline = SteadyAfter(limit);
  SPLITVEIL_ASSIGN_OR_RETURN(const SocketAddress address, SocketAddress::Of(socket));
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxAnswerBytes);
  const std::shared_ptr<grpc::Channel> channel =
      grpc::CreateCustomChannel(address.grpc_name(), grpc::InsecureChannelCredentials(), arguments);
  if (!channel->WaitForConnected(GrpcDeadline(deadline))) {
    return absl::UnavailableError(
        absl::StrCat(socket, ": expected a running party, but no party is answering on this socket"));
  }
  const auto operations = v1::Operations::NewStub(channel);
  const auto health_service = grpc::health::v1::Health::NewStub(channel);
  SPLITVEIL_ASSIGN_OR_RETURN(const v1::GetStatusResponse status,
                             CallUnary(operations, &v1::Operations::Stub::GetStatus, {}, deadline));
  SPLITVEIL_ASSIGN_OR_RETURN(const grpc::health::v1::HealthCheckResponse health,
                             CallUnary(health_service, &grpc::health::v1::Health::Stub::Check, {}, deadline));
  std::printf("%s%s", redraws ? kClearTerminal : "", StatusText(status, health.status()).c_str());
  std::fflush(stdout);
  return status;
}

// As the party's own program, which says why.
ExitCode ExitCodeOfRun(const std::string& ended) {
  return ended == "completed" ? ExitCode::kDone
         : ended == "stopped" ? ExitCode::kStopped
         : ended == "halted"  ? ExitCode::kHalted
                              : ExitCode::kInternal;
}

// The party that is watched, as its configuration has it.
struct WatchedParty {
  std::string socket, ledger;
};

// Of a party that answers no more: how its ledger says that the run ended which it was in. `run_id`: empty if it had
// named none yet; then the latest that ended since `began`, as ledgers write times.
absl::StatusOr<ExitCode> ReadEnd(const std::string& ledger, const std::string& run_id, const std::string& began) {
  const absl::StatusOr<std::unique_ptr<LedgerReader>> reader = LedgerReader::Open(ledger);
  const absl::StatusOr<std::vector<RunRecord>> runs =
      reader.ok() ? (*reader)->Runs() : absl::StatusOr<std::vector<RunRecord>>(reader.status());
  if (!runs.ok()) {
    return absl::InternalError(absl::StrCat(
        "the party no longer answers, and its ledger does not say how the run ended: ", runs.status().message()));
  }
  const auto found = std::find_if(runs->rbegin(), runs->rend(), [&](const RunRecord& record) {
    return run_id.empty() ? record.finished_at >= began : record.run.run_id == run_id;
  });
  if (found == runs->rend()) {
    return absl::InternalError(absl::StrCat("the party no longer answers, and ", ledger, " has no ",
                                            run_id.empty() ? "run that ended since" : absl::StrCat("run ", run_id)));
  }
  const std::string line =
      absl::StrCat("the party no longer answers: run ", found->run.run_id, " is \"", found->status, "\" in ", ledger,
                   found->finished_at.empty() ? ", so it ended without a word" : "");
  std::printf("%s\n", OneLine(line).c_str());
  return ExitCodeOfRun(found->status);
}

// Until the party is gone or the run has ended.
absl::StatusOr<ExitCode> Watch(const WatchedParty& party, absl::Duration limit, absl::Duration pause) {
  const bool redraws = isatty(STDOUT_FILENO) == 1;
  const std::string began = LedgerDatabase::UtcNow();
  std::string run_id;
  for (bool answered = false;; answered = true) {
    const absl::StatusOr<v1::GetStatusResponse> status = Ask(party.socket, limit, redraws);
    // Cancelled: a question that it was asked as it ended.
    if (answered && (absl::IsUnavailable(status.status()) || absl::IsCancelled(status.status()))) {
      return ReadEnd(party.ledger, run_id, began);
    }
    SPLITVEIL_RETURN_IF_ERROR(status.status());
    if (!status->ended().empty()) {
      std::printf("the run has ended: %s\n", status->ended().c_str());
      return ExitCodeOfRun(status->ended());
    }
    run_id = status->run_id();
    absl::SleepFor(pause);
  }
}

absl::StatusOr<absl::Duration> WatchPause(const std::string& watch) {
  double seconds = kWatchSeconds;
  if (!watch.empty() && watch != "true" &&
      !(absl::SimpleAtod(watch, &seconds) && seconds >= kLeastWatchSeconds && seconds <= kMostWatchSeconds)) {
    return absl::InvalidArgumentError(absl::StrCat("command line: --watch: expected a number from ", kLeastWatchSeconds,
                                                   " to ", kMostWatchSeconds, ", found \"", watch, "\""));
  }
  return absl::Seconds(seconds);
}

absl::StatusOr<ExitCode> Status(const StatusFlags& flags) {
  SPLITVEIL_ASSIGN_OR_RETURN(const absl::Duration pause, WatchPause(flags.watch));
  SPLITVEIL_ASSIGN_OR_RETURN(const PartyConfig config, LoadPartyConfig(flags.config, flags.role));
  const v1::PartyCommon& own =
      std::visit([](const auto& fields) -> const v1::PartyCommon& { return fields.party(); }, config);
  const WatchedParty party = {StatusSocketPath(own), own.ledger_path()};
  const absl::Duration limit = absl::Seconds(flags.timeout_seconds);
  if (flags.watch_option->count() == 0) {
    SPLITVEIL_RETURN_IF_ERROR(Ask(party.socket, limit, /*redraws=*/false).status());
    return ExitCode::kDone;
  }
  return Watch(party, limit, pause);
}

}  // namespace

void AddStatusCommand(CommandLine& line) {
  const auto flags = std::make_shared<StatusFlags>();
  CLI::App& command = line.AddCommand({"status", "Ask a running party on this machine what it is doing.",
                                       "splitveil status --config=label_party.textproto", "During a run"},
                                      [flags] { return Status(*flags); });
  AddValue(command, "--config=FILE", flags->config, "The party's configuration.")->required();
  AddValue(command, "--role=PARTY", flags->role, "Whose configuration it is.")
      ->default_str("inferred from its fields")
      ->check(OneOf({kLabelPartyRole, kNonLabelPartyRole}));
  flags->watch_option =
      AddValue(
          command, "--watch=SECONDS", flags->watch,
          "Repeat every SECONDS (default: 2) until the run ends. Exits with 0 if it is complete, 5 if halted, 6 if "
          "stopped, 1 if it failed. If the party is gone, its ledger is read.")
          ->expected(0, 1);
  AddValue(command, "--timeout_seconds=SECONDS", flags->timeout_seconds, "How long to wait for an answer.")
      ->check(NumberIn(0.1, 3600));
}

}  // namespace splitveil
