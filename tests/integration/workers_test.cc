// Several workers of the non-label party, as processes: what they train, and what is left when one is lost.
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "google/protobuf/text_format.h"

#include "common/process/steady_time.h"
#include "common/transport/host_port.h"
#include "tests/integration/interrupted_run.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kGuarantee[] =
    "protection { gaussian_label_dp { max_run_auc_bound: 0.7 } } "
    "privacy_account { path: 'account.db' label_set: 'test' }";
constexpr char kMarvell[] = "protection { marvell { sum_kl: 0.1 } }";

int FreePort() {
  int port = 0;
  const Descriptor listener(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (bind(listener.number(), reinterpret_cast<sockaddr*>(&address), size) == 0 &&
      getsockname(listener.number(), reinterpret_cast<sockaddr*>(&address), &size) == 0) {
    port = ntohs(address.sin_port);
  }
  return port;
}

// A run whose non-label party has some workers. The leader is run.nonlabel.
class WorkersRun : public InterruptedRun {
 public:
  WorkersRun(int workers, const std::string& label_config)
      : InterruptedRun(/*in_flight_batches=*/2), workers_(workers) {
    EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(label_config, &run.label_config));
    const bool is_guaranteed = run.label_config.protection().has_gaussian_label_dp();
    ForBoth([&](v1::RunAgreement& agreement) {
      if (is_guaranteed) {
        agreement.mutable_audit()->clear_attacks();
        agreement.mutable_audit()->clear_layers();
        agreement.mutable_audit()->set_disclosure(v1::LABEL_SIDE_ONLY);
      }
    });
    if (workers > 1) {
      run.nonlabel_config.mutable_workers()->set_interface("lo");
    }
  }

  void StartAll() {
    const Environment repeatable("LD_PRELOAD", FIXED_RANDOMNESS);
    RestartLabelParty();
    StartWorkers();
  }

  // Each with its rank; the leader first.
  void StartWorkers() {
    others.clear();
    if (workers_ == 1) {
      return RestartNonLabelParty();
    }
    const Environment size("WORLD_SIZE", absl::StrCat(workers_)), host("MASTER_ADDR", "127.0.0.1"),
        port("MASTER_PORT", absl::StrCat(FreePort()));
    for (int rank = 0; rank < workers_; ++rank) {
      const Environment own("RANK", absl::StrCat(rank));
      RestartNonLabelParty();
      if (rank == 0) {
        leader_ = std::move(run.nonlabel);
      } else {
        others.push_back(std::move(run.nonlabel));
      }
    }
    run.nonlabel = std::move(leader_);
  }

  // Waits for all; whether each ended well.
  bool HaveCompleted() {
    bool done = run.nonlabel->Wait() == 0 && run.label->Wait() == 0;
    for (const std::unique_ptr<RunningProgram>& other : others) {
      done = other->Wait() == 0 && done;
    }
    return done;
  }

  std::vector<std::unique_ptr<RunningProgram>> others;

 private:
  const int workers_;
  std::unique_ptr<RunningProgram> leader_;
};

double LargestDifference(const NamedParameters& a, const NamedParameters& b) {
  double largest = a.size() == b.size() ? 0 : 1e9;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    EXPECT_EQ(a[i].first, b[i].first);
    EXPECT_EQ(a[i].second.size(), b[i].second.size());
    for (size_t j = 0; j < a[i].second.size(); ++j) {
      largest = std::max(largest, std::abs(static_cast<double>(a[i].second[j]) - b[i].second[j]));
    }
  }
  return largest;
}

class WorkersTest : public ::testing::TestWithParam<const char*> {};

TEST_P(WorkersTest, TheirNumberChangesNothingThatMatters) {
  WorkersRun alone(1, GetParam());
  alone.StartAll();
  ASSERT_TRUE(alone.HaveCompleted()) << alone.run.nonlabel->Errors();
  const Remains expected = alone.Finish();
  for (const int workers : {2, 4}) {
    WorkersRun shared(workers, GetParam());
    shared.StartAll();
    ASSERT_TRUE(shared.HaveCompleted()) << shared.run.nonlabel->Errors() << shared.others[0]->Errors();
    const Remains found = shared.Finish();
    // The same rows in every batch, the same noise and decisions; sums of floats in another order.
    EXPECT_EQ(found.nonlabel_steps, expected.nonlabel_steps);
    if (GetParam() != std::string(kMarvell)) {  // Its noise is bound to the gradients' last bits.
      EXPECT_LT(LargestDifference(found.nonlabel, expected.nonlabel), 1e-5) << workers;
      EXPECT_LT(LargestDifference(found.label, expected.label), 1e-5) << workers;
    }
    for (const char* const query :
         {"SELECT group_concat(examples || ' ' || auc_bound) FROM all_runs",
          "SELECT group_concat(noise || ' ' || sigma_units || ' ' || draws) FROM label_release",
          "SELECT group_concat(gate) FROM protection", "SELECT max(ids) FROM alignment"}) {
      EXPECT_EQ(shared.Label(query), alone.Label(query)) << query;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Protections, WorkersTest, ::testing::Values("", kMarvell, kGuarantee));

TEST(WorkersTest, ALostWorkerEndsTheRunWhichGoesOnToTheSameBits) {
  WorkersRun quiet(3, "");
  quiet.StartAll();
  ASSERT_TRUE(quiet.HaveCompleted()) << quiet.run.nonlabel->Errors();
  const Remains expected = quiet.Finish();
  const int64_t bytes = std::stoll(quiet.Label("SELECT sum(bytes_sent) + sum(bytes_received) FROM step"));
  for (const int lost : {0, 1, 2}) {  // Which of the three.
    WorkersRun run(3, "");
    run.proxy.GoDownAfter(quiet.BytesBeforeTraining() + bytes / 3 + lost * bytes / 7);
    run.StartAll();
    ASSERT_TRUE(run.proxy.WaitForCut());
    RunningProgram* const victim = lost == 0 ? run.run.nonlabel.get() : run.others[lost - 1].get();
    victim->Signal(SIGKILL);
    (void)victim->Wait();
    run.proxy.SetDown(false);
    for (RunningProgram* const worker : {run.run.nonlabel.get(), run.others[0].get(), run.others[1].get()}) {
      if (worker != victim) {
        EXPECT_EQ(worker->Wait(absl::Seconds(60)), 3) << worker->Errors();
        EXPECT_THAT(worker->Errors(), HasSubstr("workers: "));
      }
    }
    // As a supervisor would.
    const int ended = run.run.label->Wait(absl::Seconds(1));
    EXPECT_TRUE(ended == 3 || ended == -1) << run.run.label->Errors();
    if (ended == 3) {
      run.RestartLabelParty();
    }
    run.StartWorkers();
    ASSERT_TRUE(run.HaveCompleted()) << run.run.nonlabel->Errors() << run.run.label->Errors();
    const Remains found = run.Finish();
    EXPECT_EQ(found.nonlabel, expected.nonlabel) << lost;
    EXPECT_EQ(found.label, expected.label) << lost;
    EXPECT_EQ(found.losses, expected.losses) << lost;
    EXPECT_EQ(run.Label("SELECT count(*) FROM event WHERE kind = 'continued'"), "1");
  }
}

TEST(WorkersTest, SeveralWithoutAnInterfaceAreRefused) {
  TwoPartyRun run;
  run.label_port = 1;
  const Environment rank("RANK", "0"), size("WORLD_SIZE", "2"), host("MASTER_ADDR", "127.0.0.1"),
      port("MASTER_PORT", "2950");
  run.StartNonLabelParty();
  EXPECT_EQ(run.nonlabel->Wait(), 2);
  EXPECT_THAT(run.nonlabel->Errors(), HasSubstr("nonlabel_party.textproto: workers: expected the interface"));
}

}  // namespace
}  // namespace splitveil::testing
