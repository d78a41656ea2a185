#include "common/storage/sqlite_database.h"

#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"

#include "tests/testing/scratch_folder.h"
#include "tests/testing/sqlite_file.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;

constexpr char kBigRow[] = "INSERT INTO t VALUES (zeroblob(1000000))";

// What goes wrong with this party's own file is its configuration's fault (InvalidArgument) or an internal error, never
// a code that reads as the peer's verdict, the peer's absence or a halt.
class SqliteDatabaseTest : public SqliteFileTest {
 protected:
  std::unique_ptr<SqliteDatabase> Connect(SqliteDatabase::Mode mode = SqliteDatabase::Mode::kCreate) {
    auto database = SqliteDatabase::Open(path_, mode);
    EXPECT_TRUE(database.ok()) << database.status();
    return database.ok() ? *std::move(database) : nullptr;
  }

  static void ExpectError(const absl::Status& status, absl::StatusCode code, const std::string& message) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
};

TEST_F(SqliteDatabaseTest, FileThatCannotBeMadeIsInvalidInput) {
  // Nobody, not even root, creates files in /proc.
  const absl::Status status = SqliteDatabase::Open("/proc/run.db", SqliteDatabase::Mode::kCreate).status();
  ExpectError(status, absl::StatusCode::kInvalidArgument, "/proc/run.db: unable to open");
}

TEST_F(SqliteDatabaseTest, FileThatCannotBeWrittenIsInvalidInput) {
  Sql("CREATE TABLE t(a)");
  auto database = Connect(SqliteDatabase::Mode::kReadOnly);
  ExpectError(database->Execute(kBigRow), absl::StatusCode::kInvalidArgument, "readonly");
}

TEST_F(SqliteDatabaseTest, FullDiskIsInternal) {
  auto database = Connect();
  ASSERT_TRUE(database->Execute("PRAGMA max_page_count = 10; CREATE TABLE t(a)").ok());
  ExpectError(database->Execute(kBigRow), absl::StatusCode::kInternal, "full");
}

TEST_F(SqliteDatabaseTest, FailedWriteIsInternal) {
  auto database = Connect();
  ASSERT_TRUE(database->Execute("CREATE TABLE t(a)").ok());
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = signal(SIGXFSZ, SIG_IGN);  // Otherwise the write kills the process.
  const rlimit low = {65536, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  const absl::Status status = database->Execute(kBigRow);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, old_handler);
  ExpectError(status, absl::StatusCode::kInternal, "I/O error");
}

TEST_F(SqliteDatabaseTest, FileBusyInAnotherProcessIsInternal) {
  auto first = Connect();
  auto second = Connect();
  ASSERT_TRUE(first->Execute("CREATE TABLE t(a); BEGIN IMMEDIATE").ok());
  ASSERT_TRUE(second->Execute("PRAGMA busy_timeout = 0").ok());
  ExpectError(second->Execute("BEGIN IMMEDIATE"), absl::StatusCode::kInternal, "database is locked");
}

TEST_F(SqliteDatabaseTest, AnotherProcesssLockIsWaitedForAMinute) {
  EXPECT_EQ(Connect()->QueryInt64("PRAGMA busy_timeout").value(), 60'000);
}

TEST_F(SqliteDatabaseTest, AFileThatIsMadeIsItsOwnersAlone) {
  const mode_t before = umask(0);  // Hides nothing.
  auto database = Connect();
  ASSERT_TRUE(database->Execute("PRAGMA journal_mode = WAL; CREATE TABLE t(a)").ok());
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    EXPECT_EQ(entry.status().permissions(), std::filesystem::perms(0600)) << entry.path();
  }
  umask(before);
}

TEST_F(SqliteDatabaseTest, TableLockedByAnOpenQueryIsInternal) {
  auto database = Connect();
  ASSERT_TRUE(database->Execute("CREATE TABLE t(a); INSERT INTO t VALUES (1), (2)").ok());
  auto query = database->Prepare("SELECT a FROM t");
  ASSERT_TRUE(query.ok() && query->Next().ok());
  ExpectError(database->Execute("DROP TABLE t"), absl::StatusCode::kInternal, "table is locked");
}

TEST_F(SqliteDatabaseTest, NoMemoryIsInternal) {
  auto database = Connect();
  ASSERT_TRUE(database->Execute("CREATE TABLE t(a)").ok());
  sqlite3_hard_heap_limit64(1);
  const absl::Status statement = database->Execute(kBigRow);
  const absl::Status opened = SqliteDatabase::Open(path_, SqliteDatabase::Mode::kCreate).status();
  sqlite3_hard_heap_limit64(0);
  ExpectError(statement, absl::StatusCode::kInternal, "out of memory");
  ExpectError(opened, absl::StatusCode::kInternal, "out of memory");
}

using ::testing::HasSubstr;

constexpr SqliteApplication kNotes = {"a book of notes", 0x4e4f5445, 3};

class SqliteApplicationTest : public ::testing::Test {
 protected:
  SqliteApplicationTest() : path_(folder_.Path("notes.db")) {}

  std::unique_ptr<SqliteDatabase> Open() { return *SqliteDatabase::Open(path_, SqliteDatabase::Mode::kCreate); }
  SqliteFinding Find() {
    const auto finding = FindApplication(*Open(), kNotes);
    EXPECT_TRUE(finding.ok()) << finding.status();
    return finding.value_or(SqliteFinding());
  }

  ScratchFolder folder_;
  const std::string path_;
};

TEST_F(SqliteApplicationTest, KnowsWhatItHasSigned) {
  EXPECT_EQ(Find().content, SqliteContent::kNothing);
  ASSERT_TRUE(SignApplication(*Open(), kNotes).ok());
  EXPECT_EQ(Find().content, SqliteContent::kApplication);
  EXPECT_EQ(Find().version, 3);
}

TEST_F(SqliteApplicationTest, TellsAnotherVersion) {
  ASSERT_TRUE(SignApplication(*Open(), {kNotes.name, kNotes.id, 4}).ok());
  EXPECT_EQ(Find().content, SqliteContent::kOtherVersion);
  EXPECT_EQ(Find().version, 4);
}

TEST_F(SqliteApplicationTest, RefusesAnother) {
  const auto refused = [&] { return std::string(FindApplication(*Open(), kNotes).status().message()); };
  ASSERT_TRUE(Open()->Execute("CREATE TABLE t(a)").ok());
  EXPECT_EQ(refused(), "expected a book of notes, found a different SQLite database");
  ASSERT_TRUE(SignApplication(*Open(), {"a list", 7, kNotes.version}).ok());
  EXPECT_EQ(refused(), "expected a book of notes, found a different SQLite database");
  std::filesystem::remove(path_);
  folder_.Write("notes.db", std::string(5000, 'x'));
  EXPECT_THAT(refused(), HasSubstr("expected a SQLite database"));
}

TEST_F(SqliteApplicationTest, LeavesAnEmptyFileEmpty) {
  folder_.Write("notes.db", "");
  const auto database = SqliteDatabase::Open(path_, SqliteDatabase::Mode::kReadOnly);
  ASSERT_TRUE(database.ok()) << database.status();
  EXPECT_EQ(FindApplication(**database, kNotes)->content, SqliteContent::kNothing);
  EXPECT_EQ(std::filesystem::file_size(path_), 0);
}

}  // namespace
}  // namespace splitveil
