// `label_party serve` and `nonlabel_party serve` together: answers from the other party's features of the moment.
#include <atomic>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <functional>
#include <gmock/gmock.h>
#include <set>
#include <thread>

#include "absl/synchronization/notification.h"

#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/stored_version.h"
#include "common/storage/section_file.h"
#include "common/transport/tensor_codec.h"
#include "tests/integration/serve/live_fixture.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::NanSensitiveFloatNear;
using ::testing::Not;
using ::testing::Pointwise;

TEST_F(LiveTest, AnswersAreThoseThatPredictWritesOnTheDataOfTheMoment) {
  TrainAndPublish();
  for (const char* file : {"activations", "nonlabel_party.checkpoint", "nonlabel_party.data"}) {
    EXPECT_EQ(std::filesystem::status(absl::StrCat(peer_versions_, "/1/", file)).permissions(),
              std::filesystem::perms::owner_read | std::filesystem::perms::owner_write)
        << file;
  }
  StartPeer("monitoring { listen_address: '127.0.0.1:0' }");
  StartLive("REFUSE");
  std::vector<std::string> ids = Ids();
  ExpectNear(Ask(ids), predicted);
  EXPECT_EQ(Live("OK"), 1);
  EXPECT_EQ(Metric("splitveil_live_rows_total"), static_cast<double>(ids.size()));
  ids.insert(ids.begin() + 3, "nobody");
  const auto rest = Rest()->Post("/v2/models/test/infer", Body(ids).dump(), "application/json");
  ASSERT_EQ(rest->status, 200) << rest->body;
  const nlohmann::json values = nlohmann::json::parse(rest->body)["outputs"][0]["data"];
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == "nobody") {
      EXPECT_TRUE(values[i].is_null());
    } else {
      ASSERT_NEAR(values[i].get<double>(), predicted.at(ids[i]), 1e-6);
    }
  }
  // An id that is not shared is not sent, and a request of such ids alone asks nobody.
  EXPECT_TRUE(std::isnan(Ask({"nobody", "no one"}).at("nobody")));
  EXPECT_EQ(Live("OK"), 2);
  const std::string metrics = PeerMetrics();
  // What the label party asked at its start, which half is there, is one more.
  EXPECT_EQ(ValueIn(metrics, "splitveil_live_requests_total{code=\"OK\"}"), 3) << metrics;
  EXPECT_EQ(ValueIn(metrics, "splitveil_live_request_seconds_count"), 3);
  EXPECT_EQ(ValueIn(metrics, "splitveil_live_rows_total"), 2.0 * static_cast<double>(predicted.size()));
  EXPECT_THAT(metrics + peer_->Errors() + server->Errors(), Not(HasSubstr(Ids()[0])));

  PrepareRotated(run.folder + "/rotated");
  ReplaceLiveData(run.folder + "/rotated/nonlabel_party.data");
  const std::string id = Ids()[0];
  EXPECT_TRUE(Becomes([&] { return std::abs(Ask({id}).at(id) - predicted.at(id)) > 1e-6; }));
  const std::map<std::string, double> live = Ask(Ids());
  StartPublication({"--out=" + run.files.File("rotated.csv")},
                   {absl::StrCat("--data=", run.folder, "/rotated/nonlabel_party.data")});
  ASSERT_EQ(nonlabel->Wait(), 0) << nonlabel->Errors();
  ASSERT_EQ(label->Wait(), 0) << label->Errors();
  ExpectNear(live, ReadPredictions("rotated.csv"));
}

TEST_F(LiveTest, ARowThatThePeerNoLongerHasIsAnsweredAsNotShared) {
  TrainAndPublish();
  StartPeer();
  StartLive("STORED");
  PrepareRotated(run.folder + "/rotated", /*fewer=*/300);
  ReplaceLiveData(run.folder + "/rotated/nonlabel_party.data");
  const auto data = *Dataset::Open(run.files.File("live.data"));
  std::set<std::string> there;
  for (int64_t row = 0; row < data->rows(); ++row) {
    there.emplace(data->ids()[static_cast<size_t>(row)]);
  }
  const auto is_as_the_table_has_it = [&](const std::map<std::string, double>& answers) {
    return std::all_of(answers.begin(), answers.end(),
                       [&](const auto& each) { return std::isnan(each.second) == (there.count(each.first) == 0); });
  };
  EXPECT_TRUE(Becomes([&] { return is_as_the_table_has_it(Ask(Ids())); }));
  const std::vector<std::string> ids = Ids();
  EXPECT_GT(std::count_if(ids.begin(), ids.end(), [&](const std::string& id) { return there.count(id) == 0; }), 10);
  // Data of another table: not used, nor those before.
  ReplaceLiveData(run.folder + "/label_party.data");
  EXPECT_TRUE(peer_->WaitForError("version 1 is not used: "));
  EXPECT_TRUE(Becomes([&] { return !std::isnan(Ask({ids[0]}).at(ids[0])) && Live("NOT_FOUND") > 0; }));
  ExpectNear(Ask(ids), predicted);
}

TEST_F(LiveTest, APeerThatIsGoneIsReplacedByWhatIsStoredOrRefusedUntilItIsBack) {
  TrainAndPublish();
  StartPeer();
  const std::string id = Ids()[0];
  for (const bool stored : {true, false}) {
    server.reset();
    StartLive(stored ? "STORED" : "REFUSE");
    ExpectNear(Ask(Ids()), predicted);
    EXPECT_EQ(Live("OK"), 1);
    peer_->Signal(SIGKILL);
    peer_->Wait();
    if (stored) {
      ExpectNear(Ask(Ids()), predicted);
      EXPECT_THAT(server->Errors(), HasSubstr("stored activations answer meanwhile"));
    } else {
      EXPECT_EQ(CodeOf(id), grpc::StatusCode::UNAVAILABLE);
      EXPECT_EQ(Rest()->Post("/v2/models/test/infer", Body({id}).dump(), "application/json")->status, 503);
      EXPECT_THAT(server->Errors(), HasSubstr("requests are refused meanwhile"));
    }
    EXPECT_GT(Live("UNAVAILABLE"), 0);
    StartPeer();
    EXPECT_TRUE(Becomes([&] {
      (void)CodeOf(id);
      return Live("OK") > 1 && absl::StrContains(server->Errors(), "live: the other party answers");
    }));
    ExpectNear(Ask(Ids()), predicted);
  }
  // One that hangs is not waited for by every request.
  server.reset();
  StartServing(absl::StrCat("live { peer_address: '127.0.0.1:", peer_port_, "' fallback: STORED timeout_ms: 100 }"));
  peer_->Signal(SIGSTOP);
  ExpectNear(Ask(Ids()), predicted);
  EXPECT_GT(Live("DEADLINE_EXCEEDED"), 0);
  peer_->Signal(SIGCONT);
  EXPECT_TRUE(Becomes([&] {
    (void)CodeOf(id);
    return Live("OK") > 0;
  }));
  peer_->Signal(SIGTERM);
  EXPECT_EQ(peer_->Wait(), 0) << peer_->Errors();
  EXPECT_THAT(peer_->Errors(), HasSubstr("what had come is answered"));
}

TEST_F(LiveTest, OnlyTheLabelPartyAsksAndOnlyForWhatIsShared) {
  TrainAndPublish();
  StartPeer("max_rows: 2000");
  const StoredVersion version = *OpenVersion(versions, 1);
  v1::ActivateRequest good;
  good.set_run_id(version.header.run_id());
  good.add_positions(7);
  v1::ActivateResponse response;
  const auto own = PeerStub(run.folder + "/label_party");
  ASSERT_EQ(Activate(*own, good, &response), grpc::StatusCode::OK);
  EXPECT_EQ(response.checkpoint(), version.header.checkpoint());
  EXPECT_EQ(response.alignment(), version.header.alignment());
  const Matrix activations =
      *DecodeMatrix(response.activations(), {"activations", v1::FLOAT32, 1, version.activations.cols()});
  for (int64_t i = 0; i < activations.cols(); ++i) {
    EXPECT_NEAR(activations.row(0)[static_cast<size_t>(i)], version.activations.row(7)[static_cast<size_t>(i)], 1e-6);
  }

  // Its own certificate, another name of the same authority, another authority, none.
  EXPECT_EQ(Activate(*PeerStub(run.folder + "/nonlabel_party"), good, &response), grpc::StatusCode::PERMISSION_DENIED);
  TwoPartyRun::Tool({"certificates", absl::StrCat("--out=", run.folder, "/other"), "--label=label-party.example",
                     "--nonlabel=nonlabel-party.example"});
  EXPECT_EQ(Activate(*PeerStub(run.folder + "/other/label_party"), good, &response), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(Activate(*PeerStub(""), good, &response), grpc::StatusCode::UNAVAILABLE);

  const auto rows = static_cast<uint32_t>(version.rows.size());
  for (const uint32_t position : {rows, rows + 1, uint32_t{1} << 31, std::numeric_limits<uint32_t>::max()}) {
    v1::ActivateRequest hostile = good;
    hostile.add_positions(position);
    EXPECT_EQ(Activate(*own, hostile, &response), grpc::StatusCode::INVALID_ARGUMENT) << position;
  }
  v1::ActivateRequest many = good;
  many.mutable_positions()->Resize(2001, 0);
  EXPECT_EQ(Activate(*own, many, &response), grpc::StatusCode::INVALID_ARGUMENT);
  many.mutable_positions()->Resize(2000, rows - 1);
  EXPECT_EQ(Activate(*own, many, &response), grpc::StatusCode::OK);
  many.mutable_positions()->Resize(1 << 24, 0);
  EXPECT_EQ(Activate(*own, many, &response), grpc::StatusCode::RESOURCE_EXHAUSTED);
  for (const std::string& run_id : {std::string(), std::string("test-00000000"), std::string(10'000, 'x')}) {
    v1::ActivateRequest other = good;
    other.set_run_id(run_id);
    EXPECT_EQ(Activate(*own, other, &response), grpc::StatusCode::NOT_FOUND);
  }
  EXPECT_EQ(Activate(*own, good, &response), grpc::StatusCode::OK);
}

TEST_F(LiveTest, WithAFallbackNoRequestIsLostWhileThePeerIsRestarted) {
  TrainAndPublish();
  StartPeer();
  StartLive("STORED");
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0}, answered{0};
  std::vector<std::thread> load;
  const std::vector<std::string> ids = Ids();
  for (size_t client = 0; client < 3; ++client) {
    load.emplace_back([&, client] {
      for (size_t at = client; !stop; at = (at + 31) % ids.size()) {
        inference::ModelInferResponse response;
        const grpc::Status status = Infer(Request({ids[at]}), &response);
        EXPECT_TRUE(status.ok()) << status.error_message();
        wrong += status.ok() && std::abs(response.outputs(0).contents().fp32_contents(0) - predicted.at(ids[at])) < 1e-6
                     ? 0
                     : 1;
        ++answered;
      }
    });
  }
  for (const int signal : {SIGTERM, SIGKILL}) {
    const double before = Live("OK");
    EXPECT_TRUE(Becomes([&] { return Live("OK") > before + 100; }));
    peer_->Signal(signal);
    peer_->Wait();
    EXPECT_TRUE(Becomes([&, so_far = answered.load()] { return answered > so_far + 100; }));
    StartPeer();
  }
  const double before = Live("OK");
  EXPECT_TRUE(Becomes([&] { return Live("OK") > before + 100; }));
  stop = true;
  for (std::thread& thread : load) {
    thread.join();
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(Live("UNAVAILABLE"), 0);
}

// The other party's half appears after the label party's.
TEST_F(LiveTest, AVersionIsUsedOnceBothHalvesAreThereAndNoRequestIsLost) {
  TrainAndPublish();
  StartPeer();
  StartLive("REFUSE");
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0}, answered{0};
  const std::string id = Ids()[0];
  std::thread load([&] {
    while (!stop) {
      inference::ModelInferResponse response;
      const grpc::Status status = Infer(Request({id}), &response);
      EXPECT_TRUE(status.ok()) << status.error_message();
      wrong +=
          status.ok() && std::abs(response.outputs(0).contents().fp32_contents(0) - predicted.at(id)) < 1e-6 ? 0 : 1;
      ++answered;
    }
  });
  const auto latest = [&] {
    inference::ModelInferResponse response;
    (void)Infer(Request({id}), &response);
    return response.model_version();
  };
  nonlabel_flags = {"--store=" + run.files.File("elsewhere")};
  Publish();
  EXPECT_TRUE(server->WaitForError("version 2 waits: ")) << server->Errors();
  EXPECT_EQ(latest(), "1");
  std::filesystem::rename(run.files.File("elsewhere") + "/1", peer_versions_ + "/2");
  EXPECT_TRUE(Becomes([&] { return latest() == "2"; }));
  EXPECT_TRUE(Becomes([&, before = answered.load()] { return answered > before + 20; }));
  stop = true;
  load.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(LiveTest, NoiseOnActivationsAndThresholdsOfBatchesAreRefused) {
  const auto refusal = [&] {
    run.WriteNonLabelPartyFiles();
    std::ofstream(run.files.File("live.textproto"))
        << "agreement_path: 'nonlabel_run.textproto' config_path: 'nonlabel_party.textproto' versions_path: 'v'";
    const ChildResult child =
        RunChild({BinDir() + "/nonlabel_party", "serve", "--config=" + run.files.File("live.textproto")});
    EXPECT_EQ(child.exit_code, 2) << child.err;
    return child.err;
  };
  v1::ActivationProtection& protection = *run.nonlabel_config.mutable_protection();
  protection.mutable_gaussian();
  protection.set_noise_sigma(1);
  protection.set_clip_norm(1);
  run.nonlabel_config.mutable_privacy_account()->set_path("features.account.db");
  EXPECT_THAT(refusal(), HasSubstr("protection.noise_sigma: live answers would release"));
  EXPECT_FALSE(std::filesystem::exists(run.files.File("features.account.db")));
  protection.add_attributes("A");
  protection.mutable_linear()->set_lambda(1);
  EXPECT_THAT(refusal(), HasSubstr("protection.noise_sigma: live answers would release"));
  protection.mutable_pareto()->set_threshold(0.1);
  protection.set_noise_sigma(0);
  EXPECT_THAT(refusal(), HasSubstr("protection.pareto: its threshold is of whole batches"));
}

// Records what it is asked, and answers as it is told to.
class RecordingPeer final : public v1::Live::Service {
 public:
  explicit RecordingPeer(const StoredVersion& version) : version_(version) {}

  grpc::Status Activate(grpc::ServerContext* /*context*/, const v1::ActivateRequest* request,
                        v1::ActivateResponse* response) override {
    if (request->positions_size() > 0) {
      asked.push_back(request->SerializeAsString());
    }
    response->set_checkpoint(version_.header.checkpoint());
    response->set_alignment(version_.header.alignment());
    Matrix activations(request->positions_size(), version_.activations.cols());
    for (int i = 0; i < request->positions_size(); ++i) {
      activations.SetBlock(i, version_.activations.block(request->positions(i), 1));
    }
    EXPECT_TRUE(EncodeMatrix(activations, v1::FLOAT32, *response->mutable_activations()).ok());
    if (change != nullptr && request->positions_size() > 0) {
      change(*response);
    }
    return grpc::Status::OK;
  }

  std::vector<std::string> asked;
  std::function<void(v1::ActivateResponse&)> change;

 private:
  const StoredVersion& version_;
};

class RecordedLiveTest : public LiveTest {
 protected:
  // In the peer's place.
  void StartRecorder() {
    version_.emplace(*OpenVersion(versions, 1));
    recorder_ = std::make_unique<RecordingPeer>(*version_);
    grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    options.pem_root_certs = ReadWholeFile(run.folder + "/authority.pem");
    options.pem_key_cert_pairs.push_back(
        {ReadWholeFile(run.folder + "/nonlabel_party.key"), ReadWholeFile(run.folder + "/nonlabel_party.pem")});
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(options), &recorder_port_);
    builder.RegisterService(recorder_.get());
    recorder_server_ = builder.BuildAndStart();
    ASSERT_NE(recorder_server_, nullptr);
  }

  // Version 1 of a label party whose labels are all others, and whose head has learned the opposite.
  void StoreFlipped(const std::string& folder) const {
    const auto file = *SectionFile::Open(versions + "/1/label_party.data", SectionFile::Check::kDigest);
    v1::Preprocessing preprocessing;
    ASSERT_TRUE(preprocessing.ParseFromString(std::string(*file->section("preprocessing"))));
    preprocessing.set_extends_sha256(std::string(AsBytes(file->digest())));
    const std::string header = preprocessing.SerializeAsString();
    std::string labels(*file->section("labels"));
    for (char& label : labels) {
      label ^= 1;
    }
    std::vector<NamedSection> sections = {{"preprocessing", header}, {"labels", labels}};
    for (const char* name : {"id_ends", "ids", "targets", "numeric", "categories", "pixels", "attributes", "parts",
                             "vocabulary_ends", "vocabulary"}) {
      if (file->has_section(name)) {
        sections.emplace_back(name, *file->section(name));
      }
    }
    const std::string data = run.files.File("flipped.data"), checkpoint = run.files.File("flipped.checkpoint");
    ASSERT_TRUE(WriteSectionFile(data, sections).ok());
    const auto trained = *Checkpoint::Open(version_->checkpoint_path);
    NamedParameters state = *trained->State();
    for (auto& [name, values] : state) {
      for (float& value : values) {
        value = absl::StartsWith(name, "logit") || absl::StartsWith(name, "wide") ? -value : value;
      }
    }
    v1::CheckpointHeader place = trained->header();
    place.clear_sections();
    ASSERT_TRUE(Checkpoint::Write(checkpoint, place, state, trained->progress()).ok());
    auto writer = *VersionWriter::Create(folder, version_->header, checkpoint, **Dataset::Open(data), version_->rows);
    ASSERT_TRUE(writer->Append(version_->activations).ok());
    ASSERT_TRUE(writer->Publish().ok());
  }

  std::optional<StoredVersion> version_;
  std::unique_ptr<RecordingPeer> recorder_;
  std::unique_ptr<grpc::Server> recorder_server_;
  int recorder_port_ = 0;
};

TEST_F(RecordedLiveTest, WhatThePeerIsSentIsTheSameUnderFlippedLabels) {
  TrainAndPublish();
  StartRecorder();
  const std::vector<std::string> ids = Ids();
  std::vector<std::vector<std::string>> asked;
  std::vector<double> answers;
  for (const bool flipped : {false, true}) {
    if (flipped) {
      StoreFlipped(run.folder + "/flipped");
      std::filesystem::rename(versions, versions + ".kept");
      std::filesystem::rename(run.folder + "/flipped", versions);
    }
    server.reset();
    StartLive("REFUSE", "", recorder_port_);
    ASSERT_THAT(server->Errors(), HasSubstr("version 1: answers for")) << server->Errors();
    for (size_t first = 0; first + 50 < ids.size(); first += 37) {
      std::vector<std::string> some = {ids.begin() + static_cast<int64_t>(first),
                                       ids.begin() + static_cast<int64_t>(first + 1 + first % 50)};
      some.insert(some.begin(), "nobody");
      some.push_back(some.back());
      Ask(some);
    }
    answers.push_back(Ask({ids[0]}).at(ids[0]));
    asked.push_back(std::exchange(recorder_->asked, {}));
  }
  EXPECT_GT(asked[0].size(), 20);
  EXPECT_EQ(asked[0], asked[1]);
  EXPECT_GT(std::abs(answers[0] - answers[1]), 1e-3) << "the heads must differ";
}

// As with stored activations: what is withheld is not even asked for.
TEST_F(RecordedLiveTest, OutsideCallersOfAnUnprovedModelMakeThePeerKnowNoTrainedRow) {
  TrainAndPublish();
  StartRecorder();
  WriteToken("shop", "fedcba9876543210");
  StartLive("REFUSE",
            "unproved_answers { daily: 100000 decimals: 2 } callers { name: 'shop' token_path: 'shop' outside: true }",
            recorder_port_);
  inference::ModelInferResponse response;
  const grpc::Status status = Infer(Request(Ids()), &response, "fedcba9876543210");
  ASSERT_TRUE(status.ok()) << status.error_message();
  std::set<uint32_t> answered;
  for (uint32_t position = 0; position < version_->rows.size(); ++position) {
    const std::string id(version_->data->ids()[version_->rows[position]]);
    const auto at = static_cast<int>(std::distance(predicted.begin(), predicted.find(id)));
    if (response.outputs(1).contents().bool_contents(at)) {
      answered.insert(position);
      EXPECT_NEAR(response.outputs(0).contents().fp32_contents(at), predicted.at(id), 0.0051);
    }
  }
  EXPECT_GT(answered.size(), 50);
  EXPECT_LT(answered.size(), predicted.size() / 3);
  ASSERT_EQ(recorder_->asked.size(), 1);
  v1::ActivateRequest asked;
  ASSERT_TRUE(asked.ParseFromString(recorder_->asked[0]));
  EXPECT_EQ(std::set<uint32_t>(asked.positions().begin(), asked.positions().end()), answered);
}

// A peer that is slow, if not too slow, makes what waits no longer wait for itself alone.
TEST_F(RecordedLiveTest, WhatWaitsIsOneRequestToThePeerOnWhateverTermsEachIs) {
  constexpr char kShop[] = "fedcba9876543210";
  TrainAndPublish();
  StartRecorder();
  WriteToken("shop", kShop);
  StartLive("REFUSE",
            "unproved_answers { daily: 100000 decimals: 2 } callers { name: 'shop' token_path: 'shop' outside: true }",
            recorder_port_);
  const std::vector<std::string> ids = Ids();
  const auto data = *Dataset::Open(run.files.File("label_party.data"));
  std::vector<std::pair<inference::ModelInferRequest, std::string>> asked;
  for (size_t i = 0; i < 12; ++i) {  // In turn: with a column, from outside, plain.
    asked.emplace_back(
        Request({ids.begin() + static_cast<int64_t>(20 * i), ids.begin() + static_cast<int64_t>(20 * i + 9)}),
        i % 3 == 1 ? kShop : kToken);
    if (i % 3 == 0) {
      auto& column = *asked.back().first.add_inputs();
      column.set_name(data->preprocessing().numeric(0).name());
      column.set_datatype("FP64");
      column.add_shape(9);
      column.mutable_contents()->mutable_fp64_contents()->Resize(9, static_cast<double>(3 * i));
    }
  }
  const auto answer_of = [&](size_t i) {
    inference::ModelInferResponse response;
    const grpc::Status status = Infer(asked[i].first, &response, asked[i].second);
    EXPECT_TRUE(status.ok()) << status.error_message();
    const auto& values = response.outputs(0).contents().fp32_contents();
    return std::vector<float>(values.begin(), values.end());
  };
  std::vector<std::vector<float>> alone, together(asked.size());
  for (size_t i = 0; i < asked.size(); ++i) {
    alone.push_back(answer_of(i));
  }
  recorder_->asked.clear();
  absl::Notification held, open;
  recorder_->change = [&](v1::ActivateResponse& /*response*/) {
    if (!held.HasBeenNotified()) {
      held.Notify();
      open.WaitForNotification();
    }
  };
  std::vector<std::thread> clients;
  clients.emplace_back([&] { (void)CodeOf(ids[0]); });
  held.WaitForNotification();
  for (size_t i = 0; i < asked.size(); ++i) {
    clients.emplace_back([&, i] { together[i] = answer_of(i); });
  }
  EXPECT_TRUE(Becomes([&] { return Metric("splitveil_waiting_rows") == 12 * 9; }));
  open.Notify();
  for (std::thread& client : clients) {
    client.join();
  }
  for (size_t i = 0; i < asked.size(); ++i) {
    const bool outside = asked[i].second == kShop;  // Rounded to two places.
    EXPECT_THAT(together[i], Pointwise(NanSensitiveFloatNear(outside ? 0.0101F : 1e-6F), alone[i])) << i;
  }
  EXPECT_EQ(recorder_->asked.size(), 2);
}

TEST_F(RecordedLiveTest, APeerWithAnotherHalfOrAWrongAnswerIsNotBelieved) {
  TrainAndPublish();
  StartRecorder();
  StartLive("REFUSE", "", recorder_port_);
  const std::vector<std::string> ids = {Ids()[0], Ids()[1]};
  EXPECT_EQ(CodeOf(ids[0]), grpc::StatusCode::OK);
  const auto refused = [&](std::function<void(v1::ActivateResponse&)> change) {
    recorder_->change = std::move(change);
    inference::ModelInferResponse response;
    return Infer(Request(ids), &response).error_code() == grpc::StatusCode::UNAVAILABLE;
  };
  EXPECT_TRUE(refused([](auto& response) { response.set_checkpoint("test-00000000/2"); }));
  EXPECT_THAT(server->Errors(), HasSubstr("a different half of the version: expected checkpoint "));
  EXPECT_THAT(server->Errors(), HasSubstr("found test-00000000/2"));
  EXPECT_TRUE(refused([](auto& response) { response.set_alignment(""); }));
  EXPECT_TRUE(refused([](auto& response) { response.clear_activations(); }));
  EXPECT_TRUE(refused([](auto& response) { response.mutable_activations()->set_shape(0, 1); }));
  EXPECT_TRUE(refused([](auto& response) { response.mutable_activations()->mutable_data()->pop_back(); }));
  EXPECT_TRUE(refused([](auto& response) {
    response.mutable_activations()->mutable_data()->replace(0, 4, "\xff\xff\xff\x7f");  // NaN
  }));
  for (const std::vector<uint32_t>& missing :
       {std::vector<uint32_t>{2}, {1, 0}, {0, 0}, {0}, {0, 1, 2}, {std::numeric_limits<uint32_t>::max()}}) {
    EXPECT_TRUE(refused([&](auto& response) { response.mutable_missing()->Add(missing.begin(), missing.end()); }));
  }
  EXPECT_FALSE(refused(nullptr));
}

}  // namespace
}  // namespace splitveil::testing
