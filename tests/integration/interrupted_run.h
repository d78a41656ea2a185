// Both programs through a proxy, all that is random repeated from run to run: what they leave can be compared.
#ifndef SPLITVEIL_TESTS_INTEGRATION_INTERRUPTED_RUN_H_
#define SPLITVEIL_TESTS_INTEGRATION_INTERRUPTED_RUN_H_

#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "common/checkpoint/checkpoint.h"
#include "common/process/steady_time.h"
#include "tests/testing/process/environment.h"
#include "tests/testing/process/tcp_proxy.h"
#include "tests/testing/two_party_run.h"
#include "tests/unit/nonlabel_party/session/ledger_value.h"

namespace splitveil::testing {

inline constexpr char kLosses[] =
    "SELECT group_concat(step || ' ' || epoch || ' ' || batch || ' ' || examples || ' ' || loss) FROM step";
inline constexpr char kSteps[] =
    "SELECT group_concat(step || ' ' || epoch || ' ' || batch || ' ' || examples) FROM step";
inline constexpr char kEvaluations[] = "SELECT group_concat(step || ' ' || auc || ' ' || log_loss) FROM evaluation";
inline constexpr char kLeaks[] =
    "SELECT group_concat(layer || ' ' || attack || ' ' || auc) FROM (SELECT * FROM leak ORDER BY observer, step, "
    "layer, attack)";
inline constexpr char kEpochLeaks[] =
    "SELECT group_concat(observer || layer || attack || examples || ' ' || auc) FROM (SELECT * FROM epoch_leak "
    "ORDER BY observer, epoch, layer, attack)";
inline constexpr char kIds[] = "SELECT max(ids) FROM alignment";
inline constexpr char kInterruptions[] = "SELECT count(*) FROM event WHERE kind = 'interrupted'";

// What a run leaves that must not depend on the connection.
struct Remains {
  NamedParameters label, nonlabel;
  std::string losses, nonlabel_steps, evaluations, leaks, epoch_leaks;

  bool operator==(const Remains& other) const {
    return label == other.label && nonlabel == other.nonlabel && losses == other.losses &&
           nonlabel_steps == other.nonlabel_steps && evaluations == other.evaluations && leaks == other.leaks &&
           epoch_leaks == other.epoch_leaks;
  }
};

// A run through a proxy.
class InterruptedRun {
 public:
  explicit InterruptedRun(int in_flight_batches, int rows = 2000) : run(rows) {
    for (v1::RunAgreement* agreement : {&run.label_agreement, &run.nonlabel_agreement}) {
      agreement->set_epochs(4);
      agreement->set_in_flight_batches(in_flight_batches);
    }
    run.label_config.mutable_party()->set_checkpoint_path("label.checkpoint");
    run.nonlabel_config.mutable_party()->set_checkpoint_path("nonlabel.checkpoint");
  }

  void ForBoth(const std::function<void(v1::RunAgreement&)>& change) {
    change(run.label_agreement);
    change(run.nonlabel_agreement);
  }

  void Start() {
    const Environment repeatable("LD_PRELOAD", FIXED_RANDOMNESS);
    StartWithFreshRandomness();
  }
  // As in production: run id, keys and masks are others.
  void StartWithFreshRandomness() {
    run.StartLabelParty();
    proxy.ForwardTo(run.label_port);
    run.label_port = proxy.port();
    run.StartNonLabelParty();
  }

  // Bytes that pass before the training, of a run like this one, which has completed: 64 for each id of either party,
  // and what the frames around them and the handshakes take, of which a busy machine needs more.
  int64_t BytesBeforeTraining() const { return 66 * (std::stoll(Label(kIds)) + std::stoll(NonLabel(kIds))) + 60'000; }

  // Another process in the place of one that has ended. Its randomness is its own.
  void RestartLabelParty() {
    run.StartLabelParty();
    proxy.ForwardTo(run.label_port);
    run.label_port = proxy.port();
  }
  void RestartNonLabelParty() { run.StartNonLabelParty(); }

  // Starts again what has failed, as a supervisor would, until both have completed; how often that was.
  int SuperviseUntilDone() {
    int restarts = 0;
    for (const SteadyTime deadline = SteadyAfter(absl::Seconds(120)); SteadyNow() < deadline;) {
      bool done = true;
      for (std::unique_ptr<RunningProgram>* const party : {&run.label, &run.nonlabel}) {
        const bool ended = (*party)->HasEnded();
        done = done && ended && (*party)->Wait() == 0;
        if (ended && (*party)->Wait() != 0) {
          ++restarts;
          party == &run.label ? RestartLabelParty() : RestartNonLabelParty();
        }
      }
      if (done) {
        return restarts;
      }
      absl::SleepFor(absl::Milliseconds(5));
    }
    ADD_FAILURE() << "not done in time; label party: " << run.label->Errors()
                  << "\nnon-label party: " << run.nonlabel->Errors();
    return restarts;
  }

  // What is left once both have completed.
  Remains Finish() {
    EXPECT_EQ(run.nonlabel->Wait(), 0) << run.nonlabel->Errors();
    EXPECT_EQ(run.label->Wait(), 0) << run.label->Errors();
    return {*(*Checkpoint::Open(run.folder + "/label.checkpoint"))->State(),
            *(*Checkpoint::Open(run.folder + "/nonlabel.checkpoint"))->State(),
            Label(kLosses),
            NonLabel(kSteps),
            Label(kEvaluations),
            Label(kLeaks),
            Label(kEpochLeaks)};
  }

  std::string Label(const std::string& query) const { return LedgerValue(run.ledger("label_party"), query); }
  std::string NonLabel(const std::string& query) const { return LedgerValue(run.ledger("nonlabel_party"), query); }

  TwoPartyRun run;
  TcpProxy proxy;
};

}  // namespace splitveil::testing

#endif  // SPLITVEIL_TESTS_INTEGRATION_INTERRUPTED_RUN_H_
