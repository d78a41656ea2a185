#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "deploy/operator/commands.h"
#include "deploy/operator/party_config/party_config.h"
#include "deploy/operator/status/status_text.h"

#include "common/ledger/ledger_database.h"
#include "common/ledger/ledger_reader.h"
#include "common/operations/operator_server.h"
#include "common/operations/party_program.h"
#include "common/process/steady_time.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "common/transport/client_call.h"

#include "grpc/health/v1/health.grpc.pb.h"
#include "splitveil/v1/operations.grpc.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {
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
