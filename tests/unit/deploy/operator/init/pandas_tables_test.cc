// Random tables, read as `splitveil init` proposes and by pandas with the same declared options: equal cell by cell, or
// there is an error.
#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "deploy/operator/init/schema_proposal.h"
#include "deploy/operator/init/table_profile.h"
#include "deploy/operator/preparation/table_reader.h"

#include "tests/testing/process/temp_folder.h"
#include "tests/unit/deploy/operator/init/generated_tables.h"

namespace splitveil::testing {
namespace {

using nlohmann::json;
using Schema = v1::TableSchema;

constexpr int kTables = 200;

json Options(const std::string& path, const Schema& schema) {
  json options = {{"path", path}, {"separator", schema.separator()}, {"columns", json::array()}};
  options["missing"] = std::vector<std::string>(schema.missing().begin(), schema.missing().end());
  for (const Schema::Column& column : schema.columns()) {
    options["columns"].push_back(
        {{"name", column.name()},
         {"kind", Schema::Kind_Name(column.kind())},
         {"decimal", column.decimal() == Schema::COMMA ? "," : "."},
         {"thousands", column.thousands()},
         {"strip", std::vector<std::string>(column.strip().begin(), column.strip().end())},
         {"missing", std::vector<std::string>(column.missing().begin(), column.missing().end())}});
  }
  return options;
}

// The table's columns as TableReader has them, without those of kind IGNORE.
std::vector<json> ReadColumns(const std::string& path, const Schema& schema) {
  std::vector<json> columns;
  const auto reader = TableReader::Open({path}, schema);
  EXPECT_TRUE(reader.ok()) << reader.status();
  TableRow row;
  while (reader.ok() && (*reader)->Next(row).value_or(false)) {
    EXPECT_EQ(row.fault, RowFault::kNone) << row.error;
    std::vector<json> cells;
    size_t numeric = 0, categorical = 0;
    for (const Schema::Column& column : schema.columns()) {
      if (column.kind() == Schema::ID) {
        cells.emplace_back(std::string(row.id));
      } else if (column.kind() == Schema::NUMERIC) {
        const double number = row.numeric[numeric++];
        cells.push_back(std::isnan(number) ? json() : json(number));
      } else if (column.kind() == Schema::CATEGORICAL) {
        cells.emplace_back(std::string(row.categories[categorical++]));
      }
    }
    columns.resize(cells.size(), json::array());
    for (size_t i = 0; i < cells.size(); ++i) {
      columns[i].push_back(std::move(cells[i]));
    }
  }
  return columns;
}

// A python3 that has pandas; "" if none does.
std::string Python() {
  for (const char* python : {"python3", "/usr/bin/python3"}) {
    if (std::system(absl::StrCat(python, " -c 'import pandas' 2>/dev/null").c_str()) == 0) {
      return python;
    }
  }
  return "";
}

TEST(PandasTablesTest, EveryCellIsWhatPandasReadsWithTheSameOptions) {
  const std::string python = Python();
  if (python.empty()) {
    GTEST_SKIP() << "needs a python3 with pandas (Debian: python3-pandas)";
  }
  const TempFolder folder;
  std::vector<std::pair<std::string, Schema>> tables;
  std::ofstream list(folder.File("tables"));
  for (uint64_t seed = 1001; seed <= 1000 + kTables; ++seed) {
    Draws draws(seed);
    std::string text = DrawTable(draws).text + "\n";
    text = draws.Is(0.3) ? absl::StrReplaceAll(text, {{"\n", "\r\n"}}) : text;
    const std::string path = folder.File(absl::StrCat(seed, ".csv"));
    std::ofstream(path, std::ios::binary) << (draws.Is(0.2) ? "\xef\xbb\xbf" : "") << text;
    SchemaFlags flags;
    flags.id = "key";
    const auto profiled = ProfileTable({path}, {});
    if (!profiled.ok()) {
      continue;
    }
    const auto proposal = ProposeSchema(path, *profiled, /*has_label=*/false, flags);
    if (proposal.ok()) {
      tables.emplace_back(path, proposal->schema);
      list << Options(path, proposal->schema) << "\n";
    }
  }
  list.close();
  EXPECT_GE(10 * tables.size(), 8 * kTables) << "most tables can be read";
  ASSERT_EQ(
      std::system(
          absl::StrCat(python, " tests/unit/deploy/operator/init/read_with_pandas.py ", folder.File("tables")).c_str()),
      0);
  int64_t numbers = 0;
  for (const auto& [path, schema] : tables) {
    std::ifstream read(path + ".pandas");
    std::string line;
    for (const json& column : ReadColumns(path, schema)) {
      ASSERT_TRUE(std::getline(read, line)) << path;
      const json expected = json::parse(line);
      ASSERT_EQ(column.size(), expected.size()) << path;
      for (size_t row = 0; row < column.size(); ++row) {
        numbers += column[row].is_number() ? 1 : 0;
        ASSERT_EQ(column[row], expected[row]) << path << " row " << row << " " << schema.ShortDebugString();
      }
    }
    EXPECT_FALSE(std::getline(read, line)) << path;
  }
  EXPECT_GT(numbers, 200'000);
}

}  // namespace
}  // namespace splitveil::testing
