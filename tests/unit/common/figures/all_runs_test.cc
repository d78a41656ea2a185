#include "common/figures/all_runs.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/leakage/bounds.h"
#include "common/privacy/gaussian_privacy.h"
#include "common/privacy/label_privacy.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kDigits = 1e-12;

// A run of gaussian_label_dp on the table "ab", whose account says what it alone released.
LabelRun Gaussian(const std::string& account, int64_t sigma_units, double mu, double counted) {
  LabelRun run;
  run.run.run_id = account + std::to_string(sigma_units);
  run.run.protection = "gaussian_label_dp";
  run.run.data_sha256 = "ab";
  run.run.label_set = "clicks";
  run.run.account = account;
  run.releases = {{"gaussian", sigma_units, 1, mu}};
  run.counted = AllRunsRow{account, 100, GaussianAucBound(counted), 150};  // Two such runs share an example.
  return run;
}

LabelRun Flips(double epsilon) {
  LabelRun run;
  run.run.protection = "label_dp";
  run.run.data_sha256 = "ab";
  run.releases = {{"flip", 0, 1, epsilon}};
  return run;
}

// Of the noise that an account's flips are made of, and counts them as.
double MuOfFlips(double epsilon) { return 2 * NormalQuantile(1 / (1 + std::exp(-epsilon))); }

// label_dp with an account, which may know of `earlier` mu^2.
LabelRun AccountedFlips(double epsilon, double earlier = 0) {
  const double mu = MuOfFlips(epsilon);
  LabelRun run = Gaussian("a", static_cast<int64_t>(std::ldexp(1, 20) / mu), mu, earlier + mu * mu);
  run.run.run_id = "flips";
  run.run.protection = "label_dp";
  run.releases[0].noise = "flip";
  run.releases[0].strength = epsilon;
  return run;
}

LabelRun Marvell(double sum_kl) {
  LabelRun run;
  run.run.protection = "marvell";
  run.run.data_sha256 = "ab";
  run.sum_kl = sum_kl;
  return run;
}

double Known(const std::vector<LabelRun>& runs) { return BoundOfAllRuns(runs).known; }

// As its account names it.
std::string StartOf(const LabelRun& run) { return run.run.run_id + " 2026-01-31T09:30:00.123Z 0123456789abcdef"; }

TEST(AllRunsTest, ARunAloneIsItsOwnBound) {
  EXPECT_NEAR(Known({Gaussian("a", 10, 0.5, 0.25)}), GaussianAucBound(0.25), kDigits);
  EXPECT_NEAR(Known({Flips(1)}), std::exp(1) / (1 + std::exp(1)), kDigits);
  EXPECT_NEAR(Known({Marvell(0.7)}), GaussianAucBound(0.7), kDigits);
  EXPECT_EQ(BoundOfAllRuns({}).possible, 0.5);
}

TEST(AllRunsTest, FlipsOfAnAccountCountAsTheNoiseThatTheyAreMadeOf) {
  constexpr double kGrid = 1e-6;  // Noise is a multiple of 2^-20.
  const auto sum = [](double epsilon, double more) {
    return GaussianAucBound(MuOfFlips(epsilon) * MuOfFlips(epsilon) + more);
  };
  for (const double epsilon : {0.1, 1.0, 3.0}) {
    LabelRun noise = AccountedFlips(epsilon);  // Released as it is.
    noise.releases[0].noise = "gaussian";
    noise.releases[0].strength = MuOfFlips(epsilon);
    for (const std::vector<LabelRun>& runs : {std::vector<LabelRun>{AccountedFlips(epsilon)},
                                              std::vector<LabelRun>{AccountedFlips(epsilon), AccountedFlips(epsilon)},
                                              std::vector<LabelRun>{noise, AccountedFlips(epsilon)}}) {
      EXPECT_NEAR(BoundOfAllRuns(runs).known, sum(epsilon, 0), kGrid);
      EXPECT_NEAR(BoundOfAllRuns(runs).possible, sum(epsilon, 0), kGrid);
      EXPECT_EQ(BoundOfAllRuns(runs).doubt, "");
      EXPECT_EQ(BoundOfAllRuns(runs).not_proved, "");
    }
  }
  // With noise of another draw, which is in the ledger or which only the account knows.
  EXPECT_NEAR(Known({Gaussian("a", 10, 0.5, 0.25), AccountedFlips(1, 0.25)}), sum(1, 0.25), kGrid);
  EXPECT_NEAR(Known({AccountedFlips(1, 0.25)}), sum(1, 0.25), kGrid);
  // Other accounts draw other flips.
  LabelRun other = AccountedFlips(1);
  other.run.account = other.counted->account = "b";
  EXPECT_NEAR(Known({AccountedFlips(1), other}), sum(1, MuOfFlips(1) * MuOfFlips(1)), kGrid);
}

// An older copy of the account was put back, and then a table with a row more used: no examples are known to differ.
TEST(AllRunsTest, WhatAnAccountHasLostCountsWhateverTable) {
  LabelRun later = Gaussian("a", 8, 0.6, 0.36);
  later.run.data_sha256 = "abc";
  later.run.label_set = "clicks with a row more";
  const LabelRun earlier = Gaussian("a", 10, 0.5, 0.25);
  EXPECT_NEAR(BoundOfAllRuns({earlier, later}).possible, GaussianAucBound(0.36), kDigits);
  later.lost = {StartOf(earlier)};
  EXPECT_NEAR(BoundOfAllRuns({earlier, later}).possible, GaussianAucBound(0.61), kDigits);
  // One more, of a third table: the account adds it to the second, and still not to the first.
  LabelRun third = Gaussian("a", 6, 0.7, 0.36 + 0.49);
  third.run.data_sha256 = "abcd";
  third.lost = {StartOf(earlier)};
  EXPECT_NEAR(BoundOfAllRuns({earlier, later, third}).possible, GaussianAucBound(0.25 + 0.36 + 0.49), kDigits);
}

// An older copy was put back twice: each time what runs in other ledgers had released (1 and 2) was lost as well.
TEST(AllRunsTest, HistoriesThatDoNotKnowEachOtherAddUp) {
  const LabelRun first = Gaussian("a", 10, 0.5, 1.25);
  LabelRun second = Gaussian("a", 20, 0.5, 2.25);
  second.lost = {StartOf(first)};
  LabelRun third = Gaussian("a", 30, 0.5, 0.25);
  third.lost = {StartOf(first), StartOf(second)};
  EXPECT_NEAR(BoundOfAllRuns({first, second, third}).known, GaussianAucBound(1.25 + 2.25 + 0.25), kDigits);
}

// The file was lost between them: each account knows of one run.
TEST(AllRunsTest, RunsOfTwoAccountsAddUp) {
  const std::vector<LabelRun> runs = {Gaussian("a", 10, 0.5, 0.25), Gaussian("b", 10, 0.5, 0.25)};
  const AllRunsBound bound = BoundOfAllRuns(runs);
  EXPECT_NEAR(bound.known, GaussianAucBound(0.5), kDigits);
  EXPECT_NEAR(bound.possible, GaussianAucBound(0.5), kDigits);
  EXPECT_EQ(bound.runs, 2);
  EXPECT_THAT(bound.accounts, ElementsAre("a", "b"));
}

TEST(AllRunsTest, WhatAnAccountReleasesAgainCountsOnce) {
  EXPECT_NEAR(Known({Gaussian("a", 10, 0.5, 0.25), Gaussian("a", 10, 0.5, 0.25)}), GaussianAucBound(0.25), kDigits);
  LabelRun more = Gaussian("a", 10, 0.5, 0.75);
  more.releases[0].draws = 3;
  EXPECT_NEAR(Known({Gaussian("a", 10, 0.5, 0.25), more}), GaussianAucBound(0.75), kDigits);
  more.run.label_set = "purchases";  // Noise of its own.
  EXPECT_NEAR(Known({Gaussian("a", 10, 0.5, 0.25), more}), GaussianAucBound(1), kDigits);
}

TEST(AllRunsTest, AnAccountKnowsRunsThatAreInNoLedger) {
  EXPECT_NEAR(Known({Gaussian("a", 10, 0.5, 0.8)}), GaussianAucBound(0.8), kDigits);
  EXPECT_NEAR(Known({Gaussian("a", 10, 0.5, 0.8), Gaussian("b", 10, 0.5, 0.25)}), GaussianAucBound(1.05), kDigits);
}

// A copy, or a backup that was put back, has the same id and key, and does not know what was released since: at another
// strength its noise is independent.
TEST(AllRunsTest, ACopiedAccountDoesNotForget) {
  EXPECT_NEAR(Known({Gaussian("a", 10, 0.5, 0.25), Gaussian("a", 8, 0.6, 0.36)}), GaussianAucBound(0.61), kDigits);
  // The original knows of 0.3 more, which the copy has not seen either.
  EXPECT_NEAR(Known({Gaussian("a", 10, 0.5, 0.55), Gaussian("a", 8, 0.6, 0.36)}), GaussianAucBound(0.91), kDigits);
}

// Two partners whose customers are half of the table each: no example is in both runs.
TEST(AllRunsTest, RunsOnDifferentExamplesOfOneTableMayNotAddUp) {
  std::vector<LabelRun> runs = {Gaussian("a", 10, 0.5, 0.25), Gaussian("a", 8, 0.6, 0.36)};
  for (LabelRun& run : runs) {
    run.counted->table_rows = 200;
  }
  EXPECT_NEAR(BoundOfAllRuns(runs).known, GaussianAucBound(0.36), kDigits);
  EXPECT_NEAR(BoundOfAllRuns(runs).possible, GaussianAucBound(0.61), kDigits);
  EXPECT_THAT(BoundOfAllRuns(runs).doubt, HasSubstr("their examples differ"));
  runs.front().counted->examples = 101;
  EXPECT_NEAR(BoundOfAllRuns(runs).known, GaussianAucBound(0.61), kDigits);
  EXPECT_EQ(BoundOfAllRuns(runs).doubt, "");
}

TEST(AllRunsTest, TwoLabelSetsOfOneTableAddUp) {
  LabelRun other = Gaussian("b", 10, 0.5, 0.25);
  other.run.label_set = "purchases";
  EXPECT_NEAR(Known({Gaussian("a", 10, 0.5, 0.25), other}), GaussianAucBound(0.5), kDigits);
}

TEST(AllRunsTest, FlipsOfSeveralRunsAddUpExactly) {
  EXPECT_NEAR(Known({Flips(1), Flips(1)}), ComposedAucBound(0, {1, 1}), kDigits);
  EXPECT_NEAR(Known({Flips(1), Flips(1), Flips(1), Flips(1)}), 0.9106, 5e-5);
  EXPECT_NEAR(Known({Flips(1), Gaussian("a", 10, 0.5, 0.25)}), ComposedAucBound(0.25, {1}), kDigits);
}

TEST(AllRunsTest, ConditionalDivergencesAddUp) {
  EXPECT_NEAR(Known({Marvell(0.3), Marvell(0.4)}), GaussianAucBound(0.7), kDigits);
  EXPECT_NEAR(Known({Marvell(0.3), Gaussian("a", 10, 0.5, 0.25)}), GaussianAucBound(0.55), kDigits);
}

TEST(AllRunsTest, ARunWithoutABoundLeavesOpenWhatIsKnown) {
  LabelRun none = Marvell(0);
  none.sum_kl.reset();
  none.run.run_id = "first";
  none.run.protection = "none";
  const std::vector<LabelRun> runs = {none, Gaussian("a", 10, 0.5, 0.25)};
  const AllRunsBound bound = BoundOfAllRuns(runs);
  EXPECT_NEAR(bound.known, GaussianAucBound(0.25), kDigits);
  EXPECT_EQ(bound.possible, 1);
  EXPECT_EQ(bound.doubt, "nothing bounds what run first (none) released of the same labels");
}

// A frozen run sends no gradient, but tells under ORACLE which scores are right.
TEST(AllRunsTest, NothingBoundsWhatExactAnswersTell) {
  LabelRun oracle = Marvell(0.3);
  oracle.exact_answers = true;
  const std::vector<LabelRun> runs = {oracle, Gaussian("a", 10, 0.5, 0.25)};
  EXPECT_EQ(BoundOfAllRuns(runs).possible, 1);
  EXPECT_THAT(BoundOfAllRuns(runs).not_proved, HasSubstr("(marvell)"));
}

TEST(AllRunsTest, RunsThatReleasedNothingDoNotCount) {
  LabelRun frozen = Gaussian("a", 10, 0.5, 0.25);
  frozen.released = LabelRun::Released::kNothing;
  EXPECT_NEAR(Known({frozen, Gaussian("b", 10, 0.5, 0.25)}), GaussianAucBound(0.25), kDigits);
  frozen.released = LabelRun::Released::kUnknown;
  const std::vector<LabelRun> runs = {frozen, Gaussian("b", 10, 0.5, 0.25)};
  EXPECT_NEAR(BoundOfAllRuns(runs).known, GaussianAucBound(0.25), kDigits);
  EXPECT_NEAR(BoundOfAllRuns(runs).possible, GaussianAucBound(0.5), kDigits);
  EXPECT_THAT(BoundOfAllRuns(runs).doubt, HasSubstr("is not recorded"));
}

// The last one was refused before its account counted anything.
TEST(AllRunsTest, ARefusedRunAddsNothingToWhatItWouldHaveAdded) {
  LabelRun refused = Gaussian("a", 8, 0.6, 0.61);
  refused.released = LabelRun::Released::kNothing;
  refused.run.max_lifetime_auc_bound = 0.65;
  const std::vector<LabelRun> counted = {Gaussian("a", 10, 0.5, 0.25), refused};
  EXPECT_NEAR(BoundOfAllRuns(counted).possible, GaussianAucBound(0.61), kDigits);
  refused.counted.reset();
  const std::vector<LabelRun> runs = {Gaussian("a", 10, 0.5, 0.25), refused};
  EXPECT_NEAR(BoundOfAllRuns(runs).possible, GaussianAucBound(0.25), kDigits);
  EXPECT_EQ(BoundOfAllRuns(runs).doubt, "");
  EXPECT_EQ(BoundOfAllRuns(runs).limit, 0.65);
  EXPECT_FALSE(BoundOfAllRuns(runs).counts_last);
}

// A run was interrupted, another one ran, and the first went on: each figure contains both.
TEST(AllRunsTest, ARunThatGoesOnAfterAnotherOneCountsOnce) {
  LabelRun first = Gaussian("a", 10, 0.5, 0.61), second = Gaussian("a", 8, 0.6, 0.61);
  first.released_at = "2026-01-01T00:00:00.001Z";
  second.released_at = second.counted_at = "2026-01-01T00:00:00.002Z";
  first.counted_at = "2026-01-01T00:00:00.003Z";
  for (const std::vector<LabelRun>& runs : {std::vector<LabelRun>{first, second}, {second, first}}) {
    EXPECT_NEAR(BoundOfAllRuns(runs).known, GaussianAucBound(0.61), kDigits);
    EXPECT_NEAR(BoundOfAllRuns(runs).possible, GaussianAucBound(0.61), kDigits);
  }
  first.counted_at.clear();  // It is about to go on.
  EXPECT_NEAR(BoundOfAllRuns({second, first}).known, GaussianAucBound(0.61), kDigits);
}

// The first one waited for its peer; meanwhile the second was counted, with 1 that is in no ledger, and a copy from
// before was put back.
TEST(AllRunsTest, FiguresAddUpInTheOrderInWhichTheyWereCounted) {
  LabelRun first = Gaussian("a", 10, 0.5, 0.25), second = Gaussian("a", 8, 0.6, 1.36);
  first.released_at = first.counted_at = "2026-01-01T00:00:00.002Z";
  second.released_at = second.counted_at = "2026-01-01T00:00:00.001Z";
  EXPECT_NEAR(BoundOfAllRuns({first, second}).known, GaussianAucBound(1.61), kDigits);
}

TEST(AllRunsTest, TellsWhatARunReleasedByItsLedger) {
  const auto step = [](v1::GateAction gate) {
    ProtectionRow row;
    row.gate = gate;
    return row;
  };
  std::string config = R"({"agreement": {"audit": {"disclosure": "LABEL_SIDE_ONLY"}}})";
  const auto released = [&](const std::string& finished_at, std::vector<LabelReleaseRow> releases,
                            std::vector<EventRow> events, const std::vector<ProtectionRow>& steps) {
    RunRecord record;
    record.finished_at = finished_at;
    record.run.config_json = config;
    return LabelRunOf(record, std::move(releases), std::nullopt, events, DecisionsOf(steps, {})).released;
  };
  using Released = LabelRun::Released;
  const std::vector<LabelReleaseRow> noise = {{"gaussian", 10, 1, 0.5}};
  const EventRow follows = {"2026-01-01T00:00:00.001Z", kReleasesFollow, "100 examples"};
  EXPECT_EQ(released("now", noise, {}, {}), Released::kNothing);
  EXPECT_EQ(released("now", noise, {follows}, {}), Released::kNothing);
  EXPECT_EQ(released("", noise, {follows}, {}), Released::kUnknown);  // Killed.
  EXPECT_EQ(released("", noise, {}, {}), Released::kNothing);
  EXPECT_EQ(released("now", noise, {follows, {"", kFirstSliceSent, ""}}, {}), Released::kSomething);
  EXPECT_EQ(released("now", {}, {follows}, {step(v1::FREEZE_BOTTOM), step(v1::RELEASE)}), Released::kSomething);
  EXPECT_EQ(released("now", {}, {follows}, {step(v1::FREEZE_BOTTOM)}), Released::kNothing);
  EXPECT_EQ(released("", {}, {follows}, {step(v1::FREEZE_BOTTOM)}), Released::kNothing);
  EXPECT_EQ(released("now", noise, {follows}, {step(v1::FREEZE_BOTTOM)}), Released::kSomething);  // A head has learned.
  EXPECT_EQ(released("now", noise, {follows}, {step(v1::HALT)}), Released::kNothing);
  EXPECT_THAT(StartsIn({follows}), IsEmpty());
  const EventRow counted = {"", kReleasesFollow, ReleasesFollow(100, "run-1 ab")};
  EXPECT_EQ(counted.detail, "100 examples, counted as run-1 ab");
  EXPECT_THAT(StartsIn({counted, follows}), ElementsAre("run-1 ab"));
  EXPECT_EQ(CountedAt(follows), follows.at);
  const std::string start = "run-1 2026-01-31T09:30:00.123Z 0123456789abcdef";
  EXPECT_EQ(CountedAt({"", kReleasesFollow, ReleasesFollow(100, start)}), "2026-01-31T09:30:00.123Z");
  EXPECT_EQ(released("now", {}, {follows, {"", "disclosed", "8 labels"}}, {}), Released::kSomething);
  // Scores of a frozen run are not answered.
  config = R"({"agreement": {"audit": {"disclosure": "ORACLE"}}})";
  EXPECT_EQ(released("now", {}, {follows}, {step(v1::FREEZE_BOTTOM)}), Released::kNothing);
  StepSummaryRow removed;
  removed.gate = v1::RELEASE;
  EXPECT_FALSE(DecisionsOf({}, {removed}).any);  // No protection was recorded with them.
  removed.method = "marvell";
  EXPECT_TRUE(DecisionsOf({}, {removed}).released);
}

// The rows of steps that a run had before it went back to a checkpoint are removed: its events tell.
TEST(AllRunsTest, TellsWhatARunReleasedBeforeItWentBack) {
  using Released = LabelRun::Released;
  const EventRow follows = {"", kReleasesFollow, absl::StrCat(kAfterFirstSlice, ReleasesFollow(100, ""))};
  const EventRow earlier = {"", kReleasesFollow, ReleasesFollow(100, "")};  // Of a program that recorded it later.
  const EventRow first = {"", kFirstSliceSent, ""}, ended = {"", "ended", "the peer left"},
                 goes_on = {"", "continued", ""};
  ProtectionRow frozen;
  frozen.gate = v1::FREEZE_BOTTOM;
  const auto released = [&](const std::vector<EventRow>& events) {
    RunRecord record;
    record.finished_at = "now";
    const Released gradients = ReleasedGradients(record, events, DecisionsOf({}, {}));
    EXPECT_EQ(ReleasedGradients(record, events, DecisionsOf({frozen}, {})), gradients);
    EXPECT_EQ(LabelRunOf(record, {}, std::nullopt, events, DecisionsOf({frozen}, {})).released, gradients);
    return gradients;
  };
  EXPECT_EQ(released({follows, first, goes_on, follows, ended}), Released::kSomething);
  EXPECT_EQ(released({follows, ended, goes_on, follows, ended}), Released::kNothing);
  EXPECT_EQ(released({follows, goes_on, follows, ended}), Released::kNothing);  // Killed before its first answer.
  EXPECT_EQ(released({goes_on, follows, ended}), Released::kNothing);
  EXPECT_EQ(released({earlier, ended, goes_on, earlier, ended, goes_on, follows}), Released::kNothing);
  EXPECT_EQ(released({earlier, goes_on, earlier, ended}), Released::kUnknown);
  EXPECT_EQ(released({earlier, ended, goes_on, earlier, goes_on, follows}), Released::kUnknown);
  EXPECT_EQ(StartsIn({{"", kReleasesFollow, absl::StrCat(kAfterFirstSlice, ReleasesFollow(100, "run-1 ab"))}}),
            std::vector<std::string>{"run-1 ab"});
}

TEST(AllRunsTest, WhetherTwoTablesHaveTheSameLabelsIsOftenUnknown) {
  const RunRow run = Gaussian("a", 10, 0.5, 0).run;
  const auto with = [&](const std::string& data, const std::string& label_set, const std::string& account) {
    RunRow other = run;
    other.data_sha256 = data;
    other.label_set = label_set;
    other.account = account;
    return AreOnSameLabels(other, run);
  };
  EXPECT_EQ(with("ab", "", ""), SameLabels::kYes);
  EXPECT_EQ(with("cd", "clicks", "a"), SameLabels::kNo);  // The account counts each example.
  EXPECT_EQ(with("cd", "clicks", "b"), SameLabels::kUnknown);
  EXPECT_EQ(with("cd", "purchases", "a"), SameLabels::kNo);
  EXPECT_EQ(with("cd", "purchases", "b"), SameLabels::kUnknown);  // A row more, and another name.
  EXPECT_EQ(with("cd", "", ""), SameLabels::kUnknown);
  EXPECT_EQ(with("", "clicks", "a"), SameLabels::kUnknown);
  LabelRun other = Flips(1);
  other.run.data_sha256 = "cd";
  const std::vector<LabelRun> runs = {other, Flips(1)};
  EXPECT_NEAR(BoundOfAllRuns(runs).known, ComposedAucBound(0, {1}), kDigits);
  EXPECT_NEAR(BoundOfAllRuns(runs).possible, ComposedAucBound(0, {1, 1}), kDigits);
  EXPECT_THAT(BoundOfAllRuns(runs).doubt, HasSubstr("may have the same examples"));
}

TEST(AllRunsTest, TheLimitIsTheLeastOfTheAccounts) {
  LabelRun strict = Gaussian("a", 10, 0.5, 0.25);
  strict.run.max_lifetime_auc_bound = 0.7;
  EXPECT_EQ(BoundOfAllRuns(std::vector<LabelRun>{strict, Flips(1)}).limit, 0.7);
  EXPECT_EQ(BoundOfAllRuns(std::vector<LabelRun>{Flips(1)}).limit, 1);
}

TEST(AllRunsTest, AnEarlierRunThatIsInNoLedgerIsInDoubt) {
  LabelRun second = Marvell(0.3);
  second.run.resumed_from = "first";
  EXPECT_FALSE(BoundOfAllRuns(std::vector<LabelRun>{second}).has_earlier);
  EXPECT_EQ(BoundOfAllRuns(std::vector<LabelRun>{second}).possible, 1);
  LabelRun first = Marvell(0.4);
  first.run.run_id = "first";
  EXPECT_TRUE(BoundOfAllRuns(std::vector<LabelRun>{first, second}).has_earlier);
  EXPECT_NEAR(BoundOfAllRuns(std::vector<LabelRun>{first, second}).possible, GaussianAucBound(0.7), kDigits);
}

}  // namespace
}  // namespace splitveil
