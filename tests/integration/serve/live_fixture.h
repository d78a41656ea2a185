// Both parties' servers: `label_party serve`, which asks `nonlabel_party serve` live.
#ifndef SPLITVEIL_TESTS_INTEGRATION_SERVE_LIVE_FIXTURE_H_
#define SPLITVEIL_TESTS_INTEGRATION_SERVE_LIVE_FIXTURE_H_

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/serve/serve_fixture.h"

#include "splitveil/v1/live.grpc.pb.h"

namespace splitveil::testing {

class LiveTest : public ServeTest {
 protected:
  explicit LiveTest(int rows = 1500) : ServeTest(rows) { nonlabel_flags = {"--store=" + peer_versions_}; }

  // Again at the same port, once it has one.
  void StartPeer(const std::string& more = "") {
    std::ofstream(run.files.File("live.textproto"))
        << "agreement_path: 'nonlabel_run.textproto' config_path: 'nonlabel_party.textproto' data_path: 'live.data' "
        << "versions_path: 'peer_versions' listen_address: '127.0.0.1:" << peer_port_ << "'\n"
        << more;
    if (!std::filesystem::exists(run.files.File("live.data"))) {
      std::filesystem::copy(run.folder + "/nonlabel_party.data", run.files.File("live.data"));
    }
    peer_ = std::make_unique<RunningProgram>(
        "nonlabel_party", std::vector<std::string>{"serve", "--config=" + run.files.File("live.textproto")},
        run.folder);
    ASSERT_TRUE(peer_->WaitForError("live on port ")) << peer_->Errors();
    peer_port_ = PortIn(peer_->Errors(), "live on port ");
  }
  void StartLive(const std::string& fallback, const std::string& more = "", int port = 0) {
    StartServing(absl::StrCat("live { peer_address: '127.0.0.1:", port == 0 ? peer_port_ : port,
                              "' fallback: ", fallback, " timeout_ms: 20000 }", more));
  }
  static int PortIn(const std::string& log, const std::string& marker) {
    int port = 0;
    const size_t at = log.find(marker) + marker.size();
    EXPECT_TRUE(absl::SimpleAtoi(log.substr(at, log.find('\n', at) - at), &port)) << log;
    return port;
  }
  static bool Becomes(const std::function<bool()>& so) {
    const SteadyTime limit = SteadyAfter(absl::Seconds(60));
    while (!so() && SteadyNow() < limit) {
      absl::SleepFor(absl::Milliseconds(20));
    }
    return so();
  }

  // Of all `ids`; NaN where `found` is false.
  std::map<std::string, double> Ask(const std::vector<std::string>& ids) const {
    std::map<std::string, double> answers;
    inference::ModelInferResponse response;
    const grpc::Status status = Infer(Request(ids), &response);
    EXPECT_TRUE(status.ok()) << status.error_message() << server->Errors();
    for (int i = 0; status.ok() && i < static_cast<int>(ids.size()); ++i) {
      answers[ids[static_cast<size_t>(i)]] = response.outputs(0).contents().fp32_contents(i);
      EXPECT_EQ(std::isnan(response.outputs(0).contents().fp32_contents(i)),
                !response.outputs(1).contents().bool_contents(i));
    }
    return answers;
  }
  grpc::StatusCode CodeOf(const std::string& id) const {
    inference::ModelInferResponse response;
    return Infer(Request({id}), &response).error_code();
  }
  static void ExpectNear(const std::map<std::string, double>& found, const std::map<std::string, double>& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (const auto& [id, value] : expected) {
      ASSERT_NEAR(found.at(id), value, 1e-6);
    }
  }
  // Of /metrics; 0: not there.
  double Metric(const std::string& name) const {
    const auto metrics = Rest()->Get("/metrics");
    return metrics ? ValueIn(metrics->body, name) : 0;
  }
  static double ValueIn(const std::string& metrics, const std::string& name) {
    double value = 0;
    for (const absl::string_view line : absl::StrSplit(metrics, '\n')) {
      if (absl::StartsWith(line, name + " ")) {
        EXPECT_TRUE(absl::SimpleAtod(line.substr(name.size() + 1), &value)) << line;
      }
    }
    return value;
  }
  double Live(const std::string& code) const {
    return Metric(absl::StrCat("splitveil_live_requests_total{code=\"", code, "\"}"));
  }

  // With the certificate of `party`; empty: none.
  std::unique_ptr<v1::Live::Stub> PeerStub(const std::string& party) const {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = ReadWholeFile(run.folder + "/authority.pem");
    if (!party.empty()) {
      options.pem_cert_chain = ReadWholeFile(party + ".pem");
      options.pem_private_key = ReadWholeFile(party + ".key");
    }
    grpc::ChannelArguments arguments;
    arguments.SetSslTargetNameOverride("nonlabel-party.example");
    return v1::Live::NewStub(
        grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", peer_port_), grpc::SslCredentials(options), arguments));
  }
  static grpc::StatusCode Activate(v1::Live::Stub& stub, const v1::ActivateRequest& request,
                                   v1::ActivateResponse* response) {
    grpc::ClientContext context;
    context.set_deadline(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(20, GPR_TIMESPAN)));
    return stub.Activate(&context, request, response).error_code();
  }

  // The peer's table of the moment: that of the training, with the lines in another order, so that an id has the
  // features of another; the last `fewer` are gone.
  void PrepareRotated(const std::string& folder, int fewer = 0) const {
    std::vector<std::string> lines = absl::StrSplit(ReadWholeFile(run.folder + "/data.tsv"), '\n', absl::SkipEmpty());
    std::rotate(lines.begin(), lines.begin() + 700, lines.end());
    std::ofstream file(run.folder + "/rotated.tsv");
    for (size_t i = 0; i + static_cast<size_t>(fewer) < lines.size(); ++i) {
      file << lines[i] << "\n";
    }
    file.close();
    ASSERT_EQ(TwoPartyRun::Tool({"prepare", "--format=criteo", absl::StrCat("--input=", run.folder, "/rotated.tsv"),
                                 absl::StrCat("--extend=", run.folder), absl::StrCat("--out=", folder)}),
              0);
  }
  // As Splitveil replaces files.
  void ReplaceLiveData(const std::string& from) const {
    const std::string fresh = run.files.File("live.data.new");
    std::filesystem::copy(from, fresh, std::filesystem::copy_options::overwrite_existing);
    std::filesystem::rename(fresh, run.files.File("live.data"));
  }

  // Of "monitoring on http port 12345, ...".
  static int PagePort(const RunningProgram& program) {
    const std::string log = program.Errors(), marker = "monitoring on http port ";
    int port = 0;
    const size_t at = log.find(marker) + marker.size();
    EXPECT_TRUE(absl::SimpleAtoi(log.substr(at, log.find_first_not_of("0123456789", at) - at), &port)) << log;
    return port;
  }
  // Without a token.
  std::string PeerMetrics() const { return httplib::Client("127.0.0.1", PagePort(*peer_)).Get("/metrics")->body; }

  const std::string peer_versions_ = run.files.File("peer_versions");
  int peer_port_ = 0;
  std::unique_ptr<RunningProgram> peer_;
};

}  // namespace splitveil::testing

#endif  // SPLITVEIL_TESTS_INTEGRATION_SERVE_LIVE_FIXTURE_H_
