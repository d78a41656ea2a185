// Debits of millions of examples: killed at any moment, and beside other runs on the same account.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "common/privacy_account/privacy_account.h"
#include "common/process/exit_code.h"
#include "common/storage/sqlite_database.h"
#include "tests/testing/scratch_folder.h"

namespace splitveil {
namespace {

constexpr int64_t kExamples = 2'100'000;  // Three parts.
constexpr int kKills = 20;
constexpr uint32_t kSigmaOne = uint32_t{1} << 20;

std::vector<NoiseRow> Ids(const std::string& prefix, int64_t count) {
  std::vector<NoiseRow> rows;
  for (int64_t i = 0; i < count; ++i) {
    rows.push_back(NoiseRow::OfId(absl::StrCat(prefix, i)));
  }
  return rows;
}

// Runs `body` in a process of its own, whose exit code it returns.
pid_t Start(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    _exit(body());
  }
  return child;
}

int StatusOf(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

class KilledDebitTest : public ::testing::Test {
 protected:
  absl::Status Debit(const std::vector<NoiseRow>& rows, uint32_t sigma_units, double limit = 1,
                     const std::string& label_set = "clicks") const {
    const absl::StatusOr<std::unique_ptr<PrivacyAccount>> account = PrivacyAccount::Open({path_, label_set, limit});
    return account.ok()
               ? (*account)
                     ->Debit(rows, std::vector<int64_t>(rows.size()), std::vector<NoiseReleases>{{sigma_units, 1}})
                     .status()
               : account.status();
  }
  ForeseenDebit Foresee(uint32_t sigma_units) const {
    return *(*PrivacyAccount::OpenToRead({path_, "clicks", 1}))
                ->Foresee(rows_, std::vector<NoiseReleases>{{sigma_units, 1}});
  }

  // Debits that another process has counted so far, of 16 bytes each.
  int64_t Counted() const {
    const absl::StatusOr<std::unique_ptr<SqliteDatabase>> database =
        SqliteDatabase::Open(path_, SqliteDatabase::Mode::kReadOnly);
    EXPECT_TRUE(database.ok()) << database.status();
    const absl::StatusOr<std::string> count = (*database)->QueryText("SELECT sum(length(examples)) / 16 FROM debit");
    EXPECT_TRUE(count.ok()) << count.status();
    return std::stoll(*count);
  }

  const ScratchFolder folder_;
  const std::string path_ = folder_.Path("labels.account.db");
  const std::vector<NoiseRow> rows_ = Ids("id-", kExamples);
};

// What a killed run released is counted; what it counted without releasing stays, and is not counted twice.
TEST_F(KilledDebitTest, CountsAllThatWasReleasedWheneverItIsKilled) {
  const absl::Time begun = absl::Now();
  ASSERT_TRUE(Debit(rows_, kSigmaOne).ok());
  const absl::Duration whole = absl::Now() - begun;
  std::mt19937 random(20261127);
  int released = 0, partial = 0;
  for (int kill_at = 0; kill_at < kKills; ++kill_at) {
    std::filesystem::remove(path_);
    ASSERT_TRUE(PrivacyAccount::Open({path_, "clicks", 1}).ok());
    const std::string released_path = folder_.Path(absl::StrCat("released.", kill_at));
    const pid_t child = Start([&] {
      if (Debit(rows_, kSigmaOne).ok()) {
        folder_.Write(std::filesystem::path(released_path).filename(), "sent");
        pause();
      }
      return 1;
    });
    // Of five, one is killed once it has released, and one once the first of its parts is counted.
    if (kill_at % 5 > 1) {
      absl::SleepFor(whole * std::uniform_real_distribution<>(0, 1)(random));
    }
    while ((kill_at % 5 == 0 && !std::filesystem::exists(released_path)) || (kill_at % 5 == 1 && Counted() == 0)) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    kill(child, SIGKILL);
    ASSERT_TRUE(WIFSIGNALED(StatusOf(child)));
    const int64_t missing = Foresee(kSigmaOne).releases;
    if (std::filesystem::exists(released_path)) {
      ++released;
      EXPECT_EQ(missing, 0) << "released, and not counted";
    }
    const bool is_part = missing > 0 && missing < kExamples;
    if (is_part && ++partial <= 2) {  // The next run counts the rest, and of every example one release.
      ASSERT_TRUE(Debit(rows_, kSigmaOne).ok());
      EXPECT_EQ(Foresee(kSigmaOne).releases, 0);
      EXPECT_DOUBLE_EQ(Foresee(kSigmaOne).so_far.mu(), 1);
    }
  }
  EXPECT_GT(released, 0);
  EXPECT_GT(partial, 0) << "no kill fell between two parts: it shows nothing";
}

// A small run waits for a part of a large one's debit, not for all of it: it comes when a part is there, and counts
// before all are.
TEST_F(KilledDebitTest, LetsOtherRunsCountBetweenItsParts) {
  ASSERT_TRUE(PrivacyAccount::Open({path_, "clicks", 1}).ok());
  const pid_t child = Start([&] { return Debit(rows_, kSigmaOne).ok() ? 0 : 1; });
  int between = 0, status = 0;
  for (int other = 0; waitpid(child, &status, WNOHANG) == 0; ++other) {
    const int64_t before = Counted() - other;
    ASSERT_TRUE(Debit(Ids(absl::StrCat("other-", other, "-"), 1), kSigmaOne).ok());
    const int64_t after = Counted() - other - 1;
    between += before > 0 && after < kExamples ? 1 : 0;
    absl::SleepFor(absl::Milliseconds(10));
  }
  ASSERT_EQ(status, 0);
  EXPECT_GT(between, 0) << "of three parts";
}

// Two runs debit the same examples at once, and the limit admits one of them.
TEST_F(KilledDebitTest, NeverAdmitsTwoRunsWhereTheLimitAdmitsOne) {
  const double limit = LabelPrivacy::OfReleases(LabelKind::kBinary, {kSigmaOne})->AucBound() + 1e-6;
  ASSERT_TRUE(PrivacyAccount::Open({path_, "clicks", 1}).ok());
  int admitted = 0;
  std::vector<pid_t> children;
  for (const char* name : {"clicks", "views"}) {
    children.push_back(Start([&, name] {
      const absl::Status status = Debit(rows_, kSigmaOne, limit, name);
      return status.ok() ? 0 : IsHalt(status) ? 5 : 1;
    }));
  }
  for (const pid_t child : children) {
    const int status = StatusOf(child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_THAT(WEXITSTATUS(status), ::testing::AnyOf(0, 5));
    admitted += status == 0 ? 1 : 0;
  }
  EXPECT_LE(admitted, 1);
}

}  // namespace
}  // namespace splitveil
