// The non-label party against a label party that answers honestly, and against one that does not.
#include "nonlabel_party/session/nonlabel_session.h"

#include <algorithm>
#include <atomic>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "common/leakage/attack_traits.h"
#include "common/process/exit_code.h"
#include "common/schedule/train_test_split.h"
#include "tests/testing/local_label_party.h"
#include "tests/testing/small_run.h"
#include "tests/unit/nonlabel_party/session/ledger_value.h"

namespace splitveil::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::atomic<bool> stop_asked{false};  // A signal's flag is as global.

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
    summary_ = session.summary();
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
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
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
  std::optional<RunSummary> summary_;
  std::string stop_at_ = "never";
  bool stalls_alignment_ = false;
};

TEST_F(NonLabelSessionTest, RunsToTheEnd) {
  EXPECT_TRUE(Run().ok());
  EXPECT_TRUE(label_->completed());
}

TEST_F(NonLabelSessionTest, BothPartiesTellHowFarTheirAlignmentWas) {
  ASSERT_TRUE(Run().ok());
  const uint64_t ids = run_.label_data.ids.size() + run_.nonlabel_data.ids.size();
  for (const RunStatus* status : {&run_.label_status, &run_.nonlabel_status}) {
    EXPECT_EQ(status->Snapshot().ids_to_mask(), ids);
    EXPECT_EQ(status->Snapshot().masked_ids(), ids);
  }
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

TEST_F(NonLabelSessionTest, JudgesTheLabelPartysGuessesAtAttributes) {
  run_.AttackAttributes();
  const absl::Status status = Run();
  ASSERT_TRUE(status.ok()) << status;
  // Three attacks on the test examples in each of two epochs, POISON on the training examples, too.
  EXPECT_EQ(FromLedger("SELECT count(*) FROM attribute_leak"), "8");
  EXPECT_EQ(FromLedger("SELECT count(*) FROM attribute_leak WHERE examples = 'training' AND attack <> 'poison'"), "0");
  EXPECT_EQ(FromLedger("SELECT count(DISTINCT floor) FROM attribute_leak WHERE examples = 'test'"), "1");
  EXPECT_EQ(FromLedger("SELECT count(*) FROM event WHERE kind = 'attribute_queries'"), "2");
  const std::string label_ledger = run_.files.File("label_party.db");
  EXPECT_EQ(LedgerValue(label_ledger, "SELECT count(*) FROM event WHERE kind = 'attribute_queries'"), "2");
  EXPECT_EQ(LedgerValue(label_ledger, "SELECT count(*) FROM attribute_leak"), "0");
  ASSERT_TRUE(summary_.has_value());
  ASSERT_EQ(summary_->attribute_leaks.size(), 1);
  const AttributeLeakRow& strongest = summary_->attribute_leaks.front();
  EXPECT_EQ(strongest.attribute, "A1");
  EXPECT_GT(strongest.accuracy_low, strongest.floor);
  EXPECT_GT(strongest.accuracy, 0.9);
  EXPECT_THAT(RunSummaryTable(*summary_), HasSubstr("  attribute A1    "));
}

TEST_F(NonLabelSessionTest, TheProvedBoundCountsOneReleaseAnEpoch) {
  run_.nonlabel_config.mutable_protection()->mutable_gaussian();
  run_.nonlabel_config.mutable_protection()->set_noise_sigma(4);
  run_.nonlabel_config.mutable_protection()->set_clip_norm(1);
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(FromLedger("SELECT releases || ' ' || round(mu, 4) FROM activation_bound"), "2 0.7071");
}

TEST_F(NonLabelSessionTest, TheProvedBoundCountsOneReleaseMoreUnderProgressiveValidation) {
  run_.agreement.set_test_fraction(0);
  run_.agreement.set_progressive_validation(true);
  run_.nonlabel_config.mutable_protection()->mutable_gaussian();
  run_.nonlabel_config.mutable_protection()->set_noise_sigma(4);
  run_.nonlabel_config.mutable_protection()->set_clip_norm(1);
  const absl::Status status = Run();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(FromLedger("SELECT releases || ' ' || round(mu, 4) FROM activation_bound"), "3 0.866");
}

TEST_F(NonLabelSessionTest, WhatIsEvaluatedAndEmbeddedPassesTheGateAndIsRecorded) {
  run_.AttackAttributes();
  v1::ActivationProtection& protection = *run_.nonlabel_config.mutable_protection();
  protection.mutable_pareto()->set_threshold(100);
  protection.add_attributes("A1");
  protection.set_noise_sigma(1);
  const absl::Status status = Run();
  ASSERT_TRUE(status.ok()) << status;
  const std::string query = "SELECT group_concat(detail, '; ') FROM event WHERE kind = 'privacy_loss'";
  EXPECT_THAT(FromLedger(query), HasSubstr("largest of a batch of evaluated examples after epoch 1, nats: A1 0."));
  EXPECT_THAT(FromLedger(query), HasSubstr("largest of a batch of auxiliary examples after epoch 1, nats: A1 0."));
  EXPECT_EQ(FromLedger("SELECT count(*) FROM event WHERE kind = 'privacy_loss'"), "4");
}

TEST_F(NonLabelSessionTest, RecordsAgreedGuessesThatDoNotCome) {
  run_.AttackAttributes();
  alter_ = [](LocalLabelParty& peer) {
    peer.alter_guesses = [](std::vector<v1::AttributeGuesses>& all) { all.resize(1); };  // All of basic.
  };
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(FromLedger("SELECT detail FROM event WHERE kind = 'attribute_guesses' LIMIT 1"),
            "after epoch 0 none came from the label party: linear_probe at A1 of test examples, poison at A1 of test "
            "examples, poison at A1 of training examples");
  EXPECT_EQ(FromLedger("SELECT count(*) FROM event WHERE kind = 'attribute_guesses'"), "2");
}

TEST_F(NonLabelSessionTest, AuditsAttributesAfterEveryNthEpochAndTheLast) {
  run_.AttackAttributes();
  run_.agreement.set_epochs(3);
  run_.agreement.mutable_attribute_audit()->set_every_epochs(2);
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(FromLedger("SELECT group_concat(epoch) FROM (SELECT DISTINCT epoch FROM attribute_leak)"), "1,2");
}

TEST_F(NonLabelSessionTest, NeitherTrainsNorTestsOnAuxiliaryExamples) {
  run_.AttackAttributes();
  ASSERT_TRUE(Run().ok());
  const SplitRule rule(run_.agreement);
  int64_t training = 0;
  for (int i = 0; i < 300; ++i) {
    training += rule.PartOf(run_.nonlabel_data.ids[static_cast<size_t>(i)]) == SplitPart::kTraining ? 1 : 0;
  }
  EXPECT_LT(training, 220);
  EXPECT_EQ(FromLedger("SELECT sum(examples) FROM step WHERE epoch = 0"), std::to_string(training));
}

TEST_F(NonLabelSessionTest, RefusesGuessesThatAreNotWhatWasAskedFor) {
  run_.AttackAttributes();
  const auto guesses = [](std::function<void(std::vector<v1::AttributeGuesses>&)> alter) {
    return [alter](LocalLabelParty& peer) { peer.alter_guesses = alter; };
  };
  ExpectRefusal(guesses([](auto& all) { all[0].set_attribute("PLANTED"); }), "expected an agreed attack and attribute");
  ExpectRefusal(guesses([](auto& all) { all[0].set_attack(v1::SIMULATOR); }), "expected an agreed attack");
  ExpectRefusal(guesses([](auto& all) { all[0].set_examples(v1::AttributeGuesses::TRAINING); }), "expected TEST");
  ExpectRefusal(guesses([](auto& all) { all[0].set_examples(v1::AttributeGuesses::EXAMPLES_UNSPECIFIED); }),
                "expected TEST");
  ExpectRefusal(guesses([](auto& all) { all[0].set_first(1); }), "expected example 0 of");
  ExpectRefusal(guesses([](auto& all) { all.push_back(all[0]); }), "in the agreed order, each once");
  ExpectRefusal(guesses([](auto& all) { std::swap(all[0], all[1]); }), "in the agreed order, each once");
  ExpectRefusal(guesses([](auto& all) { all[0].mutable_scores()->set_shape(1, 3); }),
                "expected scores of the 2 values that A1 has in this party's schema, found 3");
  ExpectRefusal(guesses([](auto& all) { all[0].mutable_scores()->set_shape(0, 1); }), "attribute guesses");
  ExpectRefusal(guesses([](auto& all) { all[0].mutable_scores()->mutable_data()->pop_back(); }), "attribute guesses");
  ExpectRefusal(guesses([](auto& all) { all[0].mutable_scores()->mutable_data()->replace(0, 4, "\xff\xff\xff\xff"); }),
                "attribute guesses");
  EXPECT_EQ(FromLedger("SELECT count(*) FROM attribute_leak"), "0");
  ExpectRefusal([](LocalLabelParty& peer) { peer.alter_embedding = [](auto& answer) { answer.set_examples(1); }; },
                "auxiliary activations: expected");
}

TEST_F(NonLabelSessionTest, RefusesAgreedAttributesThatItDoesNotHaveBeforeAnythingIsSent) {
  run_.AttackAttributes();
  run_.known_attributes.attribute_values = {2, 2};
  for (std::vector<uint8_t>& row : run_.known_attributes.attributes) {
    row.push_back(0);
  }
  run_.agreement.mutable_attribute_audit()->add_attributes("A2");
  const absl::Status status = Run();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("attribute_audit.attributes: expected attributes of"));
  EXPECT_THAT(calls_, IsEmpty());
}

TEST_F(NonLabelSessionTest, ItsSummaryIsThatOfItsLedger) {
  ASSERT_TRUE(Run().ok());
  ASSERT_TRUE(summary_.has_value());
  EXPECT_EQ(summary_->ended, "completed");
  EXPECT_EQ(summary_->run_id, FromLedger("SELECT run_id FROM run"));
  EXPECT_EQ(summary_->epochs, 2);
  EXPECT_EQ(std::to_string(summary_->steps), FromLedger("SELECT count(*) FROM step"));
  EXPECT_EQ(std::to_string(summary_->examples), FromLedger("SELECT sum(examples) FROM step"));
  EXPECT_EQ(std::to_string(summary_->bytes_sent), FromLedger("SELECT sum(bytes_sent) FROM step"));
  EXPECT_EQ(std::to_string(summary_->bytes_received), FromLedger("SELECT sum(bytes_received) FROM step"));
  ASSERT_EQ(summary_->leaks.size(), 4U);  // Norm and cosine at two layers.
  const auto is_at_cut = [](const MeasuredAttack& leak) { return leak.layer == "cut"; };
  EXPECT_EQ(std::count_if(summary_->leaks.begin(), summary_->leaks.end(), is_at_cut), 2);
}

TEST_F(NonLabelSessionTest, TheSummaryTellsNoLeakThatIsNotDisclosed) {
  run_.agreement.mutable_audit()->clear_attacks();
  run_.agreement.mutable_audit()->add_attacks(v1::NORM);
  run_.agreement.mutable_audit()->set_disclosure(v1::LABEL_SIDE_ONLY);
  ASSERT_TRUE(Run().ok());
  ASSERT_TRUE(summary_.has_value());
  EXPECT_THAT(summary_->leaks, IsEmpty());
}

TEST_F(NonLabelSessionTest, ARunThatStopsInTheMiddleHasASummary) {
  ASSERT_EQ(ExitCodeFor(StopAt("Evaluate")), ExitCode::kStopped);
  ASSERT_TRUE(summary_.has_value());
  EXPECT_EQ(summary_->ended, "stopped");
  EXPECT_EQ(summary_->epochs, 1);
}

TEST_F(NonLabelSessionTest, StopBeforeTheRunOpensNothing) {
  EXPECT_EQ(ExitCodeFor(StopAt("")), ExitCode::kStopped);
  EXPECT_THAT(calls_, IsEmpty());
  EXPECT_FALSE(summary_.has_value());
}

TEST_F(NonLabelSessionTest, StopBeforeAlignmentEndsTheRun) {
  EXPECT_EQ(ExitCodeFor(StopAt("Open")), ExitCode::kStopped);
  EXPECT_THAT(calls_, ElementsAre("Open", "Close early"));
  EXPECT_EQ(LedgerStatus(), "stopped");
}

TEST_F(NonLabelSessionTest, StopInAlignmentCancelsIt) {
  stalls_alignment_ = true;
  EXPECT_EQ(ExitCodeFor(StopAt("Align")), ExitCode::kStopped);
  EXPECT_THAT(calls_, ElementsAre("Open", "Align", "Close early"));
  EXPECT_EQ(LedgerStatus(), "stopped");
}

TEST_F(NonLabelSessionTest, StopAfterAlignmentEndsTheRun) {
  EXPECT_EQ(ExitCodeFor(StopAt("Start")), ExitCode::kStopped);
  EXPECT_THAT(calls_, ElementsAre("Open", "Align", "Start", "Close early"));
  EXPECT_EQ(LedgerStatus(), "stopped");
}

TEST_F(NonLabelSessionTest, StopEndsBetweenSteps) {
  EXPECT_EQ(ExitCodeFor(StopAt("Train")), ExitCode::kStopped);
  EXPECT_THAT(calls_, ElementsAre("Open", "Align", "Start", "Train", "Close early"));
  EXPECT_EQ(LedgerStatus(), "stopped");
}

TEST_F(NonLabelSessionTest, StopEndsBetweenBatchesOfAnEvaluation) {
  run_.agreement.mutable_audit()->clear_layers();
  EXPECT_EQ(ExitCodeFor(StopAt("Evaluate")), ExitCode::kStopped);
  EXPECT_THAT(calls_, ElementsAre("Open", "Align", "Start", "Train", "Evaluate", "Close early"));
  EXPECT_EQ(LedgerStatus(), "stopped");
}

TEST_F(NonLabelSessionTest, WhatWasLearntIsRecordedWhereNoFurtherBatchIsTaken) {
  run_.agreement.set_in_flight_batches(2);
  run_.agreement.mutable_audit()->clear_layers();
  StopLabelPartyAtFirstAnswer();
  EXPECT_EQ(ExitCodeFor(Run()), ExitCode::kPeerUnreachable);
  ExpectStepsInBothLedgers(2);  // The second answer had left before.
}

TEST_F(NonLabelSessionTest, EveryAnswerThatHasLeftIsLearntFromWhereTheLabelPartyStops) {
  run_.agreement.set_in_flight_batches(3);
  run_.agreement.set_batch_size(20);  // Another batch to send is left when the stream is found ended.
  run_.agreement.mutable_audit()->clear_layers();
  StopLabelPartyAtFirstAnswer();
  EXPECT_EQ(ExitCodeFor(Run()), ExitCode::kPeerUnreachable);
  ExpectStepsInBothLedgers(3);
}

TEST_F(NonLabelSessionTest, WhatWasLearntIsRecordedWhereNoScoresAreTaken) {
  StopLabelPartyAtFirstAnswer();
  EXPECT_EQ(ExitCodeFor(Run()), ExitCode::kPeerUnreachable);
  ExpectStepsInBothLedgers(1);
}

TEST_F(NonLabelSessionTest, HaltByTheReleaseGateIsRecordedAsSuch) {
  run_.label_config.mutable_release()->set_max_step_auc_bound(0.6);  // No protection has no bound below 1.
  run_.label_config.mutable_release()->set_action(v1::HALT);
  EXPECT_EQ(ExitCodeFor(Run()), ExitCode::kHalted);
  EXPECT_EQ(LedgerStatus(), "halted");
}

TEST_F(NonLabelSessionTest, OwnActivationsThatOverflowAreAnInternalError) {
  run_.agreement.set_wire_dtype(v1::FLOAT16);
  run_.nonlabel_config.mutable_party()->mutable_optimizer()->set_learning_rate(100);  // Beyond 65504 after a step.
  const absl::Status status = Run();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected finite values"));
  EXPECT_EQ(LedgerStatus(), "failed");
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

TEST_F(NonLabelSessionTest, RefusesAnAnswerThatIsNotToTheQuestion) {
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
       "rows of the batch"},
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
      {Hints([](v1::CutGradients& message) { message.clear_hint(); }), "without the other"},
      {Hints([](v1::CutGradients& message) { message.clear_hint_rows(); }), "without the other"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    ExpectRefusal(c.alter, c.text);
  }
}

// All 300 examples are one batch: slices of 256 and 44 rows.
TEST_F(NonLabelSessionTest, TrainsAndAuditsBatchesInSlices) {
  run_.agreement.set_batch_size(300);
  run_.agreement.set_test_fraction(0);
  const absl::Status status = Run();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(label_->completed());
  // What it attacks is the whole batch: the label party judges a score for each of its rows.
  EXPECT_EQ(FromLedger("SELECT COUNT(*) > 0 FROM leak WHERE layer = 'first' AND attack = 'norm'"), "1");
  EXPECT_EQ(FromLedger("SELECT MAX(examples) FROM step"), "300");
}

TEST_F(NonLabelSessionTest, RefusesSlicesThatDoNotMakeOneAnswer) {
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

TEST_F(NonLabelSessionTest, RefusesAHintThatWasNotGranted) {
  run_.agreement.mutable_audit()->clear_attacks();
  run_.agreement.mutable_audit()->add_attacks(v1::NORM);
  run_.agreement.mutable_audit()->set_disclosure(v1::LABEL_SIDE_ONLY);
  ExpectRefusal(Gradients([](v1::CutGradients& message) {
                  message.mutable_hint()->set_row(2);
                  message.add_hint_rows(2);
                }),
                "ORACLE");
}

TEST_F(NonLabelSessionTest, EveryAttackOnABatchRunsAtEveryLayer) {
  run_.agreement.set_in_flight_batches(2);
  // Two batches an epoch. Of fewer rows one may have no positives but the five that are hinted, and then no AUC.
  run_.agreement.set_batch_size(120);
  run_.agreement.set_minimum_batch_size(60);
  run_.agreement.mutable_audit()->clear_attacks();
  for (const AttackTraits& traits : AllAttackTraits()) {
    if (!traits.once_per_run() && !traits.label_side_only()) {
      run_.agreement.mutable_audit()->add_attacks(traits.attack);
    }
  }
  const absl::Status status = Run();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(FromLedger("SELECT count(DISTINCT attack) FROM leak WHERE layer = 'cut'"), "20");
  EXPECT_EQ(FromLedger("SELECT count(DISTINCT attack) FROM leak WHERE layer = 'first'"), "16");
  EXPECT_EQ(FromLedger("SELECT count(*) FROM leak"), "144");  // 36 scores of each of 4 batches.
}

TEST_F(NonLabelSessionTest, AuditsEveryNthBatchOnly) {
  run_.agreement.mutable_audit()->set_every_batches(3);
  run_.agreement.mutable_audit()->add_attacks(v1::CUMULATIVE_SPECTRAL);
  const absl::Status status = Run();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(FromLedger("SELECT group_concat(step) FROM (SELECT DISTINCT step FROM leak ORDER BY step)"), "0,3,6");
}

TEST_F(NonLabelSessionTest, ThePhasesOfEveryStepAddUpToItsSeconds) {
  for (int in_flight : {1, 3}) {
    run_.agreement.set_in_flight_batches(in_flight);
    ASSERT_TRUE(Run().ok());
  }
  EXPECT_EQ(FromLedger("SELECT count(*) FROM step JOIN step_time USING (run_id, step) WHERE abs(seconds - (data + "
                       "forward + serialise + wire + wait + backward + protection + update_seconds + attacks)) < 1e-9"),
            "16");
  EXPECT_EQ(FromLedger("SELECT count(*) FROM step_time WHERE min(backward, update_seconds, attacks) > 0 AND "
                       "protection = 0"),
            "16");
}

TEST_F(NonLabelSessionTest, EveryStepSaysTheBytesOfItsOwnMessages) {
  run_.agreement.set_in_flight_batches(3);
  run_.agreement.set_test_fraction(0);
  ASSERT_TRUE(Run().ok());
  // Both messages hold a float32 tensor of the batch, and little else.
  EXPECT_EQ(FromLedger("SELECT count(*) FROM step WHERE bytes_sent NOT BETWEEN examples * 32 AND examples * 32 + 100 "
                       "OR bytes_received NOT BETWEEN examples * 32 AND examples * 32 + 200"),
            "0");
}

TEST_F(NonLabelSessionTest, AFrozenBottomModelStaysAsItIs) {
  ASSERT_EQ(ExitCodeFor(StopAt("Start")), ExitCode::kStopped);
  const NamedParameters initial = trained_;
  stop_at_ = "never";
  stop_asked = false;
  run_.agreement.set_in_flight_batches(2);
  FreezeFrom(0);
  const absl::Status status = Run();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(label_->completed());
  EXPECT_EQ(trained_, initial);
  EXPECT_EQ(FromLedger("SELECT count(*) FROM step"), "8");
  EXPECT_EQ(FromLedger("SELECT count(*) FROM leak"), "0");
  EXPECT_THAT(FromLedger("SELECT group_concat(detail) FROM event WHERE kind = 'frozen'"),
              StartsWith("from epoch 1, batch 1 on no gradient comes"));
}

TEST_F(NonLabelSessionTest, AFreezeInTheMiddleEndsLearningThere) {
  run_.agreement.mutable_audit()->add_attacks(v1::ACTIVATION_CLUSTERS);
  FreezeFrom(5);
  const absl::Status status = Run();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(FromLedger("SELECT max(step) FROM leak"), "4");
  EXPECT_THAT(FromLedger("SELECT group_concat(detail) FROM event WHERE kind = 'frozen'"),
              StartsWith("from epoch 2, batch 2 on no gradient comes"));
}

TEST_F(NonLabelSessionTest, RefusesGradientsOnceFrozen) {
  FreezeFrom(3, 4);
  ExpectRefusal(std::move(alter_), "frozen");
}

TEST_F(NonLabelSessionTest, EmptyIntersectionEndsTheRun) {
  for (std::string& id : run_.nonlabel_data.ids) {
    id += "-other";
  }
  EXPECT_FALSE(Run().ok());
  EXPECT_FALSE(label_->completed());
}

TEST_F(NonLabelSessionTest, TrainingStoppedBeforeItBeganIsRefused) {
  run_.agreement.set_test_fraction(0);
  run_.agreement.set_progressive_validation(true);
  ExpectRefusal(
      [](LocalLabelParty& peer) {
        peer.alter_evaluation = [](v1::EvaluateResponse& response) { response.set_stop_training(true); };
      },
      "expected training to follow");
}

TEST_F(NonLabelSessionTest, StopsWhereTheLabelPartySaysSo) {
  alter_ = [](LocalLabelParty& peer) {
    peer.alter_evaluation = [](v1::EvaluateResponse& response) { response.set_stop_training(true); };
  };
  EXPECT_FALSE(Run().ok());  // This label party did not mean it, and refuses to close.
  EXPECT_EQ(FromLedger("SELECT max(epoch) FROM step"), "0");
}

}  // namespace
}  // namespace splitveil::testing
