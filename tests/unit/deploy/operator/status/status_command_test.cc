// `status` against a server of this process.
#include <grpcpp/ext/health_check_service_server_builder_option.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/transport/credentials.h"
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
    return error;
  }

  v1::GetStatusResponse answer;
  grpc::Status error;
};

class StatusTest : public ::testing::Test {
 protected:
  StatusTest() {
    MakeCertificates("certs");
    WriteText(label_config_, LabelConfig());
    service_.answer.set_role("label_party");
    service_.answer.set_version("0.1.0");
    service_.answer.set_phase("waiting");
  }

  ~StatusTest() override {
    if (server_ != nullptr) {
      server_->Shutdown();
    }
  }

  void MakeCertificates(const std::string& name) {
    ExpectDone({"certificates", "--out=" + folder_.File(name), absl::StrCat("--label=", kLabelName),
                absl::StrCat("--nonlabel=", kNonLabelName)});
  }

  // The party `role` of the certificates in `certs` listens; returns its address.
  std::string Serve(const std::string& role = "label_party", const std::string& certs = "certs") {
    const bool label = role == "label_party";
    const std::string base = folder_.File(certs) + "/";
    const TlsIdentity identity = LoadTlsIdentity(label ? kLabelName : kNonLabelName, label ? kNonLabelName : kLabelName,
                                                 base + role + ".pem", base + role + ".key", base + "authority.pem")
                                     .value();
    RequireTls13();
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", ServerTlsCredentials(identity), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    EXPECT_NE(server_, nullptr);
    return absl::StrCat("127.0.0.1:", port);
  }

  std::vector<std::string> Ask(const std::string& address) const {
    return {"status", "--role=label_party", "--config=" + label_config_, "--address=" + address};
  }

  TempFolder folder_;
  const std::string label_config_ = folder_.File("label_party.textproto");
  FixedStatus service_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(StatusTest, ShowsAWaitingParty) { EXPECT_EQ(ExpectDone(Ask(Serve())), "label_party 0.1.0: SERVING, waiting\n"); }

TEST_F(StatusTest, ShowsHowFarTheAlignmentIs) {
  service_.answer.set_phase("aligning");
  service_.answer.set_run_id("run-7");
  const std::string address = Serve();
  EXPECT_EQ(ExpectDone(Ask(address)), "label_party 0.1.0: SERVING, aligning, run run-7\n");
  service_.answer.set_masked_ids(12'288'000);
  service_.answer.set_ids_to_mask(20'000'000);
  EXPECT_EQ(ExpectDone(Ask(address)),
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
  EXPECT_EQ(ExpectDone(Ask(Serve())),
            "label_party 0.1.0: SERVING, training, run run-7, epoch 2, step 120/680, 68573 aligned examples, loss "
            "0.4512\n");
}

TEST_F(StatusTest, ShowsThatAPartyDoesNotServe) {
  const std::string address = Serve();
  server_->GetHealthCheckService()->SetServingStatus(false);
  EXPECT_THAT(ExpectDone(Ask(address)), HasSubstr("NOT_SERVING"));
}

TEST_F(StatusTest, TheNonLabelPartyShowsNoLoss) {
  service_.answer.set_role("nonlabel_party");
  service_.answer.set_run_id("run-7");
  service_.answer.set_step(3);
  const std::string config = folder_.File("nonlabel_party.textproto");
  WriteText(config, NonLabelConfig());
  const std::string out =
      ExpectDone({"status", "--role=nonlabel_party", "--config=" + config, "--address=" + Serve("nonlabel_party")});
  EXPECT_THAT(out, HasSubstr("step 3/0"));
  EXPECT_THAT(out, ::testing::Not(HasSubstr("loss")));
}

TEST_F(StatusTest, TakesTheConfiguredAddressOnThisMachine) {
  const std::string address = Serve();
  const std::string port = address.substr(address.find(':'));
  WriteText(label_config_, LabelConfig("listen_address: \"0.0.0.0" + port + "\"\n"));
  EXPECT_THAT(ExpectDone({"status", "--role=label_party", "--config=" + label_config_}), HasSubstr("waiting"));
}

// What the containers' health check runs.
TEST_F(StatusTest, TheConfigurationAloneIsEnoughForEitherParty) {
  const std::string address = Serve("nonlabel_party");
  const std::string listens = "listen_address: \"127.0.0.1" + address.substr(address.find(':')) + "\"\n";
  const std::string config = folder_.File("current.textproto");
  WriteText(config, NonLabelConfig(listens));
  EXPECT_THAT(ExpectDone({"status", "--config=" + config}), HasSubstr("waiting"));
  server_->Shutdown();
  WriteText(config, LabelConfig(listens));
  EXPECT_THAT(ExpectError(3, {"status", "--config=" + config, "--timeout_seconds=0.3"}), HasSubstr("127.0.0.1"));
}

TEST_F(StatusTest, TextOfThePartyStaysOneLine) {
  service_.answer.set_phase("training\n\033[2Jforged");
  EXPECT_EQ(ExpectDone(Ask(Serve())), "label_party 0.1.0: SERVING, training  [2Jforged\n");
}

TEST_F(StatusTest, NobodyListeningIsExitThree) {
  const std::string address = Serve();
  server_->Shutdown();
  std::vector<std::string> arguments = Ask(address);
  arguments.push_back("--timeout_seconds=0.3");
  EXPECT_THAT(ExpectError(3, arguments), HasSubstr(address));
}

TEST_F(StatusTest, AnotherPartyAtTheAddressIsExitFour) {
  EXPECT_THAT(ExpectError(4, Ask(Serve("nonlabel_party"))), HasSubstr(kLabelName));
}

TEST_F(StatusTest, AnotherAuthorityIsExitFour) {
  MakeCertificates("others");
  ExpectError(4, Ask(Serve("label_party", "others")));
}

TEST_F(StatusTest, AnErrorOfThePartyIsARefusal) {
  service_.error = grpc::Status(grpc::StatusCode::INTERNAL, "broken\nhere");
  EXPECT_THAT(ExpectError(4, Ask(Serve())), HasSubstr("broken here"));
}

TEST_F(StatusTest, FailsOnAPortThatIsNotFixed) {
  WriteText(label_config_, LabelConfig("listen_address: \"0.0.0.0:0\"\n"));
  EXPECT_THAT(ExpectError(2, {"status", "--role=label_party", "--config=" + label_config_}),
              HasSubstr("listen_address: expected a fixed port (or --address), found \"0.0.0.0:0\""));
}

TEST_F(StatusTest, FailsOnBadArguments) {
  const std::string config = "--config=" + label_config_;
  EXPECT_THAT(ExpectError(2, {"status", config, "--role=attacker"}),
              StartsWith("command line: --role: expected label_party or nonlabel_party"));
  EXPECT_THAT(ExpectError(2, {"status", config, "--role=label_party", "--timeout_seconds=0"}),
              HasSubstr("--timeout_seconds: expected a number"));
  EXPECT_THAT(ExpectError(2, {"status", config, "--role=label_party", "--address=nowhere"}), HasSubstr("nowhere"));
  EXPECT_THAT(ExpectError(2, {"status", "--config=/no/file", "--role=label_party"}), StartsWith("/no/file"));
}

TEST_F(StatusTest, FailsWithoutACertificate) {
  WriteText(label_config_, absl::StrReplaceAll(LabelConfig(), {{"certs/label_party.pem", "certs/none.pem"}}));
  EXPECT_THAT(ExpectError(2, {"status", "--role=label_party", "--config=" + label_config_}), HasSubstr("none.pem"));
}

TEST_F(StatusTest, FailsWithAnothersCertificate) {
  WriteText(label_config_, absl::StrReplaceAll(LabelConfig(), {{"certs/label_party.", "certs/nonlabel_party."}}));
  EXPECT_THAT(ExpectError(2, {"status", "--role=label_party", "--config=" + label_config_}), HasSubstr(kLabelName));
}

}  // namespace
}  // namespace splitveil::testing
