// What the report says of attacks, epochs, distributions, decisions and policies.
#include <cmath>
#include <cstdio>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/operator/audit/audit_report.h"
#include "deploy/operator/page/page.h"
#include "deploy/operator/records/run_records.h"
#include "deploy/operator/report/report.h"
#include "deploy/operator/report/report_sections.h"

#include "common/ledger/ledger.h"
#include "tests/testing/process/temp_folder.h"
#include "tests/unit/deploy/operator/report/plausible_ledger.h"

namespace splitveil {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::Not;

class ReportLeaksTest : public ::testing::Test {
 protected:
  ReportLeaksTest() {
    run_.epochs = 2;
    run_.steps_per_epoch = 20;
  }

  // The data of the report on a label party's ledger of `run_`.
  Json Report(const AuditReport* audit = nullptr) {
    const testing::TempFolder folder;
    EXPECT_TRUE(WriteLabelPartyLedger(folder.File("label_party.db"), run_).ok());
    const absl::StatusOr<std::vector<LedgerRun>> runs = ReadRuns({folder.File("label_party.db")});
    EXPECT_TRUE(runs.ok()) << runs.status();
    text_ = ScriptSafe(ReportJson(*runs, audit));
    return Json::parse(text_);
  }

  // What the run's card tells when it is opened.
  static std::string Details(const Json& run) { return run["details"].dump(); }

  static Json Find(const Json& list, const std::string& attack) {
    for (const Json& entry : list) {
      if (entry["attack"] == attack) {
        return entry;
      }
    }
    ADD_FAILURE() << "no " << attack;
    return Json::object();
  }

  PlausibleRun run_;
  std::string text_;
};

TEST_F(ReportLeaksTest, ShowsTheLastEpochOfEveryAttackWithItsIntervals) {
  const Json leak = Find(Report()["runs"][0]["leaks"], "spectral");
  EXPECT_EQ(leak["pooled"]["epoch"], 2);
  EXPECT_EQ(leak["pooled"]["examples"], 20 * 1024);
  for (const char* figure : {"auc", "tpr_1pct", "tpr_01pct"}) {
    const Json& interval = leak["pooled"][figure];
    EXPECT_LE(interval[1], interval[0]) << figure;
    EXPECT_GE(interval[2], interval[0]) << figure;
  }
}

TEST_F(ReportLeaksTest, DrawsOnlyWhatItChose) {
  const Json report = Report();
  ASSERT_EQ(report["charted"].size(), 3);
  EXPECT_EQ(report["charted"][0]["layer"], "cut");
  EXPECT_EQ(report["charted"][0]["attacks"].size(), 4);
  int64_t curves = 0;
  for (const Json& leak : report["runs"][0]["leaks"]) {
    curves += leak.contains("curve") ? 1 : 0;
  }
  EXPECT_GE(curves, 12);
  EXPECT_LE(curves, 16);  // An attack at the cut layer may have two observers.
}

TEST_F(ReportLeaksTest, FollowsTheCumulativeAttacksOverTheEpochs) {
  const Json cumulative = Report()["runs"][0]["cumulative"];
  EXPECT_EQ(cumulative["attacks"].size(), 4);
  const Json attack = Find(cumulative["attacks"], "cumulative_likelihood_ratio");
  ASSERT_EQ(attack["epochs"].size(), 2);
  EXPECT_EQ(attack["epochs"][0][0], 1);
  EXPECT_GT(attack["epochs"][1][1], attack["epochs"][0][1]);
  EXPECT_GT(cumulative["gaussian"][1][1], cumulative["gaussian"][0][1]);
  EXPECT_GE(cumulative["bound"][1][1], cumulative["gaussian"][1][1]);
}

TEST_F(ReportLeaksTest, SaysWhatTheModelGivesAway) {
  EXPECT_THAT(Details(Report()["runs"][0]), HasSubstr("the training adds 0.050"));
}

TEST_F(ReportLeaksTest, MarksAnAttackBeyondItsBound) {
  run_.exceeds_bound = true;
  const Json run = Report()["runs"][0];
  EXPECT_EQ(run["ranking"]["bound"], "exceeded");
  ASSERT_EQ(run["excesses"].size(), 1);
  EXPECT_THAT(run["excesses"][0],
              HasSubstr("Best guess knowing both classes at the cut layer exceeds its bound in epoch 2: lower 99.99%"));
  EXPECT_THAT(Details(run), HasSubstr("rely on what was measured"));
  EXPECT_THAT(run["answer"]["headline"], HasSubstr("Broken"));
  EXPECT_EQ(run["answer"]["tone"], "alarm");
  EXPECT_THAT(run["remedy"], HasSubstr("Set gaussian_label_dp"));
  const Json beyond = Find(run["leaks"], "likelihood_ratio")["beyond"];
  ASSERT_EQ(beyond.size(), 1);
  EXPECT_EQ(beyond[0][0], 39);  // The last step of the last epoch.
}

std::vector<std::string> MarksOf(const Json& answer) {
  std::vector<std::string> kinds;
  for (const Json& mark : answer["marks"]) {
    kinds.push_back(mark["kind"]);
  }
  return kinds;
}

TEST_F(ReportLeaksTest, AnswersWithASentenceAPictureAndFourFigures) {
  const Json run = Report()["runs"][0];
  const Json& answer = run["answer"];
  EXPECT_EQ(answer["headline"], "Promise to nobody: measured only");
  EXPECT_THAT(answer["sentence"], HasSubstr("Not a promise: "));
  EXPECT_THAT(answer["sentence"], HasSubstr("only for Gaussian classes"));
  ASSERT_EQ(answer["figures"].size(), 4);
  EXPECT_EQ(answer["figures"][0]["value"], "nothing");
  EXPECT_EQ(answer["figures"][1]["name"], "revealed beyond features");
  EXPECT_THAT(answer["figures"][2]["value"], HasSubstr("%"));
  EXPECT_EQ(answer["figures"][3]["name"], "test AUC");
  EXPECT_THAT(answer["figures"][3]["note"], HasSubstr("no run with an untrained model to compare"));
  EXPECT_THAT(MarksOf(answer), ::testing::ElementsAre("guessing", "practical", "worst", "conditional"));
  EXPECT_TRUE(answer["price"].is_null());
  EXPECT_EQ(run["ranking"]["baseline"]["title"], "Features alone");
  EXPECT_THAT(Details(run), Not(HasSubstr("claim")));
  run_.mu_lower = 0.1;
  EXPECT_THAT(Details(Report()["runs"][0]), HasSubstr("measured mu at least 0.100 (95% confidence)"));
  run_.mu_lower = 9;
  EXPECT_THAT(Report()["runs"][0]["answer"]["headline"], HasSubstr("Broken"));
}

// A proved bound is about what gradients add: what ranks by features stands apart from it.
TEST_F(ReportLeaksTest, AProvedBoundIsPromisedAndHeldAgainstTheWorstCaseAlone) {
  run_.protection = "gaussian_label_dp(sigma=3)";
  run_.mu_lower = 0.1;
  const Json report = Report();
  const Json& answer = report["runs"][0]["answer"];
  const double bound = answer["marks"].back()["auc"];
  EXPECT_EQ(answer["marks"].back()["kind"], "proved");
  for (const Json& mark : answer["marks"]) {
    EXPECT_TRUE(mark["kind"] == "worst" || mark["auc"] <= bound) << mark;
  }
  EXPECT_TRUE(report["runs"][0]["features"]["with_gradient"].is_object());
  EXPECT_THAT(answer["sentence"], Not(HasSubstr("Gaussian")));
  EXPECT_THAT(answer["sentence"], ::testing::ContainsRegex("hatever the partner does .* at most [0-9.]+% certainty"));
  EXPECT_EQ(answer["figures"][0]["note"], "");
  run_.own_features_auc = 0.62;
  EXPECT_EQ(Report()["runs"][0]["answer"]["figures"][0]["note"],
            "beyond what features tell: the label party's own features alone reach test AUC 0.620");
}

// What chance may have added stands beside the limit that it is held against.
TEST_F(ReportLeaksTest, TheWorstAttackIsToldWithItsIntervalAndTheLimit) {
  run_.protection = "gaussian_label_dp(sigma=3)";
  run_.mu_lower = 0.1;
  const Json answer = Report()["runs"][0]["answer"];
  const Json& worst = answer["marks"][answer["marks"].size() - 2];
  ASSERT_EQ(worst["kind"], "worst");
  const double low = worst["interval"][0], auc = worst["auc"], high = worst["interval"][1];
  EXPECT_LT(low, auc);
  EXPECT_LT(auc, high);
  double low_percent = 0, high_percent = 0;
  const std::string note = answer["figures"][2]["note"];
  ASSERT_EQ(std::sscanf(note.c_str(), "95%% interval %lf%% to %lf%%", &low_percent, &high_percent), 2) << note;
  EXPECT_NEAR(low_percent, 100 * low, 0.051);
  EXPECT_NEAR(high_percent, 100 * high, 0.051);
  EXPECT_THAT(answer["figures"][0]["value"], ::testing::StartsWith("at most "));  // The limit, beside it.
}

// The AUC of one batch in twenty scatters more than that of an epoch, whose interval is not its own.
TEST_F(ReportLeaksTest, AFigureOfSingleBatchesHasNoInterval) {
  const Json answer = Report()["runs"][0]["answer"];
  for (const Json& mark : answer["marks"]) {
    EXPECT_FALSE(mark.contains("interval")) << mark;
  }
  EXPECT_THAT(answer["figures"][2]["note"], ::testing::StartsWith("limit "));
}

// The headline of a run that keeps its promise is no p95 of small batches, and no advice follows from one.
TEST_F(ReportLeaksTest, WhatAPromisedRunRevealsIsToldOverAllExamplesAgainstFeaturesAlone) {
  run_.protection = "gaussian_label_dp(sigma=3)";
  run_.mu_lower = 0.1;
  run_.norm_auc = run_.cosine_auc = 0.52;  // Features alone: 0.61.
  const Json run = Report()["runs"][0];
  EXPECT_EQ(run["answer"]["headline"], "May be promised to anyone");
  const Json& revealed = run["answer"]["figures"][1];
  EXPECT_EQ(revealed["name"], "revealed beyond features");
  EXPECT_EQ(revealed["value"], "0 points");
  EXPECT_THAT(revealed["note"],
              ::testing::ContainsRegex("can run reaches [0-9.]+% .95% interval [0-9.]+% to [0-9.]+%., and one "
                                       "without any gradient 61% .95% interval "));
  EXPECT_THAT(MarksOf(run["answer"]), Not(::testing::Contains("practical"))) << "it reaches less than features alone";
  EXPECT_EQ(run["remedy"], "");
  EXPECT_EQ(run["ranking"]["pooled"]["exposure"], "hidden");
  EXPECT_THAT(run["ranking"]["beyond_features"], HasSubstr(" below Features alone, AUC 0.610 (over all examples; 95%"));
}

// A bar that started at the untrained model would make a loss of 0.01 look like half of the model.
TEST_F(ReportLeaksTest, ThePriceIsOnAScaleThatStartsAtGuessing) {
  const testing::TempFolder folder;
  const std::string path = folder.File("a.db");
  run_.best_test_auc = 0.742;
  ASSERT_TRUE(WriteLabelPartyLedger(path, run_).ok());
  PlausibleRun unprotected = run_;
  unprotected.run_id = "run-2";
  unprotected.protection = "none";
  unprotected.sum_kl = 0;
  unprotected.best_test_auc = 0.762;
  ASSERT_TRUE(WriteLabelPartyLedger(path, unprotected).ok());
  {
    auto ledger = Ledger::Create(path, {"run-3", "label_party", "", "none", ""});
    ASSERT_TRUE(ledger.ok());
    ProtectionRow row;
    row.method = "frozen";
    row.gate = v1::FREEZE_BOTTOM;
    ASSERT_TRUE((*ledger)->Record(row).ok());
    ASSERT_TRUE((*ledger)->Record(EvaluationRow{1, "test", 0.6, 0.712, 0.75, 0.01}).ok());
  }
  const Json price = ReportJson(ReadRuns({path}).value(), nullptr)["runs"][0]["answer"]["price"];
  EXPECT_EQ(price["start"], 0.5);
  EXPECT_EQ(price["start_words"], "guessing");
  EXPECT_EQ(price["untrained"], 0.712);
  const double trained = 1 - std::exp(-2.6);  // Of the way to the best AUC, after two epochs.
  EXPECT_NEAR(price["unprotected"], 0.5 + 0.262 * trained, 1e-5);
  EXPECT_NEAR(price["value"], 0.5 + 0.242 * trained, 1e-5);
  EXPECT_THAT(price["words"], HasSubstr("% of the gain"));
}

// Whether a model is worth its cost, and no price of a model that is a different one.
TEST_F(ReportLeaksTest, AModelIsHeldAgainstLogisticRegression) {
  const testing::TempFolder folder;
  const std::string path = folder.File("a.db");
  run_.best_test_auc = 0.742;
  ASSERT_TRUE(WriteLabelPartyLedger(path, run_).ok());
  PlausibleRun baseline = run_;
  baseline.run_id = "run-2";
  baseline.cut_layer = "logistic_regression";
  baseline.best_test_auc = 0.722;
  ASSERT_TRUE(WriteLabelPartyLedger(path, baseline).ok());
  PlausibleRun unprotected = run_;
  unprotected.run_id = "run-3";
  unprotected.protection = "none";
  unprotected.sum_kl = 0;
  unprotected.best_test_auc = 0.702;
  ASSERT_TRUE(WriteLabelPartyLedger(path, unprotected).ok());
  const auto runs = ReadRuns({path});
  ASSERT_TRUE(runs.ok());
  const Json report = ReportJson(*runs, nullptr);
  const auto note = [&](int run) { return report["runs"][run]["answer"]["figures"].back()["note"]; };
  // Recorded AUCs come 1 - e^-2.6 of the way from 0.5 to the best after two epochs: 0.7240, 0.7055 and 0.6870.
  EXPECT_THAT(note(0), HasSubstr("no less than without protection; 0.018 above logistic regression"));
  EXPECT_EQ(note(1), "of logistic regression on the same columns");
  EXPECT_THAT(note(2), ::testing::StartsWith("0.019 below logistic regression"));
  EXPECT_EQ(report["runs"][0]["label"], "marvell(s=4)");
  EXPECT_EQ(report["runs"][1]["label"], "logistic regression with marvell(s=4)");
  // Two baselines would give two differences: none is shown.
  baseline.run_id = "run-4";
  ASSERT_TRUE(WriteLabelPartyLedger(path, baseline).ok());
  EXPECT_THAT(std::string(ReportJson(ReadRuns({path}).value(), nullptr)["runs"][0]["answer"]["figures"].back()["note"]),
              Not(HasSubstr("logistic")));
}

// A baseline without protection is no reference for what protection costs.
TEST_F(ReportLeaksTest, ABaselineIsNoRunWithoutProtectionToCompareWith) {
  run_.protection = "none";
  run_.sum_kl = 0;
  const testing::TempFolder folder;
  const std::string path = folder.File("a.db");
  ASSERT_TRUE(WriteLabelPartyLedger(path, run_).ok());
  run_.run_id = "run-2";
  run_.cut_layer = "logistic_regression";
  ASSERT_TRUE(WriteLabelPartyLedger(path, run_).ok());
  const std::vector<LedgerRun> runs = ReadRuns({path}).value();
  const ReferenceRuns references = FindReferences(runs);
  EXPECT_EQ(references.unprotected, &runs[0]);
  EXPECT_EQ(references.baseline, &runs[1]);
}

TEST_F(ReportLeaksTest, EveryAttackStandsBesideFeaturesAlone) {
  const Json leaks = Report()["runs"][0]["leaks"];
  for (const Json& leak : leaks) {
    if (leak["attack"] == "features_only") {
      EXPECT_FALSE(leak.contains("advantage"));
    } else if (!leak["auc"].is_null()) {
      EXPECT_NEAR(leak["advantage"].get<double>(), leak["auc"].get<double>() - 0.61, 1e-4) << leak["attack"];
    }
  }
}

TEST_F(ReportLeaksTest, RaisesNoAlarmWithoutCause) {
  const Json run = Report()["runs"][0];
  EXPECT_EQ(run["ranking"]["bound"], "not_exceeded");
  EXPECT_EQ(run["ranking"]["bound_words"], "not exceeded by the attacks run here");
  EXPECT_TRUE(run["excesses"].empty());
  for (const Json& leak : run["leaks"]) {
    EXPECT_TRUE(leak["beyond"].empty());
  }
}

TEST_F(ReportLeaksTest, ShowsAnAlarmThatOnlyTheEventTells) {
  const testing::TempFolder folder;
  {
    auto ledger = Ledger::Create(folder.File("a.db"), {"run-1", "label_party", "", "marvell(s=4)", ""});
    ASSERT_TRUE(ledger.ok());
    ASSERT_TRUE((*ledger)->RecordEvent("bound_exceeded", "epoch 3: norm at cut: at least 0.71, allowed 0.68").ok());
  }
  const Json run = ReportJson(ReadRuns({folder.File("a.db")}).value(), nullptr)["runs"][0];
  EXPECT_EQ(run["ranking"]["bound"], "exceeded");
  EXPECT_EQ(run["ranking"]["bound_words"], "exceeded by Gradient length");
}

TEST_F(ReportLeaksTest, ShowsTheDistributionsOfTheLastEpochInPercentOfTheClass) {
  const Json distributions = Report()["runs"][0]["distributions"];
  EXPECT_EQ(distributions["epoch"], 2);
  ASSERT_EQ(distributions["charts"].size(), 4);
  for (const Json& chart : distributions["charts"]) {
    for (const Json& points : chart["classes"]) {
      double sum = 0;
      for (const Json& point : points) {
        sum += point[1].get<double>();
      }
      EXPECT_NEAR(sum, 100, 0.1) << chart["quantity"];
      EXPECT_EQ(points.back()[1], 0);  // Where the last bin ends.
    }
  }
}

TEST_F(ReportLeaksTest, ClosesTheOutlineOverEmptyBins) {
  const testing::TempFolder folder;
  {
    auto ledger = Ledger::Create(folder.File("a.db"), {"run-1", "label_party", "", "none", ""});
    ASSERT_TRUE(ledger.ok());
    ASSERT_TRUE((*ledger)->Record(DistributionRow{0, "norm", 0, 0, 0, 1, 3}).ok());
    ASSERT_TRUE((*ledger)->Record(DistributionRow{0, "norm", 0, 4, 4, 5, 1}).ok());
  }
  const Json run = ReportJson(ReadRuns({folder.File("a.db")}).value(), nullptr)["runs"][0];
  ASSERT_EQ(run["distributions"]["charts"].size(), 1);
  const Json classes = run["distributions"]["charts"][0]["classes"];
  EXPECT_EQ(classes[0], Json::parse("[[0, 75], [1, 0], [4, 25], [5, 0]]"));
  EXPECT_TRUE(classes[1].empty());
}

TEST_F(ReportLeaksTest, CountsTheGatesDecisionsByEpoch) {
  run_.sum_kl = 1.5;  // Around what the gate warns of.
  const Json gate = Report()["runs"][0]["gate"];
  ASSERT_EQ(gate["decisions"].size(), 2);
  EXPECT_EQ(gate["decisions"][1]["name"], "released with a warning");
  int64_t warned = 0;
  for (const Json& epoch : gate["epochs"]) {
    EXPECT_EQ(epoch[1].get<int64_t>() + epoch[2].get<int64_t>(), 20);
    warned += epoch[2].get<int64_t>();
  }
  EXPECT_EQ(gate["decisions"][1]["total"], warned);
}

TEST_F(ReportLeaksTest, ExplainsTheAttacksThatWereMeasuredAndNoOthers) {
  run_.attacks = {"norm", "homebrew"};
  const Json glossary = Report()["glossary"];
  EXPECT_THAT(Find(glossary, "norm")["explanation"].get<std::string>(), HasSubstr("long gradients"));
  EXPECT_EQ(Find(glossary, "homebrew")["explanation"], "");
  for (const Json& entry : glossary) {
    EXPECT_NE(entry["attack"], "spectral");
  }
}

TEST_F(ReportLeaksTest, TheStrongestAttackIsTheFirstOfTheDetails) {
  const Json run = Report()["runs"][0];
  const Json& strongest = run["ranking"]["strongest"];
  EXPECT_THAT(run["details"][1], HasSubstr("Strongest, with"));
  EXPECT_THAT(run["details"][1], HasSubstr(std::string(strongest["title"]) + " at "));
  // To three digits, behind what it reaches over all examples.
  EXPECT_THAT(run["details"][1],
              ::testing::ContainsRegex("reaches AUC [0-9.]+ .95% interval [^;]* over the last epoch; "));
  EXPECT_THAT(run["details"][1], HasSubstr(absl::StrFormat("; %.3f in one batch", strongest["auc"].get<double>())));
  EXPECT_THAT(run["details"][2], HasSubstr("Strongest with"));
  EXPECT_EQ(run["leaks"][0]["title"], strongest["title"]);
  EXPECT_EQ(run["leaks"][0]["auc"], strongest["auc"]);
}

TEST_F(ReportLeaksTest, WhatReadsNoGradientStandsApartFromTheBound) {
  const Json run = Report()["runs"][0];
  EXPECT_EQ(run["features"]["without_gradient"]["title"], "Two groups of activations");
  EXPECT_FALSE(Find(run["leaks"], "activation_clusters")["reads_gradients"].get<bool>());
  EXPECT_TRUE(run["leaks"][0]["reads_gradients"].get<bool>());
}

// Every batch of a curve lies where the summary counts it.
TEST_F(ReportLeaksTest, CurvesShowEachBatchInvertedWhereItIsBelowOneHalf) {
  run_.norm_auc = 0.4;
  run_.attacks = {"norm"};
  const Json leak = Find(Report()["runs"][0]["leaks"], "norm");
  for (const Json& point : leak["curve"]["line"]) {
    EXPECT_GE(point[1].get<double>(), 0.5);
  }
}

TEST_F(ReportLeaksTest, NoAttackStandsInTwoSentences) {
  run_.exceeds_bound = true;
  const Json run = Report()["runs"][0];
  std::set<std::string> named;
  for (const std::string words : run["details"]) {
    if (!absl::StrContains(words, "reaches AUC") || absl::StartsWith(words, "Given ")) {
      continue;
    }
    EXPECT_TRUE(named.insert(words.substr(0, words.find(" reaches"))).second) << words;
  }
  EXPECT_LE(named.size(), 5);
}

TEST_F(ReportLeaksTest, NothingPromisesABoundThatIsExceeded) {
  run_.exceeds_bound = true;
  const Json run = Report()["runs"][0];
  std::vector<std::string> sentences = run["details"];
  sentences.push_back(run["answer"]["sentence"]);
  for (const std::string& words : sentences) {
    EXPECT_THAT(words, Not(HasSubstr("at most"))) << words;
    if (absl::StrContains(words, "bound")) {
      EXPECT_THAT(words, HasSubstr("exceeded")) << words;
    }
  }
}

AuditReport Audited(std::vector<Finding> findings) {
  AuditReport audit;
  audit.verdicts = {{"run-1", "x", std::move(findings)}};
  audit.subject = {{"policy.textproto", "aa11"}, {{"label_party.db", "bb22"}}, "2026-01-31T12:00:00Z"};
  return audit;
}

TEST_F(ReportLeaksTest, TheAuditOpensWithTheVerdictAndWhatItJudged) {
  const AuditReport audit = Audited({{Outcome::kMet, "a", "b", "c", "d"},
                                     {Outcome::kNotMeasured, "e", "f", "g", "h", "Measure it."},
                                     {Outcome::kNotMeasurable, "i", "j", "k", "l"}});
  const Json report = Report(&audit);
  EXPECT_EQ(report["audit"]["outcome"], "fail");
  EXPECT_EQ(report["audit"]["words"],
            "policy not met: 1 of 3 criteria failed; 1 not measurable from the ledgers given");
  EXPECT_EQ(report["audit"]["policy"]["name"], "policy.textproto");
  EXPECT_EQ(report["audit"]["policy"]["sha256"], "aa11");
  EXPECT_EQ(report["audit"]["judged_at"], "2026-01-31T12:00:00Z");
  EXPECT_EQ(report["audit"]["ledgers"][0]["holds"][0], "label party, run run-1");
  EXPECT_EQ(report["audit"]["data"][0]["Agreement SHA-256"], run_.agreement_sha256);
  const Json policy = report["runs"][0]["policy"];
  EXPECT_EQ(policy["findings"][0]["outcome"], "pass");
  EXPECT_EQ(policy["findings"][1]["outcome"], "fail");
  EXPECT_EQ(policy["findings"][2]["outcome"], "open");
  EXPECT_EQ(policy["findings"][1]["where"], "h");
  EXPECT_EQ(policy["remedies"], Json::parse(R"([{"words": "Measure it.", "criteria": ["e"]}])"));
}

TEST_F(ReportLeaksTest, HasNoVerdictWithoutAPolicy) {
  const Json report = Report();
  EXPECT_TRUE(report["audit"].is_null());
  EXPECT_FALSE(report["runs"][0].contains("policy"));
}

TEST_F(ReportLeaksTest, NoPlantedMarkupLeavesTheData) {
  const std::string planted = "</script><img src=x onerror=alert(1)>";
  run_.attacks = {"norm", planted};
  run_.hidden_layers = {planted};
  run_.disclosure = planted;
  AuditReport audit = Audited({{Outcome::kNotMet, planted, planted, planted, planted, planted}});
  audit.subject.policy.name = planted;
  const Json report = Report(&audit);
  EXPECT_EQ(report["runs"][0]["policy"]["findings"][0]["where"], planted);
  EXPECT_EQ(Find(report["glossary"], planted)["title"], planted);
  EXPECT_THAT(text_, Not(HasSubstr("<")));
  EXPECT_THAT(text_, Not(HasSubstr(">")));
}

TEST_F(ReportLeaksTest, ARunWithoutFiguresHasEmptyParts) {
  run_.epochs = 0;
  const Json report = Report();
  const Json& run = report["runs"][0];
  EXPECT_TRUE(report["charted"].empty());
  EXPECT_TRUE(run["leaks"].empty());
  EXPECT_TRUE(run["cumulative"].is_null());
  EXPECT_TRUE(run["distributions"].is_null());
  EXPECT_TRUE(run["gate"].is_null());
  EXPECT_TRUE(run["ranking"]["strongest"].is_null());
}

TEST_F(ReportLeaksTest, ARunThatWasFrozenFromTheStartIsNotSaidToHaveReleasedGradients) {
  const testing::TempFolder folder;
  {
    auto ledger = Ledger::Create(folder.File("a.db"), {"run-1", "label_party", "", "none", ""});
    ASSERT_TRUE(ledger.ok());
    ProtectionRow row;
    row.method = "frozen";
    row.gate = v1::FREEZE_BOTTOM;
    ASSERT_TRUE((*ledger)->Record(row).ok());
  }
  const Json run = ReportJson(ReadRuns({folder.File("a.db")}).value(), nullptr)["runs"][0];
  EXPECT_EQ(run["answer"]["headline"], "No gradient was sent");
  EXPECT_TRUE(run["answer"]["marks"].empty());
  EXPECT_THAT(Details(run), HasSubstr("no gradient was sent"));
}

}  // namespace
}  // namespace splitveil
