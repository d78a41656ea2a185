// Calls of the attribute audit at the label party: which may come when, and what of them is refused.
#include "label_party/training/attribute_audit.h"

#include <algorithm>
#include <atomic>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/label_party/session/label_session_life_fixture.h"
#include "tests/unit/nonlabel_party/session/ledger_value.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class AttributeAuditTest : public LabelSessionLifeTest {
 protected:
  AttributeAuditTest() { run_.AttackAttributes(); }

  // What an honest peer sends.
  LabelSession::Embedding EmbedAll(uint32_t epoch, int64_t examples) {
    LabelSession::Embedding embedding;
    uint32_t batch = 0;
    for (int64_t done = 0; done < examples; done += run_.agreement.batch_size(), ++batch) {
      const int64_t rows = std::min<int64_t>(run_.agreement.batch_size(), auxiliary_examples_ - done);
      const absl::Status status = session_->EmbedAuxiliary(ActivationsOf(epoch, batch, rows), embedding);
      EXPECT_TRUE(status.ok()) << status;
    }
    return embedding;
  }
  absl::StatusOr<SharedGuesses> Guess(uint32_t epoch) {
    v1::GuessAttributesRequest request;
    request.set_run_id(run_id_);
    request.set_epoch(epoch);
    return session_->GuessAttributes(request);
  }
  static std::vector<std::string> Bytes(const absl::StatusOr<SharedGuesses>& guesses) {
    std::vector<std::string> bytes;
    EXPECT_TRUE(guesses.ok()) << guesses.status();
    for (const v1::AttributeGuesses& message : guesses.ok() ? **guesses : std::vector<v1::AttributeGuesses>()) {
      bytes.push_back(message.SerializeAsString());
    }
    return bytes;
  }
  absl::Status EmbedOne(const v1::CutActivations& message) {
    LabelSession::Embedding embedding;
    return session_->EmbedAuxiliary(message, embedding);
  }
};

void Expect(const absl::Status& status, absl::StatusCode code, const std::string& text) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

TEST_F(AttributeAuditTest, GuessesOnceTheEpochIsEvaluatedAndTheAuxiliaryActivationsHaveCome) {
  Start();
  Expect(EmbedOne(ActivationsOf(0, 0, 1)), absl::StatusCode::kFailedPrecondition, "the epoch just evaluated");
  Expect(Guess(0).status(), absl::StatusCode::kFailedPrecondition, "the epoch just evaluated");
  TrainEpoch(0);
  Expect(EmbedOne(ActivationsOf(0, 0, 1)), absl::StatusCode::kFailedPrecondition, "the epoch just evaluated");
  ASSERT_TRUE(session_->FinishEvaluation(EvaluateAll(0)).ok());
  Expect(Guess(0).status(), absl::StatusCode::kFailedPrecondition, "expected EmbedAuxiliary of epoch 0 before");
  Expect(EmbedOne(ActivationsOf(1, 0, 1)), absl::StatusCode::kFailedPrecondition, "the epoch just evaluated");
  ASSERT_TRUE(session_->FinishEmbedding(EmbedAll(0, auxiliary_examples_)).ok());
  const absl::StatusOr<SharedGuesses> guesses = Guess(0);
  ASSERT_TRUE(guesses.ok()) << guesses.status();
  ASSERT_EQ((*guesses)->size(), 4);  // Three attacks on test examples, POISON on training examples, too.
  EXPECT_EQ((*guesses)->front().attack(), v1::BASIC);
  EXPECT_EQ((*guesses)->front().scores().shape(0), test_examples_);
  EXPECT_EQ((*guesses)->front().scores().shape(1), 2);
  EXPECT_EQ((*guesses)->back().examples(), v1::AttributeGuesses::TRAINING);
  TrainAndEvaluate(1);  // The run goes on.
}

TEST_F(AttributeAuditTest, AnswersWhatIsRepeatedAsBefore) {
  Start();
  TrainAndEvaluate(0);
  ASSERT_TRUE(session_->FinishEmbedding(EmbedAll(0, auxiliary_examples_)).ok());
  const absl::StatusOr<SharedGuesses> first = Guess(0);
  ASSERT_TRUE(first.ok());
  LabelSession::Embedding again;
  ASSERT_TRUE(session_->EmbedAuxiliary(ActivationsOf(0, 0, 3, /*scale=*/7), again).ok());  // Not looked at.
  absl::Status further;
  for (int64_t batch = 1; batch <= auxiliary_examples_ && further.ok(); ++batch) {  // Nor taken without end.
    further = session_->EmbedAuxiliary(ActivationsOf(0, static_cast<uint32_t>(batch), 3), again);
  }
  Expect(further, absl::StatusCode::kFailedPrecondition, "expected no more examples");
  const absl::StatusOr<v1::EmbedAuxiliaryResponse> response = session_->FinishEmbedding(again);
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->examples(), auxiliary_examples_);
  const absl::StatusOr<SharedGuesses> second = Guess(0);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(first->get(), second->get());
}

// The decoders of POISON have learnt from the epoch before, and the checkpoint between the two follows its guesses.
TEST_F(AttributeAuditTest, AContinuedRunMakesTheGuessesThatItWouldHaveMade) {
  ASSERT_TRUE(run_.label_checkpoints.UseData(*run_.LabelDataset(), run_.agreement).ok());
  run_.label_checkpoints.path = path_;
  Start();
  const auto attack = [&](uint32_t epoch) {
    TrainAndEvaluate(epoch);
    EXPECT_TRUE(session_->FinishEmbedding(EmbedAll(epoch, auxiliary_examples_)).ok());
    return Bytes(Guess(epoch));
  };
  attack(0);
  const std::vector<std::string> expected = attack(1);
  ASSERT_EQ(expected.size(), 4);
  const std::string ledger = run_.files.File("label_party.db");
  const std::string queries = "SELECT count(*) FROM event WHERE kind = 'attribute_queries'";
  EXPECT_EQ(LedgerValue(ledger, queries), "2");

  session_.reset();
  Continue(path_ + ".1");
  ASSERT_TRUE(session_->Start(StartRequest()).ok());
  EXPECT_EQ(LedgerValue(ledger, queries), "1");
  LabelSession::Embedding again;
  EXPECT_TRUE(session_->EmbedAuxiliary(ActivationsOf(0, 0, 3), again).ok());  // Counted, as before it was interrupted.
  EXPECT_TRUE(again.repeated);
  EXPECT_EQ(Bytes(Guess(0)).size(), 0);
  EXPECT_EQ(attack(1), expected);
  EXPECT_EQ(LedgerValue(ledger, queries), "2");
}

thread_local bool guesses_here = false;
std::atomic<bool> waits = false;

TEST_F(AttributeAuditTest, AStopReachesDecodersThatLearn) {
  run_.label_config.mutable_attribute_attack()->set_decoder_epochs(10000);  // Minutes.
  Start();
  TrainAndEvaluate(0);
  ASSERT_TRUE(session_->FinishEmbedding(EmbedAll(0, auxiliary_examples_)).ok());
  absl::Status outcome;
  std::thread operating([&] {
    outcome = session_->WaitUntilEnded([] {
      waits = true;
      return guesses_here;
    });
  });
  while (!waits) {
    std::this_thread::yield();
  }
  guesses_here = true;
  EXPECT_TRUE(IsStoppedOnRequest(Guess(0).status()));
  operating.join();
  EXPECT_TRUE(IsStoppedOnRequest(outcome)) << outcome;
  EXPECT_EQ(LedgerValue(run_.files.File("label_party.db"), "SELECT status FROM run"), "stopped");
}

TEST_F(AttributeAuditTest, RefusesAuxiliaryActivationsThatAreNotAllOfThem) {
  Start();
  TrainAndEvaluate(0);
  Expect(EmbedOne(ActivationsOf(0, 1, 64)), absl::StatusCode::kFailedPrecondition, "expected batch 0");
  Expect(EmbedOne(ActivationsOf(0, 0, 63 < auxiliary_examples_ ? 1 : 2)), absl::StatusCode::kInvalidArgument,
         "activations");
  v1::CutActivations infinite = ActivationsOf(0, 0, std::min<int64_t>(64, auxiliary_examples_));
  infinite.mutable_activations()->mutable_data()->replace(0, 4, std::string("\0\0\x80\x7f", 4));
  Expect(EmbedOne(infinite), absl::StatusCode::kInvalidArgument, "activations");
  Expect(session_->FinishEmbedding({}).status(), absl::StatusCode::kFailedPrecondition, "examples, found 0");
  LabelSession::Embedding whole = EmbedAll(0, auxiliary_examples_);
  Expect(session_->EmbedAuxiliary(ActivationsOf(0, whole.next_batch, 1), whole), absl::StatusCode::kFailedPrecondition,
         "expected no more examples");
  v1::CutActivations other_run = ActivationsOf(0, 0, 1);
  other_run.set_run_id("PLANTED");
  const absl::Status other = EmbedOne(other_run);
  Expect(other, absl::StatusCode::kInvalidArgument, "run_id");
  EXPECT_THAT(std::string(other.message()), Not(HasSubstr("PLANTED")));
  EXPECT_TRUE(session_->FinishEmbedding(EmbedAll(0, auxiliary_examples_)).ok());  // Nothing has changed.
}

TEST_F(AttributeAuditTest, RefusesEpochsThatAreNotDue) {
  run_.agreement.mutable_attribute_audit()->set_every_epochs(2);
  run_.agreement.set_epochs(3);
  Start();
  TrainAndEvaluate(0);
  Expect(EmbedOne(ActivationsOf(0, 0, 1)), absl::StatusCode::kFailedPrecondition, "every_epochs 2 or the last");
  Expect(Guess(0).status(), absl::StatusCode::kFailedPrecondition, "every_epochs 2 or the last");
  for (const uint32_t epoch : {1U, 2U}) {
    TrainAndEvaluate(epoch);
    ASSERT_TRUE(session_->FinishEmbedding(EmbedAll(epoch, auxiliary_examples_)).ok());
    EXPECT_TRUE(Guess(epoch).ok());
  }
}

TEST_F(AttributeAuditTest, RefusesQueriesThatAreNotGranted) {
  v1::AttributeAuditAgreement& audit = *run_.agreement.mutable_attribute_audit();
  audit.set_embed_auxiliary(false);
  audit.clear_attacks();
  audit.add_attacks(v1::POISON);
  Start();
  TrainAndEvaluate(0);
  Expect(EmbedOne(ActivationsOf(0, 0, 1)), absl::StatusCode::kPermissionDenied,
         "the agreement does not set embed_auxiliary");
  EXPECT_TRUE(Guess(0).ok());
}

TEST_F(LabelSessionTest, RefusesCallsOfAnAttributeAuditThatIsNotAgreed) {
  Start();
  v1::GuessAttributesRequest request;
  request.set_run_id(run_id_);
  Expect(session_->GuessAttributes(request).status(), absl::StatusCode::kPermissionDenied,
         "GuessAttributes: the agreement has no attacks on attributes");
  LabelSession::Embedding embedding;
  Expect(session_->EmbedAuxiliary(ActivationsOf(0, 0, 1), embedding), absl::StatusCode::kPermissionDenied, "");
}

TEST_F(AttributeAuditTest, RefusesDataThatDoNotKnowTheAgreedAttributes) {
  run_.agreement.mutable_attribute_audit()->add_attributes("income");
  Expect(LabelSession::Create(run_.LabelOptions()).status(), absl::StatusCode::kInvalidArgument,
         "expected the agreed attribute \"income\", found A1");
  LabelSessionOptions options = run_.LabelOptions();
  options.known_attributes = nullptr;
  Expect(LabelSession::Create(std::move(options)).status(), absl::StatusCode::kInvalidArgument,
         "attribute_attack is not set, but the agreement has attribute_audit.attacks: set attribute_attack.auxiliary "
         "to the data that they know");
}

// ["Male", "Female"] here, ["Female", "Male"] there: an attack that reads 92% would be recorded as 8%.
TEST_F(AttributeAuditTest, RefusesAPeerWhoseValuesAreOthersOrInAnotherOrder) {
  for (const int difference : {0, 1}) {
    Create();
    v1::OpenRequest request = OpenRequest();
    ASSERT_EQ(request.attribute_values_sha256_size(), 1);
    if (difference == 0) {
      request.mutable_attribute_values_sha256(0)->front() ^= 1;
    } else {
      request.clear_attribute_values_sha256();
    }
    Expect(session_->Open(request).status(), absl::StatusCode::kFailedPrecondition,
           "\"A1\" has different values, or a different order of them, in the two schemas");
  }
}

}  // namespace
}  // namespace splitveil::testing
