#include "common/ledger/ledger.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/ledger/ledger_reader.h"
#include "common/storage/sqlite_database.h"
#include "tests/testing/process/no_threads.h"
#include "tests/unit/common/ledger/ledger_file.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class LedgerTest : public LedgerFileTest {
 protected:
  // Rows of `table` visible from outside once it holds `rows`, or after ten seconds.
  std::string CountOnceThere(const std::string& table, const std::string& rows) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    std::string count;
    do {
      count = Sql("SELECT count(*) FROM " + table);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    } while (count != rows && std::chrono::steady_clock::now() < deadline);
    return count;
  }
};

// Runs and `splitveil align` share a ledger: of alignments that begin at once, no more than are allowed.
TEST_F(LedgerTest, AlignmentsThatBeginAtOnceStayWithinTheLimit) {
  constexpr int kLimit = 5;
  const std::unique_ptr<Ledger> ledger = Open("run-1");
  std::atomic<int> begun = 0, refused = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 12; ++i) {
    threads.emplace_back([&, i] {
      const absl::Status status =
          RecordAlignment(path_, absl::StrCat("shared-", i), {"", "align", 3, "last", 2}, kLimit);
      ++(status.ok() ? begun : refused);
      EXPECT_TRUE(status.ok() || absl::IsResourceExhausted(status)) << status;
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(begun, kLimit);
  EXPECT_EQ(refused, 12 - kLimit);
  EXPECT_EQ(*CountAlignments(path_), kLimit);
  EXPECT_EQ(Sql("SELECT DISTINCT program, ids, repeated, left_out FROM alignment"), "align|3|last|2");
  EXPECT_TRUE(RecordAlignment(path_, "run-1", AlignmentRow(), 0).ok());
  EXPECT_EQ(*CountAlignments(path_), kLimit + 1);
}

// Requests come at once, from more than one process, and a restart forgets nothing.
TEST_F(LedgerTest, UnprovedAnswersOfADayStayWithinTheLimit) {
  constexpr int64_t kDaily = 10;
  for (const char* const run : {"run-1", "run-2"}) {
    ASSERT_TRUE(Open(run)->Finish("completed").ok());
  }
  const auto record = [&](const std::string& run, const std::string& caller, int64_t answers) {
    return RecordUnprovedAnswers(path_, run, caller, answers, kDaily).code();
  };
  std::atomic<int> counted = 0, refused = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const absl::StatusCode code = record(i % 2 == 0 ? "run-1" : "run-2", "shop", 3);
      ++(code == absl::StatusCode::kOk ? counted : refused);
      EXPECT_TRUE(code == absl::StatusCode::kOk || code == absl::StatusCode::kResourceExhausted);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(counted, 3);
  EXPECT_EQ(record("run-1", "shop", 2), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(record("run-1", "shop", 1), absl::StatusCode::kOk);
  EXPECT_EQ(record("run-1", "shop", 1), absl::StatusCode::kResourceExhausted);
  // Others have a count of their own, whatever they are called.
  EXPECT_EQ(record("run-1", "a to shop", 10), absl::StatusCode::kOk);
  EXPECT_EQ(record("run-2", "%", 4), absl::StatusCode::kOk);
  EXPECT_EQ(record("run-2", "%", 6), absl::StatusCode::kOk);
  EXPECT_EQ(Sql("SELECT detail FROM event WHERE run_id = 'run-2' AND detail LIKE '% to %' AND detail NOT LIKE '%shop'"),
            "10 to %");  // One row a day.
  // Of each run by itself, and of yesterday, it is still known; today counts anew.
  const auto all = [&] {
    const std::unique_ptr<LedgerReader> reader = *LedgerReader::Open(path_);
    return CountUnprovedAnswers(*reader->Events("run-1")) + CountUnprovedAnswers(*reader->Events("run-2"));
  };
  EXPECT_EQ(all(), 30);
  Sql("UPDATE event SET at = '2001-02-03T04:05:06.789Z' WHERE detail LIKE '% to shop'");
  EXPECT_EQ(record("run-1", "shop", 10), absl::StatusCode::kOk);
  EXPECT_EQ(all(), 40);
}

TEST_F(LedgerTest, UnprovedAnswersAreCountedInTheRunsLedgerAlone) {
  EXPECT_EQ(RecordUnprovedAnswers(path_, "run-1", "shop", 1, 10).code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(path_));
  ASSERT_TRUE(Open("run-1")->Finish("completed").ok());
  EXPECT_EQ(RecordUnprovedAnswers(path_, "run-2", "shop", 1, 10).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Sql("SELECT count(*) FROM event"), "0");
  // What wrote a text that is no number wrote of an answer.
  EXPECT_EQ(
      CountUnprovedAnswers({{"", kUnprovedAnswers, "many"}, {"", kUnprovedAnswers, "-7 to shop"}, {"", "other", "9"}}),
      2);
}

TEST_F(LedgerTest, CountingAlignmentsMakesNoLedger) {
  EXPECT_EQ(*CountAlignments(path_), 0);
  EXPECT_FALSE(std::filesystem::exists(path_));
  std::ofstream(path_) << "id,amount\n";
  EXPECT_EQ(CountAlignments(path_).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(RecordAlignment(path_, "shared-1", AlignmentRow(), 0).ok());
}

TEST_F(LedgerTest, StoresEveryTable) {
  std::unique_ptr<Ledger> ledger = Open("run-1");
  ASSERT_TRUE(ledger->Record(StepRow{7, 1, 3, 128, 0.5, 0.25, 1000, 2000}).ok());
  ASSERT_TRUE(ledger->Record(StepTimeRow{7, 1, 2, 3, 4, 5, 6, 7, 8, 9.5}).ok());
  ASSERT_TRUE(ledger->Record(ProtectionRow{7, "marvell", 1, 2, 3, 0.25, 4, 5, 6, 7, 8, 0.5, 0.75, v1::RELEASE}).ok());
  ASSERT_TRUE(ledger->Record(LeakRow{7, "nonlabel_party", "cut", "norm", 0.625, 127}).ok());
  ASSERT_TRUE(ledger->Record(EvaluationRow{7, "test", 0.5, 0.75, 0.875, 0.0625}).ok());
  ASSERT_TRUE(ledger->Record(EvaluationRow{8, "test", kNan, kNan, kNan, kNan, 0.125, -0.25}).ok());
  ASSERT_TRUE(
      ledger->Record(ClaimCheckRow{1.5, 8.5, 1.25, 2.5, 0.0625, 0.95, "neighbour", 2000, 500, 0.75, 0.125, 1, 0.5, 2})
          .ok());
  ASSERT_TRUE(
      ledger->Record(AttributeLeakRow{3, "poison", "sex", "training", 900, 0.75, 0.625, 0.875, 0.5, 0.8125}).ok());
  ASSERT_TRUE(ledger->RecordEvent("disclosure", "oracle").ok());
  ASSERT_TRUE(ledger->Finish("completed").ok());
  EXPECT_EQ(Sql("SELECT * FROM attribute_leak"), "run-1|3|poison|sex|training|900|0.75|0.625|0.875|0.5|0.8125");
  EXPECT_EQ(Sql("SELECT * FROM claim_check"),
            "run-1|1.5|8.5|1.25|2.5|0.0625|0.95|neighbour|2000|500|0.75|0.125|1.0|0.5|2.0");
  EXPECT_EQ(Sql("SELECT * FROM step"), "run-1|7|1|3|128|0.5|0.25|1000|2000");
  EXPECT_EQ(Sql("SELECT * FROM step_time"), "run-1|7|1.0|2.0|3.0|4.0|5.0|6.0|7.0|8.0|9.5");
  EXPECT_EQ(Sql("SELECT * FROM protection"), "run-1|7|marvell|1.0|2.0|3.0|0.25|4.0|5.0|6.0|7.0|8.0|0.5|0.75|release");
  EXPECT_EQ(Sql("SELECT * FROM leak"), "run-1|7|nonlabel_party|cut|norm|0.625|127");
  EXPECT_EQ(Sql("SELECT * FROM evaluation WHERE step = 7"), "run-1|7|test|0.5|0.75|0.875|0.0625|NULL|NULL|last");
  EXPECT_EQ(Sql("SELECT * FROM evaluation WHERE step = 8"), "run-1|8|test|NULL|NULL|NULL|NULL|0.125|-0.25|last");
  EXPECT_EQ(Sql("SELECT run_id, kind, detail FROM event"), "run-1|disclosure|oracle");
  EXPECT_EQ(Sql("SELECT run_id, role, agreement_sha256, protection, status, config_json FROM run"),
            "run-1|label_party|ab12|marvell(s=4)|completed|{\"batch_size\":128}");
  constexpr char kTime[] = "[0-9-]+T[0-9]+:[0-9]+:[0-9]+\\.[0-9]+Z";
  for (const char* sql : {"SELECT started_at FROM run", "SELECT finished_at FROM run", "SELECT at FROM event"}) {
    EXPECT_THAT(Sql(sql), MatchesRegex(kTime)) << sql;
    EXPECT_LT(std::stod(Sql("SELECT abs(julianday('now') - julianday((" + std::string(sql) + ")))")), 1e-3);
  }
}

TEST_F(LedgerTest, StoresNumbersThatAreNotFiniteAsNull) {
  std::unique_ptr<Ledger> ledger = Open("run-1");
  ASSERT_TRUE(ledger->Record(StepRow{0, 0, 0, 1, kNan, kInfinity, 0, 0}).ok());
  ASSERT_TRUE(ledger
                  ->Record(ProtectionRow{0, "none", kNan, kNan, kNan, kNan, kNan, kNan, kNan, kNan, kNan, kNan,
                                         -kInfinity, v1::RELEASE})
                  .ok());
  ASSERT_TRUE(ledger->Record(LeakRow{0, "label_party", "cut", "norm", kNan, 1}).ok());
  ASSERT_TRUE(ledger->Record(EvaluationRow{0, "test", kInfinity, kNan, kNan, kNan, kInfinity, -kInfinity}).ok());
  EpochLeakRow epoch{0, "label_party", "cut", "norm", 4, 0};
  epoch.auc = epoch.tpr_01pct_high = epoch.auc_bound = kNan;
  ASSERT_TRUE(ledger->Record(epoch).ok());
  ledger.reset();
  EXPECT_EQ(Sql("SELECT loss, seconds FROM step"), "NULL|NULL");
  EXPECT_EQ(Sql("SELECT coalesce(u, v, g, p, power, lambda1_neg, lambda2_neg, lambda1_pos, lambda2_pos, sum_kl, "
                "auc_bound) FROM protection"),
            "NULL");
  EXPECT_EQ(Sql("SELECT auc FROM leak"), "NULL");
  EXPECT_EQ(Sql("SELECT auc, tpr_01pct_high, auc_bound, gaussian_auc_bound FROM epoch_leak"), "NULL|NULL|NULL|0.0");
  EXPECT_EQ(Sql("SELECT coalesce(log_loss, auc, accuracy, calibration_error, rmse, r_squared) FROM evaluation"),
            "NULL");
}

TEST_F(LedgerTest, KeepsPlantedSqlAsText) {
  const std::string planted = "x'); DROP TABLE leak; --\" ?1 %s";
  RunRow run{planted, planted, planted, planted, planted};
  auto ledger = Ledger::Create(path_, run);
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  ASSERT_TRUE((*ledger)->Record(LeakRow{0, planted, planted, planted, 0.5, 2}).ok());
  ASSERT_TRUE((*ledger)->RecordEvent(planted, planted).ok());
  ledger->reset();
  EXPECT_EQ(Sql("SELECT attack FROM leak"), planted);
  EXPECT_EQ(Sql("SELECT detail FROM event"), planted);
  EXPECT_EQ(Sql("SELECT config_json FROM run"), planted);
  EXPECT_EQ(Sql("SELECT count(*) FROM sqlite_schema WHERE type = 'table'"), "19");
}

// Events tell what the peer has said, too, and are read on terminals.
TEST_F(LedgerTest, AnEventIsOneLineWithoutControlCharacters) {
  ASSERT_TRUE(Open("run-1")->RecordEvent("ended", "first\nsecond\x1b[2J\xC2\x9B").ok());
  EXPECT_EQ(Sql("SELECT detail FROM event"), "first second [2J");
}

TEST_F(LedgerTest, RefusesADistributionOfAnotherClass) {
  std::unique_ptr<Ledger> ledger = Open("run-1");
  EXPECT_FALSE(ledger->Record(DistributionRow{0, "norm", /*label=*/2, 0, 0, 1, 5}).ok());
  EXPECT_TRUE(ledger->Record(DistributionRow{0, "norm", /*label=*/1, 0, 0, 1, 5}).ok());
}

// However long the run, the file is as large as what is kept.
TEST_F(LedgerTest, KeepsTheLatestStepsWhereToldTo) {
  auto ledger = Ledger::Create(path_, Run("run-1"), /*retained_steps=*/150);
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  const auto record = [&](int64_t from, int64_t to) {
    for (int64_t step = from; step < to; ++step) {
      StepRow row;
      row.step = step;
      ProtectionRow protection = {};
      protection.step = step;
      StepTimeRow times;
      times.step = step;
      ASSERT_TRUE((*ledger)->Record(row).ok());
      ASSERT_TRUE((*ledger)->Record(times).ok());
      ASSERT_TRUE((*ledger)->Record(protection).ok());
      ASSERT_TRUE((*ledger)->Record(LeakRow{step, "label_party", "cut", "norm", 0.5, 2}).ok());
      if (step % 100 == 99) {  // As the second does that rows wait at most.
        ASSERT_TRUE((*ledger)->Commit().ok());
      }
    }
  };
  record(0, 1000);
  ASSERT_TRUE((*ledger)->Record(EvaluationRow{7, "test"}).ok());
  ASSERT_TRUE((*ledger)->RecordEvent("kept", "whatever its age").ok());
  const std::string pages = Sql("PRAGMA page_count");
  record(1000, 5000);
  for (const char* table : {"step", "step_time", "protection", "leak"}) {
    EXPECT_EQ(Sql(absl::StrCat("SELECT min(step), max(step) FROM ", table)), "4750|4999") << table;
  }
  EXPECT_EQ(Sql("SELECT count(*) FROM evaluation"), "1");
  EXPECT_EQ(Sql("SELECT count(*) FROM event WHERE kind = 'kept'"), "1");
  EXPECT_LE(std::stoll(Sql("PRAGMA page_count")), std::stoll(pages) + 2);
}

TEST_F(LedgerTest, AppendsARunToAnExistingLedger) {
  Open("run-1")->Finish("completed").IgnoreError();
  std::unique_ptr<Ledger> second = Open("run-2");
  ASSERT_TRUE(second->Record(StepRow{}).ok());
  second.reset();
  EXPECT_EQ(Sql("SELECT run_id, status FROM run"), "run-1|completed\nrun-2|running");
  EXPECT_EQ(Sql("SELECT run_id FROM step"), "run-2");
}

TEST_F(LedgerTest, TwoRunsMayShareAFileAtTheSameTime) {
  std::unique_ptr<Ledger> first = Open("run-1"), second = Open("run-2");
  for (int64_t step = 0; step < 3; ++step) {
    ASSERT_TRUE(first->Record(StepRow{step, 0, step, 1, 0.5, 0, 0, 0}).ok());
    ASSERT_TRUE(first->Commit().ok());
    ASSERT_TRUE(second->Record(StepRow{step, 0, step, 1, 0.5, 0, 0, 0}).ok());
    ASSERT_TRUE(second->Commit().ok());
  }
  EXPECT_EQ(Sql("SELECT run_id, count(*) FROM step GROUP BY run_id"), "run-1|3\nrun-2|3");
}

// A writer holds the file for the moment of a commit, and waits for others without holding up those who record.
// Each must find nothing or a ledger, never half of one.
TEST_F(LedgerTest, ManyRunsMayMakeTheSameFileAtTheSameTime) {
  for (int file = 0; file < 20; ++file) {
    const std::string path = absl::StrCat(path_, file);
    std::vector<std::thread> threads;
    for (int run = 0; run < 6; ++run) {
      threads.emplace_back([&, run] {
        const auto ledger = Ledger::Create(path, Run(absl::StrCat("run-", run)));
        EXPECT_TRUE(ledger.ok()) << ledger.status();
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }
}

TEST_F(LedgerTest, RunsThatShareAFileDoNotHoldEachOtherUp) {
  constexpr int kRuns = 4;
  std::vector<double> slowest(kRuns);
  std::vector<std::thread> threads;
  for (int run = 0; run < kRuns; ++run) {
    threads.emplace_back([&, run] {
      std::unique_ptr<Ledger> ledger = Open(absl::StrCat("run-", run));
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(4);
      auto now = std::chrono::steady_clock::now();
      for (int64_t step = 0; now < end; ++step) {
        EXPECT_TRUE(ledger->Record(StepRow{step, 0, step, 1, 0.5, 0, 0, 0}).ok());
        const auto after = std::chrono::steady_clock::now();
        slowest[run] = std::max(slowest[run], std::chrono::duration<double>(after - now).count());
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        now = std::chrono::steady_clock::now();
      }
      EXPECT_TRUE(ledger->Finish("completed").ok());
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_LT(*std::max_element(slowest.begin(), slowest.end()), 0.5);
  EXPECT_EQ(Sql("SELECT count(*) FROM run WHERE status = 'completed'"), "4");
}

TEST_F(LedgerTest, RecordingGoesOnWhileAnotherProcessHoldsTheFile) {
  std::unique_ptr<Ledger> ledger = Open("run-1");
  auto other = SqliteDatabase::Open(path_, SqliteDatabase::Mode::kCreate);
  ASSERT_TRUE(other.ok() && (*other)->Execute("BEGIN IMMEDIATE").ok());
  const auto start = std::chrono::steady_clock::now();
  for (int64_t step = 0; step < 30; ++step) {
    ASSERT_TRUE(ledger->Record(StepRow{step, 0, step, 1, 0.5, 0, 0, 0}).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // The commit falls due meanwhile.
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(4));
  ASSERT_TRUE((*other)->Execute("COMMIT").ok());
  ASSERT_TRUE(ledger->Commit().ok());
  EXPECT_EQ(Sql("SELECT count(*) FROM step"), "30");
}

TEST_F(LedgerTest, CommitsWithinASecondWithoutFurtherUse) {
  std::unique_ptr<Ledger> ledger = Open("run-1");
  ASSERT_TRUE(ledger->Record(StepRow{}).ok());
  EXPECT_EQ(Sql("SELECT count(*) FROM step"), "0");
  EXPECT_EQ(CountOnceThere("step", "1"), "1");
}

TEST_F(LedgerTest, ManyThreadsMayRecord) {
  std::unique_ptr<Ledger> ledger = Open("run-1");
  std::vector<std::thread> threads;
  for (int64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&ledger, thread] {
      for (int64_t i = 0; i < 250; ++i) {
        EXPECT_TRUE(ledger->Record(StepRow{250 * thread + i, 0, i, 1, 0.5, 0, 0, 0}).ok());
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  ASSERT_TRUE(ledger->Commit().ok());
  EXPECT_EQ(Sql("SELECT count(*), min(step), max(step) FROM step"), "1000|0|999");
}

TEST_F(LedgerTest, AKilledProcessLosesOnlyWhatWasNotCommitted) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t writer = fork();
  if (writer == 0) {
    auto ledger = Ledger::Create(path_, Run("run-1"));
    bool ok = ledger.ok() && (*ledger)->Record(StepRow{}).ok() && (*ledger)->Commit().ok() &&
              (*ledger)->Record(LeakRow{}).ok();
    ok = ok && write(ready[1], "x", 1) == 1;
    if (ok) {
      while (true) {
        pause();
      }
    }
    _exit(1);
  }
  close(ready[1]);
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  EXPECT_EQ(Sql("SELECT count(*) FROM step"), "1");  // Read while the other process holds its transaction open.
  kill(writer, SIGKILL);
  int status = 0;
  waitpid(writer, &status, 0);
  EXPECT_EQ(Sql("SELECT count(*) FROM step"), "1");
  EXPECT_EQ(Sql("PRAGMA integrity_check"), "ok");
  EXPECT_NE(Open("run-2"), nullptr);
}

TEST_F(LedgerTest, IsMarkedAndStrictAndRefersToTheRun) {
  Open("run-1");
  EXPECT_EQ(Sql("PRAGMA application_id"), std::to_string(0x53564c47));
  EXPECT_EQ(Sql("PRAGMA user_version"), "9");
  EXPECT_EQ(Sql("PRAGMA journal_mode"), "wal");
  EXPECT_THAT(Sql("INSERT INTO leak VALUES ('run-1', 0, 'o', 'cut', 'norm', 'high', 1)"), HasSubstr("REAL"));
  EXPECT_THAT(Sql("PRAGMA foreign_keys = ON; INSERT INTO event VALUES ('unknown', '', '', '')"),
              HasSubstr("FOREIGN KEY"));
}

TEST_F(LedgerTest, RefusesARunThatExists) {
  std::unique_ptr<Ledger> first = Open("run-1");
  const absl::Status status = Ledger::Create(path_, Run("run-1")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("run-1"));
  EXPECT_TRUE(first->Record(StepRow{}).ok());
}

TEST_F(LedgerTest, RefusesARunWithoutAName) {
  EXPECT_EQ(Ledger::Create(path_, Run("")).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(LedgerTest, WithoutAThreadItSaysSo) {
  const testing::NoThreads no_threads;
  const absl::Status status = Ledger::Create(path_, Run("run-1")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no thread is to be had"));
}

TEST_F(LedgerTest, RefusesAMissingFolder) {
  const absl::Status status = Ledger::Create(folder_ + "/absent/run.db", Run("run-1")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("absent"));
}

TEST_F(LedgerTest, RefusesAFolder) {
  EXPECT_EQ(Ledger::Create(folder_, Run("run-1")).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(LedgerTest, RefusesAFolderThatIsClosed) {
  // Nobody, not even root, creates files in /proc.
  EXPECT_EQ(Ledger::Create("/proc/run.db", Run("run-1")).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(LedgerTest, RefusesAFileThatIsNoDatabaseAndLeavesItAlone) {
  const std::string text(4096, 'x');
  WriteFile(text);
  EXPECT_EQ(Ledger::Create(path_, Run("run-1")).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadFile(), text);
}

TEST_F(LedgerTest, RefusesAnotherDatabaseAndLeavesItAlone) {
  Sql("CREATE TABLE run(name TEXT); PRAGMA user_version = 1");
  const std::string before = ReadFile();
  const absl::Status status = Ledger::Create(path_, Run("run-1")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("a different SQLite database"));
  EXPECT_EQ(ReadFile(), before);
}

TEST_F(LedgerTest, RefusesAnotherVersion) {
  Open("run-1");
  Sql("PRAGMA user_version = 1");
  const absl::Status status = Ledger::Create(path_, Run("run-2")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("ledger version: expected 9, found 1, written by an earlier version of Splitveil;"));
  // What wrote it stands in its latest run.
  Sql("UPDATE run SET started_at = '2026-01-31T09:30:00.123Z', config_json = '{\"version\":\"0.0.9\"}'");
  EXPECT_THAT(std::string(Ledger::Create(path_, Run("run-2")).status().message()),
              HasSubstr("an earlier version of Splitveil (its latest run: version 0.0.9, 2026-01-31); to report"));
  EXPECT_EQ(Sql("SELECT run_id FROM run"), "run-1");
}

TEST_F(LedgerTest, RefusesARowRecordedBeforeAndGoesOn) {
  std::unique_ptr<Ledger> ledger = Open("run-1");
  ASSERT_TRUE(ledger->Record(StepRow{0, 0, 0, 1, 0.5, 0, 0, 0}).ok());
  EXPECT_EQ(ledger->Record(StepRow{0, 0, 0, 1, 0.75, 0, 0, 0}).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(ledger->Record(StepRow{1, 0, 1, 1, 0.5, 0, 0, 0}).ok());
  ledger.reset();
  EXPECT_EQ(Sql("SELECT step, loss FROM step"), "0|0.5\n1|0.5");
}

TEST_F(LedgerTest, ARowThatTheFileHasAlreadyEndsTheRecording) {
  std::unique_ptr<Ledger> ledger = Open("run-1");
  ASSERT_TRUE(ledger->Record(StepRow{0, 0, 0, 1, 0.5, 0, 0, 0}).ok());
  ASSERT_TRUE(ledger->Commit().ok());
  ASSERT_TRUE(ledger->Record(StepRow{0, 0, 0, 1, 0.75, 0, 0, 0}).ok());
  EXPECT_EQ(ledger->Commit().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(ledger->Record(StepRow{1, 0, 1, 1, 0.5, 0, 0, 0}).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(Sql("SELECT step, loss FROM step"), "0|0.5");
}

TEST_F(LedgerTest, RefusesRowsAfterTheEnd) {
  std::unique_ptr<Ledger> ledger = Open("run-1");
  ASSERT_TRUE(ledger->Finish("halted").ok());
  EXPECT_EQ(ledger->Record(StepRow{}).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ledger->Record(LeakRow{}).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ledger->RecordEvent("late", "").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(ledger->Commit().ok());
}

TEST_F(LedgerTest, RefusesToEndTwice) {
  std::unique_ptr<Ledger> ledger = Open("run-1");
  ASSERT_TRUE(ledger->Finish("failed").ok());
  EXPECT_EQ(ledger->Finish("completed").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Sql("SELECT status FROM run"), "failed");
}

TEST_F(LedgerTest, RefusesAnUnknownStatusAndStaysOpen) {
  std::unique_ptr<Ledger> ledger = Open("run-1");
  EXPECT_EQ(ledger->Finish("done").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Sql("SELECT status FROM run"), "running");
  EXPECT_TRUE(ledger->Record(StepRow{}).ok());
}

}  // namespace
}  // namespace splitveil
