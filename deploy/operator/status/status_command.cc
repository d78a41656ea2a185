#include "deploy/operator/status/status_command.h"

#include <unistd.h>

#include <cstdio>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <memory>
#include <string>
#include <variant>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "deploy/operator/party_config/party_config.h"
#include "deploy/operator/status/status_text.h"

#include "common/operations/operator_server.h"
#include "common/operations/party_program.h"
#include "common/process/steady_time.h"
#include "common/status/status_macros.h"
#include "common/transport/grpc_deadline.h"
#include "common/transport/unary_call.h"

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

// How the run had ended by then; empty: it goes on.
absl::StatusOr<std::string> Ask(const std::string& socket, absl::Duration limit, bool redraws) {
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
  return status.ended();
}

// As the party's own program, which says why.
ExitCode ExitCodeOfRun(const std::string& ended) {
  return ended == "completed" ? ExitCode::kDone
         : ended == "stopped" ? ExitCode::kStopped
         : ended == "halted"  ? ExitCode::kHalted
                              : ExitCode::kInternal;
}

// Until the party is gone or the run has ended. A party that answered and then does not is no error: it has ended.
absl::StatusOr<ExitCode> Watch(const std::string& socket, absl::Duration limit, absl::Duration pause) {
  const bool redraws = isatty(STDOUT_FILENO) == 1;
  for (bool answered = false;; answered = true) {
    const absl::StatusOr<std::string> ended = Ask(socket, limit, redraws);
    if (!ended.ok() && answered && absl::IsUnavailable(ended.status())) {
      std::printf("the party answers no more: its own output and its ledger say how the run ended\n");
      return ExitCode::kDone;
    }
    SPLITVEIL_RETURN_IF_ERROR(ended.status());
    if (!ended->empty()) {
      std::printf("the run has ended: %s\n", ended->c_str());
      return ExitCodeOfRun(*ended);
    }
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
  const std::string socket =
      std::visit([&](const auto& fields) { return StatusSocketPath(fields.party(), flags.config); }, config);
  const absl::Duration limit = absl::Seconds(flags.timeout_seconds);
  if (flags.watch_option->count() == 0) {
    SPLITVEIL_RETURN_IF_ERROR(Ask(socket, limit, /*redraws=*/false).status());
    return ExitCode::kDone;
  }
  return Watch(socket, limit, pause);
}

}  // namespace

void AddStatusCommand(CommandLine& line) {
  const auto flags = std::make_shared<StatusFlags>();
  CLI::App& command = line.AddCommand({"status", "Ask a running party on this machine what it is doing.",
                                       "splitveil status --config=label_party.textproto", "During a run"},
                                      [flags] { return Status(*flags); });
  command.add_option("--config", flags->config, "The party's configuration.")->type_name("FILE")->required();
  command.add_option("--role", flags->role, "Whose configuration it is.")
      ->type_name("PARTY")
      ->default_str("inferred from its fields")
      ->check(OneOf({kLabelPartyRole, kNonLabelPartyRole}));
  flags->watch_option =
      command
          .add_option(
              "--watch", flags->watch,
              "Ask again every so many seconds, two where none are given, until the run has ended; exit 0 where it "
              "is complete, 5 where it was halted, 6 where it was stopped, 1 where it failed.")
          ->type_name("SECONDS")
          ->expected(0, 1);
  command.add_option("--timeout_seconds", flags->timeout_seconds, "How long to wait for an answer.")
      ->type_name("SECONDS")
      ->check(NumberIn(0.1, 3600));
}

}  // namespace splitveil
