// --check of both programs: what a run would trip over is refused before it, with one line, and nothing is left behind.
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/ledger/ledger.h"
#include "common/privacy_account/privacy_account.h"
#include "tests/testing/process/child_process.h"
#include "tests/testing/two_party_run.h"

namespace splitveil::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CheckTest : public ::testing::Test {
 protected:
  CheckTest() { run_.nonlabel_config.set_peer_address("label-party.invalid:7443"); }  // Not asked for.

  // As noise on labels asks.
  void ShowNoScores() {
    run_.label_agreement.mutable_audit()->set_disclosure(v1::LABEL_SIDE_ONLY);
    run_.label_agreement.mutable_audit()->clear_attacks();
    run_.label_agreement.mutable_audit()->add_attacks(v1::NORM);
  }

  // `party` with its configuration as it stands now.
  ChildResult Check(const std::string& party, const std::string& how = "--check") {
    Write("run.textproto", run_.label_agreement);
    Write("label_party.textproto", run_.label_config);
    Write("nonlabel_party.textproto", run_.nonlabel_config);
    return RunChild({BinDir() + "/" + party, how, "--agreement=" + run_.folder + "/run.textproto",
                     "--config=" + run_.folder + "/" + party + ".textproto"});
  }

  void ExpectAccepted(const std::string& party) {
    const ChildResult result = Check(party);
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }

  // Exit code 2, one line that holds `text` and what else an error has, and no ledger.
  void ExpectRefused(const std::string& party, const std::string& text) {
    const ChildResult result = Check(party);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr(party + ": error: "), HasSubstr(text)));
    EXPECT_EQ(result.err.find('\n') + 1, result.err.size()) << result.err;
    EXPECT_FALSE(std::filesystem::exists(run_.ledger(party)));
  }

  // Exit code 2, one line on standard error, and each of `lines` in the list.
  void ExpectProblems(const std::string& party, const std::vector<std::string>& lines) {
    const ChildResult result = Check(party, "--dry_run");
    EXPECT_EQ(result.exit_code, 2) << result.out;
    EXPECT_THAT(result.err, HasSubstr(party + ": error: dry run: "));
    EXPECT_EQ(result.err.find('\n') + 1, result.err.size()) << result.err;
    for (const std::string& line : lines) {
      EXPECT_THAT(result.out, HasSubstr(line));
    }
    EXPECT_FALSE(std::filesystem::exists(run_.ledger(party)));
  }

  v1::PartyCommon* PartyOf(const std::string& party) {
    return party == "label_party" ? run_.label_config.mutable_party() : run_.nonlabel_config.mutable_party();
  }

  TwoPartyRun run_{200};

 private:
  void Write(const std::string& name, const google::protobuf::Message& message) const {
    std::string text;
    google::protobuf::TextFormat::PrintToString(message, &text);
    std::ofstream(run_.folder + "/" + name) << text;
  }
};

constexpr const char* kParties[] = {"label_party", "nonlabel_party"};

TEST_F(CheckTest, AcceptsWhatARunWouldTakeAndLeavesNothingBehind) {
  for (const std::string party : kParties) {
    PartyOf(party)->set_export_dir("model");
    ExpectAccepted(party);
    EXPECT_FALSE(std::filesystem::exists(run_.ledger(party)));
  }
  EXPECT_FALSE(std::filesystem::exists(run_.folder + "/model"));
}

// An empty file knows of nothing, and stays empty until a run counts in it.
TEST_F(CheckTest, WritesToNoPrivacyAccount) {
  const std::string account = run_.folder + "/labels.account.db";
  ShowNoScores();
  run_.label_config.mutable_protection()->mutable_gaussian_label_dp()->set_sigma(2);
  run_.label_config.mutable_privacy_account()->set_path(account);
  run_.label_config.mutable_privacy_account()->set_label_set("June");
  ExpectAccepted("label_party");
  EXPECT_FALSE(std::filesystem::exists(account));
  std::ofstream(account).close();
  std::filesystem::permissions(account, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  ExpectAccepted("label_party");
  EXPECT_EQ(std::filesystem::file_size(account), 0);
  std::filesystem::permissions(account, std::filesystem::perms::group_read, std::filesystem::perm_options::add);
  ExpectRefused("label_party", "expected a file of this user");
}

// The ledger names a run that this account counted, and the account knows of none.
TEST_F(CheckTest, RefusesAnOlderCopyOfThePrivacyAccount) {
  const std::string path = run_.folder + "/labels.account.db";
  ShowNoScores();
  run_.label_config.mutable_protection()->mutable_gaussian_label_dp()->set_sigma(2);
  run_.label_config.mutable_privacy_account()->set_path(path);
  run_.label_config.mutable_privacy_account()->set_label_set("June");
  PrivacyAccountOptions options;
  options.path = path;
  options.label_set = "June";
  RunRow run = {"run-1", "label_party", "", "gaussian_label_dp", "{}"};
  run.label_set = "June";
  {
    const absl::StatusOr<std::unique_ptr<PrivacyAccount>> account = PrivacyAccount::Open(options);
    ASSERT_TRUE(account.ok()) << account.status();
    run.account = (*account)->id();
  }
  ExpectAccepted("label_party");
  {
    const absl::StatusOr<std::unique_ptr<Ledger>> ledger = Ledger::Create(run_.ledger("label_party"), run);
    ASSERT_TRUE(ledger.ok()) << ledger.status();
    EXPECT_TRUE((*ledger)->RecordEvent(kReleasesFollow, "10 examples, counted as run-1 ab").ok());
  }
  const ChildResult result = Check("label_party");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("privacy_account: path: this account does not know all of run run-1"),
                                HasSubstr("so it is an older copy")));
}

TEST_F(CheckTest, DryRunListsWhatIsInOrderAndLeavesNothingBehind) {
  for (const std::string party : kParties) {
    const ChildResult result = Check(party, "--dry_run");
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    for (const char* line : {"ok       agreement        ", "ok       configuration    ", "ok       certificates     ",
                             "ok       data             ", "ok       expected         memory at the peak about ",
                             "ok       whole run        "}) {
      EXPECT_THAT(result.out, HasSubstr(line)) << party;
    }
    EXPECT_FALSE(std::filesystem::exists(run_.ledger(party)));
  }
}

TEST_F(CheckTest, DryRunNamesEveryProblemNotOnlyTheFirst) {
  for (const std::string party : kParties) {
    PartyOf(party)->mutable_identity()->set_own_name("else.example");
    run_.label_agreement.set_test_fraction(0.2);
    ExpectProblems(party, {"ok       agreement", "problem  certificates     ", "DNS name else.example",
                           "problem  data             ", "test_fraction: expected data prepared for 0.2"});
  }
}

TEST_F(CheckTest, DryRunRefusesTheOtherPartysData) {
  run_.label_config.mutable_party()->mutable_dataset()->set_path("nonlabel_party.data");
  run_.nonlabel_config.mutable_party()->mutable_dataset()->set_path("label_party.data");
  ExpectProblems("label_party", {"problem  data", "it is not the label party's data"});
  ExpectProblems("nonlabel_party", {"problem  data", "it is not the non-label party's data"});
}

TEST_F(CheckTest, DryRunForeseesAPolicyThatWouldHaltTheRun) {
  run_.label_agreement.set_epochs(5);
  run_.label_config.mutable_protection()->mutable_marvell()->set_sum_kl(0.2);
  run_.label_config.mutable_release()->set_max_run_auc_bound(0.7);
  run_.label_config.mutable_release()->set_action(v1::HALT);
  ExpectProblems("label_party", {"problem  release policy   halt in epoch 3 of 5: "});
  run_.label_config.mutable_release()->set_action(v1::FREEZE_BOTTOM);
  const ChildResult result = Check("label_party", "--dry_run");
  EXPECT_EQ(result.exit_code, 0) << result.out;
  EXPECT_THAT(result.out, HasSubstr("warning  release policy   freeze_bottom in epoch 3 of 5: "));
}

TEST_F(CheckTest, DryRunCountsTheAlignmentsThatAreLeft) {
  run_.label_config.mutable_party()->set_max_alignments(1);
  const ChildResult before = Check("label_party", "--dry_run");
  EXPECT_THAT(before.out, HasSubstr("ok       alignments       0 of at most 1 begun"));
  run_.StartLabelParty();
  run_.StartNonLabelParty();
  EXPECT_EQ(run_.nonlabel->Wait(), 0) << run_.nonlabel->Errors();
  EXPECT_EQ(run_.label->Wait(), 0) << run_.label->Errors();
  const ChildResult after = Check("label_party", "--dry_run");
  EXPECT_EQ(after.exit_code, 2);
  EXPECT_THAT(after.out, HasSubstr("problem  alignments       1 of at most 1 begun with this ledger"));
}

TEST_F(CheckTest, DryRunForeseesAnAccountThatTheRunWouldPass) {
  ShowNoScores();
  run_.label_config.mutable_protection()->mutable_gaussian_label_dp()->set_max_run_auc_bound(0.7);
  v1::PrivacyAccount& account = *run_.label_config.mutable_privacy_account();
  account.set_path("labels.account.db");
  account.set_label_set("June");
  account.set_max_lifetime_auc_bound(0.65);
  ExpectProblems("label_party", {"problem  privacy account  AUC bound of all runs together: 0.500 now, 0.700 with this "
                                 "one, limit 0.65: exhausted"});
  account.set_max_lifetime_auc_bound(0.75);
  const ChildResult result = Check("label_party", "--dry_run");
  EXPECT_EQ(result.exit_code, 0) << result.out;
  EXPECT_THAT(result.out, HasSubstr("ok       privacy account"));
  EXPECT_FALSE(std::filesystem::exists(run_.folder + "/labels.account.db"));
}

// A run of this table without protection is in the ledger: the limit cannot be kept, whatever the account says.
TEST_F(CheckTest, ForeseesWhatTheLedgersRunsLeaveNoRoomFor) {
  ShowNoScores();
  run_.nonlabel_agreement = run_.label_agreement;
  run_.label_config.mutable_protection()->mutable_none();
  run_.StartLabelParty();
  run_.StartNonLabelParty();
  EXPECT_EQ(run_.nonlabel->Wait(), 0) << run_.nonlabel->Errors();
  EXPECT_EQ(run_.label->Wait(), 0) << run_.label->Errors();
  run_.label_config.mutable_protection()->mutable_gaussian_label_dp()->set_max_run_auc_bound(0.7);
  v1::PrivacyAccount& account = *run_.label_config.mutable_privacy_account();
  account.set_path("labels.account.db");
  account.set_label_set("June");
  ExpectAccepted("label_party");
  account.set_max_lifetime_auc_bound(0.75);
  const ChildResult check = Check("label_party");
  EXPECT_EQ(check.exit_code, 5) << check.err;
  EXPECT_THAT(check.err, HasSubstr("(none) released of the same labels, or may have, and nothing proved bounds what"));
  EXPECT_EQ(Check("label_party", "--dry_run").exit_code, 2);
  EXPECT_FALSE(std::filesystem::exists(run_.folder + "/labels.account.db"));
}

TEST_F(CheckTest, DryRunForeseesAnAccountOfActivationsThatTheRunWouldPass) {
  run_.label_agreement.set_epochs(4);
  run_.label_agreement.mutable_audit()->clear_layers();
  run_.label_agreement.mutable_audit()->add_layers("cut");
  run_.nonlabel_config.mutable_protection()->mutable_gaussian();
  run_.nonlabel_config.mutable_protection()->set_noise_sigma(4);
  run_.nonlabel_config.mutable_protection()->set_clip_norm(1);
  ExpectRefused("nonlabel_party", "privacy_account: not set, but protection { gaussian {} } needs one");
  v1::ActivationAccount& account = *run_.nonlabel_config.mutable_privacy_account();
  account.set_path("features.account.db");
  account.set_max_lifetime_auc_bound(0.75);
  ExpectProblems("nonlabel_party", {"problem  privacy account  AUC bound of all runs together: 0.500 now, 0.761 with "
                                    "this one, limit 0.75: exhausted"});
  account.set_max_lifetime_auc_bound(0.8);
  ExpectAccepted("nonlabel_party");
  const ChildResult result = Check("nonlabel_party", "--dry_run");
  EXPECT_EQ(result.exit_code, 0) << result.out;
  EXPECT_THAT(result.out, HasSubstr("ok       privacy account"));
  EXPECT_FALSE(std::filesystem::exists(run_.folder + "/features.account.db"));
}

TEST_F(CheckTest, RefusesDataThatAreNotThere) {
  for (const std::string party : kParties) {
    PartyOf(party)->mutable_dataset()->set_path("none.data");
    ExpectRefused(party, "none.data: cannot be opened: No such file or directory");
  }
}

TEST_F(CheckTest, RefusesTheOtherPartysData) {
  run_.label_config.mutable_party()->mutable_dataset()->set_path("nonlabel_party.data");
  run_.nonlabel_config.mutable_party()->mutable_dataset()->set_path("label_party.data");
  ExpectRefused("label_party", "nonlabel_party.data: has no labels, so it is not the label party's data");
  ExpectRefused("nonlabel_party", "label_party.data: has labels, so it is not the non-label party's data");
}

TEST_F(CheckTest, RefusesDataOfAnotherSplitAndModelsThatDoNotFitThem) {
  run_.nonlabel_config.mutable_model()->clear_embedding();
  ExpectRefused("nonlabel_party", "model.embedding is missing");
  run_.label_config.mutable_model()->mutable_wide()->clear_embedding();
  ExpectRefused("label_party", "model.wide.embedding is missing");
  run_.label_agreement.set_test_fraction(0.2);
  for (const std::string party : kParties) {
    ExpectRefused(party, "test_fraction: expected data prepared for 0.2");
  }
}

TEST_F(CheckTest, RefusesAddressesThatAreNone) {
  run_.label_config.set_listen_address("192.0.2.1:0");  // TEST-NET-1, which no machine has.
  ExpectRefused("label_party", "listen_address: expected a free host:port of this machine, found \"192.0.2.1:0\": ");
  run_.nonlabel_config.set_listen_address("7444");
  ExpectRefused("nonlabel_party", "listen_address: expected host:port with a port of 0 to 65535, found \"7444\"");
  run_.nonlabel_config.set_listen_address("127.0.0.1:0");
  run_.nonlabel_config.set_peer_address("https://label-party.example");
  ExpectRefused("nonlabel_party", "peer_address: expected host:port");
}

TEST_F(CheckTest, RefusesAPortThatIsTaken) {
  run_.StartLabelParty();
  run_.nonlabel_config.set_listen_address(absl::StrCat("127.0.0.1:", run_.label_port));
  ExpectRefused("nonlabel_party", "listen_address: expected a free host:port of this machine");
}

TEST_F(CheckTest, RefusesALedgerThatIsNone) {
  for (const std::string party : kParties) {
    PartyOf(party)->set_ledger_path("data.tsv");
    ExpectRefused(party, "party.ledger_path: " + run_.folder + "/data.tsv: expected a SQLite database");
    PartyOf(party)->set_ledger_path("absent/x.db");
    ExpectRefused(party, "party.ledger_path: " + run_.folder + "/absent/x.db: its folder does not exist");
  }
}

TEST_F(CheckTest, RefusesAResultWithoutAFolder) {
  run_.label_config.set_result_path("absent/result.json");
  ExpectRefused("label_party", "result_path: " + run_.folder + "/absent/result.json: its folder does not exist");
}

}  // namespace
}  // namespace splitveil::testing
