#include "common/privacy_account/privacy_account.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/leakage/summary.h"
#include "common/privacy/label_privacy.h"
#include "common/privacy_account/account_file.h"
#include "common/process/exit_code.h"
#include "label_party/label_privacy/noised_labels.h"
#include "tests/testing/scratch_folder.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kSigmaOne = uint32_t{1} << 20;

std::vector<NoiseRow> Ids(int first, int count) {
  std::vector<NoiseRow> rows;
  for (int i = first; i < first + count; ++i) {
    rows.push_back(NoiseRow::OfId(absl::StrCat("id-", i)));
  }
  return rows;
}

class PrivacyAccountTest : public ::testing::Test {
 protected:
  std::unique_ptr<PrivacyAccount> Open(const std::string& label_set = "clicks", double max_lifetime_auc_bound = 1) {
    absl::StatusOr<std::unique_ptr<PrivacyAccount>> account =
        PrivacyAccount::Open({path_, label_set, max_lifetime_auc_bound});
    EXPECT_TRUE(account.ok()) << account.status();
    return *std::move(account);
  }
  static std::vector<NoiseReleases> Once(uint32_t sigma_units) { return {{sigma_units, 1}}; }
  // mu of the most exposed of `rows`, all with label 0, once they are released.
  static double MuAfter(PrivacyAccount& account, const std::vector<NoiseRow>& rows, uint32_t sigma_units) {
    const absl::StatusOr<LabelPrivacy> lifetime =
        account.Debit(rows, std::vector<int64_t>(rows.size()), Once(sigma_units));
    EXPECT_TRUE(lifetime.ok()) << lifetime.status();
    return lifetime.ok() ? lifetime->mu() : std::nan("");
  }
  std::vector<float> Targets(const std::string& label_set, double sigma, const std::vector<NoiseRow>& rows,
                             const std::vector<int64_t>& labels) {
    v1::GradientProtection::GaussianLabelDp config;
    config.set_sigma(sigma);
    return TargetsOf(config, label_set, rows, std::vector<float>(labels.begin(), labels.end()));
  }
  std::vector<float> TargetsOf(const v1::GradientProtection::GaussianLabelDp& config, const std::string& label_set,
                               const std::vector<NoiseRow>& rows, const std::vector<float>& labels) {
    const std::shared_ptr<NoisedLabels> noised = *NoisedLabels::Create(config, Task(), Open(label_set));
    EXPECT_TRUE(noised->Count("run-1", rows, labels).ok());
    return *noised->TrainingTargets(rows, labels, /*epoch=*/0);
  }

  const ScratchFolder folder_;
  const std::string path_ = folder_.Path("labels.account.db");
};

TEST_F(PrivacyAccountTest, TheSameReleaseCountsOnceAndOthersAddUp) {
  const std::vector<NoiseRow> rows = Ids(0, 100);
  EXPECT_DOUBLE_EQ(MuAfter(*Open(), rows, kSigmaOne), 1);
  EXPECT_DOUBLE_EQ(MuAfter(*Open(), rows, kSigmaOne), 1);                           // Another run.
  EXPECT_DOUBLE_EQ(MuAfter(*Open(), rows, 2 * kSigmaOne), std::sqrt(1.25));         // Other noise.
  EXPECT_DOUBLE_EQ(MuAfter(*Open("corrected"), rows, kSigmaOne), std::sqrt(2.25));  // Other labels.
  EXPECT_DOUBLE_EQ(MuAfter(*Open(), rows, kSigmaOne), std::sqrt(2.25));
}

// Draws of one strength are taken in order: what two runs have in common counts once.
TEST_F(PrivacyAccountTest, EveryDrawOfAStrengthCountsOnce) {
  const std::vector<NoiseRow> rows = Ids(0, 10);
  const std::vector<int64_t> labels(10);
  const auto mu_after = [&](const std::vector<NoiseReleases>& releases) {
    return Open()->Debit(rows, labels, releases)->mu();
  };
  EXPECT_DOUBLE_EQ(mu_after({{kSigmaOne, 3}}), std::sqrt(3));
  EXPECT_DOUBLE_EQ(mu_after({{kSigmaOne, 2}}), std::sqrt(3));
  EXPECT_DOUBLE_EQ(mu_after({{kSigmaOne, 5}, {2 * kSigmaOne, 4}}), std::sqrt(6));
  EXPECT_DOUBLE_EQ(mu_after({{2 * kSigmaOne, 1}}), std::sqrt(6));
  EXPECT_DOUBLE_EQ(mu_after({{4 * kSigmaOne, 0}}), std::sqrt(6));  // None.
  EXPECT_DOUBLE_EQ((*PrivacyAccount::OpenToRead({path_, "clicks", 1}))->Foresee(rows, {})->so_far.mu(), std::sqrt(6));
  const ForeseenDebit foreseen = *Open()->Foresee(rows, std::vector<NoiseReleases>{{kSigmaOne, 7}});
  EXPECT_EQ(foreseen.releases, 2 * 10);
  EXPECT_DOUBLE_EQ(foreseen.lifetime.mu(), std::sqrt(8));
}

TEST_F(PrivacyAccountTest, ARunOfSeveralDrawsIsHaltedAsAWhole) {
  // Phi(sqrt(3 / 2)) = 0.8897.
  const auto debit = [&](uint32_t draws) {
    const std::vector<NoiseReleases> releases = {{kSigmaOne, draws}};
    return Open("clicks", 0.85)->Debit(Ids(0, 10), std::vector<int64_t>(10), releases).status();
  };
  EXPECT_TRUE(IsHalt(debit(3)));
  EXPECT_DOUBLE_EQ(MuAfter(*Open(), Ids(0, 10), 4 * kSigmaOne), 0.25);
  EXPECT_TRUE(debit(2).ok());
}

TEST_F(PrivacyAccountTest, ExamplesAreCountedOneByOne) {
  MuAfter(*Open(), Ids(0, 50), kSigmaOne);
  EXPECT_DOUBLE_EQ(MuAfter(*Open(), Ids(50, 50), 2 * kSigmaOne), 0.5);
  EXPECT_DOUBLE_EQ(MuAfter(*Open(), Ids(49, 2), 4 * kSigmaOne), std::sqrt(1 + 1.0 / 16));  // The most exposed.
}

TEST_F(PrivacyAccountTest, ARunThatWouldPassTheLimitIsHaltedAndCountsNothing) {
  // Phi(1 / sqrt 2) = 0.760250.
  const auto debit = [&](double limit, const std::vector<NoiseRow>& rows, uint32_t sigma_units) {
    return Open("clicks", limit)->Debit(rows, std::vector<int64_t>(rows.size()), Once(sigma_units)).status();
  };
  EXPECT_TRUE(debit(0.7603, Ids(0, 10), kSigmaOne).ok());
  const absl::Status status = debit(0.7603, Ids(9, 10), 2 * kSigmaOne);
  EXPECT_TRUE(IsHalt(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("max_lifetime_auc_bound: expected at most 0.7603, found 0.785"));
  EXPECT_TRUE(debit(0.7603, Ids(0, 10), kSigmaOne).ok());  // As before, nothing is added.
  EXPECT_DOUBLE_EQ(MuAfter(*Open(), Ids(10, 9), 4 * kSigmaOne), 0.25);
}

TEST_F(PrivacyAccountTest, ForeseesWhatDebitsWouldCount) {
  MuAfter(*Open(), Ids(0, 50), kSigmaOne);
  MuAfter(*Open("other"), Ids(0, 1), 4 * kSigmaOne);
  const std::string before = folder_.Read("labels.account.db");
  const auto foresee = [&](const std::vector<NoiseRow>& rows, const std::vector<NoiseReleases>& releases) {
    return *(*PrivacyAccount::OpenToRead({path_, "clicks", 1}))->Foresee(rows, releases);
  };
  ForeseenDebit foreseen = foresee(Ids(1, 49), {{kSigmaOne, 1}});
  EXPECT_EQ(foreseen.releases, 0);
  EXPECT_EQ(foreseen.examples, 0);
  EXPECT_DOUBLE_EQ(foreseen.so_far.mu(), 1);
  EXPECT_DOUBLE_EQ(foreseen.lifetime.mu(), 1);
  // Ten new examples at both strengths, 50 known ones at the second; the first of them knows another label set, too.
  foreseen = foresee(Ids(0, 60), {{kSigmaOne, 1}, {2 * kSigmaOne, 1}, {2 * kSigmaOne, 1}});
  EXPECT_EQ(foreseen.releases, 50 + 2 * 10);
  EXPECT_EQ(foreseen.examples, 60);
  EXPECT_DOUBLE_EQ(foreseen.so_far.mu(), std::sqrt(1 + 1.0 / 16));
  EXPECT_DOUBLE_EQ(foreseen.lifetime.mu(), std::sqrt(1.25 + 1.0 / 16));
  EXPECT_EQ(folder_.Read("labels.account.db"), before);
  EXPECT_DOUBLE_EQ(MuAfter(*Open(), Ids(0, 60), 2 * kSigmaOne), std::sqrt(1.25 + 1.0 / 16));
}

TEST_F(PrivacyAccountTest, ForeseesWhatANewOneWouldCount) {
  const std::vector<NoiseReleases> releases = {{kSigmaOne, 1}, {2 * kSigmaOne, 1}, {kSigmaOne, 1}};
  const ForeseenDebit foreseen = *PrivacyAccount::ForeseeNew(LabelKind::kBinary, 10, releases);
  EXPECT_EQ(foreseen.releases, 20);
  EXPECT_EQ(foreseen.examples, 10);
  EXPECT_EQ(foreseen.so_far.mu(), 0);
  EXPECT_DOUBLE_EQ(foreseen.lifetime.mu(), std::sqrt(1.25));
  EXPECT_EQ(PrivacyAccount::ForeseeNew(LabelKind::kBinary, 10, {})->releases, 0);
  EXPECT_DOUBLE_EQ(PrivacyAccount::ForeseeNew(LabelKind::kOneHot, 10, Once(kSigmaOne))->lifetime.mu(), std::sqrt(2));
}

TEST_F(PrivacyAccountTest, NoiseBelongsToTheExampleWhateverTheRun) {
  const std::vector<NoiseRow> rows = Ids(0, 40);
  std::vector<int64_t> labels(40);
  labels[3] = 1;
  const std::vector<float> targets = Targets("clicks", 1, rows, labels);
  EXPECT_EQ(Targets("clicks", 1, rows, labels), targets);
  EXPECT_NE(Targets("clicks", 2, rows, labels), targets);
  EXPECT_NE(Targets("other clicks", 1, rows, labels), targets);
  // Another run takes other examples, in another order.
  const std::vector<float> some = Targets("clicks", 1, {rows[3], rows[39]}, {1, 0});
  EXPECT_EQ(some, (std::vector<float>{targets[3], targets[39]}));
}

// A release is known by its noise, not by how its strength was said.
TEST_F(PrivacyAccountTest, TheSameStrengthSaidInAnotherWayIsTheSameRelease) {
  const std::vector<NoiseRow> rows = Ids(0, 10);
  const std::vector<int64_t> labels(10);
  const LabelPrivacy privacy = *PrivacyOfSigmas(LabelKind::kBinary, {1.35});
  const auto targets = [&](const v1::GradientProtection::GaussianLabelDp& config) {
    return TargetsOf(config, "clicks", rows, std::vector<float>(rows.size()));
  };
  const std::vector<float> first = Targets("clicks", 1.35, rows, labels);
  v1::GradientProtection::GaussianLabelDp config;
  config.set_max_run_auc_bound(privacy.AucBound());
  EXPECT_EQ(targets(config), first);
  config.set_mu(1 / 1.35);
  EXPECT_EQ(targets(config), first);
  config.mutable_budget()->set_delta(1e-6);
  config.mutable_budget()->set_epsilon(privacy.EpsilonAt(1e-6));
  EXPECT_EQ(targets(config), first);
  const uint32_t units = *SigmaUnits(1.35);
  EXPECT_DOUBLE_EQ(MuAfter(*Open(), rows, units), privacy.mu());
  // A figure that was rounded before it was copied is another strength.
  config.set_sigma(1.350002);
  EXPECT_NE(targets(config), first);
  EXPECT_NEAR(MuAfter(*Open(), rows, units), std::sqrt(2) * privacy.mu(), 1e-5);
}

// What five runs show of 20,000 labels, put together, is what one shows; with a name of their own each, sqrt(5) times
// its mu. Six standard errors of an AUC over as many.
TEST_F(PrivacyAccountTest, RunsOnTheSameLabelsDiscloseNoMoreThanOne) {
  constexpr int kRows = 20'000;
  const std::vector<NoiseRow> rows = Ids(0, kRows);
  std::vector<int64_t> labels(kRows);
  for (int i = 0; i < kRows; ++i) {
    labels[i] = i % 2;
  }
  const std::vector<uint8_t> classes(labels.begin(), labels.end());
  std::vector<float> same(kRows), renamed(kRows);
  for (int run = 0; run < 5; ++run) {
    const std::vector<float> again = Targets("clicks", 2, rows, labels);
    const std::vector<float> drawn = Targets(absl::StrCat("clicks ", run), 2, rows, labels);
    for (int i = 0; i < kRows; ++i) {
      same[i] += again[i];
      renamed[i] += drawn[i];
    }
  }
  EXPECT_NEAR(*LeakAuc(same, classes), GaussianPrivacy::FromMu(0.5)->AucBound(), 0.025);
  EXPECT_NEAR(*LeakAuc(renamed, classes), GaussianPrivacy::FromMu(0.5 * std::sqrt(5))->AucBound(), 0.025);
}

TEST_F(PrivacyAccountTest, LabelsThatHaveChangedNeedAnotherName) {
  const std::vector<NoiseRow> rows = Ids(0, 10);
  std::vector<int64_t> labels(10);
  ASSERT_TRUE(Open()->Debit(rows, labels, Once(kSigmaOne)).ok());
  EXPECT_TRUE(Open()->CheckLabels(rows, labels).ok());
  labels[7] = 1;
  const absl::Status status = Open()->CheckLabels(rows, labels);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("label_set: \"clicks\" was first used with different labels"));
  EXPECT_TRUE(Open("clicks, corrected")->CheckLabels(rows, labels).ok());
  EXPECT_TRUE(Open()->CheckLabels(Ids(10, 10), std::vector<int64_t>(10, 1)).ok());  // Never released.
}

// Look-ups are made a million at a time, in the order of the table: the examples at the ends of such a part, too.
TEST_F(PrivacyAccountTest, EveryOneOfManyExamplesIsLookedUp) {
  constexpr int kExamples = 1'000'002;
  std::vector<NoiseRow> rows = Ids(0, kExamples);
  std::sort(rows.begin(), rows.end(), [](const NoiseRow& a, const NoiseRow& b) { return a.bytes() < b.bytes(); });
  std::vector<int64_t> labels(kExamples);
  const std::unique_ptr<PrivacyAccount> account = Open();
  ASSERT_TRUE(account->Debit(rows, labels, Once(kSigmaOne)).ok());
  EXPECT_TRUE(account->CheckLabels(rows, labels).ok());
  for (const size_t changed : {0, 999'999, 1'000'000, 1'000'001}) {
    labels[changed] = 1;
    EXPECT_EQ(account->CheckLabels(rows, labels).code(), absl::StatusCode::kInvalidArgument) << changed;
    labels[changed] = 0;
  }
  const ForeseenDebit foreseen = *account->Foresee(rows, std::vector<NoiseReleases>{{kSigmaOne, 3}});
  EXPECT_EQ(foreseen.releases, 2 * kExamples);
  EXPECT_EQ(foreseen.examples, kExamples);
}

// As none, it would count for nothing.
TEST_F(PrivacyAccountTest, AReleaseWhoseStrengthIsNotThereIsAnError) {
  const std::vector<NoiseRow> rows = Ids(0, 10);
  const std::vector<int64_t> labels(10);
  MuAfter(*Open(), rows, kSigmaOne);
  ASSERT_TRUE((*SqliteDatabase::Open(path_, SqliteDatabase::Mode::kCreate))
                  ->Execute("PRAGMA foreign_keys = OFF; DELETE FROM release")
                  .ok());
  const std::unique_ptr<PrivacyAccount> account = Open();
  for (const absl::Status& status : {account->CheckLabels(rows, labels), account->Foresee(rows, {}).status(),
                                     account->Debit(rows, labels, std::vector<NoiseReleases>{}).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("labels.account.db: release number"));
  }
}

// Two runs begin together; the labels are corrected in between, and their name is not.
TEST_F(PrivacyAccountTest, LabelsThatAnotherRunHasCountedSinceAreFound) {
  const std::vector<NoiseRow> rows = Ids(0, 10);
  const std::vector<int64_t> labels(10);
  std::vector<int64_t> corrected = labels;
  corrected[4] = 1;
  const std::unique_ptr<PrivacyAccount> early = Open();
  const std::unique_ptr<PrivacyAccount> late = Open();
  ASSERT_TRUE(early->CheckLabels(rows, labels).ok());
  ASSERT_TRUE(late->CheckLabels(rows, corrected).ok());
  ASSERT_TRUE(late->Debit(rows, corrected, Once(kSigmaOne)).ok());
  EXPECT_EQ(early->Debit(rows, labels, Once(kSigmaOne)).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(early->Debit(rows, labels, Once(2 * kSigmaOne)).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(PrivacyAccountTest, RefusesAFileThatOthersMayReadOrThatHasTwoNames) {
  Open().reset();
  ASSERT_EQ(chmod(path_.c_str(), 0640), 0);
  const auto refused = [&] { return std::string(PrivacyAccount::Open({path_, "clicks", 1}).status().message()); };
  EXPECT_THAT(refused(), HasSubstr("expected a file of this user"));
  ASSERT_EQ(chmod(path_.c_str(), 0600), 0);
  EXPECT_EQ(refused(), "");
  std::filesystem::create_hard_link(path_, folder_.Path("another.name"));
  EXPECT_THAT(refused(), HasSubstr("with one name"));
  std::filesystem::remove(folder_.Path("another.name"));
  std::filesystem::create_symlink(path_, folder_.Path("link.db"));
  EXPECT_THAT(std::string(PrivacyAccount::Open({folder_.Path("link.db"), "clicks", 1}).status().message()),
              HasSubstr("found a symbolic link"));
}

TEST_F(PrivacyAccountTest, IsItsOwnersAlone) {
  const std::string id = Open()->id();
  EXPECT_EQ(id.size(), 32);
  struct stat file = {};
  ASSERT_EQ(stat(path_.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600);
  EXPECT_EQ(Open()->id(), id);
  EXPECT_EQ(folder_.Names().size(), 1);  // No journal stays.
}

TEST_F(PrivacyAccountTest, RefusesWhatIsNoAccount) {
  const auto open = [&](const std::string& path, const std::string& label_set = "clicks") {
    return PrivacyAccount::Open({path, label_set, 1}).status();
  };
  const std::string text = folder_.Write("text", std::string(5000, 'x'));
  ASSERT_EQ(chmod(text.c_str(), 0600), 0);
  EXPECT_THAT(std::string(open(text).message()), HasSubstr("expected a SQLite"));
  EXPECT_EQ(open(folder_.Path("missing/a.db")).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(open(folder_.Path("")).code(), absl::StatusCode::kInvalidArgument);  // A folder.
  EXPECT_EQ(open(path_, "").code(), absl::StatusCode::kInvalidArgument);
  auto other = SqliteDatabase::Open(folder_.Path("other.db"), SqliteDatabase::Mode::kCreate);
  ASSERT_TRUE((*other)->Execute("CREATE TABLE t(a)").ok());
  ASSERT_EQ(chmod(folder_.Path("other.db").c_str(), 0600), 0);
  EXPECT_THAT(std::string(open(folder_.Path("other.db")).message()), HasSubstr("found a different SQLite database"));
  Open().reset();
  auto account = SqliteDatabase::Open(path_, SqliteDatabase::Mode::kCreate);
  for (const std::string version : {"4", "6"}) {
    ASSERT_TRUE((*account)->Execute(("PRAGMA user_version = " + version).c_str()).ok());
    EXPECT_THAT(std::string(open(path_).message()),
                HasSubstr("expected 5, found " + version + ": a different version"));
    EXPECT_THAT(std::string(PrivacyAccount::OpenToRead({path_, "clicks", 1}).status().message()),
                HasSubstr("expected 5, found " + version));
  }
}

TEST_F(PrivacyAccountTest, RemembersItsRunsAndTheMostExposedExampleOfALabelSet) {
  const std::vector<NoiseRow> rows = Ids(0, 10);
  const std::vector<int64_t> labels(10);
  const std::unique_ptr<PrivacyAccount> account = Open();
  EXPECT_TRUE(account->remembered().empty());
  ASSERT_TRUE(account->Debit(rows, labels, Once(kSigmaOne)).ok());
  const std::string first = account->RememberStart("run-1", 1)->name;
  EXPECT_EQ(account->RememberStart("run-2", 0.5)->most_exposed, 1);  // Others were released more of.
  EXPECT_EQ(account->RememberStart("run-2", 2)->most_exposed, 2);    // It was continued.
  EXPECT_EQ(Open()->remembered().size(), 3);
  EXPECT_EQ(Open()->remembered().count(first), 1);
  EXPECT_TRUE(Open()->Knows("run-1") && Open()->Knows("run-2"));
  EXPECT_FALSE(Open()->Knows("run") || Open()->Knows("run-3"));
  EXPECT_TRUE(account->Remember("run-3 and more").ok());
  EXPECT_FALSE(Open()->Knows("run-3"));
  EXPECT_EQ(TimeOfStart("run-3 and more"), "");
  const std::unique_ptr<PrivacyAccount> purchases = Open("purchases");
  ASSERT_TRUE(purchases->Debit(Ids(50, 10), labels, Once(kSigmaOne)).ok());
  EXPECT_EQ(purchases->RememberStart("run-4", 1)->most_exposed, 1);
}

// A clock that was set back does not turn round the order of the starts.
TEST_F(PrivacyAccountTest, StartsHaveTimesInTheOrderInWhichTheyWereCounted) {
  const std::unique_ptr<PrivacyAccount> account = Open();
  ASSERT_TRUE(account->Remember("run-0 2999-12-31T23:59:59.999Z 0123456789abcdef").ok());
  EXPECT_EQ(TimeOfStart(account->RememberStart("run-1", 1)->name), "3000-01-01T00:00:00.000Z");
  EXPECT_EQ(TimeOfStart(account->RememberStart("run-2", 1)->name), "3000-01-01T00:00:00.001Z");
}

TEST_F(PrivacyAccountTest, ReadingMakesNothing) {
  const auto read = [&](const std::string& path) { return PrivacyAccount::OpenToRead({path, "clicks", 1}); };
  EXPECT_EQ(*read(path_), nullptr);
  EXPECT_TRUE(folder_.Names().empty());
  EXPECT_EQ(read(folder_.Path("missing/a.db")).status().code(), absl::StatusCode::kNotFound);
  folder_.Write("labels.account.db", "");
  ASSERT_EQ(chmod(path_.c_str(), 0600), 0);
  EXPECT_EQ(*read(path_), nullptr);
  EXPECT_EQ(std::filesystem::file_size(path_), 0);
  EXPECT_EQ(folder_.Names().size(), 1);
  EXPECT_TRUE(Open()->is_new());  // An empty file knows of nothing.
  EXPECT_FALSE(Open()->is_new());
}

TEST_F(PrivacyAccountTest, WhoReadsItFindsAllAndChangesNothing) {
  const std::vector<NoiseRow> rows = Ids(0, 2);
  const std::vector<int64_t> labels = {0, 1}, corrected = {1, 1};
  ASSERT_TRUE(Open()->Debit(rows, labels, Once(kSigmaOne)).ok());
  const std::string before = folder_.Read("labels.account.db");
  auto account = PrivacyAccount::OpenToRead({path_, "clicks", 1});
  ASSERT_TRUE(account.ok()) << account.status();
  EXPECT_EQ((*account)->id(), Open()->id());
  EXPECT_TRUE((*account)->CheckLabels(rows, labels).ok());
  EXPECT_EQ((*account)->CheckLabels(rows, corrected).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE((*account)->Debit(rows, labels, Once(2 * kSigmaOne)).ok());
  account->reset();
  EXPECT_EQ(folder_.Read("labels.account.db"), before);
  EXPECT_EQ(folder_.Names().size(), 1);
  ASSERT_EQ(chmod(path_.c_str(), 0640), 0);
  EXPECT_FALSE(PrivacyAccount::OpenToRead({path_, "clicks", 1}).ok());
}

// Written over in place, with as many changes made to it: what tells a connection that its pages are stale is the same.
TEST_F(PrivacyAccountTest, AnotherAccountInItsPlaceIsFoundBeforeAnythingIsCounted) {
  const std::vector<NoiseRow> rows = Ids(0, 10);
  const std::vector<int64_t> labels(10);
  const std::unique_ptr<PrivacyAccount> account = Open();
  ASSERT_TRUE(account->CheckLabels(rows, labels).ok());
  const std::string ours = folder_.Read("labels.account.db");
  ASSERT_TRUE(PrivacyAccount::Open({folder_.Path("other.account.db"), "clicks", 1}).ok());
  const std::string other = folder_.Read("other.account.db");
  ASSERT_EQ(ours.substr(24, 16), other.substr(24, 16));  // The counter and what SQLite compares with it.
  std::ofstream(path_, std::ios::binary | std::ios::in | std::ios::out) << other;
  const auto refused = [&] { return std::string(account->Debit(rows, labels, Once(kSigmaOne)).status().message()); };
  EXPECT_THAT(refused(), HasSubstr("expected the account that the run began with, found a different one in its place"));
  EXPECT_EQ(folder_.Read("labels.account.db"), other);
  // Or under its name, or nothing.
  std::filesystem::rename(folder_.Path("other.account.db"), path_);
  EXPECT_THAT(refused(), HasSubstr("found a different one in its place"));
  std::filesystem::remove(path_);
  EXPECT_THAT(refused(), HasSubstr("expected the account that the run began with, found none"));
  EXPECT_FALSE(std::filesystem::exists(path_));
  std::ofstream(path_, std::ios::binary) << ours;
  ASSERT_EQ(chmod(path_.c_str(), 0600), 0);
  EXPECT_EQ(refused(), "");
}

TEST_F(PrivacyAccountTest, LabelsOfSeveralClassesDiscloseTwiceTheDivergence) {
  const std::vector<NoiseRow> rows = Ids(0, 10);
  ASSERT_TRUE(Open("clicks")->Debit(rows, std::vector<int64_t>(10), Once(kSigmaOne)).ok());
  const std::unique_ptr<PrivacyAccount> classes =
      *PrivacyAccount::Open({path_, "diagnoses", /*max_lifetime_auc_bound=*/1, LabelKind::kOneHot});
  EXPECT_NEAR(MuAfter(*classes, rows, kSigmaOne), std::sqrt(3), 1e-9);  // 1 of the clicks, 2 of the diagnoses.
}

TEST_F(PrivacyAccountTest, ALabelSetKeepsItsKind) {
  const std::vector<NoiseRow> rows = Ids(0, 10);
  const std::vector<int64_t> labels(10);
  ASSERT_TRUE(Open("clicks")->Debit(rows, labels, Once(kSigmaOne)).ok());
  const std::unique_ptr<PrivacyAccount> numbers =
      *PrivacyAccount::Open({path_, "clicks", /*max_lifetime_auc_bound=*/1, LabelKind::kUnitInterval});
  EXPECT_EQ(numbers->CheckLabels(Ids(50, 10), labels).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(numbers->Debit(Ids(50, 10), labels, Once(kSigmaOne)).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace splitveil
