// `splitveil predict` at both parties, after a run of both programs.
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "common/dataset/dataset.h"
#include "common/privacy/gaussian_privacy.h"
#include "common/schedule/train_test_split.h"
#include "tests/testing/account_contents.h"
#include "tests/testing/process/child_process.h"
#include "tests/testing/process/running_program.h"
#include "tests/testing/two_party_run.h"
#include "tests/unit/nonlabel_party/session/ledger_value.h"

namespace splitveil::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

std::map<std::string, double> ReadPredictions(const std::string& path) {
  std::map<std::string, double> predictions;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line, "id,probability");
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = absl::StrSplit(line, ',');
    double probability = NAN;
    EXPECT_TRUE(cells.size() == 2 && absl::SimpleAtod(cells[1], &probability)) << "a line of another shape";
    EXPECT_TRUE(predictions.emplace(cells[0], probability).second) << "an id twice";
  }
  return predictions;
}

// By counting pairs.
double AucOf(const std::vector<std::pair<double, int>>& scored) {
  double wins = 0, pairs = 0;
  for (const auto& [score, label] : scored) {
    for (const auto& [other, other_label] : scored) {
      if (label == 1 && other_label == 0) {
        wins += score > other ? 1 : score == other ? 0.5 : 0;
        ++pairs;
      }
    }
  }
  return wins / pairs;
}

class PredictTest : public ::testing::Test {
 protected:
  PredictTest() {
    run.label_agreement.set_wire_dtype(v1::FLOAT32);
    run.nonlabel_agreement = run.label_agreement;
    run.label_config.mutable_party()->set_checkpoint_path("label_party.checkpoint");
    run.nonlabel_config.mutable_party()->set_checkpoint_path("nonlabel_party.checkpoint");
    run.label_config.mutable_party()->set_alignment_cache_path("label_party.alignment");
    run.nonlabel_config.mutable_party()->set_alignment_cache_path("nonlabel_party.alignment");
    std::ofstream(run.folder + "/token") << "0123456789abcdef\n";
    std::filesystem::permissions(run.folder + "/token", std::filesystem::perms::owner_read);
    for (v1::PartyCommon* party : {run.label_config.mutable_party(), run.nonlabel_config.mutable_party()}) {
      party->mutable_monitoring()->set_listen_address("127.0.0.1:0");
      party->mutable_monitoring()->set_token_path("token");  // Beside the configuration.
    }
  }

  void Train() {
    run.StartLabelParty();
    run.StartNonLabelParty();
    ASSERT_EQ(run.nonlabel->Wait(), 0) << run.nonlabel->Errors();
    ASSERT_EQ(run.label->Wait(), 0) << run.label->Errors();
    const std::string output = run.label->Output();
    result = nlohmann::json::parse(output.substr(output.find('{')));
    figures = ReadWholeFile(run.folder + "/label_party.result.json");
  }

  std::vector<std::string> Arguments(const std::string& party) const {
    return {
        "predict",
        absl::StrCat("--agreement=", run.folder, party == "label_party" ? "/label_run" : "/nonlabel_run", ".textproto"),
        absl::StrCat("--config=", run.folder, "/", party, ".textproto")};
  }

  // Both parties predict, examples of `data` (a folder) or of the training.
  void Predict(const std::string& out, const std::string& data = "") {
    std::vector<std::string> arguments = Arguments("label_party"), nonlabel_arguments = Arguments("nonlabel_party");
    arguments.push_back("--out=" + out);
    if (!data.empty()) {
      arguments.push_back("--data=" + data + "/label_party.data");
      nonlabel_arguments.push_back("--data=" + data + "/nonlabel_party.data");
    }
    std::filesystem::create_directory(run.folder + "/label_predict");
    std::filesystem::create_directory(run.folder + "/nonlabel_predict");
    label = std::make_unique<RunningProgram>("splitveil", arguments, run.folder + "/label_predict");
    run.AwaitPort(*label);
    run.WriteNonLabelPartyFiles();
    nonlabel = std::make_unique<RunningProgram>("splitveil", nonlabel_arguments, run.folder + "/nonlabel_predict");
    ASSERT_EQ(nonlabel->Wait(), 0) << nonlabel->Errors();
    ASSERT_EQ(label->Wait(), 0) << label->Errors();
  }

  TwoPartyRun run;
  // Of the label party's ledger, by a policy that the training meets.
  ChildResult Audit() const {
    const std::string policy = run.folder + "/policy.textproto";
    std::ofstream(policy) << "allowed_protections: \"none\" require_no_bound_exceeded: false require_proved_bound: "
                             "false min_final_test_auc: 0.5 "
                             "allowed_disclosures: ORACLE";
    return RunChild({BinDir() + "/splitveil", "audit", "--ledger=" + run.ledger("label_party"), "--policy=" + policy});
  }

  nlohmann::json result;
  std::string figures;  // Every one of the training.
  std::unique_ptr<RunningProgram> label, nonlabel;
};

TEST_F(PredictTest, TheLabelPartyGetsWhatTheTrainedModelSaysOfEverySharedExample) {
  for (v1::PartyCommon* party : {run.label_config.mutable_party(), run.nonlabel_config.mutable_party()}) {
    party->mutable_optimizer()->set_learning_rate(0.3);
  }
  for (v1::RunAgreement* agreement : {&run.label_agreement, &run.nonlabel_agreement}) {
    agreement->set_epochs(15);  // The best is among the first; the last is 0.1 below it.
  }
  Train();
  ASSERT_EQ(Audit().exit_code, 0) << Audit().out;
  const std::string out = run.folder + "/predictions.csv";
  Predict(out);
  const std::map<std::string, double> predictions = ReadPredictions(out);
  EXPECT_EQ(predictions.size(), result["aligned_examples"].get<size_t>());
  struct stat mode = {};
  ASSERT_EQ(stat(out.c_str(), &mode), 0);
  EXPECT_EQ(mode.st_mode & 0777, 0600);

  // The test part's AUC is that which the training reports.
  const auto data = *Dataset::Open(run.folder + "/label_party.data");
  const SplitRule rule("", 0.1);
  std::vector<std::pair<double, int>> test;
  for (size_t row = 0; row < data->ids().size(); ++row) {
    const auto found = predictions.find(std::string(data->ids()[row]));
    if (found != predictions.end() && rule.IsTest(data->ids()[row])) {
      test.emplace_back(found->second, data->labels()[row]);
    }
  }
  EXPECT_NEAR(AucOf(test), result["test_auc"].get<double>(), 2e-6);
  EXPECT_GT(std::abs(AucOf(test) - result["final_test_auc"].get<double>()), 1e-4);

  // So says `splitveil score`, given the labels of the test part.
  std::ofstream labels(run.folder + "/labels.csv");
  labels << "id,label\n";
  for (uint32_t row = 0; row < data->rows(); ++row) {
    if (rule.IsTest(data->ids()[row])) {
      labels << data->ids()[row] << "," << int{data->labels()[row]} << "\n";
    }
  }
  labels.close();
  ASSERT_EQ(TwoPartyRun::Tool({"score", "--predictions=" + out, absl::StrCat("--labels=", run.folder, "/labels.csv"),
                               absl::StrCat("--out=", run.folder, "/score.json")}),
            0);
  const nlohmann::json scored = nlohmann::json::parse(ReadWholeFile(run.folder + "/score.json")),
                       trained = nlohmann::json::parse(figures);
  EXPECT_EQ(scored["rows"], test.size());
  for (const auto& [of_score, of_training] :
       {std::pair("auc", "test_auc"), {"log_loss", "test_log_loss"}, {"calibration_error", "test_calibration_error"}}) {
    EXPECT_NEAR(scored[of_score], trained[of_training], 1e-6) << of_score;
  }

  // Nothing was trained, released or counted, and the training's checkpoints stand.
  EXPECT_THAT(label->Errors(), HasSubstr("predicted"));
  const std::string output = label->Output();
  const nlohmann::json predicted = nlohmann::json::parse(output.substr(output.find('{')));
  EXPECT_EQ(predicted["steps"], 0);
  EXPECT_EQ(predicted["aligned_examples"], result["aligned_examples"]);
  EXPECT_TRUE(predicted["leak"].empty()) << predicted["leak"];

  // The training's figures and its verdict, too.
  EXPECT_EQ(ReadWholeFile(run.folder + "/label_party.result.json"), figures);
  EXPECT_TRUE(std::filesystem::exists(run.folder + "/label_party.prediction.json"));
  const ChildResult audit = Audit();
  EXPECT_EQ(audit.exit_code, 0) << audit.out << audit.err;
  EXPECT_THAT(audit.out, HasSubstr("predicts only: nothing was released by the label party\npolicy met by this run"));

  // The training's alignment has served both.
  // In whole seconds.
  EXPECT_THAT(label->Errors(), ContainsRegex("of an alignment kept [0-9hm]+s? ago"));
  EXPECT_THAT(nonlabel->Errors(), ContainsRegex("of an alignment kept [0-9hm]+s? ago"));
  EXPECT_THAT(run.label->Errors(), Not(HasSubstr("of an alignment kept")));

  // Nothing but such a table is replaced, not even by a path that is in no configuration.
  const std::string account = run.folder + "/labels.account.db";
  std::ofstream(account) << "SQLite format 3";
  std::vector<std::string> arguments = Arguments("label_party");
  arguments.insert(arguments.begin(), BinDir() + "/splitveil");
  arguments.push_back("--out=" + account);
  const ChildResult refused = RunChild(arguments);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("labels.account.db: expected no file of this name, or an earlier table"));
  EXPECT_EQ(ReadWholeFile(account), "SQLite format 3");
  Predict(out);

  // Once more, with the same answer, though one party has lost the alignment and both align again.
  std::filesystem::remove(run.folder + "/nonlabel_party.alignment");
  const std::string again = run.folder + "/again.csv";
  Predict(again);
  const std::map<std::string, double> repeated = ReadPredictions(again);
  ASSERT_EQ(repeated.size(), predictions.size());
  for (const auto& [id, probability] : predictions) {  // In another order, which rounds sums differently.
    EXPECT_NEAR(repeated.at(id), probability, 1e-6);
  }
  EXPECT_THAT(label->Errors(), Not(HasSubstr("of an alignment kept")));
}

// Each is one more release of every shared example, with noise of its own. Of labels it releases nothing, so that a
// limit for life does not stop it.
TEST_F(PredictTest, PredictionsCountInTheAccountOfActivations) {
  for (v1::RunAgreement* agreement : {&run.label_agreement, &run.nonlabel_agreement}) {
    agreement->clear_audit();
    agreement->mutable_audit()->add_layers("cut");
  }
  run.label_config.mutable_protection()->mutable_gaussian_label_dp()->set_sigma(4);
  run.label_config.mutable_privacy_account()->set_path("labels.account.db");
  run.label_config.mutable_privacy_account()->set_label_set("test");
  run.label_config.mutable_privacy_account()->set_max_lifetime_auc_bound(0.7);
  run.nonlabel_config.mutable_protection()->mutable_gaussian();
  run.nonlabel_config.mutable_protection()->set_noise_sigma(4);
  run.nonlabel_config.mutable_protection()->set_clip_norm(1);
  run.nonlabel_config.mutable_privacy_account()->set_path("features.account.db");
  Train();
  const int64_t aligned = result["aligned_examples"].get<int64_t>(), epochs = run.label_agreement.epochs();
  for (int64_t predictions = 0; predictions < 3; ++predictions) {
    const int64_t expected = epochs + predictions;
    const AccountContents counted = ReadAccount(run.folder + "/features.account.db");
    EXPECT_EQ(counted.size(), aligned);
    for (const auto& [example, debits] : counted) {
      EXPECT_EQ(DrawsOf(debits), expected);
    }
    // mu 0.5 a release.
    EXPECT_NEAR(std::stod(LedgerValue(run.ledger("nonlabel_party"), "SELECT max(auc_bound) FROM all_runs")),
                GaussianPrivacy::FromMu(0.5 * std::sqrt(static_cast<double>(expected)))->AucBound(), 1e-12);
    Predict(absl::StrCat(run.folder, "/predictions", predictions, ".csv"));
  }
}

TEST_F(PredictTest, OtherExamplesLeaveTheTrainingsAlignmentAlone) {
  Train();
  std::vector<std::string> kept;
  for (const char* party : {"label_party", "nonlabel_party"}) {
    kept.push_back(ReadWholeFile(absl::StrCat(run.folder, "/", party, ".alignment")));
  }
  const std::string table = run.folder + "/other.tsv", data = run.folder + "/other";
  ASSERT_EQ(TwoPartyRun::Tool({"generate", "--rows=300", "--seed=9", "--out=" + table}), 0);
  ASSERT_EQ(TwoPartyRun::Tool({"prepare", "--format=criteo", "--input=" + table, "--extend=" + run.folder,
                               "--test_fraction=0", "--validation_fraction=0", "--seed=9", "--out=" + data}),
            0);
  Predict(run.folder + "/predictions.csv", data);
  for (const auto& log : {label->Errors(), nonlabel->Errors()}) {
    EXPECT_THAT(log, Not(HasSubstr("expected a cached alignment")));
    EXPECT_THAT(log, Not(HasSubstr("of an alignment kept")));
  }
  EXPECT_EQ(ReadWholeFile(run.folder + "/label_party.alignment"), kept[0]);
  EXPECT_EQ(ReadWholeFile(run.folder + "/nonlabel_party.alignment"), kept[1]);

  // Each party was told how its columns differ, and of no column of the other.
  for (const auto& [program, party] : {std::pair(label.get(), "label_party"), {nonlabel.get(), "nonlabel_party"}}) {
    EXPECT_THAT(program->Output(), HasSubstr(" rows, compared with the training\n  column  shift (PSI)"));
    const v1::Preprocessing prepared = (*Dataset::Open(absl::StrCat(data, "/", party, ".data")))->preprocessing();
    const std::string metrics = ReadWholeFile(absl::StrCat(run.folder, "/", party, ".prediction.drift.prom"));
    EXPECT_THAT(metrics, HasSubstr(absl::StrCat("{party=\"", party, "\",column=\"")));
    const std::string drift = ReadWholeFile(absl::StrCat(run.folder, "/", party, ".prediction.drift.csv"));
    EXPECT_EQ(std::count(drift.begin(), drift.end(), '\n'), 1 + prepared.numeric_size() + prepared.categorical_size());
  }

  // The same table prepared a second time has scales and categories of its own, which the model does not know.
  ASSERT_EQ(TwoPartyRun::Tool({"prepare", "--format=criteo", "--input=" + table, "--test_fraction=0",
                               "--validation_fraction=0", "--seed=9", "--out=" + run.folder + "/again"}),
            0);
  for (const char* const party : {"label_party", "nonlabel_party"}) {
    std::vector<std::string> arguments = Arguments(party);
    arguments.insert(arguments.begin(), BinDir() + "/splitveil");
    arguments.push_back(absl::StrCat("--data=", run.folder, "/again/", party, ".data"));
    if (party == std::string("label_party")) {
      arguments.push_back("--out=" + run.folder + "/again.csv");
    }
    const ChildResult refused = RunChild(arguments);
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.err,
                HasSubstr("again/" + std::string(party) + ".data: expected rows encoded as those of the training"));
  }
}

TEST_F(PredictTest, AMistakeIsToldBeforeAnythingStarts) {
  run.WriteLabelPartyFiles();
  const auto errors = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), BinDir() + "/splitveil");
    const ChildResult child = RunChild(arguments);
    EXPECT_EQ(child.exit_code, 2);
    return child.err;
  };
  EXPECT_THAT(errors(Arguments("label_party")), HasSubstr("--out: expected the file for the predictions"));
  std::vector<std::string> arguments = Arguments("label_party");
  arguments.push_back("--out=" + run.folder + "/predictions.csv");
  EXPECT_THAT(errors(arguments),
              HasSubstr("/label_party.checkpoint: expected this party's trained model, found no file"));
  // What the run reads and writes, there or not: by the plan. Whatever else is no table: by the party's program.
  for (const char* const name : {"label_run.textproto", "label_party.textproto", "label_party.data", "label_party.db",
                                 "label_party.checkpoint", "label_party.alignment", "label_party.prediction.json"}) {
    arguments.back() = "--out=" + run.folder + "/./" + name;
    EXPECT_THAT(
        errors(arguments),
        HasSubstr(std::string("--out: expected a different file than those that the run reads or writes, found ") +
                  run.folder + "/" + name));
  }
  arguments.back() = "--out=" + run.folder + "/predictions.csv";
  run.label_config.mutable_party()->clear_checkpoint_path();
  run.WriteLabelPartyFiles();
  EXPECT_THAT(errors(arguments), HasSubstr("--checkpoint: expected the model to predict with"));
}

}  // namespace
}  // namespace splitveil::testing
