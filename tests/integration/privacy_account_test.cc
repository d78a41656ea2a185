// Whole runs of both sessions through memory, one after the other on one privacy account.
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "common/leakage/bounds.h"
#include "common/process/exit_code.h"
#include "common/storage/sqlite_database.h"
#include "label_party/storage/label_history.h"
#include "tests/testing/local_label_party.h"
#include "tests/testing/small_run.h"
#include "tests/unit/nonlabel_party/session/ledger_value.h"

namespace splitveil::testing {
namespace {

class PrivacyAccountRunTest : public ::testing::Test {
 protected:
  PrivacyAccountRunTest() : run_(300) {
    run_.agreement.mutable_audit()->set_disclosure(v1::LABEL_SIDE_ONLY);
    run_.agreement.mutable_audit()->clear_attacks();
    run_.agreement.mutable_audit()->add_attacks(v1::NORM);
    run_.label_config.mutable_privacy_account()->set_path(run_.files.File("labels.account.db"));
    run_.label_config.mutable_privacy_account()->set_label_set("small");
    run_.label_config.mutable_label_side_audit()->add_attacks(v1::CUMULATIVE_CONDITIONAL_LIKELIHOOD_RATIO);
  }

  void Complete(double sigma) {
    const absl::Status status = Run(sigma);
    EXPECT_TRUE(status.ok()) << status << "; " << nonlabel_status_;
  }
  // How the label party ends. `messages_` counts the gradients that left.
  absl::Status Run(double sigma) {
    run_.label_config.mutable_protection()->mutable_gaussian_label_dp()->set_sigma(sigma);
    return RunConfigured();
  }
  // Of the label party, which may refuse the configuration.
  absl::Status RunConfigured() {
    messages_ = 0;
    absl::StatusOr<std::unique_ptr<LabelSession>> label = LabelSession::Create(run_.LabelOptions());
    if (!label.ok()) {
      return label.status();
    }
    label_ = *std::move(label);
    LocalLabelParty peer(label_.get());
    peer.alter_gradients = [&](v1::CutGradients&) { ++messages_; };
    nonlabel_status_ = NonLabelSession(run_.NonLabelOptions(&peer)).Run();
    return label_->WaitUntilEnded([] { return false; });
  }
  void UseNewAccount(const std::string& file, bool says_so) {
    run_.label_config.mutable_privacy_account()->set_path(run_.files.File(file));
    run_.label_config.mutable_privacy_account()->set_new_account(says_so);
  }
  double AllRunsBound() const {
    return nlohmann::json::parse(ResultJson(*label_->figures()))["all_runs_auc_bound"].get<double>();
  }
  // Of GaussianAucBound(mu^2), as RESULT prints it.
  static constexpr double kDigits = 1e-6;

  SmallRun run_;
  const std::string path_ = run_.files.File("label_party.db");
  std::unique_ptr<LabelSession> label_;
  absl::Status nonlabel_status_;
  int messages_ = 0;
};

TEST_F(PrivacyAccountRunTest, ARunAgainCostsNothingAndAnotherStrengthAddsUp) {
  Complete(2);
  EXPECT_NEAR(AllRunsBound(), GaussianAucBound(0.25), kDigits);
  Complete(2);
  EXPECT_NEAR(AllRunsBound(), GaussianAucBound(0.25), kDigits);
  Complete(1);
  EXPECT_NEAR(AllRunsBound(), GaussianAucBound(1.25), kDigits);
  Complete(2);
  EXPECT_NEAR(AllRunsBound(), GaussianAucBound(1.25), kDigits);
  // 234 of the 300 common examples are trained on.
  EXPECT_EQ(LedgerValue(run_.files.File("label_party.db"), "SELECT count(*) FROM all_runs WHERE examples = 234"), "4");
}

// Two epochs with noise of their own.
TEST_F(PrivacyAccountRunTest, EveryDrawOfARunCounts) {
  auto& config = *run_.label_config.mutable_protection()->mutable_gaussian_label_dp();
  Complete(1);  // Two draws of sigma sqrt 2.
  const nlohmann::json result = nlohmann::json::parse(ResultJson(*label_->figures()));
  EXPECT_NEAR(result["all_runs_auc_bound"].get<double>(), GaussianAucBound(1), kDigits);
  EXPECT_NEAR(result["run_auc_bound"].get<double>(), GaussianAucBound(1), kDigits);
  const std::string path = run_.files.File("label_party.db");
  EXPECT_NEAR(std::stod(LedgerValue(path, "SELECT max(sum_kl) FROM protection")), 0.5, kDigits);
  Complete(1);
  EXPECT_NEAR(AllRunsBound(), GaussianAucBound(1), kDigits);
  config.set_noise_draws(v1::GradientProtection::GaussianLabelDp::ONE_DRAW);
  Complete(std::sqrt(2));  // The first of the two.
  EXPECT_NEAR(AllRunsBound(), GaussianAucBound(1), kDigits);
  Complete(1);
  EXPECT_NEAR(AllRunsBound(), GaussianAucBound(2), kDigits);
}

TEST_F(PrivacyAccountRunTest, AResumedRunIsCountedByTheAccountAlone) {
  const std::string label_path = run_.files.File("label.checkpoint");
  const std::string nonlabel_path = run_.files.File("nonlabel.checkpoint");
  run_.label_checkpoints.path = label_path;
  run_.nonlabel_checkpoints.path = nonlabel_path;
  Complete(2);
  run_.label_checkpoints.initial = {*Checkpoint::Open(label_path)};
  run_.nonlabel_checkpoints.initial = {*Checkpoint::Open(nonlabel_path)};
  Complete(2);
  EXPECT_NEAR(AllRunsBound(), GaussianAucBound(0.25), kDigits);
}

TEST_F(PrivacyAccountRunTest, TheLedgerSaysWhoseLabelsARunIsAboutAndWithWhichNoise) {
  Complete(2);
  EXPECT_EQ(LedgerValue(path_, "SELECT label_set || length(account) || length(data_sha256) FROM run"), "small3264");
  EXPECT_EQ(LedgerValue(path_, "SELECT noise || draws FROM label_release"), "gaussian2");
  EXPECT_NEAR(std::stod(LedgerValue(path_, "SELECT draws * strength * strength FROM label_release")), 0.25, kDigits);
}

// A lost account: the ledger still names it.
TEST_F(PrivacyAccountRunTest, ANewAccountIsRefusedUnlessTheOperatorSaysSo) {
  Complete(2);
  UseNewAccount("second.account.db", /*says_so=*/false);
  const absl::Status refused = Run(2);
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("set new_account: true"));
  EXPECT_EQ(messages_, 0);
  EXPECT_EQ(LedgerValue(path_, "SELECT count(*) FROM run"), "1");
  UseNewAccount("second.account.db", /*says_so=*/true);
  Complete(2);
  EXPECT_EQ(LedgerValue(path_, "SELECT count(*) FROM event WHERE kind = 'new_account'"), "1");
  UseNewAccount("second.account.db", /*says_so=*/false);  // Said once.
  Complete(2);
  EXPECT_EQ(LedgerValue(path_, "SELECT count(*) FROM event WHERE kind = 'new_account'"), "1");
}

// A copy put back does not know of the run after it; the ledger does. The noise is the same under one label set, so
// that labels that were changed meanwhile would show in the difference.
class OlderCopyTest : public PrivacyAccountRunTest {
 protected:
  // Two runs, and the account as it was between them.
  OlderCopyTest() {
    Complete(2);
    label_.reset();
    std::filesystem::copy_file(account_, copy_);
    Complete(1);
    label_.reset();
  }

  void PutBack() { std::filesystem::copy_file(copy_, account_, std::filesystem::copy_options::overwrite_existing); }
  absl::StatusOr<std::vector<std::string>> Lost(const std::string& label_set, const std::string& table,
                                                bool new_account) const {
    PrivacyAccountOptions options;
    options.path = account_;
    options.label_set = label_set;
    const std::unique_ptr<PrivacyAccount> account = *PrivacyAccount::OpenToRead(options);
    RunRow row;
    row.label_set = label_set;
    row.account = account->id();
    row.data_sha256 = table;
    return LostStarts(path_, row, new_account, *account);
  }

  const std::string account_ = run_.label_config.privacy_account().path(), copy_ = run_.files.File("copy");
};

// The copy was made while the run was interrupted: it has its name, but not what other runs released before it went on.
TEST_F(OlderCopyTest, IsRefusedWhereARunThatItKnowsHasGoneOnSince) {
  label_.reset();
  const std::string table = LedgerValue(path_, "SELECT max(data_sha256) FROM run");
  EXPECT_THAT(*Lost("small", table, false), ::testing::IsEmpty());
  RunRow row;
  row.run_id = LedgerValue(path_, "SELECT run_id FROM run ORDER BY started_at LIMIT 1");
  const std::string start = row.run_id + " 2026-01-31T09:30:00.123Z 0123456789abcdef";
  {
    const std::unique_ptr<Ledger> ledger = *Ledger::Continue(path_, row, v1::LedgerPosition());
    ASSERT_TRUE(ledger->RecordEvent(kReleasesFollow, ReleasesFollow(234, start)).ok());
    ASSERT_TRUE(ledger->Commit().ok());
  }
  EXPECT_THAT(std::string(Lost("small", table, false).status().message()),
              ::testing::HasSubstr("does not know all of run " + row.run_id));
  PrivacyAccountOptions options;
  options.path = account_;
  options.label_set = "small";
  ASSERT_TRUE((*PrivacyAccount::Open(options))->Remember(start).ok());
  EXPECT_THAT(*Lost("small", table, false), ::testing::IsEmpty());
}

// What the operator has accepted is that the copy does not know of a start; not of those that the run makes later.
TEST_F(OlderCopyTest, IsRefusedWhereARunThatWasAcceptedHasGoneOnSince) {
  PutBack();
  run_.label_config.mutable_privacy_account()->set_new_account(true);
  Complete(3);
  label_.reset();
  const std::string table = LedgerValue(path_, "SELECT max(data_sha256) FROM run");
  EXPECT_THAT(*Lost("small", table, false), ::testing::SizeIs(1));
  RunRow lost;
  lost.run_id = LedgerValue(path_,
                            "SELECT substr(detail, 1, length(detail) - 42) FROM event WHERE kind = "
                            "'lost_by_account'");
  {
    const std::unique_ptr<Ledger> ledger = *Ledger::Continue(path_, lost, v1::LedgerPosition());
    ASSERT_TRUE(ledger
                    ->RecordEvent(kReleasesFollow,
                                  ReleasesFollow(234, lost.run_id + " 2026-01-31T09:30:00.123Z 0123456789abcdef"))
                    .ok());
    ASSERT_TRUE(ledger->Commit().ok());
  }
  EXPECT_THAT(std::string(Lost("small", table, false).status().message()),
              ::testing::HasSubstr("does not know all of run " + lost.run_id));
}

TEST_F(OlderCopyTest, IsRefusedUnlessTheOperatorSaysSo) {
  const std::string table = LedgerValue(path_, "SELECT max(data_sha256) FROM run");
  EXPECT_THAT(*Lost("small", table, false), ::testing::IsEmpty());
  PutBack();
  const auto refusal = [&](const std::string& label_set, const std::string& of, bool new_account) {
    return std::string(Lost(label_set, of, new_account).status().message());
  };
  EXPECT_THAT(refusal("small", table, false), ::testing::HasSubstr("set new_account: true, and the runs"));
  EXPECT_THAT(refusal("another", "of another table", false), ::testing::HasSubstr("it is an older copy"));
  for (const bool new_account : {false, true}) {
    EXPECT_THAT(refusal("small", "of another table", new_account), ::testing::HasSubstr("and another label_set"));
  }
  EXPECT_EQ(Lost("small", table, true)->size(), 1);
  EXPECT_EQ(Lost("another", "of another table", true)->size(), 1);
  EXPECT_TRUE(absl::IsInvalidArgument(Run(3)));
  EXPECT_EQ(messages_, 0);
}

// With what the account had counted by then, since not all of it need be in this ledger: the first run counts twice.
TEST_F(OlderCopyTest, WhatItHasLostCountsInFull) {
  PutBack();
  run_.label_config.mutable_privacy_account()->set_new_account(true);
  Complete(3);
  EXPECT_NEAR(AllRunsBound(), GaussianAucBound(0.25 + 1.25 + 1.0 / 9), kDigits);
  EXPECT_EQ(LedgerValue(path_, "SELECT count(*) FROM event WHERE kind = 'lost_by_account'"), "1");
  run_.label_config.mutable_privacy_account()->set_new_account(false);  // Said once.
  Complete(3);
  EXPECT_NEAR(AllRunsBound(), GaussianAucBound(0.25 + 1.25 + 1.0 / 9), kDigits);
  run_.label_config.mutable_privacy_account()->set_max_lifetime_auc_bound(0.79);  // As it counts, 0.695.
  EXPECT_TRUE(IsHalt(Run(2.5)));
  EXPECT_EQ(messages_, 0);
}

// Put in the account's place by a process that is not this one's, after this one has looked.
TEST_F(OlderCopyTest, IsRefusedWhereItComesWhileTheRunWaits) {
  PrivacyAccountOptions options;
  options.path = account_;
  options.label_set = "small";
  const std::unique_ptr<PrivacyAccount> account = *PrivacyAccount::Open(options);
  PutBack();
  EXPECT_THAT(std::string(account->Remember("run-3").message()), ::testing::HasSubstr("older copy of it in its place"));
  EXPECT_THAT(std::string(account->Debit({}, {}, {}).status().message()),
              ::testing::HasSubstr("Nothing has been released"));
}

// Before a run releases anything the ledger names it as counted, be it killed the moment after.
TEST_F(PrivacyAccountRunTest, TheLedgerHasWhatTheAccountCountedBeforeTheFirstRelease) {
  run_.label_config.mutable_protection()->mutable_gaussian_label_dp()->set_sigma(2);
  std::unique_ptr<LabelSession> label = *LabelSession::Create(run_.LabelOptions());
  LocalLabelParty peer(label.get());
  std::string counted;
  peer.alter_gradients = [&](v1::CutGradients&) {
    counted = counted.empty() ? LedgerValue(path_, "SELECT count(*) FROM all_runs") : counted;
  };
  EXPECT_TRUE(NonLabelSession(run_.NonLabelOptions(&peer)).Run().ok());
  EXPECT_EQ(counted, "1");
}

// An older copy of it, by the operator's word, takes nothing off.
TEST_F(PrivacyAccountRunTest, WhatTheAccountHadCountedBeforeARunWentOnRemains) {
  Complete(2);
  // As the ledger has it of a run that goes on.
  ASSERT_TRUE((*SqliteDatabase::Open(path_, SqliteDatabase::Mode::kCreate))
                  ->Execute("CREATE TRIGGER goes_on AFTER INSERT ON run BEGIN INSERT INTO all_runs "
                            "VALUES (new.run_id, 'account', 234, 0.9, 310); END")
                  .ok());
  Complete(2);
  EXPECT_NEAR(AllRunsBound(), 0.9, kDigits);
  EXPECT_EQ(LedgerValue(path_, "SELECT max(auc_bound) FROM all_runs"), "0.9");
}

// Two processes on one ledger: the later one sees the other's releases before they have ended.
TEST_F(PrivacyAccountRunTest, ARunThatIsUnderWayCounts) {
  run_.label_config.clear_label_side_audit();
  run_.label_config.clear_privacy_account();
  run_.label_config.mutable_protection()->mutable_label_dp()->set_epsilon(1);
  std::unique_ptr<LabelSession> first = *LabelSession::Create(run_.LabelOptions());
  LocalLabelParty peer(first.get());
  double of_second = 0;
  peer.alter_gradients = [&](v1::CutGradients&) {
    if (of_second == 0) {
      EXPECT_TRUE(RunConfigured().ok()) << nonlabel_status_;
      of_second = AllRunsBound();
    }
  };
  EXPECT_TRUE(NonLabelSession(run_.NonLabelOptions(&peer)).Run().ok());
  EXPECT_NEAR(of_second, 0.82192, 1e-5);
}

// Three strengths, the second in an account of its own.
TEST_F(PrivacyAccountRunTest, AnAccountThatIsTakenUpAgainAddsItsEarlierRuns) {
  Complete(2);
  UseNewAccount("second.account.db", /*says_so=*/true);
  Complete(1);
  run_.label_config.mutable_privacy_account()->set_path(run_.files.File("labels.account.db"));
  Complete(3);
  EXPECT_NEAR(AllRunsBound(), GaussianAucBound(0.25 + 1 + 1.0 / 9), kDigits);
}

// A limit is for life: without it in the configuration the account must not count what the ledger's then refuses.
TEST_F(PrivacyAccountRunTest, AnEarlierLimitHoldsWhereTheConfigurationHasNone) {
  RunRow row;
  EXPECT_EQ(*LeastLimit(path_, row), 1);
  run_.label_config.mutable_privacy_account()->set_max_lifetime_auc_bound(0.65);
  Complete(2);
  row.data_sha256 = LedgerValue(path_, "SELECT data_sha256 FROM run");
  EXPECT_EQ(*LeastLimit(path_, row), 0.65);
  row.max_lifetime_auc_bound = 0.6;
  EXPECT_EQ(*LeastLimit(path_, row), 0.6);
  // The table has grown since, and the account knows whose labels they are.
  RunRow grown;
  grown.data_sha256 = "of another table";
  grown.label_set = "small";
  EXPECT_EQ(*LeastLimit(path_, grown), 1);
  grown.account = LedgerValue(path_, "SELECT account FROM run");
  EXPECT_EQ(*LeastLimit(path_, grown), 0.65);
}

TEST_F(PrivacyAccountRunTest, TheLimitOfARunThatReleasedNothingHoldsForNoOther) {
  Complete(2);
  run_.label_config.mutable_privacy_account()->set_max_lifetime_auc_bound(0.65);  // Too low, by mistake.
  EXPECT_TRUE(IsHalt(Run(1)));
  run_.label_config.mutable_privacy_account()->clear_max_lifetime_auc_bound();
  Complete(1);
  EXPECT_NEAR(AllRunsBound(), GaussianAucBound(1.25), kDigits);
}

// Neither a label's promise nor its bound survives gradients that are sent as they are.
TEST_F(PrivacyAccountRunTest, NothingWithoutAProofFollowsAPromise) {
  run_.label_config.mutable_privacy_account()->set_max_lifetime_auc_bound(0.65);
  Complete(2);
  const v1::LabelPartyConfig guaranteed = run_.label_config;
  run_.label_config.mutable_protection()->mutable_none();
  run_.label_config.clear_privacy_account();
  const absl::Status status = RunConfigured();
  EXPECT_TRUE(IsHalt(status)) << status;
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("promised a max_lifetime_auc_bound of 0.65"));
  EXPECT_EQ(messages_, 0);
  run_.label_config = guaranteed;
  Complete(2);
}

// Also where the promise is made while it waits for its start.
TEST_F(PrivacyAccountRunTest, NothingWithoutAProofStartsAfterAPromise) {
  run_.label_config.mutable_privacy_account()->set_max_lifetime_auc_bound(0.65);
  const v1::LabelPartyConfig guaranteed = run_.label_config;
  run_.label_config.mutable_protection()->mutable_none();
  run_.label_config.clear_privacy_account();
  std::unique_ptr<LabelSession> waiting = *LabelSession::Create(run_.LabelOptions());
  LocalLabelParty peer(waiting.get());
  int sent = 0;
  peer.alter_gradients = [&](v1::CutGradients&) { ++sent; };
  peer.on_call = [&](const std::string& call) {
    if (call == "Start") {
      run_.label_config = guaranteed;
      Complete(2);
    }
  };
  EXPECT_FALSE(NonLabelSession(run_.NonLabelOptions(&peer)).Run().ok());
  EXPECT_TRUE(IsHalt(waiting->WaitUntilEnded([] { return false; })));
  EXPECT_EQ(sent, 0);
}

// Nothing was sent, but a head has learned from the noised labels, and may be served.
TEST_F(PrivacyAccountRunTest, AFrozenRunCountsTowardsALaterAccount) {
  run_.label_config.mutable_release()->set_max_run_auc_bound(0.51);
  run_.label_config.mutable_release()->set_action(v1::FREEZE_BOTTOM);
  Complete(2);
  EXPECT_EQ(LedgerValue(path_, "SELECT count(*) FROM protection WHERE gate <> 'freeze_bottom'"), "0");
  run_.label_config.mutable_release()->set_action(v1::HALT);  // From such a step none learns.
  UseNewAccount("halted.account.db", /*says_so=*/true);
  EXPECT_TRUE(IsHalt(Run(2)));
  run_.label_config.clear_release();
  UseNewAccount("second.account.db", /*says_so=*/true);
  Complete(2);
  EXPECT_NEAR(AllRunsBound(), GaussianAucBound(0.5), kDigits);
}

// The account lost a run of which only the ledger knows, and is then lost itself.
TEST_F(OlderCopyTest, WhatItHasLostCountsForALaterAccount) {
  PutBack();
  run_.label_config.mutable_privacy_account()->set_new_account(true);
  Complete(3);
  UseNewAccount("second.account.db", /*says_so=*/true);
  Complete(4);
  EXPECT_NEAR(AllRunsBound(), GaussianAucBound(0.25 + 1.25 + 1.0 / 9 + 1.0 / 16), kDigits);
}

// The table has a row more by then, so that only the label set says whose labels they are.
TEST_F(PrivacyAccountRunTest, RunsOfALostAccountCountAlsoWhereTheTableHasGrown) {
  Complete(2);
  label_.reset();
  {
    absl::StatusOr<std::unique_ptr<SqliteDatabase>> ledger = SqliteDatabase::Open(path_, SqliteDatabase::Mode::kCreate);
    ASSERT_TRUE(ledger.ok()) << ledger.status();
    EXPECT_TRUE((*ledger)->Execute("UPDATE run SET data_sha256 = 'of a row less'").ok());
  }
  UseNewAccount("second.account.db", /*says_so=*/true);
  Complete(1);
  EXPECT_NEAR(AllRunsBound(), GaussianAucBound(0.25 + 1), kDigits);
}

// Nobody knows whether the tables have the same people: what is stated holds if they do.
TEST_F(PrivacyAccountRunTest, WhatMayBeOnTheSameLabelsIsStated) {
  run_.label_config.clear_label_side_audit();
  run_.label_config.clear_privacy_account();
  run_.label_config.mutable_protection()->mutable_label_dp()->set_epsilon(1);
  EXPECT_TRUE(RunConfigured().ok()) << nonlabel_status_;
  label_.reset();
  {
    absl::StatusOr<std::unique_ptr<SqliteDatabase>> ledger = SqliteDatabase::Open(path_, SqliteDatabase::Mode::kCreate);
    ASSERT_TRUE(ledger.ok()) << ledger.status();
    EXPECT_TRUE((*ledger)->Execute("UPDATE run SET data_sha256 = 'of a row less'").ok());
  }
  EXPECT_TRUE(RunConfigured().ok()) << nonlabel_status_;
  EXPECT_NEAR(AllRunsBound(), 0.82192, 1e-5);
}

TEST_F(PrivacyAccountRunTest, NothingBoundsAllRunsWhereOneHadNoProof) {
  run_.label_config.clear_label_side_audit();
  run_.label_config.mutable_protection()->mutable_marvell()->set_sum_kl(1);
  run_.label_config.clear_privacy_account();
  EXPECT_TRUE(RunConfigured().ok()) << nonlabel_status_;
  run_.label_config.mutable_protection()->mutable_label_dp()->set_epsilon(1);
  EXPECT_TRUE(RunConfigured().ok()) << nonlabel_status_;
  EXPECT_EQ(AllRunsBound(), 1);
}

// Killed, it lost its last rows: it may have released all that it had planned.
TEST_F(PrivacyAccountRunTest, ARunWithoutAnEndCountsAsReleased) {
  run_.label_config.clear_label_side_audit();
  run_.label_config.clear_privacy_account();
  run_.label_config.mutable_protection()->mutable_label_dp()->set_epsilon(1);
  EXPECT_TRUE(RunConfigured().ok()) << nonlabel_status_;
  label_.reset();
  {
    absl::StatusOr<std::unique_ptr<SqliteDatabase>> ledger = SqliteDatabase::Open(path_, SqliteDatabase::Mode::kCreate);
    ASSERT_TRUE(ledger.ok()) << ledger.status();
    for (const char* sql :
         {"DELETE FROM protection", "DELETE FROM step_summary", "DELETE FROM event WHERE kind = 'first_slice_sent'",
          "UPDATE run SET finished_at = NULL, status = 'running'"}) {
      EXPECT_TRUE((*ledger)->Execute(sql).ok()) << sql;
    }
  }
  EXPECT_TRUE(RunConfigured().ok()) << nonlabel_status_;
  EXPECT_NEAR(AllRunsBound(), 0.82192, 1e-5);
}

// Flips of two runs are independent: the best test of both has AUC 0.82192 (its four outcomes, by hand).
TEST_F(PrivacyAccountRunTest, ASecondRunOfFlipsWithoutAnAccountStatesWhatBothReveal) {
  run_.label_config.clear_label_side_audit();
  run_.label_config.clear_privacy_account();
  run_.label_config.mutable_protection()->mutable_label_dp()->set_epsilon(1);
  EXPECT_TRUE(RunConfigured().ok()) << nonlabel_status_;
  EXPECT_NEAR(AllRunsBound(), 0.73106, 1e-5);
  EXPECT_TRUE(RunConfigured().ok()) << nonlabel_status_;
  EXPECT_NEAR(AllRunsBound(), 0.82192, 1e-5);
}

// 0.638 each, 0.691 together.
TEST_F(PrivacyAccountRunTest, RunsOfAnotherAccountCountTowardsTheLimit) {
  run_.label_config.mutable_privacy_account()->set_max_lifetime_auc_bound(0.65);
  Complete(2);
  UseNewAccount("second.account.db", /*says_so=*/true);
  EXPECT_TRUE(IsHalt(Run(2)));
  EXPECT_TRUE(IsHalt(nonlabel_status_)) << nonlabel_status_;
  EXPECT_EQ(messages_, 0);
  run_.label_config.mutable_privacy_account()->set_path(run_.files.File("labels.account.db"));
  Complete(2);  // The same noise costs nothing.
}

TEST_F(PrivacyAccountRunTest, RunsWithoutAnAccountCountTowardsTheLimitOfThoseWithOne) {
  run_.label_config.mutable_privacy_account()->set_max_lifetime_auc_bound(
      0.7);  // 0.693 with flips of epsilon 0.5 once, 0.731 twice.
  Complete(2);
  run_.label_config.clear_privacy_account();
  run_.label_config.mutable_protection()->mutable_label_dp()->set_epsilon(1);
  run_.label_config.clear_label_side_audit();
  const auto run = [&] { return RunConfigured(); };
  EXPECT_TRUE(IsHalt(run())) << nonlabel_status_;
  EXPECT_EQ(messages_, 0);
  run_.label_config.mutable_protection()->mutable_label_dp()->set_epsilon(0.5);
  EXPECT_TRUE(run().ok()) << nonlabel_status_;
  EXPECT_TRUE(IsHalt(run())) << nonlabel_status_;  // Flips of their own.
}

// Flips are noised labels above 1/2, and an account counts them as these: epsilon 1 as mu 1.232035 (Python's
// statistics.NormalDist). It cannot tell whether that noise was released itself, so it states as much.
TEST_F(PrivacyAccountRunTest, FlipsOfAnAccountCountOnceAndAddUpWithOtherNoise) {
  const double mu = 1.232035;
  run_.label_config.clear_label_side_audit();
  run_.label_config.mutable_protection()->mutable_label_dp()->set_epsilon(1);
  EXPECT_TRUE(RunConfigured().ok()) << nonlabel_status_;
  EXPECT_NEAR(AllRunsBound(), GaussianAucBound(mu * mu), 1e-5);
  EXPECT_TRUE(RunConfigured().ok()) << nonlabel_status_;
  EXPECT_NEAR(AllRunsBound(), GaussianAucBound(mu * mu), 1e-5);
  Complete(2);
  EXPECT_NEAR(AllRunsBound(), GaussianAucBound(mu * mu + 0.25), 1e-5);
  run_.label_config.mutable_privacy_account()->set_max_lifetime_auc_bound(0.85);
  run_.label_config.mutable_protection()->mutable_label_dp()->set_epsilon(1.5);
  EXPECT_TRUE(IsHalt(RunConfigured())) << nonlabel_status_;
  EXPECT_EQ(messages_, 0);
  EXPECT_EQ(LedgerValue(path_, "SELECT count(*) FROM label_release WHERE noise = 'flip' AND sigma_units > 0"), "2");
}

// A head that has learned true labels, or other flips, tells them in its gradients whatever the flips of this run.
TEST_F(PrivacyAccountRunTest, FlipsHideNothingThatTheHeadLearnedBefore) {
  run_.label_config.clear_label_side_audit();
  run_.label_checkpoints.path = run_.files.File("label.checkpoint");
  run_.nonlabel_checkpoints.path = run_.files.File("nonlabel.checkpoint");
  const auto start = [&](double epsilon) {
    run_.label_config.mutable_protection()->mutable_label_dp()->set_epsilon(epsilon);
    run_.label_checkpoints.initial = {*Checkpoint::Open(run_.label_checkpoints.path)};
    run_.nonlabel_checkpoints.initial = {*Checkpoint::Open(run_.nonlabel_checkpoints.path)};
    return RunConfigured();
  };
  // Trained on true labels, without a gradient that anything would count.
  v1::LabelPartyConfig config = run_.label_config;
  run_.label_config.clear_privacy_account();
  run_.label_config.mutable_protection()->mutable_none();
  run_.label_config.mutable_release()->set_max_step_auc_bound(0.5);
  run_.label_config.mutable_release()->set_action(v1::FREEZE_BOTTOM);
  EXPECT_TRUE(RunConfigured().ok()) << nonlabel_status_;
  run_.label_config = config;
  EXPECT_THAT(start(1).ToString(), ::testing::HasSubstr("party.initial_checkpoint: its head"));
  EXPECT_EQ(messages_, 0);
  run_.label_config.clear_privacy_account();
  EXPECT_THAT(start(1).ToString(), ::testing::HasSubstr("party.initial_checkpoint: its head"));
  run_.label_config = config;
  run_.label_config.mutable_protection()->mutable_label_dp()->set_epsilon(1);
  run_.label_checkpoints.initial.clear();
  run_.nonlabel_checkpoints.initial.clear();
  EXPECT_TRUE(RunConfigured().ok()) << nonlabel_status_;
  EXPECT_TRUE(start(1).ok()) << nonlabel_status_;  // The very same flips.
  EXPECT_THAT(start(1.0000001).ToString(), ::testing::HasSubstr("party.initial_checkpoint: its head"));
  EXPECT_EQ(messages_, 0);
}

// What led to the weights would be in no limit and no sum: the ledger is gone, and the account does not know it.
TEST_F(PrivacyAccountRunTest, ARunStartsFromNoCheckpointThatItsAccountHasNotCounted) {
  const std::string account = run_.label_config.privacy_account().path(), copy = run_.files.File("copy.account.db");
  Complete(1);
  std::filesystem::copy_file(account, copy);
  run_.label_checkpoints.path = run_.files.File("label.checkpoint");
  run_.nonlabel_checkpoints.path = run_.files.File("nonlabel.checkpoint");
  Complete(2);
  run_.label_checkpoints.initial = {*Checkpoint::Open(run_.label_checkpoints.path)};
  run_.nonlabel_checkpoints.initial = {*Checkpoint::Open(run_.nonlabel_checkpoints.path)};
  Complete(2);  // Its own.
  for (const char* const file : {"label_party.db", "label_party.db-wal", "label_party.db-shm"}) {
    std::filesystem::remove(run_.files.File(file));
  }
  const auto expect_refused = [&] {
    EXPECT_THAT(Run(2).ToString(), ::testing::HasSubstr("released labels that privacy_account has not counted"));
    EXPECT_EQ(messages_, 0);
  };
  UseNewAccount("second.account.db", /*says_so=*/true);
  expect_refused();
  run_.label_config.mutable_privacy_account()->set_path(copy);  // An older copy has the same id.
  expect_refused();
}

TEST_F(PrivacyAccountRunTest, ARunPastTheLimitIsHaltedBeforeAnythingLeaves) {
  run_.label_config.mutable_privacy_account()->set_max_lifetime_auc_bound(0.7);
  Complete(2);
  EXPECT_GT(messages_, 0);
  const absl::Status status = Run(1);
  EXPECT_TRUE(IsHalt(status)) << status;
  EXPECT_TRUE(IsHalt(nonlabel_status_)) << nonlabel_status_;
  EXPECT_EQ(messages_, 0);
  Complete(2);
}

}  // namespace
}  // namespace splitveil::testing
