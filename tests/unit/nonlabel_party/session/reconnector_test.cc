// What becomes of a lost connection.
#include "nonlabel_party/session/reconnector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "common/process/exit_code.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

absl::Status ConnectionLost() { return absl::UnavailableError("connection reset"); }

class ReconnectorTest : public ::testing::Test {
 protected:
  Reconnector Make(absl::Duration max_outage) {
    return Reconnector({max_outage, [](SteadyTime) { return absl::OkStatus(); }, &stop_,
                        [this](const char* kind, const std::string& detail) {
                          recorded_.push_back(detail);
                          kinds_.emplace_back(kind);
                          return absl::OkStatus();
                        }});
  }

  StopRequest stop_{[] { return stopped; }};
  std::vector<std::string> recorded_, kinds_;
  static inline bool stopped = false;
};

TEST_F(ReconnectorTest, AnInterruptionLastsFromTheFirstFailureToTheNextSuccess) {
  Reconnector reconnector = Make(absl::Seconds(60));
  ASSERT_TRUE(reconnector.Reached().ok());
  EXPECT_TRUE(recorded_.empty());
  int attempts = 0;
  EXPECT_EQ(*reconnector.Persist(
                [&]() -> absl::StatusOr<int> { return ++attempts < 4 ? absl::StatusOr<int>(ConnectionLost()) : 7; }),
            7);
  EXPECT_EQ(attempts, 4);
  ASSERT_EQ(recorded_.size(), 1);
  EXPECT_THAT(recorded_[0], HasSubstr("s without the label party"));
}

TEST_F(ReconnectorTest, AnAnswerThatTakesFarLongerThanUsualIsAStall) {
  Reconnector reconnector = Make(absl::Seconds(60));
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(reconnector.Waited(0.1).ok());
  }
  EXPECT_TRUE(kinds_.empty());
  EXPECT_TRUE(reconnector.Waited(6.04).ok());
  EXPECT_EQ(kinds_, std::vector<std::string>{"stalled"});
  EXPECT_EQ(recorded_, std::vector<std::string>{"6.0 s without the label party, the connection held"});
}

TEST_F(ReconnectorTest, GivesUpAfterTheAgreedOutage) {
  Reconnector reconnector = Make(absl::Milliseconds(200));
  const absl::Status status = reconnector.Persist([] { return ConnectionLost(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("did not come back within 200ms"));
  ASSERT_EQ(recorded_.size(), 1);
  EXPECT_THAT(recorded_[0], HasSubstr("given up"));
}

TEST_F(ReconnectorTest, AStopEndsTheWait) {
  Reconnector reconnector = Make(absl::Hours(1));
  int attempts = 0;
  const absl::Status status = reconnector.Persist([&] {
    stopped = ++attempts == 2;
    return ConnectionLost();
  });
  stopped = false;
  EXPECT_TRUE(IsStoppedOnRequest(status)) << status;
}

TEST_F(ReconnectorTest, WhatTheLabelPartyDecidedIsNotAskedAgain) {
  Reconnector reconnector = Make(absl::Hours(1));
  int attempts = 0;
  EXPECT_EQ(reconnector
                .Persist([&] {
                  ++attempts;
                  return absl::FailedPreconditionError("another run");
                })
                .message(),
            "another run");
  EXPECT_EQ(attempts, 1);
}

}  // namespace
}  // namespace splitveil::testing
