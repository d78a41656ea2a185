// A trained model that is published and served, by the programs that an operator runs.
#ifndef SPLITVEIL_TESTS_INTEGRATION_SERVE_SERVE_FIXTURE_H_
#define SPLITVEIL_TESTS_INTEGRATION_SERVE_SERVE_FIXTURE_H_

#include <httplib.h>

#include <filesystem>
#include <fstream>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "common/dataset/dataset.h"
#include "common/process/steady_time.h"
#include "common/schedule/train_test_split.h"
#include "tests/testing/process/child_process.h"
#include "tests/testing/process/running_program.h"
#include "tests/testing/two_party_run.h"

#include "inference/grpc_service.grpc.pb.h"

namespace splitveil::testing {

class ServeTest : public ::testing::Test {
 protected:
  static constexpr char kToken[] = "0123456789abcdef";

  explicit ServeTest(int rows = 1500) : run(rows) {
    for (v1::RunAgreement* agreement : {&run.label_agreement, &run.nonlabel_agreement}) {
      agreement->set_wire_dtype(v1::FLOAT32);
      agreement->clear_audit();
      agreement->mutable_audit()->add_layers("cut");
    }
    run.label_config.mutable_party()->set_checkpoint_path("label_party.checkpoint");
    run.nonlabel_config.mutable_party()->set_checkpoint_path("nonlabel_party.checkpoint");
    run.label_config.mutable_party()->set_alignment_cache_path("label_party.alignment");
    run.nonlabel_config.mutable_party()->set_alignment_cache_path("nonlabel_party.alignment");
    WriteToken("token", kToken);
  }

  void WriteToken(const std::string& name, const std::string& token) const {
    std::ofstream(run.files.File(name)) << token << "\n";
    std::filesystem::permissions(run.files.File(name), std::filesystem::perms::owner_read);
  }

  void Train() {
    run.StartLabelParty();
    run.StartNonLabelParty();
    ASSERT_EQ(run.nonlabel->Wait(), 0) << run.nonlabel->Errors();
    ASSERT_EQ(run.label->Wait(), 0) << run.label->Errors();
  }

  // Starts both parties' splitveil predict, the label party's with --store and these flags.
  void StartPublication(const std::vector<std::string>& flags = {},
                        const std::vector<std::string>& nonlabel_flags = {}) {
    std::vector<std::string> arguments = {"predict", absl::StrCat("--agreement=", run.folder, "/label_run.textproto"),
                                          absl::StrCat("--config=", run.folder, "/label_party.textproto"),
                                          absl::StrCat("--store=", versions)};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    for (const char* folder : {"/label_predict", "/nonlabel_predict"}) {
      std::filesystem::create_directory(run.folder + folder);
    }
    // A start that only finishes a run that was complete when it was killed is followed by another.
    do {
      label = std::make_unique<RunningProgram>("splitveil", arguments, run.folder + "/label_predict");
    } while (!label->WaitForError("listens on port ") &&
             absl::StrContains(label->Errors(), "this start only finishes it"));
    run.AwaitPort(*label);
    run.WriteNonLabelPartyFiles();
    arguments = {"predict", absl::StrCat("--agreement=", run.folder, "/nonlabel_run.textproto"),
                 absl::StrCat("--config=", run.folder, "/nonlabel_party.textproto")};
    arguments.insert(arguments.end(), nonlabel_flags.begin(), nonlabel_flags.end());
    nonlabel = std::make_unique<RunningProgram>("splitveil", arguments, run.folder + "/nonlabel_predict");
  }

  void Publish(const std::vector<std::string>& flags = {}) {
    StartPublication(flags, nonlabel_flags);
    ASSERT_EQ(nonlabel->Wait(), 0) << nonlabel->Errors();
    ASSERT_EQ(label->Wait(), 0) << label->Errors();
  }

  // Also the predictions as a table.
  void TrainAndPublish() {
    Train();
    Publish({"--out=" + run.files.File("predictions.csv")});
    predicted = ReadPredictions("predictions.csv");
    ASSERT_GT(predicted.size(), 1000);
  }
  std::map<std::string, double> ReadPredictions(const std::string& name) const {
    std::map<std::string, double> read;
    std::ifstream file(run.files.File(name));
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
      const std::vector<std::string> cells = absl::StrSplit(line, ',');
      EXPECT_TRUE(absl::SimpleAtod(cells[1], &read[cells[0]]));
    }
    return read;
  }

  void WriteServing(const std::string& more) const {
    std::ofstream(run.files.File("serving.textproto"))
        << "agreement_path: 'label_run.textproto' config_path: 'label_party.textproto' versions_path: 'versions'\n"
        << more;
  }

  // With gRPC on a free port and REST at a socket.
  void StartServing(const std::string& more = "") {
    WriteServing(absl::StrCat("listen_address: '127.0.0.1:0' rest_address: 'unix:rest.sock' ",
                              "callers { name: 'app' token_path: 'token' }", more));
    server = std::make_unique<RunningProgram>(
        "label_party", std::vector<std::string>{"serve", "--config=" + run.files.File("serving.textproto")},
        run.folder);
    ASSERT_TRUE(server->WaitForError("by REST at unix:")) << server->Errors();
    const std::string log = server->Errors(), marker = "by gRPC on port ";
    const size_t at = log.find(marker) + marker.size();
    ASSERT_TRUE(absl::SimpleAtoi(log.substr(at, log.find('\n', at) - at), &port)) << log;
    stub = inference::GRPCInferenceService::NewStub(
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()));
  }

  std::unique_ptr<httplib::Client> Rest() const {
    auto client = std::make_unique<httplib::Client>(run.files.File("rest.sock"));
    client->set_address_family(AF_UNIX);
    return client;
  }

  static nlohmann::json Body(const std::vector<std::string>& ids) {
    return {{"inputs", {{{"name", "id"}, {"datatype", "BYTES"}, {"shape", {ids.size()}}, {"data", ids}}}}};
  }

  static inference::ModelInferRequest Request(const std::vector<std::string>& ids, const std::string& version = "") {
    inference::ModelInferRequest request;
    request.set_model_name("test");
    request.set_model_version(version);
    auto& input = *request.add_inputs();
    input.set_name("id");
    input.set_datatype("BYTES");
    input.add_shape(static_cast<int64_t>(ids.size()));
    for (const std::string& id : ids) {
      input.mutable_contents()->add_bytes_contents(id);
    }
    return request;
  }

  grpc::Status Infer(const inference::ModelInferRequest& request, inference::ModelInferResponse* response,
                     const std::string& token = kToken) const {
    grpc::ClientContext context;
    context.set_deadline(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(20, GPR_TIMESPAN)));
    if (!token.empty()) {
      context.AddMetadata("authorization", "Bearer " + token);
    }
    return stub->ModelInfer(&context, request, response);
  }

  std::vector<std::string> Ids() const {
    std::vector<std::string> ids;
    for (const auto& each : predicted) {
      ids.push_back(each.first);
    }
    return ids;
  }

  // Ids of shared rows that the model was trained on.
  std::vector<std::string> TrainedOn(const Dataset& data) const {
    const SplitRule rule(data.preprocessing());
    std::vector<std::string> ids;
    for (uint32_t row = 0; row < data.rows(); ++row) {
      const std::string id(data.ids()[row]);
      if (rule.PartOf(data, row) == SplitPart::kTraining && predicted.count(id) > 0) {
        ids.push_back(id);
      }
    }
    return ids;
  }

  TwoPartyRun run;
  const std::string versions = run.files.File("versions");
  std::vector<std::string> nonlabel_flags;  // Of the other party's splitveil predict.
  std::map<std::string, double> predicted;  // By splitveil predict.
  std::unique_ptr<RunningProgram> label, nonlabel, server;
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub;
  int port = 0;
};

}  // namespace splitveil::testing

#endif  // SPLITVEIL_TESTS_INTEGRATION_SERVE_SERVE_FIXTURE_H_
