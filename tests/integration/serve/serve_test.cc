// `label_party serve` after `splitveil predict --store`: what is answered, by which version, and how it ends.
#include <sys/stat.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <functional>
#include <gmock/gmock.h>
#include <thread>

#include "common/checkpoint/stored_version.h"
#include "tests/integration/serve/serve_fixture.h"

#include "grpc/health/v1/health.grpc.pb.h"

namespace splitveil::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(ServeTest, AnswersByGrpcAndRestAreThoseThatPredictWrites) {
  TrainAndPublish();
  for (const char* file : {"activations", "label_party.checkpoint", "label_party.data"}) {
    struct stat mode = {};
    ASSERT_EQ(stat(absl::StrCat(versions, "/1/", file).c_str(), &mode), 0) << file;
    EXPECT_EQ(mode.st_mode & 0777, 0600) << file;
  }
  StartServing();
  std::vector<std::string> ids = Ids();
  ids.insert(ids.begin() + 7, "nobody");
  inference::ModelInferResponse response;
  const grpc::Status status = Infer(Request(ids), &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.model_version(), "1");
  ASSERT_EQ(response.outputs_size(), 2);
  EXPECT_EQ(response.outputs(0).name(), "probability");
  EXPECT_EQ(response.outputs(1).name(), "found");

  auto rest = Rest();
  const auto answer = rest->Post("/v2/models/test/infer", Body(ids).dump(), "application/json");
  ASSERT_TRUE(answer);
  ASSERT_EQ(answer->status, 200) << answer->body;
  const nlohmann::json outputs = nlohmann::json::parse(answer->body)["outputs"];
  EXPECT_EQ(outputs[0]["datatype"], "FP32");
  EXPECT_EQ(outputs[0]["shape"], nlohmann::json({ids.size()}));

  // The same by raw contents.
  inference::ModelInferRequest raw_request = Request(ids);
  raw_request.mutable_inputs(0)->clear_contents();
  std::string& raw = *raw_request.add_raw_input_contents();
  for (const std::string& id : ids) {
    const auto size = static_cast<uint32_t>(id.size());
    raw.append(reinterpret_cast<const char*>(&size), sizeof(size)).append(id);
  }
  inference::ModelInferResponse raw_response;
  ASSERT_TRUE(Infer(raw_request, &raw_response).ok());
  ASSERT_EQ(raw_response.raw_output_contents_size(), 2);
  ASSERT_EQ(raw_response.raw_output_contents(0).size(), ids.size() * sizeof(float));
  const auto* const raw_values = reinterpret_cast<const float*>(raw_response.raw_output_contents(0).data());

  for (size_t i = 0; i < ids.size(); ++i) {
    const auto at = static_cast<int>(i);
    const bool known = ids[i] != "nobody";
    EXPECT_EQ(response.outputs(1).contents().bool_contents(at), known);
    EXPECT_EQ(outputs[1]["data"][i], known);
    EXPECT_EQ(raw_response.raw_output_contents(1)[i], known ? 1 : 0);
    if (known) {
      EXPECT_NEAR(response.outputs(0).contents().fp32_contents(at), predicted.at(ids[i]), 1e-6);
      EXPECT_NEAR(outputs[0]["data"][i].get<double>(), predicted.at(ids[i]), 1e-6);
      EXPECT_NEAR(raw_values[i], predicted.at(ids[i]), 1e-6);
    } else {
      EXPECT_TRUE(std::isnan(response.outputs(0).contents().fp32_contents(at)));
      EXPECT_TRUE(outputs[0]["data"][i].is_null());
    }
  }
  const auto metrics = rest->Get("/metrics");
  ASSERT_EQ(metrics->status, 200);
  EXPECT_THAT(metrics->body, HasSubstr("splitveil_requests_total{code=\"OK\",version=\"1\"} 3"));
  const std::string stored = "splitveil_version_stored_timestamp_seconds{version=\"1\"} ";
  const size_t at = metrics->body.find(stored);
  ASSERT_NE(at, std::string::npos) << metrics->body;
  double seconds = 0;
  ASSERT_TRUE(absl::SimpleAtod(
      metrics->body.substr(at + stored.size(), metrics->body.find('\n', at) - at - stored.size()), &seconds));
  EXPECT_NEAR(seconds, absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()), 300);
  EXPECT_THAT(metrics->body + server->Errors(), Not(HasSubstr(ids[0])));
}

TEST_F(ServeTest, RefusesWhatItCannotAnswer) {
  TrainAndPublish();
  WriteToken("small", "fedcba9876543210");
  StartServing("callers { name: 'small' token_path: 'small' daily_answers: 2 }");
  const std::vector<std::string> ids = {Ids()[0], Ids()[1]};
  inference::ModelInferResponse response;
  {
    grpc::ClientContext forever;  // Without a deadline, as most clients ask.
    forever.AddMetadata("authorization", absl::StrCat("Bearer ", kToken));
    EXPECT_TRUE(stub->ModelInfer(&forever, Request(ids), &response).ok());
  }
  EXPECT_EQ(Infer(Request(ids), &response, "").error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(Infer(Request(ids), &response, "0123456789abcdeg").error_code(), grpc::StatusCode::UNAUTHENTICATED);
  inference::ModelInferRequest request = Request(ids);
  request.set_model_name("other");
  EXPECT_EQ(Infer(request, &response).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Infer(Request(ids, "7"), &response).error_code(), grpc::StatusCode::NOT_FOUND);
  request = Request(ids);
  request.mutable_inputs(0)->set_shape(0, 3);
  EXPECT_EQ(Infer(request, &response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  request = Request(ids);
  auto& income = *request.add_inputs();
  income = request.inputs(0);
  income.set_name("income");
  EXPECT_THAT(Infer(request, &response).error_message(), HasSubstr("is no column of the label party's own"));
  request = Request(ids);
  request.add_outputs()->set_name("logit");
  EXPECT_EQ(Infer(request, &response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const auto refused = [&](const std::function<void(inference::ModelInferRequest&)>& spoil) {
    request = Request(ids);
    spoil(request);
    const grpc::Status status = Infer(request, &response, "fedcba9876543210");
    EXPECT_LT(status.error_message().size(), 200);  // Nothing of the client's comes back.
    return status.error_code();
  };
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{}, {-2}, {-1}, {1}, {1'000'000'000}, {2, 2}, {1, 2}, {2, 1, 1}}) {
    EXPECT_EQ(refused([&](auto& spoilt) {
                *spoilt.mutable_inputs(0)->mutable_shape() = {shape.begin(), shape.end()};
              }),
              grpc::StatusCode::INVALID_ARGUMENT);
  }
  for (const std::string& type :
       {std::string(), std::string("FP32"), std::string("bytes"), std::string(100'000, 'x')}) {
    EXPECT_EQ(refused([&](auto& spoilt) { spoilt.mutable_inputs(0)->set_datatype(type); }),
              grpc::StatusCode::INVALID_ARGUMENT);
  }
  for (const std::string& raw : {std::string("\1"), std::string("\1\0\0\0", 4), std::string("\0\0\0\0\0", 5)}) {
    EXPECT_EQ(refused([&](auto& spoilt) {
                spoilt.mutable_inputs(0)->clear_contents();
                spoilt.add_raw_input_contents(raw);
              }),
              grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(refused([&](auto& spoilt) { spoilt.add_raw_input_contents(raw); }), grpc::StatusCode::INVALID_ARGUMENT);
  }
  EXPECT_EQ(refused([](auto& spoilt) { spoilt.clear_inputs(); }), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(refused([](auto& spoilt) { *spoilt.add_inputs() = spoilt.inputs(0); }), grpc::StatusCode::INVALID_ARGUMENT);
  // Each output once: an answer must not be a million times as long as its request.
  EXPECT_EQ(refused([](auto& spoilt) {
              for (int i = 0; i < 100'000; ++i) {
                spoilt.add_outputs()->set_name("found");
              }
            }),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(refused([](auto& spoilt) { spoilt = Request(std::vector<std::string>(4097)); }),
            grpc::StatusCode::RESOURCE_EXHAUSTED);  // More than are left today.
  EXPECT_EQ(Infer(Request(std::vector<std::string>(4097)), &response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Infer(Request({std::string(5 << 20, 'x')}), &response).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  // Twice the same, and what no table holds, is not found; nothing else is spoilt.
  ASSERT_TRUE(Infer(Request({ids[0], ids[0], std::string("\0\xff", 2), ""}), &response).ok());
  EXPECT_THAT(response.outputs(1).contents().bool_contents(), ElementsAre(true, true, false, false));
  // What was refused has cost the caller nothing.
  EXPECT_TRUE(Infer(Request(ids), &response, "fedcba9876543210").ok());
  EXPECT_EQ(Infer(Request({ids[0]}), &response, "fedcba9876543210").error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);

  auto rest = Rest();
  const std::string path = "/v2/models/test/infer";
  for (const std::string body : {"", "[", "[]", "{}", R"({"inputs":[1]})", R"({"inputs":[{"name":"id"}]})",
                                 R"({"inputs":[{"name":"id","datatype":"BYTES","shape":[1],"data":[7]}]})",
                                 R"({"inputs":[{"name":"id","datatype":"FP32","shape":[1],"data":["7"]}]})"}) {
    const auto answer = rest->Post(path, body, "application/json");
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 400) << body;
    EXPECT_TRUE(nlohmann::json::parse(answer->body)["error"].is_string()) << answer->body;
  }
  EXPECT_EQ(rest->Post("/v2/models/other/infer", Body(ids).dump(), "application/json")->status, 404);
  EXPECT_EQ(rest->Post("/v2/models/test/versions/7/infer", Body(ids).dump(), "application/json")->status, 404);
  EXPECT_EQ(rest->Get("/v3")->status, 404);
  EXPECT_EQ(rest->Get("/v2/models/" + std::string(4000, 'x'))->status, 404);
  EXPECT_EQ(rest->Get("/v2/models/test/versions/7/ready")->status, 404);
}

// By contents, raw contents and JSON alike; an id that is not known spoils no other.
TEST_F(ServeTest, OwnColumnsOfARequestReplaceWhatIsStored) {
  TrainAndPublish();
  StartServing();
  const std::vector<std::string> ids = {Ids()[0], "nobody", Ids()[1]};
  // Numbers and categories of Criteo, as no row has them.
  inference::ModelInferRequest request = Request(ids), raw_request;
  nlohmann::json body = Body(ids);
  for (const char* const name : {"I1", "I2", "I13", "C1", "C2", "C26"}) {
    auto& input = *request.add_inputs();
    input.set_name(name);
    input.set_datatype(name[0] == 'I' ? "FP64" : "BYTES");
    input.add_shape(3);
    nlohmann::json data = nlohmann::json::array();
    for (int i = 0; i < 3; ++i) {
      if (input.datatype() == "FP64") {
        input.mutable_contents()->add_fp64_contents(1e6);
        data.push_back(1e6);
      } else {
        input.mutable_contents()->add_bytes_contents("");
        data.push_back("");
      }
    }
    body["inputs"].push_back({{"name", input.name()}, {"datatype", input.datatype()}, {"shape", {3}}, {"data", data}});
  }
  raw_request = request;
  for (auto& input : *raw_request.mutable_inputs()) {
    std::string& raw = *raw_request.add_raw_input_contents();
    for (const double number : input.contents().fp64_contents()) {
      raw.append(reinterpret_cast<const char*>(&number), sizeof(number));
    }
    for (const std::string& bytes : input.contents().bytes_contents()) {
      const auto size = static_cast<uint32_t>(bytes.size());
      raw.append(reinterpret_cast<const char*>(&size), sizeof(size)).append(bytes);
    }
    input.clear_contents();
  }
  inference::ModelInferResponse response, raw_response;
  const grpc::Status status = Infer(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_TRUE(Infer(raw_request, &raw_response).ok());
  const auto answer = Rest()->Post("/v2/models/test/infer", body.dump(), "application/json");
  ASSERT_EQ(answer->status, 200) << answer->body;
  const nlohmann::json json = nlohmann::json::parse(answer->body)["outputs"][0]["data"];
  const auto* const raw_values = reinterpret_cast<const float*>(raw_response.raw_output_contents(0).data());
  EXPECT_THAT(response.outputs(1).contents().bool_contents(), ElementsAre(true, false, true));
  for (const int i : {0, 2}) {
    const float value = response.outputs(0).contents().fp32_contents(i);
    EXPECT_GT(std::abs(value - predicted.at(ids[static_cast<size_t>(i)])), 1e-3);
    EXPECT_NEAR(raw_values[i], value, 1e-6);
    EXPECT_NEAR(json[static_cast<size_t>(i)].get<double>(), value, 1e-6);
  }
  // The next request has what is stored.
  ASSERT_TRUE(Infer(Request(ids), &response).ok());
  EXPECT_NEAR(response.outputs(0).contents().fp32_contents(0), predicted.at(ids[0]), 1e-6);
}

TEST_F(ServeTest, SwitchesVersionsUnderLoadAndLosesNoRequest) {
  TrainAndPublish();
  StartServing();
  std::atomic<bool> stop{false};
  std::atomic<int> asked{0}, latest{0};
  std::vector<std::thread> load;
  const std::vector<std::string> all = Ids();
  for (size_t thread = 0; thread < 3; ++thread) {
    load.emplace_back([&, thread] {
      for (size_t i = thread; !stop; i = (i + 3) % (all.size() - 16)) {
        const std::vector<std::string> ids(all.begin() + static_cast<int64_t>(i),
                                           all.begin() + static_cast<int64_t>(i) + 16);
        inference::ModelInferResponse response;
        const grpc::Status status = Infer(Request(ids), &response);
        ASSERT_TRUE(status.ok()) << status.error_message();
        for (int j = 0; j < 16; ++j) {
          ASSERT_NEAR(response.outputs(0).contents().fp32_contents(j), predicted.at(ids[static_cast<size_t>(j)]), 1e-6);
        }
        int version = 0;
        ASSERT_TRUE(absl::SimpleAtoi(response.model_version(), &version));
        latest = std::max(latest.load(), version);
        ++asked;
      }
    });
  }
  Publish();
  EXPECT_TRUE(server->WaitForError("version 2: answers for")) << server->Errors();
  // One that is damaged, and one of which a part is another's.
  std::filesystem::copy(versions + "/2", versions + "/.three", std::filesystem::copy_options::recursive);
  std::filesystem::resize_file(versions + "/.three/activations",
                               std::filesystem::file_size(versions + "/.three/activations") - 1);
  std::filesystem::rename(versions + "/.three", versions + "/3");
  EXPECT_TRUE(server->WaitForError("version 3 is not used: ")) << server->Errors();
  std::filesystem::copy(versions + "/2", versions + "/.four", std::filesystem::copy_options::recursive);
  std::filesystem::remove(versions + "/.four/label_party.data");
  std::filesystem::copy(run.folder + "/nonlabel_party.data", versions + "/.four/label_party.data");
  std::filesystem::rename(versions + "/.four", versions + "/4");
  EXPECT_TRUE(server->WaitForError("version 4 is not used: ")) << server->Errors();
  absl::SleepFor(absl::Seconds(2));  // It is looked at again, and told of once.
  stop = true;
  for (std::thread& thread : load) {
    thread.join();
  }
  EXPECT_GT(asked, 20);
  EXPECT_EQ(latest, 2);
  const std::string log = server->Errors();
  EXPECT_EQ(log.find("version 3 is not used"), log.rfind("version 3 is not used"));
  inference::ModelInferResponse response;
  EXPECT_TRUE(Infer(Request({all[0]}, "1"), &response).ok());
  EXPECT_EQ(response.model_version(), "1");
  // Taken back by its removal.
  std::filesystem::rename(versions + "/2", versions + "/.gone");
  for (int i = 0; i < 200 && response.model_version() != "1"; ++i) {
    absl::SleepFor(absl::Milliseconds(50));
  }
  const SteadyTime limit = SteadyAfter(absl::Seconds(20));
  do {
    ASSERT_TRUE(Infer(Request({all[0]}), &response).ok());
  } while (response.model_version() != "1" && SteadyNow() < limit);
  EXPECT_EQ(response.model_version(), "1");
}

// Of one row each: those that have been counted, and those that wait.
int RequestsThatHaveCome(httplib::Client& rest) {
  const auto metrics = rest.Get("/metrics");
  double sum = 0;
  for (const absl::string_view line : absl::StrSplit(metrics ? metrics->body : "", '\n')) {
    double value = 0;
    if ((absl::StartsWith(line, "splitveil_requests_total{") || absl::StartsWith(line, "splitveil_waiting_rows ")) &&
        absl::SimpleAtod(line.substr(line.rfind(' ') + 1), &value)) {
      sum += value;
    }
  }
  return static_cast<int>(sum);
}

TEST_F(ServeTest, OnSigtermAnswersWhatHasComeAndExitsWithZero) {
  TrainAndPublish();
  StartServing("max_delay_ms: 1000");
  EXPECT_EQ(Rest()->Get("/v2/health/ready")->status, 200);
  std::vector<std::thread> load;
  std::atomic<int> answered{0}, unavailable{0}, lost{0};
  const std::string id = Ids()[0];
  for (int i = 0; i < 6; ++i) {
    load.emplace_back([&, i] {
      if (i % 2 == 0) {
        inference::ModelInferResponse response;
        const grpc::StatusCode code = Infer(Request({id}), &response).error_code();
        ++(code == grpc::StatusCode::OK ? answered : code == grpc::StatusCode::UNAVAILABLE ? unavailable : lost);
      } else {
        const auto answer = Rest()->Post("/v2/models/test/infer", Body({id}).dump(), "application/json");
        ++(!answer ? lost : answer->status == 200 ? answered : answer->status == 503 ? unavailable : lost);
      }
    });
  }
  // All wait for each other, unless this machine is so busy that one of them comes too late for that.
  const SteadyTime limit = SteadyAfter(absl::Seconds(20));
  const auto rest = Rest();
  while (RequestsThatHaveCome(*rest) < 6 && SteadyNow() < limit) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  server->Signal(SIGTERM);
  for (std::thread& thread : load) {
    thread.join();
  }
  EXPECT_LT(SteadyNow(), limit);
  EXPECT_EQ(server->Wait(), 0) << server->Errors();
  EXPECT_EQ(lost, 0) << server->Errors();
  EXPECT_GT(answered, 0);
  EXPECT_THAT(server->Errors(), HasSubstr("what had come is answered"));
  EXPECT_FALSE(std::filesystem::exists(run.files.File("rest.sock")));
}

// At either party: nothing is there, or a whole version.
TEST_F(ServeTest, APublicationThatIsKilledLeavesAWholeVersionOrNone) {
  run.label_agreement.set_batch_size(32);
  run.nonlabel_agreement.set_batch_size(32);
  Train();
  for (int moment = 0; moment < 10; ++moment) {
    StartPublication();
    ASSERT_TRUE(label->WaitForError(moment < 2 ? "opened" : "aligned")) << label->Errors();
    absl::SleepFor(absl::Milliseconds(5 * moment));
    if (moment % 2 == 0) {
      label->Signal(SIGKILL);  // Its party's process with it.
      label->Wait();
    }
    nonlabel->Signal(SIGTERM);
    nonlabel->Wait();
    label->Wait();
    const std::vector<int64_t> there = *ListVersions(versions);
    EXPECT_TRUE(there.size() == 1 || !absl::StrContains(label->Errors(), "stored version")) << label->Errors();
    for (const int64_t number : there) {
      EXPECT_TRUE(OpenVersion(versions, number).ok()) << moment;
      std::filesystem::remove_all(absl::StrCat(versions, "/", number));
    }
  }
  std::filesystem::create_directories(versions + "/.partial");  // As a power cut leaves it.
  std::ofstream(versions + "/.partial/activations") << "half";
  Publish();
  EXPECT_TRUE(std::filesystem::exists(versions + "/1/activations"));
  EXPECT_FALSE(std::filesystem::exists(versions + "/.partial"));
  StartServing();
  EXPECT_THAT(server->Errors(), HasSubstr("version 1: answers for"));
}

TEST_F(ServeTest, OutsideCallersNeedAModelThatHasLearnedFromNoisedLabels) {
  const std::string outside = "callers { name: 'shop' token_path: 'shop' outside: true }";
  WriteToken("shop", "fedcba9876543210");
  TrainAndPublish();
  WriteServing("rest_address: '127.0.0.1:0' " + outside);
  const auto refusal = [&] {
    const ChildResult child =
        RunChild({BinDir() + "/label_party", "serve", "--config=" + run.files.File("serving.textproto")});
    EXPECT_EQ(child.exit_code, 2) << child.err;
    return child.err;
  };
  EXPECT_THAT(refusal(), HasSubstr("callers[0].outside: answers of this model would tell the caller labels"));
  // With a prediction head, which learns from true labels.
  auto& protection = *run.label_config.mutable_protection()->mutable_gaussian_label_dp();
  protection.set_sigma(4);
  run.label_config.mutable_privacy_account()->set_path("labels.account.db");
  run.label_config.mutable_privacy_account()->set_label_set("test");
  run.WriteLabelPartyFiles();
  EXPECT_THAT(refusal(), HasSubstr("callers[0].outside: "));

  // A configuration that claims it opens no version that has not: version 1 learned from true labels.
  protection.set_release_head_predicts(true);
  run.WriteLabelPartyFiles();
  StartServing(outside);
  const std::string id = Ids()[0];
  inference::ModelInferResponse response;
  EXPECT_TRUE(Infer(Request({id}), &response).ok());
  EXPECT_EQ(Infer(Request({id}), &response, "fedcba9876543210").error_code(), grpc::StatusCode::PERMISSION_DENIED);
  server.reset();

  for (const char* file : {"/label_party.checkpoint", "/nonlabel_party.checkpoint"}) {
    std::filesystem::remove(run.folder + file);
  }
  Train();
  Publish();
  StartServing(outside);
  EXPECT_TRUE(Infer(Request({id}), &response, "fedcba9876543210").ok());
  EXPECT_EQ(response.model_version(), "2");
  EXPECT_EQ(Infer(Request({id}, "1"), &response, "fedcba9876543210").error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(ServeTest, AMistakeInTheConfigurationIsTold) {
  run.WriteLabelPartyFiles();
  const auto refusal = [&](const std::string& more) {
    WriteServing(more);
    const ChildResult child =
        RunChild({BinDir() + "/label_party", "serve", "--config=" + run.files.File("serving.textproto")});
    EXPECT_EQ(child.exit_code, 2) << child.err;
    return child.err;
  };
  EXPECT_THAT(refusal(""), HasSubstr("listen_address: set it, or rest_address, or both"));
  EXPECT_THAT(refusal("rest_address: '127.0.0.1:0'"), HasSubstr("callers: nobody could ask at rest_address"));
  EXPECT_THAT(refusal("rest_address: 'unix:'"), HasSubstr("rest_address: "));
  EXPECT_THAT(refusal("rest_address: 'localhost:0'"), HasSubstr("rest_address: expected an IPv4 or IPv6 address"));
  EXPECT_THAT(refusal("rest_address: 'unix:a' max_batch_rows: 0"), HasSubstr("max_batch_rows: expected"));
  EXPECT_THAT(refusal("rest_address: 'unix:a' callers { name: 'a' }"), HasSubstr("callers[0]: has neither"));
  EXPECT_THAT(refusal("rest_address: 'unix:a' callers { name: 'a' certificate_name: 'a' }"),
              HasSubstr("callers[0].certificate_name: needs caller_authority_path"));
  const std::string twice = "callers { name: 'a' token_path: 'token' }";
  EXPECT_THAT(refusal("rest_address: 'unix:a' " + twice + twice), HasSubstr("is used twice"));
  EXPECT_THAT(refusal("rest_address: 'unix:a' " + twice + "callers { name: 'b' token_path: 'token' }"),
              HasSubstr("another caller has the same token"));
}

// A number is a place on the disk: what is there now is what is served.
TEST_F(ServeTest, FollowsWhatTheFolderHolds) {
  run.WriteLabelPartyFiles();
  StartServing();
  const auto ready = [&] {
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckResponse response;
    const bool asked = grpc::health::v1::Health::NewStub(
                           grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()))
                           ->Check(&context, {}, &response)
                           .ok();
    EXPECT_TRUE(asked);
    return response.status() == grpc::health::v1::HealthCheckResponse::SERVING;
  };
  const auto becomes = [](const std::function<bool()>& so) {
    const SteadyTime limit = SteadyAfter(absl::Seconds(30));
    while (!so() && SteadyNow() < limit) {
      absl::SleepFor(absl::Milliseconds(50));
    }
    return so();
  };
  inference::ModelInferResponse response;
  EXPECT_FALSE(ready());
  EXPECT_EQ(Rest()->Get("/v2/health/ready")->status, 400);
  EXPECT_EQ(Infer(Request({"a"}), &response).error_code(), grpc::StatusCode::UNAVAILABLE);
  server->Signal(SIGTERM);
  EXPECT_EQ(server->Wait(), 0) << server->Errors();
  TrainAndPublish();
  const std::string id = Ids()[0];
  std::filesystem::rename(versions + "/1", run.folder + "/kept");
  StartServing();
  const auto is_refused_after = [&](const std::function<void()>& change) {
    const size_t before = server->Errors().size();
    change();
    return becomes([&] { return absl::StrContains(server->Errors().substr(before), "version 1 is not used: "); });
  };
  // As a slow copy brings it: file by file, the last in two parts.
  const std::string kept = run.folder + "/kept/", activations = ReadWholeFile(kept + "activations");
  EXPECT_TRUE(is_refused_after([&] {
    std::filesystem::create_directory(versions + "/1");
    for (const char* name : {"label_party.data", "label_party.checkpoint"}) {
      std::filesystem::copy_file(kept + name, absl::StrCat(versions, "/1/", name));
    }
    std::ofstream(versions + "/1/activations") << activations.substr(0, 3000);
  }));
  EXPECT_FALSE(ready());
  std::ofstream(versions + "/1/activations", std::ios::app) << activations.substr(3000);
  EXPECT_TRUE(becomes(ready));
  // Another takes its place, of which one byte is wrong.
  for (const char* name : {"activations", "label_party.data", "label_party.checkpoint"}) {
    const std::string spoilt = absl::StrCat(run.folder, "/spoilt_", name);
    std::filesystem::copy(kept, spoilt);
    std::fstream file(absl::StrCat(spoilt, "/", name), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(200);
    const int byte = file.get();
    file.seekp(200);
    file.put(static_cast<char>(byte ^ 1));
    file.close();
    EXPECT_TRUE(is_refused_after([&] {
      std::filesystem::rename(versions + "/1", absl::StrCat(run.folder, "/before_", name));
      std::filesystem::rename(spoilt, versions + "/1");
    })) << name;
    EXPECT_TRUE(becomes([&] { return !ready(); })) << name;
  }
  std::filesystem::rename(versions + "/1", run.folder + "/spoilt");
  std::filesystem::rename(kept, versions + "/1");
  EXPECT_TRUE(becomes(ready));
  ASSERT_TRUE(Infer(Request({id}), &response).ok());
  EXPECT_NEAR(response.outputs(0).contents().fp32_contents(0), predicted.at(id), 1e-6);
  // The only version is taken back, too.
  std::filesystem::rename(versions + "/1", run.folder + "/taken");
  EXPECT_TRUE(becomes([&] { return !ready(); }));
  EXPECT_EQ(Infer(Request({id}), &response).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(server->Errors(), HasSubstr("version 1 is no longer used"));
  std::filesystem::rename(run.folder + "/taken", versions + "/1");
  EXPECT_TRUE(becomes(ready));
}

// Of whom the server knows nothing, it keeps few connections.
TEST_F(ServeTest, StrangersTakeNoCallersPlace) {
  run.WriteLabelPartyFiles();
  StartServing();
  std::vector<std::shared_ptr<grpc::Channel>> strangers;
  for (int i = 0; i < 140; ++i) {
    grpc::ChannelArguments own;
    own.SetInt("stranger", i);  // A connection of its own.
    strangers.push_back(
        grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials(), own));
    grpc::ClientContext context;
    inference::ServerLiveResponse response;
    (void)inference::GRPCInferenceService::NewStub(strangers.back())->ServerLive(&context, {}, &response);
  }
  inference::ModelInferResponse response;
  EXPECT_EQ(Infer(Request({"a"}), &response).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(Infer(Request({"a"}), &response).error_message(), HasSubstr("no version of the model can be used"));
}

// Of a certificate of the authority: the caller's name decides. Without one: a token, over TLS too.
TEST_F(ServeTest, OverTlsACertificateOrATokenShowsTheCaller) {
  TrainAndPublish();
  WriteServing(
      "listen_address: '0.0.0.0:0' caller_authority_path: 'authority.pem'"
      "callers { name: 'gateway' certificate_name: 'nonlabel-party.example' } callers { name: 'app' token_path: "
      "'token' }");
  server = std::make_unique<RunningProgram>(
      "label_party", std::vector<std::string>{"serve", "--config=" + run.files.File("serving.textproto")}, run.folder);
  ASSERT_TRUE(server->WaitForError("by gRPC on port ")) << server->Errors();
  const std::string log = server->Errors(), marker = "by gRPC on port ";
  const size_t at = log.find(marker) + marker.size();
  ASSERT_TRUE(absl::SimpleAtoi(log.substr(at, log.find('\n', at) - at), &port)) << log;
  const auto code = [&](const std::string& party, const std::string& token) {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = ReadWholeFile(run.folder + "/authority.pem");
    if (!party.empty()) {
      options.pem_cert_chain = ReadWholeFile(run.folder + "/" + party + ".pem");
      options.pem_private_key = ReadWholeFile(run.folder + "/" + party + ".key");
    }
    grpc::ChannelArguments arguments;
    arguments.SetSslTargetNameOverride("label-party.example");
    stub = inference::GRPCInferenceService::NewStub(
        grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port), grpc::SslCredentials(options), arguments));
    inference::ModelInferResponse response;
    return Infer(Request({Ids()[0]}), &response, token).error_code();
  };
  EXPECT_EQ(code("nonlabel_party", ""), grpc::StatusCode::OK);
  EXPECT_EQ(code("label_party", ""), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(code("", ""), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(code("", kToken), grpc::StatusCode::OK);
  EXPECT_EQ(code("nonlabel_party", "0123456789abcdeg"), grpc::StatusCode::UNAUTHENTICATED);
}

// Stubs made from the .proto by protoc, and curl: all six calls and all six paths.
TEST_F(ServeTest, ClientsOfTheSpecificationNeedNoSplitveilCode) {
  TrainAndPublish();
  StartServing();
  const std::string id = Ids()[0];
  const ChildResult child =
      RunChild({"/usr/bin/python3", "-B", OPEN_INFERENCE_CLIENT, PROTO_FOLDER, absl::StrCat("127.0.0.1:", port), kToken,
                run.files.File("rest.sock"), "test", id, absl::StrCat(predicted.at(id))});
  if (child.exit_code == 77) {
    GTEST_SKIP() << child.out;
  }
  EXPECT_EQ(child.exit_code, 0) << child.out << child.err;
}

}  // namespace
}  // namespace splitveil::testing
