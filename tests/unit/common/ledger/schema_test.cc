#include "common/ledger/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "absl/status/status.h"

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

}  // namespace
}  // namespace splitveil
