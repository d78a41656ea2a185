#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/operator/report/report_sections.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

LedgerRun RunOf(const std::string& id, const std::string& resumed_from, const std::string& protection = "none",
                double predicted_auc = 0.7) {
  LedgerRun run;
  PartyRecords& party = run.parties.emplace_back();
  party.record.run.role = "label_party";
  party.record.run.run_id = id;
  party.record.run.resumed_from = resumed_from;
  party.record.run.protection = protection;
  party.evaluations = {{0, "test", 0.5, predicted_auc, 0.75, 0.01}, {97, "test", 0.4, 0.99, 0.75, 0.01}};
  party.leaks = {{"nonlabel_party", "cut", "norm", {0, 1}, {0.6, 0.8}, {}}};
  party.leaks[0].summary.mean = 0.7;
  party.leaks[0].summary.steps = 2;
  return run;
}

Json Days(const std::vector<LedgerRun>& runs) {
  std::vector<std::vector<AttackLeak>> leaks;
  for (const LedgerRun& run : runs) {
    leaks.push_back(AttackLeaks(run));
  }
  return ChainsJson(runs, leaks, FindChains(runs));
}

TEST(FindChainsTest, PutsEachRunBehindTheOneItContinues) {
  EXPECT_THAT(FindChains({RunOf("c", "b"), RunOf("x", ""), RunOf("a", ""), RunOf("b", "a")}),
              ElementsAre(RunChain{2, 3, 0}));
}

TEST(FindChainsTest, RunsOnTheirOwnAreNoChain) {
  EXPECT_THAT(FindChains({RunOf("a", ""), RunOf("b", "")}), IsEmpty());
  EXPECT_THAT(FindChains({RunOf("b", "not given")}), IsEmpty());
  EXPECT_THAT(FindChains({}), IsEmpty());
}

TEST(FindChainsTest, ARunThatTwoContinueBeginsTwoChains) {
  EXPECT_THAT(FindChains({RunOf("a", ""), RunOf("b", "a"), RunOf("c", "a")}),
              ElementsAre(RunChain{0, 1}, RunChain{0, 2}));
}

TEST(FindChainsTest, BeginsWhereTheRunBeforeIsNotGiven) {
  EXPECT_THAT(FindChains({RunOf("b", "not given"), RunOf("c", "b")}), ElementsAre(RunChain{0, 1}));
}

TEST(FindChainsTest, ACircleEnds) {
  EXPECT_THAT(FindChains({RunOf("a", "a")}), IsEmpty());
  EXPECT_THAT(FindChains({RunOf("a", "b"), RunOf("b", "a")}), IsEmpty());
  EXPECT_EQ(FindChains({RunOf("a", "b"), RunOf("b", "a"), RunOf("c", "b")}).size(), 1);
}

TEST(RunsInFullTest, FoldsWhatIsContinuedOnlyWhereThereAreTooManyLines) {
  std::vector<LedgerRun> runs = {RunOf("0", "")};
  for (int i = 1; i < 8; ++i) {
    runs.push_back(RunOf(absl::StrCat(i), absl::StrCat(i - 1)));
  }
  EXPECT_EQ(RunsInFull(runs, FindChains(runs)).size(), 8);
  runs.push_back(RunOf("8", ""));
  EXPECT_THAT(RunsInFull(runs, FindChains(runs)), ElementsAre(7, 8));
}

TEST(ChainsJsonTest, TellsWhatTheModelPredictedBeforeItWasTrained) {
  const Json days = Days({RunOf("a", "", "none", 0.5), RunOf("b", "a", "none", 0.65)});
  ASSERT_EQ(days["chains"].size(), 1);
  const Json& chain = days["chains"][0];
  EXPECT_EQ(chain["label"], "no protection");
  Json second = chain["runs"][1];
  EXPECT_EQ(second["ranking"]["bound"], "none");
  second.erase("ranking");
  EXPECT_EQ(second, Json({{"id", "b"}, {"auc", 0.65}, {"log_loss", 0.5}, {"leaks", {0.7}}}));
  EXPECT_EQ(days["charted"][0]["attacks"][0]["attack"], "norm");
}

TEST(ChainsJsonTest, WithoutAPredictionTheBestEpochCounts) {
  std::vector<LedgerRun> runs = {RunOf("a", ""), RunOf("b", "a")};
  runs[1].parties[0].evaluations.erase(runs[1].parties[0].evaluations.begin());
  EXPECT_EQ(Days(runs)["chains"][0]["runs"][1]["auc"], 0.99);
  runs[1].parties[0].evaluations.clear();
  EXPECT_TRUE(Days(runs)["chains"][0]["runs"][1]["auc"].is_null());
}

TEST(ChainsJsonTest, WhatOneRunDidNotMeasureIsNull) {
  std::vector<LedgerRun> runs = {RunOf("a", ""), RunOf("b", "a")};
  runs[1].parties[0].leaks.clear();
  EXPECT_EQ(Days(runs)["chains"][0]["runs"][0]["leaks"], Json::array({0.7}));
  EXPECT_EQ(Days(runs)["chains"][0]["runs"][1]["leaks"], Json::array({nullptr}));
}

TEST(ChainsJsonTest, NormAndHintAttackAtTheCutComeFirst) {
  std::vector<LedgerRun> runs = {RunOf("a", ""), RunOf("b", "a")};
  for (const char* attack : {"likelihood_ratio", "cosine", "hint_inner_product_5"}) {
    LeakSeries strong = runs[0].parties[0].leaks[0];
    strong.attack = attack;
    strong.summary.mean = 0.9;
    runs[0].parties[0].leaks.push_back(strong);
  }
  std::vector<std::string> attacks;
  const Json days = Days(runs);
  for (const Json& entry : days["charted"][0]["attacks"]) {
    attacks.push_back(entry["attack"]);
  }
  ASSERT_GE(attacks.size(), 3);
  EXPECT_EQ(attacks[0], "norm");
  EXPECT_EQ(attacks[1], "hint_inner_product_5");
}

TEST(ChainsJsonTest, ChainsOfOneProtectionAreToldApart) {
  const Json days = Days({RunOf("a", "", "iso(t=1)"), RunOf("b", "a", "iso(t=1)"), RunOf("c", "a", "iso(t=1)")});
  EXPECT_THAT(days["chains"][0]["label"].get<std::string>(), HasSubstr("b"));
  EXPECT_THAT(days["chains"][1]["label"].get<std::string>(), HasSubstr("c"));
}

TEST(ChainsJsonTest, NoChainsAreNull) { EXPECT_TRUE(Days({RunOf("a", "")}).is_null()); }

}  // namespace
}  // namespace splitveil
