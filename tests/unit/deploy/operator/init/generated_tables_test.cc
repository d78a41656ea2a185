// Random tables as people write them, read as `splitveil init` proposes: every cell has the value that was written, or
// there is an error. The truth is the number that the table was made from, not another reading of the table.
#include "tests/unit/deploy/operator/init/generated_tables.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "deploy/operator/init/schema_proposal.h"
#include "deploy/operator/init/table_profile.h"
#include "deploy/operator/preparation/table_reader.h"

#include "tests/testing/process/temp_folder.h"

namespace splitveil::testing {
namespace {

using Schema = v1::TableSchema;

constexpr int kTables = 40;  // SPLITVEIL_GENERATED_TABLES: others.
class GeneratedTables : public ::testing::Test {
 protected:
  // Whether the table was read; false: an error said that it cannot be.
  bool Read(const Table& table, const std::string& which) {
    std::ofstream(path_, std::ios::binary) << table.text << "\n";
    const auto profiled = ProfileTable({path_}, {});
    if (!profiled.ok()) {
      return false;
    }
    SchemaFlags flags;
    flags.id = "key";
    const auto proposal = ProposeSchema(path_, *profiled, /*has_label=*/false, flags);
    if (!proposal.ok()) {
      if (std::getenv("SPLITVEIL_SHOW_REFUSALS") != nullptr) {
        std::printf("%s%s\n", which.c_str(), std::string(proposal.status().message()).c_str());
      }
      return false;
    }
    auto reader = TableReader::Open({path_}, proposal->schema);
    EXPECT_TRUE(reader.ok()) << which << reader.status();
    Compare(table, proposal->schema, **reader, which);
    return true;
  }

  static void Compare(const Table& table, const Schema& schema, TableReader& reader, const std::string& which) {
    TableRow row;
    for (size_t line = 0; line < table.columns.front().size(); ++line) {
      const auto more = reader.Next(row);
      ASSERT_TRUE(more.ok() && *more) << which;
      ASSERT_EQ(row.fault, RowFault::kNone) << which << row.error;
      ASSERT_EQ(row.id, absl::StrCat("K", line)) << which;
      size_t numeric = 0, categorical = 0;
      for (size_t column = 0; column < table.columns.size(); ++column) {
        const Cell& cell = table.columns[column][line];
        const Schema::Kind kind = schema.columns(static_cast<int>(column) + 1).kind();
        const std::string where = absl::StrCat(which, " column ", column, " row ", line, " \"", cell.text, "\" ",
                                               schema.columns(static_cast<int>(column) + 1).ShortDebugString());
        if (kind == Schema::NUMERIC) {
          ASSERT_TRUE(table.writings[column].numbers) << where;
          const double read = row.numeric[numeric++];
          ASSERT_TRUE(read == cell.number || (std::isnan(read) && std::isnan(cell.number)))
              << where << " read as " << read << ", written as " << cell.number;
        } else if (kind == Schema::CATEGORICAL) {
          ASSERT_FALSE(table.writings[column].numbers) << where;
          ASSERT_EQ(row.categories[categorical++], cell.category) << where;
        } else {
          // Left out: a constant alone.
          ASSERT_EQ(kind, Schema::IGNORE) << where;
          ASSERT_EQ(cell.text, table.columns[column].front().text) << where;
        }
      }
    }
    const auto more = reader.Next(row);
    EXPECT_TRUE(more.ok() && !*more) << which;
  }

  const TempFolder folder_;
  const std::string path_ = folder_.File("t.csv");
};

TEST_F(GeneratedTables, EveryCellIsReadAsItWasWrittenOrThereIsAnError) {
  int tables = kTables, read = 0;
  if (const char* given = std::getenv("SPLITVEIL_GENERATED_TABLES"); given != nullptr) {
    ASSERT_TRUE(absl::SimpleAtoi(given, &tables));
  }
  for (int seed = 1; seed <= tables; ++seed) {
    Draws draws(static_cast<uint64_t>(seed));
    read += Read(DrawTable(draws), absl::StrCat("table ", seed, ": ")) ? 1 : 0;
    if (HasFatalFailure()) {
      return;
    }
  }
  RecordProperty("tables_read", read);
  EXPECT_GE(10 * read, 8 * tables) << "most errors are of columns that can be read";
}

}  // namespace
}  // namespace splitveil::testing
