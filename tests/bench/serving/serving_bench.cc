// What an answer over gRPC takes, live and stored, beside the computation alone in one process: both halves' forward
// pass, or the head's. Live: a caller to `label_party serve` over the loopback device, that to `nonlabel_party serve`
// by mutual TLS. Turns of all of them alternate.
#include <algorithm>
#include <fstream>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/config/agreement.h"
#include "common/config/text_config.h"
#include "label_party/serving/served_version.h"
#include "nonlabel_party/serving/live_version.h"
#include "tests/integration/serve/serve_fixture.h"

namespace splitveil::testing {
namespace {

constexpr int kRows = 20'000;
constexpr double kSecondsATurn = 1;
constexpr int kTurns = 5;

class ServingBench : public ServeTest {
 protected:
  // Wide & Deep, as `bench_training` has it.
  ServingBench() : ServeTest(kRows) {
    nonlabel_flags = {"--store=" + run.files.File("peer_versions")};
    for (v1::RunAgreement* const agreement : {&run.label_agreement, &run.nonlabel_agreement}) {
      agreement->set_cut_layer("third");
      agreement->set_cut_width(128);
      agreement->set_batch_size(1024);
    }
    for (v1::ModelSpec* const model : {run.label_config.mutable_model(), run.nonlabel_config.mutable_model()}) {
      model->Clear();
      model->set_preset(v1::ModelSpec::WIDE_AND_DEEP);
    }
  }

  int StartAt(const std::string& program, const std::string& config, const std::string& marker,
              std::unique_ptr<RunningProgram>& started) const {
    started = std::make_unique<RunningProgram>(
        program, std::vector<std::string>{"serve", "--config=" + run.files.File(config)}, run.folder);
    EXPECT_TRUE(started->WaitForError(marker)) << started->Errors();
    const std::string log = started->Errors();
    int port = 0;
    const size_t at = log.find(marker) + marker.size();
    EXPECT_TRUE(absl::SimpleAtoi(log.substr(at, log.find('\n', at) - at), &port)) << log;
    return port;
  }

  std::unique_ptr<inference::GRPCInferenceService::Stub> Serve(const std::string& live) {
    WriteServing(absl::StrCat("listen_address: '127.0.0.1:0' callers { name: 'app' token_path: 'token' }", live));
    std::unique_ptr<RunningProgram>& started = live.empty() ? stored_server_ : live_server_;
    const int at = StartAt("label_party", "serving.textproto", "by gRPC on port ", started);
    return inference::GRPCInferenceService::NewStub(
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", at), grpc::InsecureChannelCredentials()));
  }

  std::unique_ptr<RunningProgram> peer_, live_server_, stored_server_;
};

struct Figures {
  double p50 = 0, p99 = 0, per_second = 0;
};

struct Measured {
  std::string name;
  std::function<void()> once;
  std::vector<double> seconds = {};

  Figures figures() {
    std::sort(seconds.begin(), seconds.end());
    double sum = 0;
    for (const double each : seconds) {
      sum += each;
    }
    return {seconds[seconds.size() / 2], seconds[seconds.size() * 99 / 100], static_cast<double>(seconds.size()) / sum};
  }
};

TEST_F(ServingBench, LiveAndStoredBesideTheForwardPassAlone) {
  TrainAndPublish();
  std::ofstream(run.files.File("live.textproto"))
      << "agreement_path: 'nonlabel_run.textproto' config_path: 'nonlabel_party.textproto' "
      << "versions_path: 'peer_versions' listen_address: '127.0.0.1:0'";
  const int peer_port = StartAt("nonlabel_party", "live.textproto", "live on port ", peer_);
  const auto live = Serve(absl::StrCat("live { peer_address: '127.0.0.1:", peer_port, "' fallback: REFUSE }"));
  const auto stored = Serve("");

  ServedVersion::Training training;
  LiveVersion::Training peer_training;
  training.agreement = peer_training.agreement = *LoadAgreement(run.files.File("label_run.textproto"));
  ASSERT_TRUE(LoadTextConfig(run.files.File("label_party.textproto"), training.config).ok());
  ASSERT_TRUE(LoadTextConfig(run.files.File("nonlabel_party.textproto"), peer_training.config).ok());
  const auto top = *ServedVersion::Open(training, versions, 1);
  const auto bottom = *LiveVersion::Open(peer_training, run.files.File("peer_versions"), 1);
  const std::vector<std::string> all = Ids();
  for (const size_t rows : {1, 64, 1024}) {
    const std::vector<std::string> ids(all.begin(), all.begin() + static_cast<int64_t>(rows));
    const std::vector<absl::string_view> views(ids.begin(), ids.end());
    std::vector<uint32_t> positions(rows);
    for (size_t i = 0; i < rows; ++i) {
      positions[i] = static_cast<uint32_t>(i * 7);
    }
    const auto ask = [&](inference::GRPCInferenceService::Stub& server) {
      grpc::ClientContext context;
      context.AddMetadata("authorization", absl::StrCat("Bearer ", kToken));
      inference::ModelInferResponse response;
      ASSERT_TRUE(server.ModelInfer(&context, Request(ids), &response).ok());
    };
    std::vector<Measured> each;
    const AnswerTerms terms = {};
    const std::vector<AskedIds> question = {{views, &terms}};
    each.push_back({"live", [&] { ask(*live); }});
    each.push_back({"both halves alone", [&] {
                      ASSERT_TRUE(bottom->Activate(positions).ok());
                      ASSERT_TRUE(top->Answer(question)[0].ok());
                    }});
    each.push_back({"stored", [&] { ask(*stored); }});
    each.push_back({"head alone", [&] { ASSERT_TRUE(top->Answer(question)[0].ok()); }});
    for (int turn = 0; turn < kTurns; ++turn) {
      for (Measured& measured : each) {
        measured.once();
        for (const SteadyTime begin = SteadyNow(); SecondsSince(begin) < kSecondsATurn;) {
          const SteadyTime start = SteadyNow();
          measured.once();
          measured.seconds.push_back(SecondsSince(start));
        }
      }
    }
    std::vector<double> medians;
    for (Measured& measured : each) {
      const Figures figures = measured.figures();
      medians.push_back(figures.p50);
      std::cout << absl::StreamFormat("%5d ids, %-17s p50 %8.3f ms, p99 %8.3f ms, %8.0f requests/s\n", rows,
                                      measured.name, 1e3 * figures.p50, 1e3 * figures.p99, figures.per_second);
    }
    std::cout << absl::StreamFormat("%5d ids, ratio of medians: live %.2f (asked at 1,024: <= 3), stored %.2f (<= 2)\n",
                                    rows, medians[0] / medians[1], medians[2] / medians[3]);
  }
}

}  // namespace
}  // namespace splitveil::testing
