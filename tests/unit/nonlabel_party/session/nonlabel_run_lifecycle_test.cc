#include "nonlabel_party/session/nonlabel_run_lifecycle.h"

#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "common/process/exit_code.h"
#include "nonlabel_party/session/nonlabel_session.h"
#include "tests/testing/local_label_party.h"
#include "tests/testing/small_run.h"
#include "tests/unit/nonlabel_party/session/ledger_value.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

class MeasuredRunTest : public ::testing::Test {
 protected:
  MeasuredRunTest() : run_(300) { run_.agreement.set_in_flight_batches(0); }

  absl::Status Run(const std::function<void(LocalLabelParty&)>& alter = {}) {
    label_ = *LabelSession::Create(run_.LabelOptions());
    LocalLabelParty peer(label_.get());
    if (alter) {
      alter(peer);
    }
    return NonLabelSession(run_.NonLabelOptions(&peer)).Run();
  }

  void HaveManyBatches() {
    run_.agreement.set_batch_size(4);
    run_.agreement.set_minimum_batch_size(4);
  }
  std::string Chosen() {
    return LedgerValue(run_.files.File("nonlabel_party.db"),
                       "SELECT detail FROM event WHERE kind = 'in_flight_batches'");
  }

  SmallRun run_;
  std::unique_ptr<LabelSession> label_;
};

TEST_F(MeasuredRunTest, BothPartiesTrainWithWhatTheLinkAsksFor) {
  HaveManyBatches();
  const absl::Status status = Run();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(label_->completed());
  EXPECT_THAT(Chosen(), MatchesRegex("[23] batches; a round trip takes .*"));
}

// The checkpoint keeps what is chosen.
TEST_F(MeasuredRunTest, AStallDoesNotPassForTheLink) {
  HaveManyBatches();
  int answers = 0;
  const absl::Status status = Run([&](LocalLabelParty& peer) {
    peer.alter_measurement = [&](auto& /*response*/) {
      if (++answers == 1) {
        absl::SleepFor(absl::Milliseconds(2100));
      }
    };
  });
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Chosen(), MatchesRegex("[23] batches; a round trip takes [0-9.]+[num]s, .*"));
}

TEST_F(MeasuredRunTest, OneWhereAnEpochHasFewBatchesWithoutMeasuring) {
  int answers = 0;
  const absl::Status status =
      Run([&](LocalLabelParty& peer) { peer.alter_measurement = [&](auto& /*response*/) { ++answers; }; });
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(Chosen(), StartsWith("1 batch; "));
  EXPECT_EQ(answers, 0);
}

TEST_F(MeasuredRunTest, AnAnswerOfAnotherSizeIsRefused) {
  HaveManyBatches();
  const absl::Status status =
      Run([](LocalLabelParty& peer) { peer.alter_measurement = [](auto& response) { response.set_padding("x"); }; });
  EXPECT_EQ(ExitCodeFor(status), ExitCode::kRefused) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("MeasureLink: expected"));
}

// As a peer would that has another program.
class MeasuredLabelSessionTest : public MeasuredRunTest {
 protected:
  // What Start of a hand-made run says with so many batches in flight; measurements before it.
  absl::Status StartWith(uint32_t in_flight_batches, uint32_t agreed, int measurements = 0, uint32_t answer_bytes = 0) {
    run_.agreement.set_in_flight_batches(static_cast<int32_t>(agreed));
    absl::Status refused;
    const absl::Status outcome = Run([&](LocalLabelParty& peer) {
      peer.alter_start_request = [this, in_flight_batches, measurements, answer_bytes,
                                  &refused](v1::StartRequest& request) {
        for (int i = 0; i < measurements && refused.ok(); ++i) {
          v1::MeasureLinkRequest measurement;
          measurement.set_run_id(request.run_id());
          measurement.set_answer_bytes(answer_bytes);
          refused = label_->MeasureLink(measurement).status();
        }
        request.set_in_flight_batches(in_flight_batches);
      };
    });
    return refused.ok() ? outcome : refused;
  }
};

TEST_F(MeasuredLabelSessionTest, WhatIsNotAgreedIsRefused) {
  EXPECT_TRUE(StartWith(3, 3).ok());
  EXPECT_THAT(std::string(StartWith(2, 3).message()), HasSubstr("in_flight_batches"));
  EXPECT_THAT(std::string(StartWith(33, 0).message()), HasSubstr("in_flight_batches"));  // At most 32.
  EXPECT_THAT(std::string(StartWith(0, 0).message()), HasSubstr("in_flight_batches"));
}

TEST_F(MeasuredLabelSessionTest, MeasurementsAreAnsweredWithinLimits) {
  EXPECT_EQ(StartWith(3, 3, 1).code(), absl::StatusCode::kFailedPrecondition);  // None is agreed.
  EXPECT_EQ(StartWith(2, 0, 1, 1u << 31).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(StartWith(2, 0, RunOpening::kMostMeasurements + 1).code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace splitveil::testing
