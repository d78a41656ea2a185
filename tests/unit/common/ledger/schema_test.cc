#include "common/ledger/schema.h"

#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "absl/status/status.h"

#include "common/storage/sqlite_database.h"
#include "tests/unit/common/ledger/ledger_file.h"

namespace splitveil {
namespace {

TEST(SchemaTest, PlaceWithoutWriteAheadLogIsInvalidInput) {
  // A database in memory has no write-ahead log, like a file on most network file systems.
  auto database = SqliteDatabase::Open(":memory:", SqliteDatabase::Mode::kCreate);
  ASSERT_TRUE(database.ok()) << database.status();
  const absl::Status status = CreateSchema(**database);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("expected wal, found memory"));
}

using ::testing::HasSubstr;

class LedgerPathTest : public LedgerFileTest {
 protected:
  void ExpectRefused(const std::string& path, absl::StatusCode code, const std::string& text) {
    const absl::Status status = CheckLedgerPath(path);
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path + ": "));
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }

  size_t FilesBeside() const {
    const std::filesystem::directory_iterator files(folder_);
    return static_cast<size_t>(std::distance(begin(files), end(files)));
  }
};

TEST_F(LedgerPathTest, AcceptsAPlaceForANewLedgerAndMakesNone) {
  EXPECT_TRUE(CheckLedgerPath(path_).ok());
  EXPECT_EQ(FilesBeside(), 0);
}

TEST_F(LedgerPathTest, AcceptsALedgerAndLeavesItAsItWas) {
  Open("run-1");
  const std::string before = ReadFile();
  const size_t files = FilesBeside();
  EXPECT_TRUE(CheckLedgerPath(path_).ok()) << CheckLedgerPath(path_);
  EXPECT_EQ(ReadFile(), before);
  EXPECT_EQ(FilesBeside(), files);
}

TEST_F(LedgerPathTest, AcceptsALedgerWhoseNameMeansSomethingInAUri) {
  path_ = folder_ + "/a?b#c%25.db";
  Open("run-1");
  const size_t files = FilesBeside();
  EXPECT_TRUE(CheckLedgerPath(path_).ok()) << CheckLedgerPath(path_);
  EXPECT_EQ(FilesBeside(), files);
}

TEST_F(LedgerPathTest, AcceptsALedgerThatIsWritten) {
  const std::unique_ptr<Ledger> ledger = Open("run-1");
  EXPECT_TRUE(CheckLedgerPath(path_).ok()) << CheckLedgerPath(path_);
}

// As a process leaves it that was killed while it made a ledger.
TEST_F(LedgerPathTest, AcceptsADatabaseWithoutTablesAsARunWould) {
  ASSERT_TRUE(
      (*SqliteDatabase::Open(path_, SqliteDatabase::Mode::kCreate))->QueryText("PRAGMA journal_mode = WAL").ok());
  ASSERT_NE(ReadFile(), "");
  EXPECT_TRUE(CheckLedgerPath(path_).ok()) << CheckLedgerPath(path_);
  EXPECT_NE(Open("run-1"), nullptr);
}

TEST_F(LedgerPathTest, AcceptsAnEmptyFileAsARunWould) {
  WriteFile("");
  EXPECT_TRUE(CheckLedgerPath(path_).ok());
  EXPECT_EQ(ReadFile(), "");
}

TEST_F(LedgerPathTest, RefusesAnotherVersion) {
  Open("run-1");
  Sql("PRAGMA user_version = 3");
  ExpectRefused(path_, absl::StatusCode::kInvalidArgument, "ledger version: expected 9, found 3");
}

TEST_F(LedgerPathTest, RefusesWhatIsNoLedger) {
  WriteFile(std::string(4096, 'x'));
  ExpectRefused(path_, absl::StatusCode::kInvalidArgument,
                "expected a SQLite database, found a different kind of file");
  ExpectRefused(folder_, absl::StatusCode::kInvalidArgument, "expected a file, found a folder");
}

TEST_F(LedgerPathTest, RefusesAFolderThatDoesNotExist) {
  ExpectRefused(folder_ + "/absent/run.db", absl::StatusCode::kNotFound, "its folder does not exist");
}

}  // namespace
}  // namespace splitveil
