// The non-label party against a label party that answers honestly, and against one that does not.
#include "nonlabel_party/session/nonlabel_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

#include "common/process/exit_code.h"
#include "tests/testing/local_label_party.h"
#include "tests/testing/small_run.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

class NonLabelSessionTest : public ::testing::Test {
 protected:
  NonLabelSessionTest() : run_(300) {}

  absl::Status Run() {
    absl::StatusOr<std::unique_ptr<LabelSession>> session = LabelSession::Create(run_.LabelOptions());
    EXPECT_TRUE(session.ok()) << session.status();
    label_ = *std::move(session);
    LocalLabelParty peer(label_.get());
    if (alter_) {
      alter_(peer);
    }
    NonLabelSessionOptions options = run_.NonLabelOptions(&peer);
    options.stop = stop_;
    return NonLabelSession(std::move(options)).Run();
  }

  // What this answer of the label party leads to: the run is refused, exit 4, and says why.
  void ExpectRefusal(std::function<void(LocalLabelParty&)> alter, const std::string& text) {
    alter_ = std::move(alter);
    const absl::Status status = Run();
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(ExitCodeFor(status), ExitCode::kRefused) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_FALSE(label_->completed());
  }

  SmallRun run_;
  std::unique_ptr<LabelSession> label_;
  std::function<void(LocalLabelParty&)> alter_;
  bool (*stop_)() = [] { return false; };
};

TEST_F(NonLabelSessionTest, RunsToTheEnd) {
  EXPECT_TRUE(Run().ok());
  EXPECT_TRUE(label_->completed());
}

TEST_F(NonLabelSessionTest, RunsToTheEndWithSeveralBatchesInFlightAndHalfPrecision) {
  run_.agreement.set_in_flight_batches(3);
  run_.agreement.set_wire_dtype(v1::BFLOAT16);
  const absl::Status status = Run();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(label_->completed());
}

TEST_F(NonLabelSessionTest, RunsWithoutTestExamplesAndWithoutAudit) {
  run_.agreement.set_test_fraction(0);
  run_.agreement.mutable_audit()->clear_layers();
  EXPECT_TRUE(Run().ok());
}

TEST_F(NonLabelSessionTest, StopEndsBetweenSteps) {
  stop_ = [] { return true; };
  EXPECT_TRUE(Run().ok());
  EXPECT_FALSE(label_->completed());
}

TEST_F(NonLabelSessionTest, UnknownAuditLayerIsAnError) {
  run_.agreement.mutable_audit()->set_layers(1, "no_such_layer");
  const absl::Status status = Run();
  EXPECT_EQ(ExitCodeFor(status), ExitCode::kInvalidInput);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no_such_layer"));
}

TEST_F(NonLabelSessionTest, ModelThatDoesNotFitTheCutIsAnError) {
  run_.nonlabel_config.mutable_model()->mutable_layers(1)->set_units(5);
  EXPECT_EQ(ExitCodeFor(Run()), ExitCode::kInvalidInput);
}

TEST_F(NonLabelSessionTest, RefusesACommitmentOfAnotherLength) {
  ExpectRefusal(
      [](LocalLabelParty& peer) {
        peer.alter_open = [](v1::OpenResponse& response) { response.set_seed_commitment("short"); };
      },
      "commitment");
}

TEST_F(NonLabelSessionTest, RefusesARevealThatWasNotCommittedTo) {
  ExpectRefusal(
      [](LocalLabelParty& peer) {
        peer.alter_start = [](v1::StartResponse& response) { response.set_seed_reveal(std::string(32, 'x')); };
      },
      "");
}

TEST_F(NonLabelSessionTest, RefusesGradientsOfAnotherBatch) {
  ExpectRefusal(
      [](LocalLabelParty& peer) { peer.alter_gradients = [](v1::CutGradients& message) { message.set_batch(9); }; },
      "gradients");
}

TEST_F(NonLabelSessionTest, RefusesGradientsOfAnotherShape) {
  ExpectRefusal(
      [](LocalLabelParty& peer) {
        peer.alter_gradients = [](v1::CutGradients& message) { message.mutable_gradients()->set_shape(0, 1); };
      },
      "gradients");
}

TEST_F(NonLabelSessionTest, RefusesNonFiniteGradients) {
  ExpectRefusal(
      [](LocalLabelParty& peer) {
        peer.alter_gradients = [](v1::CutGradients& message) {
          const float infinity = std::numeric_limits<float>::infinity();
          message.mutable_gradients()->mutable_data()->replace(0, 4, reinterpret_cast<const char*>(&infinity), 4);
        };
      },
      "gradients");
}

TEST_F(NonLabelSessionTest, RefusesAHintOutsideTheBatch) {
  ExpectRefusal(
      [](LocalLabelParty& peer) {
        peer.alter_gradients = [](v1::CutGradients& message) {
          if (message.has_hint()) {
            message.mutable_hint()->set_row(1 << 20);
          }
        };
      },
      "hint");
}

TEST_F(NonLabelSessionTest, RefusesAnEvaluationOfOtherSize) {
  ExpectRefusal(
      [](LocalLabelParty& peer) {
        peer.alter_evaluation = [](v1::EvaluateResponse& response) { response.set_examples(1); };
      },
      "evaluation");
}

TEST_F(NonLabelSessionTest, EmptyIntersectionEndsTheRun) {
  for (std::string& id : run_.nonlabel_data.ids) {
    id += "-other";
  }
  EXPECT_FALSE(Run().ok());
  EXPECT_FALSE(label_->completed());
}

}  // namespace
}  // namespace splitveil::testing
