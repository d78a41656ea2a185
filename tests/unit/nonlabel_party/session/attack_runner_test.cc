// What comes back for submitted scores, from a label party that answers honestly, and from one that does not.
#include "nonlabel_party/session/attack_runner.h"

#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/process/exit_code.h"
#include "tests/testing/local_label_party.h"
#include "tests/testing/small_run.h"
#include "tests/unit/nonlabel_party/session/ledger_value.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

// 8 batches, each scored by NORM and INNER_PRODUCT at "cut" and at "first".
class AttackRunnerTest : public ::testing::Test {
 protected:
  using Response = v1::ScoreBatchResponse;

  AttackRunnerTest() : run_(300) { Agree(v1::ORACLE, {v1::NORM, v1::INNER_PRODUCT}); }

  void Agree(v1::DisclosureLevel disclosure, const std::vector<v1::Attack>& attacks) {
    run_.agreement.mutable_audit()->set_disclosure(disclosure);
    run_.agreement.mutable_audit()->mutable_rounded()->set_minimum_batch(16);  // All that there are.
    run_.agreement.mutable_audit()->mutable_attacks()->Assign(attacks.begin(), attacks.end());
  }

  static void Add(const std::string& layer, v1::Attack attack, double auc, Response& response) {
    Response::LeakAuc* leak = response.add_leaks();
    leak->set_layer(layer);
    leak->set_attack(attack);
    leak->set_auc(auc);
  }

  // `alter` is called on every answer. May be empty.
  absl::Status Run(std::function<void(Response&)> alter) {
    absl::StatusOr<std::unique_ptr<LabelSession>> label = LabelSession::Create(run_.LabelOptions());
    EXPECT_TRUE(label.ok()) << label.status();
    LocalLabelParty peer(label->get());
    peer.alter_leaks = std::move(alter);
    peer.alter_gradients = [this, session = label->get()](v1::CutGradients& message) {
      if (lower_at_.has_value() && message.batch() == *lower_at_ && message.epoch() == 0) {
        EXPECT_TRUE(session->LowerDisclosure().ok());
      }
      if (alter_gradients_) {
        alter_gradients_(message);
      }
    };
    absl::Status status = NonLabelSession(run_.NonLabelOptions(&peer)).Run();
    EXPECT_EQ((*label)->completed(), status.ok());
    return status;
  }

  std::string Recorded(const std::string& what = "count(*)") const {
    return LedgerValue(run_.files.File("nonlabel_party.db"), "SELECT " + what + " FROM leak");
  }

  // Such an answer ends the run as refused, exit 4, and leaves nothing in the ledger.
  void ExpectRefusal(std::function<void(Response&)> alter, const std::string& text) {
    const absl::Status status = Run(std::move(alter));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(ExitCodeFor(status), ExitCode::kRefused) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("leaks"));
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_EQ(Recorded(), "0");
  }

  void ExpectAucRefused(double auc) {
    // The last of four, so that a record made before all are checked would show.
    ExpectRefusal([auc](Response& response) { response.mutable_leaks(3)->set_auc(auc); },
                  "leaks[3].auc: expected 0 to 1");
  }

  // That answers of this kind end the run as refused.
  void ExpectAnswersRefused(std::function<void(v1::CutGradients&)> alter, const std::string& text) {
    alter_gradients_ = std::move(alter);
    const absl::Status status = Run(nullptr);
    EXPECT_EQ(ExitCodeFor(status), ExitCode::kRefused) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }
  // The label party's operator lowers the disclosure once this batch of the first epoch is answered.
  void LowerAt(uint32_t batch) {
    run_.agreement.set_in_flight_batches(1);  // So that the next one is not answered yet.
    lower_at_ = batch;
  }
  std::string Events(const std::string& party, const std::string& kind) const {
    return LedgerValue(run_.files.File(party + ".db"),
                       "SELECT group_concat(detail, ' / ') FROM event WHERE kind = '" + kind + "'");
  }

  SmallRun run_;
  std::optional<uint32_t> lower_at_;
  std::function<void(v1::CutGradients&)> alter_gradients_;
};

TEST_F(AttackRunnerTest, OracleRecordsEveryAgreedScore) {
  ASSERT_TRUE(Run(nullptr).ok());
  EXPECT_EQ(Recorded(), "32");
}

TEST_F(AttackRunnerTest, RoundedRecordsTheFirstAgreedScore) {
  Agree(v1::ROUNDED, {v1::NORM, v1::SPECTRAL});
  ASSERT_TRUE(Run(nullptr).ok());
  EXPECT_EQ(Recorded(), "8");
  EXPECT_EQ(Recorded("group_concat(DISTINCT layer || ' ' || attack)"), "cut norm");
}

TEST_F(AttackRunnerTest, LabelSideOnlyRecordsNothing) {
  Agree(v1::LABEL_SIDE_ONLY, {v1::NORM, v1::SPECTRAL});
  ASSERT_TRUE(Run(nullptr).ok());
  EXPECT_EQ(Recorded(), "0");
}

TEST_F(AttackRunnerTest, TakesFewerThanAgreedAndTheEndsOfTheRange) {
  const absl::Status status = Run([](Response& response) {
    response.mutable_leaks()->DeleteSubrange(2, 2);
    response.mutable_leaks(0)->set_auc(0);
    response.mutable_leaks(1)->set_auc(1);
  });
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(Recorded(), "16");
  EXPECT_EQ(Recorded("sum(auc)"), "8.0");
}

TEST_F(AttackRunnerTest, ALoweredDisclosureIsInBothLedgersAndTheRunGoesOn) {
  LowerAt(2);
  const absl::Status status = Run(nullptr);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(Events("nonlabel_party", "disclosure_lowered"),
            "attack module reads from epoch 0 batch 3 on: LABEL_SIDE_ONLY; agreed: ORACLE");
  EXPECT_EQ(Events("label_party", "operator_lower_disclosure"),
            "attack module reads from epoch 0 batch 3 on: LABEL_SIDE_ONLY; agreed: ORACLE");
  EXPECT_EQ(Events("nonlabel_party", "disclosure"), "attack module reads: ORACLE");
  EXPECT_EQ(Recorded("max(step)"), "1");  // Scores of batch 2 were not judged yet.
}

TEST_F(AttackRunnerTest, RoundedAnswersEndWithTheDisclosure) {
  Agree(v1::ROUNDED, {v1::NORM, v1::SPECTRAL});
  LowerAt(2);
  const absl::Status status = Run(nullptr);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(Recorded(), "2");
}

TEST_F(AttackRunnerTest, RefusesAucsAndHintsThatAreSaidToHaveEnded) {
  Agree(v1::ORACLE, {v1::NORM, v1::SPECTRAL});  // Without hints, none of which comes any more, others are not scored.
  LowerAt(2);
  EXPECT_THAT(std::string(Run([](Response& response) {
                            if (response.leaks().empty()) {
                              Add("cut", v1::NORM, 0.5, response);
                              Add("cut", v1::SPECTRAL, 0.5, response);
                            }
                          }).message()),
              HasSubstr("after it had lowered the disclosure"));
  lower_at_.reset();
  ExpectAnswersRefused([](v1::CutGradients& message) { message.set_disclosure_lowered(true); },
                       "hint: the label party sent one after it had lowered the disclosure");
}

TEST_F(AttackRunnerTest, RefusesADisclosureThatIsRaisedOrThatNothingIsBelow) {
  LowerAt(2);
  ExpectAnswersRefused([](v1::CutGradients& message) { message.set_disclosure_lowered(message.batch() == 3); },
                       "disclosure_lowered: it must be in every answer after the first one that has it");
  lower_at_.reset();
  Agree(v1::LABEL_SIDE_ONLY, {v1::NORM, v1::SPECTRAL});
  ExpectAnswersRefused([](v1::CutGradients& message) { message.set_disclosure_lowered(true); },
                       "disclosure_lowered: no level is below the agreed LABEL_SIDE_ONLY");
}

TEST_F(AttackRunnerTest, RefusesAnAucUnderLabelSideOnly) {
  Agree(v1::LABEL_SIDE_ONLY, {v1::NORM, v1::SPECTRAL});
  ExpectRefusal([](Response& response) { Add("cut", v1::NORM, 0.5, response); },
                "expected at most 0 under disclosure LABEL_SIDE_ONLY, found 1");
}

TEST_F(AttackRunnerTest, RefusesTwoAucsUnderRounded) {
  Agree(v1::ROUNDED, {v1::NORM, v1::SPECTRAL});
  ExpectRefusal([](Response& response) { Add("cut", v1::SPECTRAL, 0.5, response); },
                "expected at most 1 under disclosure ROUNDED, found 2");
}

TEST_F(AttackRunnerTest, RefusesAnotherThanTheFirstAgreedScoreUnderRounded) {
  Agree(v1::ROUNDED, {v1::NORM, v1::SPECTRAL});
  ExpectRefusal([](Response& response) { response.mutable_leaks(0)->set_attack(v1::SPECTRAL); },
                "are not agreed and disclosed");
}

TEST_F(AttackRunnerTest, RefusesMoreAucsThanAgreedScores) {
  ExpectRefusal([](Response& response) { Add("cut", v1::NORM, 0.5, response); },
                "expected at most 4 under disclosure ORACLE, found 5");
}

TEST_F(AttackRunnerTest, RefusesALayerThatWasNotAgreed) {
  ExpectRefusal([](Response& response) { response.mutable_leaks(2)->set_layer("second"); }, "leaks[2]");
}

TEST_F(AttackRunnerTest, RefusesAnAttackThatWasNotAgreed) {
  ExpectRefusal([](Response& response) { response.mutable_leaks(1)->set_attack(v1::SPECTRAL); }, "leaks[1]");
}

TEST_F(AttackRunnerTest, RefusesAClusteringOfActivationsBeyondTheCut) {
  Agree(v1::ORACLE, {v1::NORM, v1::ACTIVATION_CLUSTERS});  // Agreed at "cut" only.
  ExpectRefusal(
      [](Response& response) {
        response.mutable_leaks(2)->set_attack(v1::ACTIVATION_CLUSTERS);  // That of NORM at "first".
      },
      "leaks[2]");
}

TEST_F(AttackRunnerTest, RefusesOneScoreTwice) {
  ExpectRefusal([](Response& response) { *response.mutable_leaks(3) = response.leaks(0); }, "came before");
}

TEST_F(AttackRunnerTest, RefusesAnAucThatIsNone) {
  ExpectAucRefused(-0.001);
  ExpectAucRefused(1.001);
  ExpectAucRefused(std::numeric_limits<double>::quiet_NaN());
  ExpectAucRefused(std::numeric_limits<double>::infinity());
  ExpectAucRefused(-std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace splitveil::testing
