#include <memory>
#include <string>

#include "deploy/operator/report/report.h"
#include "deploy/operator/report/report_sections.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/ledger/ledger.h"
#include "common/process/file.h"
#include "tests/testing/process/temp_folder.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// Ledgers of the non-label party with `steps` steps of pareto on sex.
class ReportAttributesTest : public ::testing::Test {
 protected:
  ReportAttributesTest() : path_(folder_.File("nonlabel_party.db")) {}

  void Write(const std::string& protection, bool with_bound) {
    RunRow run;
    run.run_id = "run-1";
    run.role = "nonlabel_party";
    run.agreement_sha256 = std::string(64, 'a');
    run.config_json = "{}";
    auto ledger = Ledger::Create(path_, run);
    ASSERT_TRUE(ledger.ok()) << ledger.status();
    absl::Status status;
    if (!protection.empty()) {
      status.Update(
          (*ledger)->RecordEvent("activation_protection", protection + "; 12 steps before anything was sent"));
    }
    for (int64_t step = 0; step < 40; ++step) {
      StepRow row;
      row.step = step;
      row.examples = 100;
      status.Update((*ledger)->Record(row));
      if (!protection.empty()) {
        status.Update((*ledger)->Record(
            PrivacyLossRow{step, "sex", step == 7 ? 0.007 : 0.004, 0.005, 1, 1, step == 7 ? 3 : 0, step >= 10}));
      }
    }
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      const double accuracy = epoch == 0 ? 0.72 : 0.69;
      for (const char* attack : {"basic", "poison"}) {
        status.Update((*ledger)->Record(AttributeLeakRow{epoch, attack, "sex", "test", 500, accuracy, accuracy - 0.04,
                                                         accuracy + 0.04, 0.67, 0.61}));
      }
    }
    if (with_bound) {
      status.Update((*ledger)->Record(ActivationBoundRow{2, 0.28, 0.58}));
    }
    status.Update((*ledger)->Finish("completed"));
    ASSERT_TRUE(status.ok()) << status;
  }

  Json Attributes() const { return AttributesJson(ReadRuns({path_}).value().front()); }

  testing::TempFolder folder_;
  const std::string path_;
};

constexpr char kPareto[] = "pareto(threshold=0.005, slack=0.5, noise_sigma=1)";

TEST_F(ReportAttributesTest, ListsAttacksStrongestFirstWithWhenTheyDidBest) {
  Write(kPareto, /*with_bound=*/false);
  const Json attributes = Attributes();
  ASSERT_THAT(attributes["figures"], SizeIs(2));
  EXPECT_EQ(attributes["figures"][0]["attack"], "poison");
  EXPECT_EQ(attributes["figures"][0]["when"], "highest over training, in epoch 1");
  EXPECT_EQ(attributes["figures"][0]["accuracy"], Json({0.72, 0.68, 0.76}));
  EXPECT_EQ(attributes["figures"][0]["above_floor"], true);
  EXPECT_EQ(attributes["figures"][1]["when"], "inference, after epoch 2");
  EXPECT_EQ(attributes["figures"][1]["above_floor"], false);  // 0.65 to 0.73, floor 0.67.
  EXPECT_EQ(attributes["strongest"][0]["attack"], "poison");
}

TEST_F(ReportAttributesTest, ChartsThePrivacyLossWithItsThreshold) {
  Write(kPareto, /*with_bound=*/false);
  const Json attributes = Attributes();
  EXPECT_EQ(attributes["threshold"], 0.005);
  EXPECT_EQ(attributes["limit"], 0.0075);
  const Json& loss = attributes["losses"][0];
  EXPECT_EQ(loss["attribute"], "sex");
  EXPECT_EQ(loss["largest"], 0.007);
  EXPECT_EQ(loss["at_front"], 30);
  EXPECT_EQ(loss["marks"], Json::array({Json::array({7, 0.007})}));
  EXPECT_EQ(
      attributes["loss_words"],
      "Over 40 steps the largest privacy loss of a training batch that was sent was 0.007 nats; the threshold is "
      "0.005, "
      "with its "
      "slack 0.0075. 30 steps went along the Pareto front, 10 toward it; 1 batch was corrected before leaving, by 3 "
      "steps on the privacy loss alone.");
}

TEST_F(ReportAttributesTest, SaysWhatIsProvedAndWhatIsMeasuredOnly) {
  Write(kPareto, /*with_bound=*/false);
  EXPECT_EQ(Attributes()["proved"], false);
  EXPECT_THAT(std::string(Attributes()["proved_words"]), HasSubstr("Measured only: a heuristic"));
}

TEST_F(ReportAttributesTest, StatesTheBoundOfClippedAndNoisedActivations) {
  Write("gaussian(clip_norm=1, noise_sigma=10)", /*with_bound=*/true);
  const Json attributes = Attributes();
  EXPECT_EQ(attributes["proved"], true);
  EXPECT_EQ(attributes["auc_bound"], 0.58);
  EXPECT_TRUE(attributes["threshold"].is_null());
  EXPECT_THAT(std::string(attributes["loss_words"]), HasSubstr("no threshold"));
}

TEST_F(ReportAttributesTest, HasNothingToSayOfALabelPartysLedger) {
  LedgerRun run;
  run.parties.emplace_back();
  run.parties.front().record.run.role = "label_party";
  EXPECT_TRUE(AttributesJson(run).is_null());
  EXPECT_TRUE(AttributeGlossaryJson({run}).empty());
}

TEST_F(ReportAttributesTest, ThePageHasTheSection) {
  Write(kPareto, /*with_bound=*/false);
  const std::string out = folder_.File("report.html");
  ASSERT_TRUE(WriteReport({path_}, out).ok());
  const std::string page = ReadFile(out).value();
  EXPECT_THAT(page, HasSubstr("id=\"attributes\""));
  EXPECT_THAT(page, HasSubstr("Marked training examples"));
}

}  // namespace
}  // namespace splitveil
