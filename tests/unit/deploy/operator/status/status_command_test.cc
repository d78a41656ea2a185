// `status` against a server of this process.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <grpcpp/health_check_service_interface.h>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/synchronization/notification.h"
#include "deploy/operator/party_config/party_config.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/ledger/ledger.h"
#include "common/operations/operator_server.h"
#include "tests/unit/deploy/operator/operator_tool.h"

#include "splitveil/v1/operations.grpc.pb.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class FixedStatus final : public v1::Operations::Service {
 public:
  grpc::Status GetStatus(grpc::ServerContext* /*context*/, const v1::GetStatusRequest* /*request*/,
                         v1::GetStatusResponse* response) override {
    *response = answer;
    if (++asked_ == 2) {
      asked_twice.Notify();
    }
    return error;
  }

  v1::GetStatusResponse answer;
  grpc::Status error;
  absl::Notification asked_twice;

 private:
  std::atomic<int> asked_{0};
};

class StatusTest : public ::testing::Test {
 protected:
  StatusTest() {
    WriteText(label_config_, LabelConfig());
    service_.answer.set_role("label_party");
    service_.answer.set_version("0.1.0");
    service_.answer.set_phase("waiting");
  }

  // The party of the configuration at `config` answers its operator.
  void Serve(const std::string& config) {
    const absl::StatusOr<PartyConfig> loaded = LoadPartyConfig(config, "");
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    socket_ = std::visit([](const auto& fields) { return StatusSocketPath(fields.party()); }, *loaded);
    absl::StatusOr<OperatorServer> server = StartOperatorServer(socket_, &service_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = std::make_unique<OperatorServer>(*std::move(server));
  }

  std::vector<std::string> Ask() {
    Serve(label_config_);
    return Command();
  }
  std::vector<std::string> Command() const { return {"status", "--config=" + label_config_}; }

  // Run `run_id` in the party's ledger, as it stands there; "running": without an end.
  void Record(const std::string& run_id, const std::string& status) const {
    absl::StatusOr<std::unique_ptr<Ledger>> ledger =
        Ledger::Create(ledger_, {run_id, "label_party", "", "marvell(s=4)", "{}"});
    ASSERT_TRUE(ledger.ok()) << ledger.status();
    if (status != "running") {
      EXPECT_TRUE((*ledger)->Finish(status).ok());
    }
  }
  // Watches the party, which is gone once it has answered twice; `ends`: just before.
  ChildResult WatchUntilGone(const std::function<void()>& ends) {
    std::vector<std::string> arguments = Ask();
    arguments.insert(arguments.end(), {"--watch=0.1", "--timeout_seconds=0.5"});
    ChildResult watched;
    std::thread watching([&] { watched = RunTool(arguments); });
    service_.asked_twice.WaitForNotification();
    ends();
    server_.reset();
    watching.join();
    return watched;
  }

  TempFolder folder_;
  const std::string label_config_ = folder_.File("label_party.textproto"), ledger_ = folder_.File("label_party.db");
  FixedStatus service_;
  std::string socket_;
  std::unique_ptr<OperatorServer> server_;
};

TEST_F(StatusTest, ShowsAWaitingParty) { EXPECT_EQ(ExpectDone(Ask()), "label_party 0.1.0: SERVING, waiting\n"); }

TEST_F(StatusTest, ShowsHowFarTheAlignmentIs) {
  service_.answer.set_phase("aligning");
  service_.answer.set_run_id("run-7");
  EXPECT_EQ(ExpectDone(Ask()), "label_party 0.1.0: SERVING, aligning, run run-7\n");
  service_.answer.set_masked_ids(12'288'000);
  service_.answer.set_ids_to_mask(20'000'000);
  EXPECT_EQ(ExpectDone(Command()),
            "label_party 0.1.0: SERVING, aligning, run run-7, 12288000 of 20000000 ids masked, own and the peer's\n");
}

TEST_F(StatusTest, ShowsATrainingPartyInOneLine) {
  service_.answer.set_phase("training");
  service_.answer.set_run_id("run-7");
  service_.answer.set_epoch(1);
  service_.answer.set_step(120);
  service_.answer.set_total_steps(680);
  service_.answer.set_loss(0.45123);
  service_.answer.set_aligned_examples(68573);
  EXPECT_EQ(ExpectDone(Ask()),
            "label_party 0.1.0: SERVING, training, run run-7, epoch 2, step 120/680, 68573 aligned examples, loss "
            "0.4512\n");
}

TEST_F(StatusTest, WatchesUntilTheRunHasEnded) {
  service_.answer.set_ended("completed");
  service_.answer.set_phase("closed");
  std::vector<std::string> arguments = Ask();
  arguments.push_back("--watch");
  EXPECT_THAT(ExpectDone(arguments), HasSubstr("SERVING, closed"));
  arguments.back() = "--watch=0.1";
  EXPECT_THAT(ExpectDone(arguments), HasSubstr("SERVING, closed"));
}

TEST_F(StatusTest, ARunThatDidNotCompleteIsNoSuccessToAWatcher) {
  std::vector<std::string> arguments = Ask();
  arguments.push_back("--watch");
  for (const auto& [ended, exit_code] : {std::pair("failed", 1), std::pair("halted", 5), std::pair("stopped", 6)}) {
    arguments.back() = arguments.back() == "--watch" ? "--watch=0.1" : "--watch";
    service_.answer.set_ended(ended);
    const ChildResult watched = RunTool(arguments);
    EXPECT_EQ(watched.exit_code, exit_code) << ended;
    EXPECT_THAT(watched.out, HasSubstr(std::string("the run has ended: ") + ended));
  }
}

class EndInLedger : public StatusTest, public ::testing::WithParamInterface<std::pair<const char*, int>> {};

// Between two questions the party may end its run and be gone, or die.
TEST_P(EndInLedger, OfAPartyThatIsGoneItsLedgerSaysHowTheRunEnded) {
  const auto& [status, exit_code] = GetParam();
  service_.answer.set_run_id("run-7");
  Record("run-6", "completed");
  const ChildResult watched = WatchUntilGone([&, how = std::string(status)] { Record("run-7", how); });
  EXPECT_EQ(watched.exit_code, exit_code) << watched.out << watched.err;
  EXPECT_THAT(
      watched.out,
      HasSubstr("\nthe party no longer answers: run run-7 is \"" + std::string(status) + "\" in " + ledger_ +
                (exit_code == 1 && std::string(status) == "running" ? ", so it ended without a word\n" : "\n")));
}

INSTANTIATE_TEST_SUITE_P(Ends, EndInLedger,
                         ::testing::Values(std::pair("completed", 0), std::pair("failed", 1), std::pair("halted", 5),
                                           std::pair("stopped", 6), std::pair("running", 1)),
                         [](const auto& instance) { return std::string(instance.param.first); });

TEST_F(StatusTest, AnEarlierRunSaysNothingOfTheOneThatIsWatched) {
  Record("run-6", "completed");
  const ChildResult unnamed = WatchUntilGone([] {});
  EXPECT_EQ(unnamed.exit_code, 1);
  EXPECT_THAT(unnamed.err, HasSubstr(ledger_ + " has no run that ended since"));
}

TEST_F(StatusTest, ARunThatBeganAndEndedBetweenTwoQuestionsIsTheOneThatIsWatched) {
  Record("run-6", "stopped");
  EXPECT_EQ(WatchUntilGone([&] { Record("run-7", "completed"); }).exit_code, 0);
}

TEST_F(StatusTest, ARunThatIsNotInTheLedgerIsNoSuccess) {
  service_.answer.set_run_id("run-7");
  const ChildResult watched = WatchUntilGone([&] { Record("run-6", "completed"); });
  EXPECT_EQ(watched.exit_code, 1);
  EXPECT_THAT(watched.err, HasSubstr(ledger_ + " has no run run-7"));
}

TEST_F(StatusTest, AnEndThatCannotBeReadIsNoSuccess) {
  service_.answer.set_run_id("run-7");
  WriteText(ledger_, "no ledger");
  const ChildResult watched = WatchUntilGone([] {});
  EXPECT_EQ(watched.exit_code, 1);
  EXPECT_THAT(watched.err,
              HasSubstr("the party no longer answers, and its ledger does not say how the run ended: " + ledger_));
}

TEST_F(StatusTest, ShowsThatAPartyDoesNotServe) {
  Serve(label_config_);
  server_->server->GetHealthCheckService()->SetServingStatus(false);
  EXPECT_THAT(ExpectDone(Command()), HasSubstr("NOT_SERVING"));
}

// What the containers' health check runs: the configuration alone is enough for either party.
TEST_F(StatusTest, TheNonLabelPartyShowsNoLoss) {
  service_.answer.set_role("nonlabel_party");
  service_.answer.set_run_id("run-7");
  service_.answer.set_step(3);
  const std::string config = folder_.File("current.textproto");
  WriteText(config, NonLabelConfig());
  Serve(config);
  const std::string out = ExpectDone({"status", "--config=" + config});
  EXPECT_THAT(out, HasSubstr("step 3/0"));
  EXPECT_THAT(out, ::testing::Not(HasSubstr("loss")));
}

TEST_F(StatusTest, TheSocketIsTheOwnersAloneAndGoneWithTheParty) {
  Serve(label_config_);
  EXPECT_EQ(std::filesystem::status(socket_).permissions(), std::filesystem::perms(0600));
  EXPECT_EQ(std::filesystem::status(socket_).type(), std::filesystem::file_type::socket);
  server_.reset();
  EXPECT_FALSE(std::filesystem::exists(socket_));
}

TEST_F(StatusTest, ASocketThatAPartyListensOnIsNotTaken) {
  Serve(label_config_);
  EXPECT_THAT(std::string(StartOperatorServer(socket_, &service_).status().message()),
              HasSubstr("expected a socket that nobody listens on"));
  EXPECT_THAT(ExpectDone(Command()), HasSubstr("waiting"));
}

TEST_F(StatusTest, WhatAKilledPartyLeftIsReplacedAndAnotherFileIsNot) {
  const std::string path = folder_.File("left.sock");
  {
    const int descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    ASSERT_EQ(bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    close(descriptor);
  }
  ASSERT_TRUE(std::filesystem::exists(path));
  EXPECT_TRUE(StartOperatorServer(path, &service_).ok());
  const std::string file = folder_.File("notes.txt");
  WriteText(file, "mine");
  EXPECT_EQ(StartOperatorServer(file, &service_).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(std::filesystem::is_regular_file(file));
}

TEST_F(StatusTest, APathMayBeLongerThanASocketsAddress) {
  const std::string folder = folder_.File(std::string(100, 'a')) + "/" + std::string(100, 'b');
  std::filesystem::create_directories(folder);
  EXPECT_TRUE(StartOperatorServer(folder + "/s.sock", &service_).ok());
  EXPECT_THAT(std::string(StartOperatorServer(folder + "/" + std::string(100, 'c'), &service_).status().message()),
              HasSubstr("expected a shorter file name"));
}

TEST_F(StatusTest, TextOfThePartyStaysOneLine) {
  service_.answer.set_phase("training\n\033[2Jforged");
  EXPECT_EQ(ExpectDone(Ask()), "label_party 0.1.0: SERVING, training  [2Jforged\n");
}

TEST_F(StatusTest, NobodyListeningIsExitThree) {
  std::vector<std::string> arguments = Command();
  arguments.push_back("--timeout_seconds=0.3");
  EXPECT_THAT(ExpectError(3, arguments), HasSubstr(".sock: expected a running party"));
}

TEST_F(StatusTest, AnErrorOfThePartyIsNotItsRefusal) {
  service_.error = grpc::Status(grpc::StatusCode::INTERNAL, "broken\nhere");
  EXPECT_THAT(ExpectError(3, Ask()), HasSubstr("broken here"));
}

TEST_F(StatusTest, FailsOnBadArguments) {
  const std::string config = "--config=" + label_config_;
  EXPECT_THAT(ExpectError(2, {"status", config, "--role=attacker"}),
              StartsWith("command line: --role: expected label_party or nonlabel_party"));
  EXPECT_THAT(ExpectError(2, {"status", config, "--role=label_party", "--timeout_seconds=0"}),
              HasSubstr("--timeout_seconds: expected a number"));
  EXPECT_THAT(ExpectError(2, {"status", "--config=/no/file", "--role=label_party"}), StartsWith("/no/file"));
  for (const char* watch : {"--watch=0", "--watch=often", "--watch=-1"}) {
    EXPECT_THAT(ExpectError(2, {"status", config, watch}),
                StartsWith("command line: --watch: expected a number from 0.1 to 3600, found \""));
  }
}

}  // namespace
}  // namespace splitveil::testing
