#include "deploy/operator/local_run/two_party_run.h"

#include <nlohmann/json.hpp>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace splitveil {
namespace {

TEST(ListeningPortTest, IsReadFromAWholeLineOnly) {
  EXPECT_EQ(ListeningPort("x INFO reads\ny INFO label party listens on port 40123\nz"), 40123);
  EXPECT_EQ(ListeningPort("y INFO label party listens on port 401"), 0);
  EXPECT_EQ(ListeningPort("y INFO label party listens on port many\n"), 0);
  EXPECT_EQ(ListeningPort(""), 0);
}

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kDigest[] = "00ff";
constexpr char kResult[] = R"({"run_id":"a","protection":"none","steps":12,"test_log_loss":0.5,"test_auc":0.74,
  "strongest":{"layer":"cut","attack":"norm","auc":0.7},"practical":null,
  "final_test_auc":0.73,"sum_kl_mean":null,"auc_bound_p95":1,"run_auc_bound":0.9,
  "leak":{"cut":{"norm":{"mean":0.4,"mean_ci95":0.01,"p95":0.7},"cosine":{"mean":null,"mean_ci95":null,"p95":null}}}})";

std::string Finished() { return FinishedRunJson(kResult, kDigest, 7.5).value(); }

TEST(FinishedRunTest, GivesBackWhatTheRunMeasured) {
  const RunFigures figures = ParseFinishedRun(Finished(), kDigest).value();
  EXPECT_EQ(figures.test.quality(), 0.74);
  EXPECT_EQ(figures.final_test.quality(), 0.73);
  EXPECT_EQ(figures.test.loss(), 0.5);
  EXPECT_EQ(figures.run_auc_bound, 0.9);
  EXPECT_EQ(figures.auc_bound_p95, 1);
  EXPECT_EQ(figures.steps, 12);
  EXPECT_EQ(figures.seconds, 7.5);
  EXPECT_EQ(figures.strongest()->auc(), 0.7);
  ASSERT_THAT(figures.attacks, SizeIs(1));
  EXPECT_EQ(figures.attacks[0].layer, "cut");
  EXPECT_EQ(figures.attacks[0].attack, "norm");
  EXPECT_EQ(figures.attacks[0].batches.mean, 0.4);
  EXPECT_EQ(figures.attacks[0].batches.p95, 0.7);
}

TEST(FinishedRunTest, NumbersThatDoNotExistAreLeftOut) {
  const RunFigures figures = ParseFinishedRun(Finished(), kDigest).value();
  EXPECT_FALSE(figures.sum_kl_mean.has_value());
  const RunFigures bare = ParseFinishedRun(FinishedRunJson(R"({"steps":1})", kDigest, 1).value(), kDigest).value();
  EXPECT_FALSE(bare.test.quality().has_value());
  EXPECT_FALSE(bare.test.is_regression());
  EXPECT_EQ(bare.strongest(), nullptr);
  EXPECT_THAT(bare.attacks, IsEmpty());
}

TEST(FinishedRunTest, ARegressionIsComparedByRSquared) {
  const std::string json =
      R"({"steps":1,"test_auc":null,"test_r2":0.5,"final_test_auc":null,"final_test_r2":0.25,"test_rmse":0.1})";
  const RunFigures figures = ParseFinishedRun(FinishedRunJson(json, kDigest, 1).value(), kDigest).value();
  EXPECT_TRUE(figures.test.is_regression());
  EXPECT_EQ(figures.test.quality(), 0.5);
  EXPECT_EQ(figures.final_test.quality(), 0.25);
}

TEST(FinishedRunTest, KeepsTheWholeResult) {
  const nlohmann::json json = nlohmann::json::parse(Finished());
  EXPECT_EQ(json["run_id"], "a");
  EXPECT_EQ(json["leak"]["cut"]["norm"]["mean_ci95"], 0.01);
}

TEST(FinishedRunTest, RefusesTheResultOfAnotherConfiguration) {
  EXPECT_EQ(ParseFinishedRun(Finished(), "00fe").status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(FinishedRunTest, RefusesWhatIsNoResult) {
  for (const std::string& text : {std::string(), std::string("[]"), Finished().substr(0, 60), std::string(kResult),
                                  std::string(R"({"configuration_sha256":7,"steps":1})"),
                                  std::string(R"({"configuration_sha256":"00ff","steps":"many"})")}) {
    EXPECT_EQ(ParseFinishedRun(text, kDigest).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_THAT(FinishedRunJson("RESULT", kDigest, 1).status().message(), HasSubstr("expected a JSON object"));
}

}  // namespace

}  // namespace splitveil
