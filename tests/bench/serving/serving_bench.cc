// What an answer over gRPC takes, live and stored, beside the computation alone in one process: both halves' forward
// pass, or the head's. Live: a caller to `label_party serve` over the loopback device, that to `nonlabel_party serve`
// by mutual TLS. Turns of all of them alternate.
// And what becomes of four times the requests that a server can answer.
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <iostream>
#include <string>
#include <thread>
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
// Of the overload: callers, each with a connection of its own, and what their requests are.
constexpr int kCallers = 4, kThreadsOfACaller = 16, kIdsOfARequest = 256;
constexpr double kOverload = 4, kOverloadSeconds = 20, kDeadlineSeconds = 0.5;

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

  // With the peer's server running.
  std::string StartPeer() {
    std::ofstream(run.files.File("live.textproto"))
        << "agreement_path: 'nonlabel_run.textproto' config_path: 'nonlabel_party.textproto' "
        << "versions_path: 'peer_versions' listen_address: '127.0.0.1:0'";
    const int peer_port = StartAt("nonlabel_party", "live.textproto", "live on port ", peer_);
    return absl::StrCat("live { peer_address: '127.0.0.1:", peer_port, "' fallback: REFUSE }");
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
  const auto live = Serve(StartPeer());
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

// Of requests sent for a while, by how they ended: what each took, in seconds.
struct Sent {
  std::vector<double> answered, refused;
  std::vector<double> overslept;  // By how much a thread woke up later than it asked for: the machine's own delay.
  int64_t late = 0, other = 0;

  void Add(const Sent& more) {
    answered.insert(answered.end(), more.answered.begin(), more.answered.end());
    refused.insert(refused.end(), more.refused.begin(), more.refused.end());
    overslept.insert(overslept.end(), more.overslept.begin(), more.overslept.end());
    late += more.late;
    other += more.other;
  }
};

// This thread, and what it starts from here on, on one half of the processors: 0 or 1.
void UseHalf(size_t half) {
  const size_t processors = std::max<size_t>(2, std::thread::hardware_concurrency());
  cpu_set_t set;
  CPU_ZERO(&set);
  for (size_t i = half * (processors / 2); i < (half == 0 ? processors / 2 : processors); ++i) {
    CPU_SET(i, &set);
  }
  (void)sched_setaffinity(0, sizeof(set), &set);
}

double Quantile(std::vector<double>& values, double share) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

class OverloadBench : public ServingBench {
 protected:
  OverloadBench() {
    for (int i = 0; i < kCallers; ++i) {
      WriteToken(absl::StrCat("token", i), absl::StrCat(kToken, i));
    }
  }

  // From each of these threads of each caller, one request after another; `interval`: from one's begin to the next's
  // where it is not late already.
  Sent Send(int at, int threads, double interval, double seconds) const {
    const std::vector<std::string> all = Ids();
    const inference::ModelInferRequest request = Request({all.begin(), all.begin() + kIdsOfARequest});
    std::vector<Sent> sent(size_t{kCallers} * static_cast<size_t>(threads));
    std::vector<std::thread> running;
    for (int caller = 0; caller < kCallers; ++caller) {
      grpc::ChannelArguments own;
      own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      const std::shared_ptr<inference::GRPCInferenceService::Stub> stub = inference::GRPCInferenceService::NewStub(
          grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", at), grpc::InsecureChannelCredentials(), own));
      for (int i = 0; i < threads; ++i) {
        running.emplace_back([=, &request, to = &sent[running.size()]] {
          const SteadyTime begin = SteadyNow();
          for (double next = interval * i / threads; SecondsSince(begin) < seconds; next += interval) {
            if (const double wait = next - SecondsSince(begin); wait > 0) {
              absl::SleepFor(absl::Seconds(wait));
              to->overslept.push_back(SecondsSince(begin) - next);
            }
            const SteadyTime start = SteadyNow();
            grpc::ClientContext context;
            context.AddMetadata("authorization", absl::StrCat("Bearer ", kToken, caller));
            context.set_deadline(std::chrono::system_clock::now() +
                                 std::chrono::milliseconds(static_cast<int>(1e3 * kDeadlineSeconds)));
            inference::ModelInferResponse response;
            const grpc::StatusCode code = stub->ModelInfer(&context, request, &response).error_code();
            const double took = SecondsSince(start);
            if (code == grpc::StatusCode::OK) {
              to->answered.push_back(took);
            } else if (code == grpc::StatusCode::RESOURCE_EXHAUSTED) {
              to->refused.push_back(took);
            } else {
              ++(code == grpc::StatusCode::DEADLINE_EXCEEDED ? to->late : to->other);
            }
          }
        });
      }
    }
    Sent together;
    for (size_t i = 0; i < running.size(); ++i) {
      running[i].join();
      together.Add(sent[i]);
    }
    return together;
  }
};

// Callers have one half of the processors, the servers the other: what is refused fast must not be held up by its own
// caller's next.
TEST_F(OverloadBench, FourTimesTheCapacityIsAnsweredInTimeOrRefusedAtOnce) {
  TrainAndPublish();
  UseHalf(1);
  for (const std::string& live : {std::string(), StartPeer()}) {
    UseHalf(1);
    std::string callers;
    for (int i = 0; i < kCallers; ++i) {
      absl::StrAppend(&callers, " callers { name: 'caller ", i, "' token_path: 'token", i, "' }");
    }
    WriteServing(absl::StrCat("listen_address: '127.0.0.1:0' max_queued_rows: 4096", callers, live));
    std::unique_ptr<RunningProgram> started;
    const int at = StartAt("label_party", "serving.textproto", "by gRPC on port ", started);
    UseHalf(0);
    Send(at, 2, 0, 1);
    const double capacity = static_cast<double>(Send(at, 2, 0, 5).answered.size()) / 5;
    Sent sent = Send(at, kThreadsOfACaller, kCallers * kThreadsOfACaller / (kOverload * capacity), kOverloadSeconds);
    const double offered = static_cast<double>(sent.answered.size() + sent.refused.size()) + sent.late + sent.other;
    std::cout << absl::StreamFormat(
        "%s, %d ids: capacity %.0f requests/s; offered %.1f times that for %.0f s: %.0f/s answered, p50 %.1f ms, p99 "
        "%.1f ms; %d refused, p50 %.2f ms, p99 %.2f ms, p99.9 %.2f ms, max %.1f ms; %d past %.0f ms; %d otherwise; "
        "a sleeping thread woke up late by p50 %.2f ms, p99 %.2f ms\n",
        live.empty() ? "stored" : "live", kIdsOfARequest, capacity, offered / kOverloadSeconds / capacity,
        kOverloadSeconds, static_cast<double>(sent.answered.size()) / kOverloadSeconds,
        1e3 * Quantile(sent.answered, 0.5), 1e3 * Quantile(sent.answered, 0.99), sent.refused.size(),
        1e3 * Quantile(sent.refused, 0.5), 1e3 * Quantile(sent.refused, 0.99), 1e3 * Quantile(sent.refused, 0.999),
        1e3 * Quantile(sent.refused, 1), sent.late, 1e3 * kDeadlineSeconds, sent.other,
        1e3 * Quantile(sent.overslept, 0.5), 1e3 * Quantile(sent.overslept, 0.99));
  }
}

}  // namespace
}  // namespace splitveil::testing
