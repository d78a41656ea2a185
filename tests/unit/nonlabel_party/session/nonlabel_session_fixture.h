// A small run of a non-label party against a label party in the same process, which may answer as a test has it.
#ifndef SPLITVEIL_TESTS_UNIT_NONLABEL_PARTY_SESSION_NONLABEL_SESSION_FIXTURE_H_
#define SPLITVEIL_TESTS_UNIT_NONLABEL_PARTY_SESSION_NONLABEL_SESSION_FIXTURE_H_

#include <atomic>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/process/exit_code.h"
#include "nonlabel_party/session/nonlabel_session.h"
#include "tests/testing/local_label_party.h"
#include "tests/testing/small_run.h"
#include "tests/unit/nonlabel_party/session/ledger_value.h"

namespace splitveil::testing {

inline std::atomic<bool> stop_asked{false};  // A signal's flag is as global.

class NonLabelSessionTest : public ::testing::Test {
 protected:
  NonLabelSessionTest() : run_(300) { stop_asked = false; }

  absl::Status Run() {
    absl::StatusOr<std::unique_ptr<LabelSession>> label = LabelSession::Create(run_.LabelOptions());
    EXPECT_TRUE(label.ok()) << label.status();
    label_ = *std::move(label);
    LocalLabelParty peer(label_.get());
    peer.stalls_alignment = stalls_alignment_;
    peer.on_call = [this](const std::string& call) {
      calls_.push_back(call);
      stop_asked = stop_asked || call == stop_at_;
    };
    if (alter_) {
      alter_(peer);
    }
    NonLabelSessionOptions options = run_.NonLabelOptions(&peer);
    options.stop = [] { return stop_asked.load(); };
    NonLabelSession session(std::move(options));
    absl::Status status = session.Run();
    if (session.model() != nullptr) {
      trained_ = session.model()->Parameters();
    }
    figures_ = session.figures();
    return status;
  }

  // Asks the run to stop in the middle of the first `call`; before all of them where it is empty.
  absl::Status StopAt(const std::string& call) {
    stop_at_ = call;
    stop_asked = call.empty();
    absl::Status status = Run();
    EXPECT_FALSE(label_->completed());
    return status;
  }

  std::string LedgerStatus() const { return FromLedger("SELECT status FROM run"); }

  std::string FromLedger(const std::string& query) const {
    return LedgerValue(run_.files.File("nonlabel_party.db"), query);
  }

  void StopLabelPartyAtFirstAnswer() {
    alter_ = [this](LocalLabelParty& peer) {
      peer.alter_gradients = [this](v1::CutGradients& message) {
        if (message.batch() == 0) {
          EXPECT_TRUE(IsStoppedOnRequest(label_->WaitUntilEnded([] { return true; })));
        }
      };
    };
  }

  void ExpectStepsInBothLedgers(int steps) const {
    for (const char* ledger : {"nonlabel_party.db", "label_party.db"}) {
      EXPECT_EQ(LedgerValue(run_.files.File(ledger), "SELECT count(*) FROM step"), std::to_string(steps)) << ledger;
    }
  }

  // What this answer of the label party leads to: the run is refused, exit 4, and says why.
  void ExpectRefusal(std::function<void(LocalLabelParty&)> alter, const std::string& text) {
    alter_ = std::move(alter);
    const absl::Status status = Run();
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(ExitCodeFor(status), ExitCode::kRefused) << status;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(text));
    EXPECT_FALSE(label_->completed());
  }

  // A label party that alters every answer with gradients, or each of those that have hints.
  static std::function<void(LocalLabelParty&)> Gradients(std::function<void(v1::CutGradients&)> alter) {
    return [alter = std::move(alter)](LocalLabelParty& peer) { peer.alter_gradients = alter; };
  }
  static std::function<void(LocalLabelParty&)> Hints(std::function<void(v1::CutGradients&)> alter) {
    return Gradients([alter = std::move(alter)](v1::CutGradients& message) {
      if (message.has_hint()) {
        alter(message);
      }
    });
  }

  // From this step of 8 on the bottom model is frozen, up to `until`.
  void FreezeFrom(int step, int until = 100) {
    alter_ = Gradients([step, until](v1::CutGradients& message) {
      const int now = static_cast<int>(4 * message.epoch() + message.batch());
      if (now >= step && now < until) {
        message.clear_gradients();
        message.set_frozen(true);
      }
    });
  }

  SmallRun run_;
  std::unique_ptr<LabelSession> label_;
  std::function<void(LocalLabelParty&)> alter_;
  std::vector<std::string> calls_;  // As the session made them.
  NamedParameters trained_;         // The bottom model's after Run.
  std::optional<RunFigures> figures_;
  std::string stop_at_ = "never";
  bool stalls_alignment_ = false;
};

}  // namespace splitveil::testing

#endif  // SPLITVEIL_TESTS_UNIT_NONLABEL_PARTY_SESSION_NONLABEL_SESSION_FIXTURE_H_
