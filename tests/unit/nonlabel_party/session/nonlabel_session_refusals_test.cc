// The non-label party against a label party that answers what it was not asked, and with what does not fit its own
// model.
#include <cstdint>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <vector>

#include "common/process/exit_code.h"
#include "tests/unit/nonlabel_party/session/nonlabel_session_fixture.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

using NonLabelSessionRefusalsTest = NonLabelSessionTest;

TEST_F(NonLabelSessionRefusalsTest, OwnActivationsThatOverflowAreAnInternalError) {
  run_.agreement.set_wire_dtype(v1::FLOAT16);
  run_.nonlabel_config.mutable_party()->mutable_optimizer()->set_learning_rate(100);  // Beyond 65504 after a step.
  const absl::Status status = Run();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected finite values"));
  EXPECT_EQ(LedgerStatus(), "failed");
}

TEST_F(NonLabelSessionRefusalsTest, UnknownAuditLayerIsAnError) {
  run_.agreement.mutable_audit()->set_layers(1, "no_such_layer");
  const absl::Status status = Run();
  EXPECT_EQ(ExitCodeFor(status), ExitCode::kInvalidInput);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no_such_layer"));
}

TEST_F(NonLabelSessionRefusalsTest, ModelThatDoesNotFitTheCutIsAnError) {
  run_.nonlabel_config.mutable_model()->mutable_layers(1)->set_units(5);
  EXPECT_EQ(ExitCodeFor(Run()), ExitCode::kInvalidInput);
}

TEST_F(NonLabelSessionRefusalsTest, RefusesAnAnswerThatIsNotToTheQuestion) {
  struct Case {
    std::function<void(LocalLabelParty&)> alter;
    const char* text;  // Of the error.
  };
  const Case cases[] = {
      {[](LocalLabelParty& peer) {
         peer.alter_open = [](v1::OpenResponse& response) { response.set_seed_commitment("short"); };
       },
       "commitment"},
      {[](LocalLabelParty& peer) {
         peer.alter_open = [](v1::OpenResponse& response) { response.set_run_id(response.run_id() + "\n\x1b[2J"); };
       },
       "run name with 8 hexadecimal digits"},
      {[](LocalLabelParty& peer) {
         peer.alter_open = [](v1::OpenResponse& response) { response.set_run_id("another-0123abcd"); };
       },
       "run name with 8 hexadecimal digits"},
      {[](LocalLabelParty& peer) {
         peer.alter_start = [](v1::StartResponse& response) { response.set_seed_reveal(std::string(32, 'x')); };
       },
       "seed"},
      {[](LocalLabelParty& peer) {
         peer.alter_evaluation = [](v1::EvaluateResponse& response) { response.set_examples(1); };
       },
       "evaluation"},
      {[](LocalLabelParty& peer) {
         peer.alter_evaluation = [](v1::EvaluateResponse& response) {
           response.set_kept(v1::EvaluateResponse::EARLIER);
         };
       },
       "keeps an epoch that it never named"},
      {[](LocalLabelParty& peer) {
         peer.alter_evaluation = [](v1::EvaluateResponse& response) {
           response.set_kept(static_cast<v1::EvaluateResponse::Kept>(7));
         };
       },
       "keeps an epoch that it never named"},
      {Gradients([](v1::CutGradients& message) { message.set_batch(9); }), "gradients"},
      {Gradients([](v1::CutGradients& message) {
         const float enormous = 1e30f;  // Finite, but not once an optimiser has squared it.
         message.mutable_gradients()->mutable_data()->replace(
             0, sizeof(enormous), reinterpret_cast<const char*>(&enormous), sizeof(enormous));
       }),
       "from the label party: gradients.data: expected magnitudes below 1e+09"},
      {Gradients([](v1::CutGradients& message) { message.mutable_gradients()->set_shape(0, 1); }), "gradients"},
      {Gradients([](v1::CutGradients& message) {
         const float infinity = std::numeric_limits<float>::infinity();
         message.mutable_gradients()->mutable_data()->replace(0, 4, reinterpret_cast<const char*>(&infinity), 4);
       }),
       "gradients"},
      {Gradients([](v1::CutGradients& message) { message.set_frozen(true); }), "frozen"},
      // Outside the batch; another row than the hint's; twice; more than five; gradient or row alone.
      {Hints([](v1::CutGradients& message) {
         message.mutable_hint()->set_row(1 << 20);
         message.set_hint_rows(0, 1 << 20);
       }),
       "a row is outside the batch"},
      {Hints([](v1::CutGradients& message) { message.mutable_hint()->set_row(message.hint_rows(0) + 1); }),
       "the first of hint_rows"},
      {Hints([](v1::CutGradients& message) { message.add_hint_rows(message.hint_rows(0)); }), "hint"},
      {Hints([](v1::CutGradients& message) {
         message.clear_hint_rows();
         for (uint32_t row = 0; row < 6; ++row) {
           message.add_hint_rows((message.hint().row() + row) % 60);
         }
       }),
       "at most 5 rows"},
      {Hints([](v1::CutGradients& message) { message.clear_hint(); }),
       "a clean gradient and hint_rows must come together"},
      {Hints([](v1::CutGradients& message) { message.clear_hint_rows(); }),
       "a clean gradient and hint_rows must come together"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    ExpectRefusal(c.alter, c.text);
  }
}

TEST_F(NonLabelSessionRefusalsTest, RefusesSlicesThatDoNotMakeOneAnswer) {
  run_.agreement.set_batch_size(300);
  run_.agreement.set_test_fraction(0);
  const std::vector<std::function<void(v1::CutGradients&)>> alterations = {
      [](v1::CutGradients& message) { message.set_first_row(message.first_row() + 1); },
      [](v1::CutGradients& message) { message.set_frozen(message.first_row() > 0); },
      [](v1::CutGradients& message) {
        if (message.first_row() == 0) {
          message.add_hint_rows(1);
        }
      }};
  for (const auto& alteration : alterations) {
    ExpectRefusal(Gradients(alteration), "gradients");
  }
}

TEST_F(NonLabelSessionRefusalsTest, RefusesAHintThatWasNotGranted) {
  run_.agreement.mutable_audit()->clear_attacks();
  run_.agreement.mutable_audit()->add_attacks(v1::NORM);
  run_.agreement.mutable_audit()->set_disclosure(v1::LABEL_SIDE_ONLY);
  ExpectRefusal(Gradients([](v1::CutGradients& message) {
                  message.mutable_hint()->set_row(2);
                  message.add_hint_rows(2);
                }),
                "ORACLE");
}

TEST_F(NonLabelSessionRefusalsTest, RefusesGradientsOnceFrozen) {
  FreezeFrom(3, 4);
  ExpectRefusal(std::move(alter_), "frozen");
}

TEST_F(NonLabelSessionRefusalsTest, EmptyIntersectionEndsTheRun) {
  for (std::string& id : run_.nonlabel_data.ids) {
    id += "-other";
  }
  EXPECT_FALSE(Run().ok());
  EXPECT_FALSE(label_->completed());
}

TEST_F(NonLabelSessionRefusalsTest, TrainingStoppedBeforeItBeganIsRefused) {
  run_.agreement.set_test_fraction(0);
  run_.agreement.set_progressive_validation(true);
  ExpectRefusal(
      [](LocalLabelParty& peer) {
        peer.alter_evaluation = [](v1::EvaluateResponse& response) { response.set_stop_training(true); };
      },
      "expected training to follow");
}

}  // namespace
}  // namespace splitveil::testing
