// What the RESULT line says, and what it leaves to the file beside the ledger.
#include "label_party/session/result_json.h"

#include <array>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "common/leakage/summary.h"
#include "common/ledger/ledger.h"
#include "common/transport/tensor_codec.h"
#include "tests/testing/process/temp_folder.h"

namespace splitveil::testing {
namespace {

using Json = nlohmann::json;

// A run of one audited batch of two positives and two negatives.
KeptEpoch KeptAmong(KeepBy by, const std::vector<TestMetrics>& evaluated) {
  KeptEpoch kept(by, v1::EarlyStopping::AUC);
  for (const TestMetrics& metrics : evaluated) {
    kept.Take(metrics);
  }
  return kept;
}

class ResultJsonTest : public ::testing::Test {
 protected:
  ResultJsonTest() {
    ledger_ = *Ledger::Create(files_.File("ledger.db"), {"run", "label_party", "", "", "{}"});
    agreement_.mutable_audit()->add_layers("cut");
    for (const v1::Attack attack : {v1::NORM, v1::COSINE, v1::SPECTRAL}) {
      agreement_.mutable_audit()->add_attacks(attack);
    }
    agreement_.mutable_audit()->set_disclosure(v1::ORACLE);
    agreement_.set_wire_dtype(v1::FLOAT32);
    auditor_ = std::make_unique<LeakAuditor>(agreement_, v1::LabelSideAudit(), ExampleSample(4), ledger_.get());
    ReleasedBatch batch;
    batch.labels = {0, 0, 1, 1};
    batch.positions = {0, 1, 2, 3};
    auditor_->Remember(batch);
    result_.run_id = "run";
    result_.ended = "completed";
    result_.epochs = result_.steps = 1;
    result_.train_seconds = 3;
    result_.trained_examples = 10;
    result_.train_log_loss = 0.123456789;
  }

  // Scores of each attack; a higher one for a positive.
  void Judge(const std::map<v1::Attack, std::array<float, 4>>& scores) {
    v1::ScoreBatchRequest request;
    request.set_run_id("run");
    for (const auto& [attack, values] : scores) {
      v1::ScoreBatchRequest::Scores& entry = *request.add_scores();
      entry.set_layer("cut");
      entry.set_attack(attack);
      ASSERT_TRUE(EncodeMatrix({values.data(), 1, 4}, v1::FLOAT32, *entry.mutable_scores()).ok());
    }
    const auto judged = auditor_->Judge(request);
    ASSERT_TRUE(judged.ok()) << judged.status();
  }

  static std::set<std::string> Keys(const Json& json) {
    std::set<std::string> keys;
    for (const auto& [key, value] : json.items()) {
      keys.insert(key);
    }
    return keys;
  }

  Json Line() const { return Json::parse(ResultJson(FiguresOf(result_, *auditor_))); }
  Json Full() const { return Json::parse(FullResultJson(FiguresOf(result_, *auditor_))); }

  const TempFolder files_;
  v1::RunAgreement agreement_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<LeakAuditor> auditor_;
  RunResult result_;
};

TEST_F(ResultJsonTest, TheLineHasTheContractsKeysAndTheFileMore) {
  std::set<std::string> line = Keys(Line());
  EXPECT_EQ(line, (std::set<std::string>{"run_id",
                                         "resumed_from",
                                         "protection",
                                         "aligned_examples",
                                         "epochs",
                                         "steps",
                                         "train_log_loss",
                                         "test_log_loss",
                                         "test_auc",
                                         "test_calibration_error",
                                         "test_accuracy",
                                         "best_epoch",
                                         "best_epoch_chosen_on",
                                         "validation_auc",
                                         "validation_log_loss",
                                         "final_test_auc",
                                         "train_seconds",
                                         "examples_per_second",
                                         "bytes_sent",
                                         "bytes_received",
                                         "sum_kl_mean",
                                         "auc_bound_p95",
                                         "run_auc_bound",
                                         "all_runs_auc_bound",
                                         "gate",
                                         "frozen_after_epoch",
                                         "bound_exceeded",
                                         "bound_kind",
                                         "bound_state",
                                         "strongest",
                                         "practical",
                                         "with_side_information",
                                         "worst_case_tpr_at_1pct_fpr",
                                         "guessing",
                                         "leak"}));
  line.insert({"ended", "epoch_leak", "standing", "claim_check"});
  EXPECT_EQ(Keys(Full()), line);
}

TEST_F(ResultJsonTest, OperationsNamesEveryKeyOfTheLine) {
  Judge({{v1::NORM, {1, 2, 3, 0}}, {v1::COSINE, {1, 1, 1, 1}}, {v1::SPECTRAL, {3, 2, 1, 0}}});
  ASSERT_TRUE(auditor_->FinishRun().ok());
  TestMetrics of_numbers;
  of_numbers.rmse = 0.1;
  of_numbers.r_squared = 0.5;
  result_.tests.push_back(of_numbers);
  const Json line = Line();
  std::set<std::string> keys = Keys(line);
  ASSERT_EQ(keys.count("test_rmse") + keys.count("test_r2") + keys.count("final_test_r2"), 3);
  keys.merge(Keys(line["leak"]["cut"]["strongest"]));
  ASSERT_EQ(keys.count("pooled"), 1);
  std::ifstream file(OPERATIONS_PATH);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t begin = text.find("- **RESULT.**");
  const std::string result = text.substr(begin, text.find("- **Every figure**") - begin);
  for (const std::string& key : keys) {
    EXPECT_THAT(result, ::testing::ContainsRegex("[`{ ]" + key + "[`,}]"));
  }
}

TEST_F(ResultJsonTest, TheLineHasSixDigitsAndTheFileAll) {
  EXPECT_EQ(Line()["train_log_loss"].dump(), "0.123457");
  EXPECT_EQ(Line()["examples_per_second"].dump(), "3.33333");
  EXPECT_EQ(Full()["train_log_loss"].get<double>(), 0.123456789);
  EXPECT_EQ(Full()["examples_per_second"].get<double>(), 10.0 / 3);
}

TEST_F(ResultJsonTest, NumbersThatDoNotExistAreNull) {
  result_.train_log_loss = std::numeric_limits<double>::quiet_NaN();
  const Json line = Line();
  for (const char* key : {"train_log_loss", "sum_kl_mean", "test_auc", "test_log_loss", "final_test_auc",
                          "auc_bound_p95", "frozen_after_epoch"}) {
    EXPECT_TRUE(line[key].is_null()) << key;
  }
  result_.auc_bounds.Add(1);
  result_.total_sum_kl = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(Line()["sum_kl_mean"].is_null());
  EXPECT_EQ(line["leak"], Json::object());
  EXPECT_TRUE(line["strongest"].is_null());
  EXPECT_TRUE(line["practical"].is_null());
  EXPECT_TRUE(line["guessing"]["p95"].is_null());
}

TEST_F(ResultJsonTest, TheStrongestAttackIsNamedAndAnAttackThatPointsTheWrongWayIsInverted) {
  Judge({{v1::NORM, {1, 2, 3, 0}}, {v1::COSINE, {1, 1, 1, 1}}, {v1::SPECTRAL, {3, 2, 1, 0}}});
  const Json cut = Line()["leak"]["cut"];
  EXPECT_EQ(cut.size(), 3);
  EXPECT_EQ(cut["strongest"]["attack"], "spectral");
  EXPECT_EQ(cut["strongest"]["mean"], 1);  // An AUC of 0, inverted.
  EXPECT_EQ(cut["strongest"]["p95"], 1);
  EXPECT_EQ(cut["norm"]["mean"], 0.5);
  EXPECT_EQ(cut["cosine"]["mean"], 0.5);
  const Json full = Full()["leak"]["cut"];
  EXPECT_EQ(full.size(), 4);
  EXPECT_EQ(full["spectral"]["mean"], 1);
  EXPECT_EQ(full["strongest"], cut["strongest"]);
  EXPECT_EQ(Line()["strongest"], Line()["practical"]);
  EXPECT_EQ(Line()["practical"], Json({{"layer", "cut"}, {"attack", "spectral"}, {"auc", 1.0}}));
  EXPECT_EQ(Line()["with_side_information"]["attack"], "cosine");
}

TEST_F(ResultJsonTest, SaysWhatGuessingReachesAndWhatBecameOfTheBound) {
  Judge({{v1::NORM, {1, 2, 3, 0}}, {v1::COSINE, {1, 1, 1, 1}}, {v1::SPECTRAL, {3, 2, 1, 0}}});
  ASSERT_TRUE(auditor_->FinishRun().ok());  // Two of four are positive.
  result_.steps = 10;
  result_.trained_examples = 10 * 1024;
  result_.auc_bounds.Add(0.6);  // Of a step that released something.
  Json line = Line();
  EXPECT_NEAR(line["guessing"]["p95"].get<double>(), GuessingOver(512, 512).p95, 1e-6);
  EXPECT_NEAR(line["guessing"]["mean"].get<double>(), GuessingOver(512, 512).mean, 1e-6);
  EXPECT_EQ(line["bound_state"], "no attack was held against it");
  EXPECT_EQ(line["leak"]["cut"]["spectral"], Json());
  EXPECT_EQ(line["leak"]["cut"]["strongest"]["pooled"], 1);
  result_.cumulative_sum_kl = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Line()["bound_state"], "none stated");
}

TEST_F(ResultJsonTest, TheFileHasTheThreeFiguresAndTheVerdict) {
  Judge({{v1::NORM, {1, 2, 3, 0}}, {v1::COSINE, {1, 1, 1, 1}}, {v1::SPECTRAL, {3, 2, 1, 0}}});
  result_.protection = "marvell(s=4)";
  result_.first_slice_sent = true;
  result_.cumulative_sum_kl = 0.5;
  Json standing = Full()["standing"];
  EXPECT_TRUE(standing["proved_auc_bound"].is_null());
  EXPECT_TRUE(standing["worst_case"].is_null());
  EXPECT_EQ(standing["practical"]["attack"], "spectral");
  EXPECT_EQ(standing["verdict"], "claimed, the worst case was not measured");
  EXPECT_TRUE(Full()["claim_check"].is_null());
  result_.protection = "gaussian_label_dp(sigma=2)";
  standing = Full()["standing"];
  EXPECT_EQ(standing["proved_auc_bound"], Full()["run_auc_bound"]);
  EXPECT_TRUE(standing["own_features"].is_null());
  result_.own_features.push_back({-1, 0.5, 0.62, 0.1, 0.8});
  EXPECT_EQ(Full()["standing"]["own_features"], 0.62);
  EXPECT_EQ(standing["verdict"], "proved, not checked");  // Nothing was held against it.
  result_.cumulative_sum_kl = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(Full()["standing"]["proved_auc_bound"].is_null());
  EXPECT_EQ(Full()["standing"]["verdict"], "nothing claimed");
}

// A start that sent something and was killed; then every step was frozen.
TEST_F(ResultJsonTest, WhatWasSentBeforeTheRunWentBackIsNotForgotten) {
  result_.protection = "none";
  result_.gate[v1::FREEZE_BOTTOM] = 1;
  EXPECT_EQ(Full()["standing"]["verdict"], "no gradient released");
  EXPECT_EQ(Line()["run_auc_bound"], 0.5);
  result_.first_slice_sent = true;
  EXPECT_EQ(Full()["standing"]["verdict"], "nothing claimed");
  EXPECT_EQ(Line()["run_auc_bound"], 1);
  EXPECT_EQ(Line()["all_runs_auc_bound"], 1);
}

TEST_F(ResultJsonTest, TheFiguresOfTheTableAreTheSame) {
  Judge({{v1::NORM, {1, 2, 3, 0}}, {v1::COSINE, {1, 1, 1, 1}}, {v1::SPECTRAL, {3, 2, 1, 0}}});
  result_.tests = {{0, 0.5, 0.7, 0.1, 0.8}, {1, 0.6, 0.6, 0.1, 0.8}};
  result_.kept = KeptAmong(KeepBy::kTest, result_.tests);
  result_.gate[v1::WARN] = 2;
  const RunFigures figures = FiguresOf(result_, *auditor_);
  EXPECT_EQ(figures.ended, "completed");
  EXPECT_EQ(figures.test.auc, 0.7);
  EXPECT_EQ(figures.test.log_loss, 0.5);
  EXPECT_EQ(figures.best_epoch, 1);
  EXPECT_EQ(figures.final_test.auc, 0.6);
  ASSERT_EQ(figures.attacks.size(), 3);
  EXPECT_EQ(figures.attacks.front().attack, "spectral");
  EXPECT_EQ(figures.gate.at(v1::WARN), 2);
}

TEST_F(ResultJsonTest, TheBestEpochIsThatOfTheValidationPartWhereThereIsOne) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(Line()["best_epoch_chosen_on"].is_null());
  result_.tests = {{0, 0.5, 0.7, 0.1, 0.8}, {1, 0.6, 0.6, 0.1, 0.8}, {2, 0.7, 0.65, 0.1, 0.8}};
  result_.kept = KeptAmong(KeepBy::kTest, result_.tests);
  EXPECT_EQ(Line()["best_epoch_chosen_on"], "test");
  EXPECT_EQ(Line()["best_epoch"], 1);
  EXPECT_TRUE(Line()["validation_auc"].is_null());
  result_.validations = {{0, 0.4, nan, 0.1, 0.8}, {1, 0.5, 0.71, 0.1, 0.8}, {2, 0.6, 0.72, 0.1, 0.8}};
  result_.kept = KeptAmong(KeepBy::kValidation, result_.validations);
  const Json line = Line();
  EXPECT_EQ(line["best_epoch_chosen_on"], "validation");
  EXPECT_EQ(line["best_epoch"], 3);
  EXPECT_EQ(line["test_auc"], 0.65);
  EXPECT_EQ(line["test_log_loss"], 0.7);
  EXPECT_EQ(line["validation_auc"], 0.72);
  EXPECT_EQ(line["validation_log_loss"], 0.6);
  EXPECT_EQ(line["final_test_auc"], 0.65);
  EXPECT_EQ(FiguresOf(result_, *auditor_).kept_by, "validation");
  result_.kept = KeptAmong(KeepBy::kLast, result_.tests);
  EXPECT_EQ(Line()["best_epoch_chosen_on"], "last");
  EXPECT_EQ(Line()["best_epoch"], 3);
}

}  // namespace
}  // namespace splitveil::testing
