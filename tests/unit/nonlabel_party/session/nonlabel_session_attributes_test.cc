// The other direction: what the label party guesses at attributes, and what is proved of the activations.
#include <cmath>
#include <cstdint>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/checkpoint/checkpoint.h"
#include "common/operations/run_summary.h"
#include "common/privacy/gaussian_privacy.h"
#include "common/schedule/train_test_split.h"
#include "tests/unit/nonlabel_party/session/nonlabel_session_fixture.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

using NonLabelSessionAttributesTest = NonLabelSessionTest;

TEST_F(NonLabelSessionAttributesTest, JudgesTheLabelPartysGuessesAtAttributes) {
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
  ASSERT_TRUE(figures_.has_value());
  ASSERT_EQ(figures_->attribute_leaks.size(), 1);
  const AttributeLeakRow& strongest = figures_->attribute_leaks.front();
  EXPECT_EQ(strongest.attribute, "A1");
  EXPECT_GT(strongest.accuracy_low, strongest.floor);
  EXPECT_GT(strongest.accuracy, 0.9);
  EXPECT_THAT(RunSummaryTable(*figures_, "", true), HasSubstr("  attribute A1    "));
}

// Noise whose mu is 0.5 a release, with its account; only the cut is scored.
class ActivationAccountRunTest : public NonLabelSessionTest {
 protected:
  ActivationAccountRunTest() {
    run_.nonlabel_config.mutable_protection()->mutable_gaussian();
    run_.nonlabel_config.mutable_protection()->set_noise_sigma(4);
    run_.nonlabel_config.mutable_protection()->set_clip_norm(1);
    run_.nonlabel_config.mutable_privacy_account()->set_path(run_.files.File("features.account.db"));
    run_.agreement.mutable_audit()->clear_layers();
    run_.agreement.mutable_audit()->add_layers("cut");
  }
  std::string AllRuns() const {
    return FromLedger(
        "SELECT group_concat(examples || ' ' || round(auc_bound, 6), '; ') FROM (SELECT * FROM all_runs ORDER BY "
        "auc_bound)");
  }
  static std::string Bound(double sum_of_squares) {
    return absl::StrFormat("%.6g", GaussianPrivacy::FromMu(std::sqrt(sum_of_squares))->AucBound());
  }
};

TEST_F(ActivationAccountRunTest, TheProvedBoundCountsOneReleaseAnEpochAndAllRunsAddUp) {
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(FromLedger("SELECT releases || ' ' || round(mu, 4) FROM activation_bound"), "2 0.7071");
  EXPECT_EQ(AllRuns(), "300 " + Bound(0.5));
  ASSERT_TRUE(figures_.has_value());
  EXPECT_THAT(
      RunSummaryTable(*figures_, "", false),
      HasSubstr("  features        guaranteed given the bottom model: AUC of any attribute at most 0.692 in this "
                "run, 0.692 over all that its account has counted\n"));
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(AllRuns(), absl::StrCat("300 ", Bound(0.5), "; 300 ", Bound(1)));
}

TEST_F(ActivationAccountRunTest, TheProvedBoundCountsOneReleaseMoreUnderProgressiveValidation) {
  run_.agreement.set_test_fraction(0);
  run_.agreement.set_progressive_validation(true);
  const absl::Status status = Run();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(FromLedger("SELECT releases || ' ' || round(mu, 4) FROM activation_bound"), "3 0.866");
  EXPECT_EQ(AllRuns(), "300 " + Bound(0.75));
}

TEST_F(ActivationAccountRunTest, ARunPastTheLimitIsHaltedBeforeAnythingIsSent) {
  run_.nonlabel_config.mutable_privacy_account()->set_max_lifetime_auc_bound(0.75);
  ASSERT_TRUE(Run().ok());
  calls_.clear();
  const absl::Status status = Run();
  EXPECT_EQ(ExitCodeFor(status), ExitCode::kHalted) << status;
  EXPECT_EQ(calls_, (std::vector<std::string>{"Open", "Align", "Start", "Close early"}));
  EXPECT_EQ(FromLedger("SELECT count(*) FROM run WHERE status = 'halted'"), "1");
  // One that the limit never admits says so before the first message.
  run_.nonlabel_config.mutable_protection()->set_noise_sigma(1);
  calls_.clear();
  EXPECT_EQ(ExitCodeFor(Run()), ExitCode::kHalted);
  EXPECT_TRUE(calls_.empty());
}

// A process that is killed at its first answer has sent activations already, and its ledger says how much they tell.
TEST_F(ActivationAccountRunTest, TheBoundIsOnTheDiskBeforeAnythingIsSent) {
  std::string at_the_first_answer;
  alter_ = Gradients([&](const v1::CutGradients&) {
    if (at_the_first_answer.empty()) {
      at_the_first_answer = FromLedger(
          "SELECT (SELECT count(*) FROM activation_bound) || (SELECT count(*) FROM all_runs) || "
          "(SELECT count(*) FROM event WHERE kind = 'releases_follow')");
    }
  });
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(at_the_first_answer, "111");
}

// The second epoch's batches after the first would be released again, with noise of their own.
TEST_F(ActivationAccountRunTest, ALabelPartyThatAnswersDifferentlyAfterAnInterruptionGetsNoSecondRelease) {
  const std::string label = run_.files.File("label.checkpoint"), nonlabel = run_.files.File("nonlabel.checkpoint");
  run_.label_checkpoints.path = label;
  run_.nonlabel_checkpoints.path = nonlabel;
  ASSERT_TRUE(run_.label_checkpoints.UseData(*run_.LabelDataset(), run_.agreement).ok());
  ASSERT_TRUE(run_.nonlabel_checkpoints.UseData(*run_.NonLabelDataset(), run_.agreement).ok());
  const auto in_second_epoch = [](uint32_t batch, std::function<void(v1::CutGradients&)> act) {
    return Gradients([batch, act](v1::CutGradients& message) {
      if (message.epoch() == 1 && message.batch() == batch) {
        act(message);
      }
    });
  };
  alter_ = in_second_epoch(2, [](v1::CutGradients&) { stop_asked = true; });
  ASSERT_TRUE(IsStoppedOnRequest(Run()));
  const auto resume = [&] {
    stop_asked = false;
    run_.label_checkpoints.unfinished = {*Checkpoint::Open(label)};
    run_.label_checkpoints.interrupted = run_.label_checkpoints.unfinished.front();
    run_.nonlabel_checkpoints.unfinished = {*Checkpoint::Open(nonlabel)};
    return Run();
  };
  alter_ =
      in_second_epoch(0, [](v1::CutGradients& message) { message.mutable_gradients()->mutable_data()->back() ^= 1; });
  const absl::Status status = resume();
  EXPECT_EQ(ExitCodeFor(status), ExitCode::kHalted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("batch 2 of epoch 2 was sent before with other activations"));
  alter_ = nullptr;
  const v1::ActivationProtection begun = run_.nonlabel_config.protection();
  run_.nonlabel_config.mutable_protection()->set_noise_sigma(100);
  const absl::Status changed = resume();
  EXPECT_TRUE(absl::IsInvalidArgument(changed)) << changed;
  EXPECT_THAT(std::string(changed.message()), HasSubstr("protection: the interrupted run began with gaussian("));
  EXPECT_EQ(AllRuns(), "300 " + Bound(0.5));  // The ledger keeps what was released.
  *run_.nonlabel_config.mutable_protection() = begun;
  const absl::Status repeated = resume();  // The same answers, the same bytes.
  EXPECT_TRUE(repeated.ok()) << repeated;
  EXPECT_EQ(AllRuns(), "300 " + Bound(0.5));
  EXPECT_EQ(FromLedger("SELECT releases FROM activation_bound"), "2");
}

TEST_F(NonLabelSessionAttributesTest, WhatIsEvaluatedAndEmbeddedPassesTheGateAndIsRecorded) {
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

TEST_F(NonLabelSessionAttributesTest, RecordsAgreedGuessesThatDoNotCome) {
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

TEST_F(NonLabelSessionAttributesTest, AuditsAttributesAfterEveryNthEpochAndTheLast) {
  run_.AttackAttributes();
  run_.agreement.set_epochs(3);
  run_.agreement.mutable_attribute_audit()->set_every_epochs(2);
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(FromLedger("SELECT group_concat(epoch) FROM (SELECT DISTINCT epoch FROM attribute_leak)"), "1,2");
}

TEST_F(NonLabelSessionAttributesTest, NeitherTrainsNorTestsOnAuxiliaryExamples) {
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

TEST_F(NonLabelSessionAttributesTest, RefusesGuessesThatAreNotWhatWasAskedFor) {
  run_.AttackAttributes();
  const auto guesses = [](std::function<void(std::vector<v1::AttributeGuesses>&)> alter) {
    return [alter](LocalLabelParty& peer) { peer.alter_guesses = alter; };
  };
  ExpectRefusal(guesses([](auto& all) { all[0].set_attribute("PLANTED"); }),
                "the attack or the attribute is not agreed");
  ExpectRefusal(guesses([](auto& all) { all[0].set_attack(v1::SIMULATOR); }),
                "the attack or the attribute is not agreed");
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

TEST_F(NonLabelSessionAttributesTest, RefusesAgreedAttributesThatItDoesNotHaveBeforeAnythingIsSent) {
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

}  // namespace
}  // namespace splitveil::testing
