#include "common/storage/sqlite_application.h"

#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>

#include "tests/testing/scratch_folder.h"

namespace splitveil {
namespace {

using testing::HasSubstr;

constexpr SqliteApplication kNotes = {"a book of notes", 0x4e4f5445, 3};

class SqliteApplicationTest : public testing::Test {
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
  EXPECT_EQ(refused(), "expected a book of notes, found another SQLite database");
  ASSERT_TRUE(SignApplication(*Open(), {"a list", 7, kNotes.version}).ok());
  EXPECT_EQ(refused(), "expected a book of notes, found another SQLite database");
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
