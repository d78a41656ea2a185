// What the report says of attacks, epochs, distributions, decisions and policies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/operator/audit/audit_verdict.h"
#include "deploy/operator/records/run_records.h"
#include "deploy/operator/report/report_json.h"

#include "common/ledger/ledger.h"
#include "tests/testing/process/temp_folder.h"
#include "tests/unit/deploy/operator/report/plausible_ledger.h"

namespace splitveil {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

class ReportLeaksTest : public ::testing::Test {
 protected:
  ReportLeaksTest() {
    run_.epochs = 2;
    run_.steps_per_epoch = 20;
  }

  // The data of the report on a label party's ledger of `run_`.
  Json Report(const std::vector<RunVerdict>& verdicts = {}) {
    const testing::TempFolder folder;
    EXPECT_TRUE(WriteLabelPartyLedger(folder.File("label_party.db"), run_).ok());
    const absl::StatusOr<std::vector<RunRecords>> runs = ReadRuns({folder.File("label_party.db")});
    EXPECT_TRUE(runs.ok()) << runs.status();
    text_ = ReportJson(*runs, verdicts);
    return Json::parse(text_);
  }

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
  EXPECT_EQ(report["charted"][0]["attacks"].size(), 5);
  int64_t curves = 0;
  for (const Json& leak : report["runs"][0]["leaks"]) {
    curves += leak.contains("curve") ? 1 : 0;
  }
  EXPECT_GE(curves, 15);
  EXPECT_LE(curves, 20);  // An attack at the cut layer may have two observers.
}

TEST_F(ReportLeaksTest, FollowsTheAdversaryThatRemembersOverTheEpochs) {
  const Json remembering = Report()["runs"][0]["remembering"];
  EXPECT_EQ(remembering["attacks"].size(), 3);
  const Json attack = Find(remembering["attacks"], "cumulative_likelihood_ratio");
  ASSERT_EQ(attack["epochs"].size(), 2);
  EXPECT_EQ(attack["epochs"][0][0], 1);
  EXPECT_GT(attack["epochs"][1][1], attack["epochs"][0][1]);
  EXPECT_GT(remembering["gaussian"][1][1], remembering["gaussian"][0][1]);
  EXPECT_GE(remembering["bound"][1][1], remembering["gaussian"][1][1]);
}

TEST_F(ReportLeaksTest, SaysWhatTheModelGivesAway) {
  EXPECT_THAT(Report()["runs"][0]["attack_words"].back(), HasSubstr("the training gave away 5"));
}

TEST_F(ReportLeaksTest, MarksAnAttackBeyondItsBound) {
  run_.exceeds_bound = true;
  const Json run = Report()["runs"][0];
  ASSERT_EQ(run["beyond_bound"].size(), 1);
  EXPECT_THAT(run["beyond_bound"][0], HasSubstr("where the noise allows"));
  const Json beyond = Find(run["leaks"], "likelihood_ratio")["beyond"];
  ASSERT_EQ(beyond.size(), 1);
  EXPECT_EQ(beyond[0][0], 39);  // The last step of the last epoch.
}

TEST_F(ReportLeaksTest, RaisesNoAlarmWithoutCause) {
  const Json run = Report()["runs"][0];
  EXPECT_TRUE(run["beyond_bound"].empty());
  for (const Json& leak : run["leaks"]) {
    EXPECT_TRUE(leak["beyond"].empty());
  }
}

TEST_F(ReportLeaksTest, ShowsAnAlarmThatOnlyTheEventTells) {
  const testing::TempFolder folder;
  {
    auto ledger = Ledger::Create(folder.File("a.db"), {"run-1", "label_party", "", "marvell(s=4)", ""});
    ASSERT_TRUE(ledger.ok());
    ASSERT_TRUE((*ledger)->RecordEvent("bound_exceeded", "epoch 3: at least 0.71, allowed 0.68").ok());
  }
  const Json run = Json::parse(ReportJson(ReadRuns({folder.File("a.db")}).value(), {}))["runs"][0];
  EXPECT_EQ(run["beyond_bound"], Json::array({"epoch 3: at least 0.71, allowed 0.68"}));
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
  const Json run = Json::parse(ReportJson(ReadRuns({folder.File("a.db")}).value(), {}))["runs"][0];
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

TEST_F(ReportLeaksTest, OpensWithTheVerdict) {
  const Json report =
      Report({{"run-1", "x", {{Outcome::kMet, "a", "b", "c", "d"}, {Outcome::kNotMeasured, "e", "f", "g", "h"}}}});
  EXPECT_EQ(report["policy"]["met"], false);
  EXPECT_EQ(report["policy"]["words"], "policy not met: 1 of 2 criteria, 1 of 1 run");
  const Json findings = report["runs"][0]["policy"]["findings"];
  EXPECT_EQ(findings[0]["met"], true);
  EXPECT_EQ(findings[1]["met"], false);
  EXPECT_EQ(findings[1]["where"], "h");
}

TEST_F(ReportLeaksTest, HasNoVerdictWithoutAPolicy) {
  const Json report = Report();
  EXPECT_TRUE(report["policy"].is_null());
  EXPECT_FALSE(report["runs"][0].contains("policy"));
}

TEST_F(ReportLeaksTest, NoPlantedMarkupLeavesTheData) {
  const std::string planted = "</script><img src=x onerror=alert(1)>";
  run_.attacks = {"norm", planted};
  run_.hidden_layers = {planted};
  run_.disclosure = planted;
  const Json report = Report({{planted, planted, {{Outcome::kNotMet, planted, planted, planted, planted}}}});
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
  EXPECT_TRUE(run["remembering"].is_null());
  EXPECT_TRUE(run["distributions"].is_null());
  EXPECT_TRUE(run["gate"].is_null());
  EXPECT_TRUE(run["strongest"].is_null());
}

}  // namespace
}  // namespace splitveil
