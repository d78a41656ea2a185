// Requests in any order, honest ones damaged, at seeded random: what is no honest one is refused with a code that says
// so, and the run goes on with the next honest one.
#include <cstdlib>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "common/process/steady_time.h"
#include "tests/unit/label_party/session/label_session_fixture.h"

namespace splitveil::testing {
namespace {

bool IsVerdict(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kOutOfRange:
      return true;
    default:
      return false;
  }
}

class RequestSequenceFuzzTest : public LabelSessionTest {
 protected:
  uint32_t Below(uint32_t limit) { return static_cast<uint32_t>(random_() % limit); }
  bool Rarely() { return Below(8) == 0; }

  // `message` with some of its bytes changed; as it is where that is no message any more.
  template <typename Message>
  Message Damaged(const Message& message) {
    std::string bytes = message.SerializeAsString();
    for (uint32_t edits = Below(3); edits > 0 && !bytes.empty(); --edits) {
      bytes[random_() % bytes.size()] ^= static_cast<char>(1U << Below(8));
    }
    Message damaged;
    return damaged.ParseFromString(bytes) ? damaged : message;
  }

  v1::CutActivations AnyActivations() {
    const float scales[] = {1, 0, -1, 1e-42F, 1e6F, 1e30F, std::numeric_limits<float>::infinity()};
    const int64_t rows[] = {schedule_->batch_rows(0), 1, 2, 63, 256};
    v1::CutActivations message = ActivationsOf(
        Below(3), Below(static_cast<uint32_t>(schedule_->batches_per_epoch()) + 1), rows[Below(5)], scales[Below(5)]);
    if (Rarely()) {
      message.set_first_row(Below(300));
    }
    if (Rarely()) {
      message.set_run_id("another");
    }
    return Rarely() ? Damaged(message) : message;
  }

  absl::Status SendAny() {
    switch (Below(8)) {
      case 0:
        return session_->Open(Damaged(OpenRequest())).status();
      case 1:
        return session_->Start(Damaged(StartRequest())).status();
      case 2: {
        LabelSession::Evaluation evaluation;
        absl::Status status = session_->Evaluate(AnyActivations(), evaluation);
        return status.ok() ? session_->FinishEvaluation(evaluation).status() : status;
      }
      case 3:
        return session_->ScoreBatch(Damaged(Scores(Below(2), Below(4)))).status();
      case 4: {
        v1::AuxiliaryLabelsRequest request;
        request.set_run_id(run_id_);
        return session_->AuxiliaryLabels(request).status();
      }
      case 5: {
        v1::ScoreExamplesRequest request;
        request.set_run_id(run_id_);
        request.set_first(Below(400));
        return session_->ScoreExamples(request).status();
      }
      default: {
        v1::CutActivations message = AnyActivations();
        if (message.epoch() == 0 && message.batch() == due_) {
          message.set_batch(due_ + 1);  // The batch that is due is sent honestly, below.
        }
        return session_->Train(std::move(message)).status();
      }
    }
  }

  std::mt19937_64 random_;
  uint32_t due_ = 0;  // Of epoch 0.
};

// One sequence, or for as many seconds as SPLITVEIL_FUZZ_SECONDS says (under the preset `asan`, say), each of another
// seed.
TEST_F(RequestSequenceFuzzTest, WhateverIsSentTheNextHonestBatchIsAnswered) {
  run_.agreement.set_batch_size(16);  // 15 batches.
  const char* const seconds = std::getenv("SPLITVEIL_FUZZ_SECONDS");
  const SteadyTime deadline = SteadyAfter(absl::Seconds(seconds == nullptr ? 0 : std::atof(seconds)));
  uint64_t seed = 29;
  do {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Start();
    random_.seed(seed++);
    for (due_ = 0; due_ < schedule_->batches_per_epoch(); ++due_) {
      for (int i = 0; i < 100; ++i) {
        const absl::Status status = SendAny();
        ASSERT_TRUE(IsVerdict(status.code())) << "batch " << due_ << ", request " << i << ": " << status;
      }
      const absl::StatusOr<SharedGradients> answer = session_->Train(Activations(0, due_));
      ASSERT_TRUE(answer.ok()) << "batch " << due_ << ": " << answer.status();
      ASSERT_TRUE(session_->Learn().ok());
    }
    EXPECT_EQ(session_->report()->summary.steps, schedule_->batches_per_epoch());
  } while (SteadyNow() < deadline);
  RecordProperty("sequences", static_cast<int>(seed - 29));
}

}  // namespace
}  // namespace splitveil::testing
