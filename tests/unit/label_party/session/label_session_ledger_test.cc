// A ledger that fails in the middle of a run ends it, and is none of the peer's business.
#include <sqlite3.h>

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <thread>

#include "common/process/exit_code.h"
#include "common/transport/tensor_codec.h"
#include "tests/unit/label_party/session/label_session_fixture.h"
#include "tests/unit/nonlabel_party/session/ledger_value.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

class LabelSessionLedgerTest : public LabelSessionTest {
 protected:
  // From now on no event can be recorded; waits until what was recorded before is committed, a second at most.
  void BreakLedger() const {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &database), SQLITE_OK);
    sqlite3_busy_timeout(database, 20'000);
    ASSERT_EQ(sqlite3_exec(database, "DROP TABLE event; DROP TABLE alignment", nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(database);
  }

  // What the session says at the end of an alignment in which the peer does as `peer` says, once the ledger has broken.
  template <typename Peer>
  absl::Status AlignWith(const Peer& peer) {
    AlignmentChannelPair pair(64);
    absl::Status verdict;
    std::thread label([&] { verdict = session_->Align(*pair.second); });
    while (LedgerValue(path_, "SELECT count(*) FROM alignment") != "1") {
      std::this_thread::yield();
    }
    BreakLedger();
    peer(*pair.first);
    label.join();
    return verdict;
  }

  void ExpectFailedInside(const absl::Status& told) {
    ASSERT_EQ(told.code(), absl::StatusCode::kInternal);
    EXPECT_EQ(told.message(), "the label party failed; its own log says why");
    const absl::Status outcome = session_->WaitUntilEnded([] { return false; });
    EXPECT_EQ(outcome.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(outcome.message()), HasSubstr(path_));
  }

  const std::string path_ = run_.files.File("label_party.db");
};

TEST_F(LabelSessionLedgerTest, ThatCannotTakeTheAlignedIdsEndsTheRun) {
  Open();
  ExpectFailedInside(AlignWith([&](AlignmentChannel& channel) {
    AlignmentOptions options;
    options.run_id = run_id_;
    EXPECT_TRUE(AlignIds(run_.nonlabel_data.ids, options, channel).ok());
  }));
}

TEST_F(LabelSessionLedgerTest, ThatCannotTakeAFailedAlignmentIsWhatEndsTheRun) {
  Open();
  ExpectFailedInside(AlignWith([&](AlignmentChannel& channel) {
    v1::AlignmentMessage malformed;
    malformed.set_run_id(run_id_);
    malformed.mutable_masked()->set_points("not a point");
    EXPECT_TRUE(channel.Send(malformed).ok());
  }));
}

TEST_F(LabelSessionLedgerTest, ThatCannotCountAnAlignmentLetsNoneBegin) {
  Open();
  BreakLedger();
  AlignmentChannelPair pair(4);
  ExpectFailedInside(session_->Align(*pair.second));
}

// Each alignment tries another list of ids, in whatever run.
TEST_F(LabelSessionLedgerTest, OfAsManyAlignmentsAsAllowedTakesNoOther) {
  run_.label_config.mutable_party()->set_max_alignments(1);
  Align();
  EXPECT_TRUE(IsStoppedOnRequest(session_->WaitUntilEnded([] { return true; })));
  Open();
  AlignmentChannelPair pair(4);
  const absl::Status refused = session_->Align(*pair.second);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("party.max_alignments"));
  EXPECT_THAT(std::string(refused.message()), ::testing::Not(HasSubstr(path_)));
  EXPECT_EQ(ExitCodeFor(session_->WaitUntilEnded([] { return false; })), ExitCode::kRefused);
}

// Without noise the first slice is answered before the step has a row: a peer that leaves then has gradients. It stands
// on the disk before the answer: this party may be killed at that moment.
TEST_F(LabelSessionLedgerTest, SaysThatGradientsWereSentBeforeTheFirstStepIsRecorded) {
  run_.agreement.set_wire_dtype(v1::FLOAT32);
  StartWithLongBatches(/*test_fraction=*/0);
  const Matrix values(schedule_->batch_rows(0), run_.agreement.cut_width());
  v1::CutActivations slice;
  slice.set_run_id(run_id_);
  ASSERT_TRUE(EncodeMatrix(ConstMatrixView(values).block(0, 256), v1::FLOAT32, *slice.mutable_activations()).ok());
  const absl::StatusOr<SharedGradients> answer = session_->Train(slice);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->size(), 1);
  EXPECT_EQ(LedgerValue(path_, "SELECT count(*) FROM step"), "0");
  EXPECT_EQ(LedgerValue(path_, "SELECT count(*) FROM event WHERE kind = 'first_slice_sent'"), "1");
}

// A protected batch is answered whole. A peer that takes the answer and never lets the call end has it, though its step
// is never recorded.
TEST_F(LabelSessionLedgerTest, SaysThatAnAnswerWasSentBeforeTheFirstStepIsRecorded) {
  run_.agreement.set_wire_dtype(v1::FLOAT32);
  run_.label_config.mutable_protection()->mutable_iso()->set_t(1);
  StartWithLongBatches(/*test_fraction=*/0);
  const int64_t rows = schedule_->batch_rows(0);
  const Matrix values(rows, run_.agreement.cut_width());
  for (int64_t first = 0; first < rows; first += 256) {
    EXPECT_EQ(LedgerValue(path_, "SELECT count(*) FROM event WHERE kind = 'first_slice_sent'"), "0");
    v1::CutActivations slice;
    slice.set_run_id(run_id_);
    slice.set_first_row(static_cast<uint32_t>(first));
    const ConstMatrixView block = ConstMatrixView(values).block(first, std::min<int64_t>(256, rows - first));
    ASSERT_TRUE(EncodeMatrix(block, v1::FLOAT32, *slice.mutable_activations()).ok());
    ASSERT_TRUE(session_->Train(slice).ok());
  }
  EXPECT_EQ(LedgerValue(path_, "SELECT count(*) FROM step"), "0");
  EXPECT_EQ(LedgerValue(path_, "SELECT count(*) FROM event WHERE kind = 'first_slice_sent'"), "1");
}

}  // namespace
}  // namespace splitveil::testing
