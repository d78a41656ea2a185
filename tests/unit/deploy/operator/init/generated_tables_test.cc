// Random tables as people write them, read as `splitveil init` proposes: every cell has the value that was written, or
// there is an error. The truth is the number that the table was made from, not another reading of the table.
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "deploy/operator/init/schema_proposal.h"
#include "deploy/operator/init/table_profile.h"
#include "deploy/operator/preparation/table_reader.h"

#include "tests/testing/process/temp_folder.h"

namespace splitveil {
namespace {

using Schema = v1::TableSchema;

constexpr int kTables = 40;  // SPLITVEIL_GENERATED_TABLES: others.
constexpr const char* kMissingWords[] = {"",  "NA",   "None", "-", "NaT", "n/a",
                                         "?", "<NA>", "#N/A", ".", "nil", "unbekannt"};
constexpr const char* kSentinels[] = {"-999999", "-1", "99999", "-9999"};
constexpr const char* kUnits[] = {"EUR", "€", "$", "kg", "%"};
constexpr const char* kThousands[] = {"", "", "", ",", ".", "'", "_", "\xc2\xa0", "\xe2\x80\xaf"};

class Draws {
 public:
  explicit Draws(uint64_t seed) : engine_(seed) {}
  int Below(int bound) { return static_cast<int>(engine_() % static_cast<uint64_t>(bound)); }
  bool Is(double share) { return Below(1'000'000) < 1e6 * share; }
  template <typename List>
  const char* Of(const List& list) {
    return list[Below(static_cast<int>(std::size(list)))];
  }

 private:
  std::mt19937_64 engine_;
};

// How a column is written.
struct Writing {
  bool numbers = true;
  bool flag = false;
  char decimal = '.';
  std::string thousands, unit, missing_word, sentinel;
  bool unit_in_front = false, plus = false, wide_minus = false, negative = false;
  int decimals = 0, magnitude = 3;
  double missing_share = 0, sentinel_share = 0;
  bool sorted = false;
  bool late = false;  // Nothing but one number for the first four fifths.
};

struct Cell {
  std::string text;
  double number = std::numeric_limits<double>::quiet_NaN();  // NaN: missing.
  std::string category;
};

Writing DrawWriting(Draws& draws, bool comma_table) {
  Writing writing;
  writing.numbers = !draws.Is(0.2);
  writing.flag = !writing.numbers && draws.Is(0.3);
  writing.decimal = comma_table ? ',' : '.';
  writing.decimals = draws.Below(4);
  writing.magnitude = 1 + draws.Below(7);
  writing.thousands = draws.Of(kThousands);
  writing.thousands = writing.thousands == std::string(1, writing.decimal) ? "" : writing.thousands;
  writing.unit = draws.Is(0.2) ? draws.Of(kUnits) : "";
  writing.unit_in_front = writing.unit != "kg" && writing.unit != "%" && draws.Is(0.5);
  writing.plus = draws.Is(0.1);
  writing.wide_minus = draws.Is(0.2);
  writing.negative = draws.Is(0.3);
  // Ten numbers and a word may be eleven codes.
  writing.missing_word = writing.magnitude > 1 ? draws.Of(kMissingWords) : "";
  writing.missing_share = draws.Is(0.5) ? 0 : 0.3 * draws.Below(100) / 100;
  // -1 and the like are no other number's neighbours.
  writing.sentinel =
      draws.Is(0.25) && !writing.negative && writing.magnitude > 1 && writing.magnitude <= 3 && writing.unit.empty()
          ? draws.Of(kSentinels)
          : "";
  writing.sentinel_share = 0.03;
  writing.sorted = draws.Is(0.2);
  writing.late = draws.Is(0.15);
  return writing;
}

// `digits`: a whole number without sign, in units of the last decimal.
std::string Written(const Writing& writing, int64_t value) {
  const std::string digits = absl::StrFormat("%0*d", writing.decimals + 1, std::abs(value));
  std::string whole = digits.substr(0, digits.size() - writing.decimals);
  const std::string fraction = digits.substr(digits.size() - writing.decimals);
  for (int place = static_cast<int>(whole.size()) - 3; place > 0; place -= 3) {
    whole.insert(static_cast<size_t>(place), writing.thousands);
  }
  const std::string number = absl::StrCat(whole, writing.decimals > 0 ? std::string(1, writing.decimal) : "", fraction);
  const std::string sign = value < 0 ? (writing.wide_minus ? "\xe2\x88\x92" : "-") : writing.plus ? "+" : "";
  return writing.unit.empty()    ? sign + number
         : writing.unit_in_front ? absl::StrCat(sign, writing.unit, " ", number)
                                 : absl::StrCat(sign, number, " ", writing.unit);
}

std::vector<Cell> DrawColumn(Draws& draws, const Writing& writing, int rows) {
  std::vector<int64_t> values;
  int64_t bound = 1;
  for (int i = 0; i < writing.magnitude + writing.decimals; ++i) {
    bound *= 10;
  }
  for (int row = 0; row < rows; ++row) {
    const int64_t value = static_cast<int64_t>(bound * (draws.Below(1'000'000) / 1e6));
    values.push_back(writing.negative && draws.Is(0.4) ? -value : value);
  }
  if (writing.sorted) {
    std::sort(values.begin(), values.end());
  }
  std::vector<Cell> cells;
  for (int row = 0; row < rows; ++row) {
    Cell cell;
    const int64_t value = writing.late && 5 * row < 4 * rows ? bound / 2 : values[static_cast<size_t>(row)];
    const bool missing = draws.Is(writing.missing_share);
    if (!writing.sentinel.empty() && writing.numbers && draws.Is(writing.sentinel_share)) {
      cell.text = writing.sentinel;
    } else if (missing || (writing.flag && draws.Is(0.5))) {
      cell.text = writing.missing_word;
      // Among numbers it means missing; among kinds nobody knows.
      cell.category = cell.text == "unbekannt" ? cell.text : "";
    } else if (writing.numbers) {
      cell.text = Written(writing, value);
      // The value by the C library, of plain digits.
      cell.number = std::strtod(absl::StrFormat("%de-%d", value, writing.decimals).c_str(), nullptr);
    } else {
      cell.text = cell.category = writing.flag ? "set" : absl::StrCat("kind ", 'A' + std::abs(value) % 5);
    }
    cells.push_back(std::move(cell));
  }
  return cells;
}

struct Table {
  std::string text;
  std::vector<Writing> writings;
  std::vector<std::vector<Cell>> columns;
};

Table DrawTable(Draws& draws) {
  Table table;
  const int rows = 300 + draws.Below(1200);
  const bool comma_table = draws.Is(0.4);
  const char separator = ",;\t|"[draws.Below(4)];
  const bool quotes_all = draws.Is(0.3);
  for (int column = 1 + draws.Below(6); column > 0; --column) {
    table.writings.push_back(DrawWriting(draws, comma_table));
    table.columns.push_back(DrawColumn(draws, table.writings.back(), rows));
  }
  const auto add = [&](const std::string& cell) {
    const bool quoted = quotes_all || cell.find(separator) != std::string::npos || draws.Is(0.02);
    absl::StrAppend(&table.text, quoted ? absl::StrCat("\"", absl::StrReplaceAll(cell, {{"\"", "\"\""}}), "\"") : cell);
  };
  add("key");
  for (size_t column = 0; column < table.columns.size(); ++column) {
    absl::StrAppend(&table.text, std::string(1, separator));
    add(absl::StrCat("feature_", column));
  }
  for (int row = 0; row < rows; ++row) {
    absl::StrAppend(&table.text, draws.Is(0.01) ? "\n\n" : "\n");
    add(absl::StrCat("K", row));
    for (const std::vector<Cell>& column : table.columns) {
      absl::StrAppend(&table.text, std::string(1, separator));
      add(column[static_cast<size_t>(row)].text);
    }
  }
  return table;
}

class GeneratedTables : public ::testing::Test {
 protected:
  // Whether the table was read; false: an error said that it cannot be.
  bool Read(const Table& table, const std::string& which) {
    std::ofstream(path_, std::ios::binary) << table.text << "\n";
    const auto profiled = ProfileTable(path_, {});
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

  const testing::TempFolder folder_;
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
}  // namespace splitveil
