// `splitveil tune` for real: it starts both parties' programs for every trial.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "common/figures/all_runs.h"
#include "common/ledger/ledger.h"
#include "common/privacy_account/privacy_account.h"
#include "tests/testing/process/child_process.h"
#include "tests/testing/process/running_program.h"
#include "tests/testing/two_party_run.h"

namespace splitveil::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class TuneTest : public ::testing::Test {
 protected:
  TuneTest() : files_(1000) {
    files_.label_agreement.set_epochs(3);
    files_.label_agreement.set_batch_size(128);
  }

  ChildResult Tune(int trials = 3, const std::vector<std::string>& more = {}) {
    Write("run.textproto", files_.label_agreement);
    Write("label.textproto", files_.label_config);
    Write("nonlabel.textproto", files_.nonlabel_config);
    std::vector<std::string> argv = {BinDir() + "/splitveil",
                                     "tune",
                                     "--agreement=" + Path("run.textproto"),
                                     "--label_config=" + Path("label.textproto"),
                                     "--nonlabel_config=" + Path("nonlabel.textproto"),
                                     "--out=" + Path("out"),
                                     absl::StrCat("--trials=", trials)};
    argv.insert(argv.end(), more.begin(), more.end());
    ChildOptions options;
    options.limit_seconds = 240;
    return RunChild(argv, options);
  }
  std::string Path(const std::string& name) const { return files_.folder + "/" + name; }
  std::vector<std::string> CsvLines() const {
    return absl::StrSplit(ReadWholeFile(Path("out/tune.csv")), '\n', absl::SkipEmpty());
  }

  TwoPartyRun files_;

 private:
  void Write(const std::string& name, const google::protobuf::Message& message) {
    std::string text;
    ASSERT_TRUE(google::protobuf::TextFormat::PrintToString(message, &text));
    std::ofstream(Path(name)) << text;
  }
};

TEST_F(TuneTest, ChoosesByTheValidationPartAndWritesFilesThatRun) {
  // Whole models, so that layers may vary. As configured, nothing is learned: any trial is better.
  files_.label_agreement.set_cut_layer("second");
  files_.label_agreement.set_cut_width(128);
  for (v1::ModelSpec* model : {files_.label_config.mutable_model(), files_.nonlabel_config.mutable_model()}) {
    model->Clear();
    model->set_preset(v1::ModelSpec::WIDE_AND_DEEP);
  }
  files_.label_config.mutable_party()->mutable_optimizer()->set_learning_rate(1e-3);
  files_.nonlabel_config.mutable_party()->mutable_optimizer()->set_learning_rate(1e-3);
  const ChildResult tune = Tune();
  ASSERT_EQ(tune.exit_code, 0) << tune.err;
  EXPECT_THAT(tune.err, AllOf(HasSubstr("at most log2 N bits"), HasSubstr("Rung 2 of 2"), Not(HasSubstr("test AUC"))));
  // Five trials of one epoch, then two to four of three epochs; one alignment.
  const std::vector<std::string> lines = CsvLines();
  EXPECT_GE(lines.size(), 8U);
  EXPECT_LE(lines.size(), 10U);
  // Whatever was chosen stands beside what is configured and what a plain model reaches.
  EXPECT_THAT(tune.out, AllOf(HasSubstr("as configured"), HasSubstr("logistic regression on the same columns")));
  EXPECT_TRUE(std::filesystem::exists(Path("out/runs/label_party.alignment")));
  EXPECT_THAT(ReadWholeFile(Path("out/runs/trial001-rung1/label_party.log")), HasSubstr("alignment"));

  // Once more: nothing is run again, and the choice is the same.
  const ChildResult again = Tune();
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("5 of 5 runs are finished already"));
  EXPECT_EQ(again.out, tune.out);
  EXPECT_EQ(CsvLines(), lines);

  if (!absl::StrContains(tune.out, "Nothing is written")) {
    EXPECT_THAT(ReadWholeFile(Path("run.tuned.textproto")),
                StartsWith("# Settings that `splitveil tune` chose.\n# Trial"));
    const std::string agreement = "--agreement=" + Path("run.tuned.textproto");
    EXPECT_EQ(RunChild({BinDir() + "/label_party", agreement, "--config=" + Path("label.tuned.textproto"), "--check"})
                  .exit_code,
              0);
    EXPECT_EQ(
        RunChild({BinDir() + "/nonlabel_party", agreement, "--config=" + Path("nonlabel.tuned.textproto"), "--check"})
            .exit_code,
        0);
  }
}

// What all runs on the labels allow together, as the account says it to a run that releases the same once more.
double LifetimeBound(const std::string& log) {
  const std::string kWords = "this run's included: ";
  const size_t at = log.find(kWords);
  return at == std::string::npos ? std::nan("") : std::stod(log.substr(at + kWords.size()));
}

TEST_F(TuneTest, CostsAsMuchAsTheRunUnderAGuarantee) {
  files_.label_agreement.set_epochs(2);
  files_.label_agreement.clear_audit();
  files_.label_config.mutable_protection()->mutable_gaussian_label_dp()->set_max_run_auc_bound(0.7);
  files_.label_config.mutable_privacy_account()->set_path(Path("labels.account.db"));
  files_.label_config.mutable_privacy_account()->set_label_set("June");
  // Nothing more than one run: a search that counts twice is halted.
  files_.label_config.mutable_privacy_account()->set_max_lifetime_auc_bound(0.7001);
  EXPECT_THAT(Tune(/*trials=*/2).err, HasSubstr("add --debit_account"));
  EXPECT_FALSE(std::filesystem::exists(Path("labels.account.db")));

  const ChildResult tune = Tune(/*trials=*/2, {"--debit_account"});
  ASSERT_EQ(tune.exit_code, 0) << tune.err;
  EXPECT_THAT(tune.err, HasSubstr("Rung 1 of 1"));  // One choice, not one a rung.
  EXPECT_EQ(CsvLines().size(), 1U + 1 + 2);
  for (const std::string trial : {"trial000-rung1", "trial002-rung1"}) {
    const std::string log = ReadWholeFile(Path("out/runs/" + trial + "/label_party.log"));
    EXPECT_NEAR(LifetimeBound(log), 0.7, 1e-4) << log;
    // Nothing that the choice is made of has learned from the labels themselves.
    EXPECT_THAT(ReadWholeFile(Path("out/runs/" + trial + "/label_party.textproto")),
                HasSubstr("release_head_predicts: true"));
  }
  // Another search on the same labels would choose by them again: the validation part has no second choice left.
  ASSERT_EQ(Tune(/*trials=*/2, {"--debit_account"}).out, tune.out);  // The same one does not choose again.
  std::filesystem::remove(Path("out/choice"));
  const ChildResult second = Tune(/*trials=*/2, {"--debit_account"});
  EXPECT_THAT(second.err, HasSubstr("max_lifetime_auc_bound"));
  // The agreement goes to the other party.
  if (!absl::StrContains(tune.out, "Nothing is written")) {
    EXPECT_THAT(ReadWholeFile(Path("run.tuned.textproto")), Not(HasSubstr("AUC 0.")));
  }
}

// As a run does: what came after the copy would count as nothing.
TEST_F(TuneTest, AsksTheLabelPartysLedgerBeforeItsChoice) {
  files_.label_agreement.clear_audit();
  files_.label_config.mutable_protection()->mutable_gaussian_label_dp()->set_max_run_auc_bound(0.7);
  v1::PrivacyAccount& account = *files_.label_config.mutable_privacy_account();
  account.set_path(Path("labels.account.db"));
  account.set_label_set("June");
  RunRow row;
  row.run_id = "later";
  row.role = "label_party";
  row.label_set = "June";
  row.account = (*PrivacyAccount::Open({account.path(), "June", 1}))->id();
  ASSERT_TRUE((*Ledger::Create(Path(files_.label_config.party().ledger_path()), row))
                  ->RecordEvent(kReleasesFollow, ReleasesFollow(10, "later 2026-01-31T09:30:00.123Z 0123456789abcdef"))
                  .ok());
  const ChildResult refused = Tune(/*trials=*/1, {"--debit_account"});
  EXPECT_EQ(refused.exit_code, 2) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("privacy_account: path: this account does not know all of run later"));
  EXPECT_FALSE(std::filesystem::exists(Path("out/runs")));
  account.set_path(Path("other.account.db"));
  EXPECT_THAT(Tune(/*trials=*/1, {"--debit_account"}).err,
              HasSubstr("expected the account that counted the earlier runs on these labels"));
  EXPECT_FALSE(std::filesystem::exists(Path("other.account.db")));
}

TEST_F(TuneTest, RefusesWhatItsAccountCannotCount) {
  files_.label_config.mutable_protection()->mutable_label_dp()->set_epsilon(1);
  files_.label_config.clear_privacy_account();
  EXPECT_THAT(Tune(/*trials=*/1, {"--debit_account"}).err, HasSubstr("privacy_account: expected one"));
}

TEST_F(TuneTest, RefusesWhatItCannotChooseBy) {
  files_.label_agreement.set_validation_fraction(0);
  const ChildResult tune = Tune();
  EXPECT_EQ(tune.exit_code, 2);
  EXPECT_THAT(tune.err, HasSubstr("validation_fraction: expected more than 0"));
  files_.label_agreement.set_validation_fraction(0.1);
  std::ofstream(Path("run.tuned.textproto")) << "mine";
  EXPECT_THAT(Tune().err, HasSubstr("run.tuned.textproto: is there"));
  EXPECT_EQ(ReadWholeFile(Path("run.tuned.textproto")), "mine");
}

}  // namespace
}  // namespace splitveil::testing
