// `splitveil baseline` for real: its files train, cost no more than the model under a guarantee, and are reported.
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <string>

#include "absl/strings/str_cat.h"

#include "tests/testing/process/child_process.h"
#include "tests/testing/process/running_program.h"
#include "tests/testing/two_party_run.h"

namespace splitveil::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class BaselineTest : public ::testing::Test {
 protected:
  BaselineTest() {
    run_.label_agreement.set_cut_layer("third");
    run_.label_agreement.set_cut_width(128);
    v1::AuditAgreement& audit = *run_.label_agreement.mutable_audit();  // As init proposes it.
    audit.clear_attacks();
    for (const v1::Attack attack : {v1::NORM, v1::RESIDUAL_NORM, v1::SPECTRAL}) {
      audit.add_attacks(attack);
    }
    audit.set_disclosure(v1::LABEL_SIDE_ONLY);
    run_.nonlabel_agreement = run_.label_agreement;
    for (v1::ModelSpec* model : {run_.label_config.mutable_model(), run_.nonlabel_config.mutable_model()}) {
      model->Clear();
      model->set_preset(v1::ModelSpec::WIDE_AND_DEEP);
    }
    for (v1::PartyCommon* party : {run_.label_config.mutable_party(), run_.nonlabel_config.mutable_party()}) {
      party->set_export_dir(party == run_.label_config.mutable_party() ? "label.model" : "nonlabel.model");
    }
  }

  std::string Path(const std::string& name) const { return run_.folder + "/" + name; }

  ChildResult Baseline(const std::string& party) const {
    return RunChild({BinDir() + "/splitveil", "baseline",
                     absl::StrCat("--agreement=", run_.folder, "/", party, "_run.textproto"),
                     absl::StrCat("--config=", run_.folder, "/", party, "_party.textproto")});
  }

  // What the tool wrote, to be run: the label party's port is not known before it listens.
  template <typename Message>
  Message Written(const std::string& name) const {
    Message message;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(ReadWholeFile(Path(name)), &message)) << name;
    return message;
  }

  void RunToTheEnd() {
    run_.StartLabelParty();
    run_.StartNonLabelParty();
    EXPECT_EQ(run_.nonlabel->Wait(), 0) << run_.nonlabel->Errors();
    EXPECT_EQ(run_.label->Wait(), 0) << run_.label->Errors();
  }

  TwoPartyRun run_;
};

TEST_F(BaselineTest, TrainsUnderTheSameAccountAndStandsInTheReport) {
  run_.label_config.mutable_protection()->mutable_gaussian_label_dp()->set_max_run_auc_bound(0.7);
  run_.label_config.mutable_privacy_account()->set_path("labels.account.db");
  run_.label_config.mutable_privacy_account()->set_label_set("June");
  // Nothing more than one of the two runs: the second is halted if it is counted again.
  run_.label_config.mutable_privacy_account()->set_max_lifetime_auc_bound(0.7001);
  run_.WriteLabelPartyFiles();
  run_.WriteNonLabelPartyFiles();
  const ChildResult label = Baseline("label"), nonlabel = Baseline("nonlabel");
  ASSERT_EQ(label.exit_code, 0) << label.err;
  ASSERT_EQ(nonlabel.exit_code, 0) << nonlabel.err;
  EXPECT_THAT(label.out, AllOf(HasSubstr("counts them once for both runs"), HasSubstr("label_party --agreement=")));
  EXPECT_THAT(nonlabel.out, AllOf(Not(HasSubstr("labels")), HasSubstr("nonlabel_party --agreement=")));
  // Each party writes its own, of the same agreement.
  const std::string kFingerprint = "agreement fingerprint  ";
  const auto fingerprint = [&](const std::string& out) {
    const size_t at = out.find(kFingerprint);
    return at == out.npos ? out : out.substr(at, out.find('\n', at) - at);
  };
  EXPECT_EQ(fingerprint(label.out), fingerprint(nonlabel.out));

  const v1::RunAgreement agreement = run_.label_agreement;
  const v1::LabelPartyConfig label_config = run_.label_config;
  const v1::NonLabelPartyConfig nonlabel_config = run_.nonlabel_config;
  run_.label_agreement = Written<v1::RunAgreement>("label_run.baseline.textproto");
  run_.nonlabel_agreement = Written<v1::RunAgreement>("nonlabel_run.baseline.textproto");
  run_.label_config = Written<v1::LabelPartyConfig>("label_party.baseline.textproto");
  run_.nonlabel_config = Written<v1::NonLabelPartyConfig>("nonlabel_party.baseline.textproto");
  EXPECT_EQ(run_.label_agreement.cut_width(), 1);
  RunToTheEnd();
  EXPECT_TRUE(std::filesystem::exists(Path("label.model.baseline")));
  EXPECT_FALSE(std::filesystem::exists(Path("label.model")));

  run_.label_agreement = run_.nonlabel_agreement = agreement;
  run_.label_config = label_config;
  run_.nonlabel_config = nonlabel_config;
  RunToTheEnd();
  EXPECT_TRUE(std::filesystem::exists(Path("label.model")));

  ASSERT_EQ(TwoPartyRun::Tool({"report", "--ledger=" + Path("label_party.db"), "--ledger=" + Path("nonlabel_party.db"),
                               "--out=" + Path("report.html")}),
            0);
  const std::string page = ReadWholeFile(Path("report.html"));
  EXPECT_THAT(page, HasSubstr("\"label\":\"logistic regression with gaussian_label_dp("));
  EXPECT_THAT(page, HasSubstr("of logistic regression on the same columns"));
  EXPECT_THAT(page, ::testing::ContainsRegex("(0[.][0-9]+ (above|below)|no more than) logistic regression"));
}

// One column of activations and noise along it: what the proposals of init agree on must also run so.
TEST_F(BaselineTest, TrainsUnderMarvellWithItsAudit) {
  v1::GradientProtection::Marvell& marvell = *run_.label_config.mutable_protection()->mutable_marvell();
  marvell.mutable_run_budget()->set_max_run_auc_bound(0.7);
  marvell.set_orthogonal_noise_ratio(16);
  run_.WriteLabelPartyFiles();
  run_.WriteNonLabelPartyFiles();
  const ChildResult label = Baseline("label");
  ASSERT_EQ(label.exit_code, 0) << label.err;
  EXPECT_THAT(label.out, HasSubstr("adds to what the model's run releases"));
  ASSERT_EQ(Baseline("nonlabel").exit_code, 0);
  run_.label_agreement = run_.nonlabel_agreement = Written<v1::RunAgreement>("label_run.baseline.textproto");
  run_.label_config = Written<v1::LabelPartyConfig>("label_party.baseline.textproto");
  run_.nonlabel_config = Written<v1::NonLabelPartyConfig>("nonlabel_party.baseline.textproto");
  RunToTheEnd();
}

TEST_F(BaselineTest, RefusesWhatItCannotTrainOrMayNotReplace) {
  run_.WriteLabelPartyFiles();
  const std::string path = Path("label_run.baseline.textproto");
  { std::ofstream(path) << "mine"; }
  const ChildResult there = Baseline("label");
  EXPECT_EQ(there.exit_code, 2);
  EXPECT_THAT(there.err, HasSubstr("`splitveil baseline` did not write it"));
  EXPECT_EQ(ReadWholeFile(path), "mine");
  std::filesystem::remove(path);
  run_.label_agreement.set_mode(v1::RunAgreement::PREDICT);
  run_.label_agreement.clear_audit();
  run_.label_agreement.clear_epochs();
  run_.WriteLabelPartyFiles();
  EXPECT_THAT(Baseline("label").err, HasSubstr("mode: expected TRAIN, found PREDICT"));
}

// One column of activations would be a poorer model than logistic regression.
TEST_F(BaselineTest, RefusesALabelOfSeveralClasses) {
  {
    std::ofstream table(Path("table.csv"));
    table << "id,age,kind\n";
    for (int row = 0; row < 300; ++row) {
      table << "c" << row << "," << row % 70 << ","
            << "xyz"[row % 3] << "\n";
    }
    std::ofstream(Path("schema.textproto"))
        << "columns { name: 'id' kind: ID } columns { name: 'age' kind: NUMERIC } columns { name: 'kind' kind: "
           "CLASS_LABEL } classes: ['x', 'y', 'z']";
  }
  ASSERT_EQ(
      TwoPartyRun::Tool({"prepare", "--format=table", "--party=label_party", "--schema=" + Path("schema.textproto"),
                         "--input=" + Path("table.csv"), "--out=" + Path("classes")}),
      0);
  run_.label_config.mutable_party()->mutable_dataset()->set_path("classes/label_party.data");
  run_.WriteLabelPartyFiles();
  const ChildResult refused = Baseline("label");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("a baseline needs a label of two values or a number, found one of 3 classes"));
  EXPECT_FALSE(std::filesystem::exists(Path("label_run.baseline.textproto")));
}

}  // namespace
}  // namespace splitveil::testing
