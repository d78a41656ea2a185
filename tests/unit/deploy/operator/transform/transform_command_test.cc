#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/process/file.h"
#include "tests/unit/deploy/operator/operator_tool.h"

namespace splitveil::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class TransformCommandTest : public ::testing::Test {
 protected:
  TransformCommandTest() {
    WriteText(schema_,
              "columns { name: 'id' kind: ID } columns { name: 'n' kind: NUMERIC } columns { name: 'y' kind: TARGET } "
              "target_minimum: 0 target_maximum: 10 scaling: MIN_MAX");
    WriteText(trained_, "id,n,y\na,1,2\nb,2,3\nc,3,4\n");
    WriteText(new_, "id,n\nd,2\n");
    ExpectDone({"prepare", "--format=table", "--party=label_party", "--schema=" + schema_, "--input=" + trained_,
                "--test_fraction=0", "--validation_fraction=0", "--out=" + folder_.File("c")});
  }

  std::vector<std::string> Transform(const std::string& out, const std::string& csv = "") const {
    std::vector<std::string> arguments = {"transform",
                                          "--fitted=" + folder_.File("c"),
                                          "--party=label_party",
                                          "--schema=" + schema_,
                                          "--unlabelled",
                                          "--input=" + new_,
                                          "--out=" + folder_.File(out)};
    if (!csv.empty()) {
      arguments.push_back("--csv=" + csv);
    }
    return arguments;
  }

  const TempFolder folder_;
  const std::string schema_ = folder_.File("schema"), trained_ = folder_.File("trained.csv"),
                    new_ = folder_.File("new.csv"), fitted_ = folder_.File("c/label_party.data");
};

TEST_F(TransformCommandTest, NeverReplacesWhatItReads) {
  const std::string before = ReadFile(fitted_).value();
  EXPECT_THAT(ExpectError(2, Transform("c")),
              HasSubstr(fitted_ + ": expected another file than the earlier data whose encoding is applied, found "
                                  "these: name another folder with --out"));
  const std::string schema = ReadFile(schema_).value();
  for (const std::string& path : {fitted_, new_, schema_, folder_.File("d/label_party.data")}) {
    EXPECT_THAT(ExpectError(2, Transform("d", path)),
                HasSubstr("--csv: expected a different file than those that are read or written, found " + path));
  }
  EXPECT_EQ(ReadFile(fitted_).value(), before);
  EXPECT_EQ(ReadFile(new_).value(), "id,n\nd,2\n");
  EXPECT_EQ(ReadFile(schema_).value(), schema);
}

// A checkpoint, or a table of other columns.
TEST_F(TransformCommandTest, ReplacesNothingThatItHasNotWritten) {
  for (const char* const contents : {"SVSECT01", "id,m\nd,2\n", ""}) {
    WriteText(folder_.File("other"), contents);
    EXPECT_THAT(ExpectError(2, Transform("d", folder_.File("other"))),
                HasSubstr("other: expected no file of this name, or an earlier table or page of this tool"));
    EXPECT_EQ(ReadFile(folder_.File("other")).value(), contents);
  }
  EXPECT_FALSE(std::filesystem::exists(folder_.File("d")));
}

// As `splitveil prepare`: the same data at any time, others unless they are kept; of rows whose number is to be
// predicted, too.
TEST_F(TransformCommandTest, ReplacesItsOwnEarlierOutcome) {
  for (int time = 0; time < 2; ++time) {
    EXPECT_THAT(ExpectDone(Transform("d", folder_.File("d.csv"))), HasSubstr(": 1 rows, without labels"));
  }
  WriteText(new_, "id,n\nd,2\ne,3\n");
  std::vector<std::string> keeping = Transform("d", folder_.File("d.csv"));
  keeping.emplace_back("--keep");
  EXPECT_THAT(
      ExpectError(2, keeping),
      HasSubstr("d/label_party.data: expected no file of this name, or one of the same bytes, found a different one: "
                "give another --out"));
  EXPECT_EQ(ReadFile(folder_.File("d.csv")).value(), "id,n\nd,0.5\n");
  EXPECT_THAT(ExpectDone(Transform("d", folder_.File("d.csv"))), HasSubstr(": 2 rows, without labels"));
  // A table that is still to be encoded has the same columns.
  WriteText(folder_.File("raw.csv"), "id,n\nq,17\n");
  EXPECT_THAT(ExpectError(2, Transform("d", folder_.File("raw.csv"))), HasSubstr("raw.csv: expected an earlier table"));
  EXPECT_EQ(ReadFile(folder_.File("raw.csv")).value(), "id,n\nq,17\n");
  EXPECT_EQ(ReadFile(folder_.File("d.csv")).value(), "id,n\nd,0.5\ne,1\n");
}

// A table of every kind of column, as training had it, and later rows with one column changed.
class ChangedTableTest : public ::testing::Test {
 protected:
  using Rows = std::vector<std::map<std::string, std::string>>;

  ChangedTableTest() {
    WriteText(
        schema_,
        "columns { name: 'id' kind: ID } columns { name: 'income' kind: NUMERIC } columns { name: 'balance' kind: "
        "NUMERIC scaling: LOG } columns { name: 'age' kind: NUMERIC scaling: QUANTILE } columns { name: 'flag' "
        "kind: NUMERIC scaling: MIN_MAX } columns { name: 'grade' kind: CATEGORICAL } columns { name: 'region' kind: "
        "CATEGORICAL } columns { name: 'note' kind: IGNORE } columns { name: 'day' kind: TIME time_zone: 'UTC' } "
        "columns { name: "
        "'y' kind: LABEL }");
    WriteText(folder_.File("trained.csv"),
              Text(Table(2000, 1), {"id", "income", "balance", "age", "flag", "grade", "region", "note", "day", "y"}));
    ExpectDone({"prepare", "--format=table", "--party=label_party", "--schema=" + schema_,
                "--input=" + folder_.File("trained.csv"), "--test_after=2024-01-20",
                "--out=" + folder_.File("fitted")});
  }

  static Rows Table(int rows, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    Rows table;
    for (int i = 0; i < rows; ++i) {
      table.push_back(
          {{"id", absl::StrCat(seed, "-", i)},
           {"income", random() % 20 == 0 ? "" : absl::StrFormat("%.0f", std::exp(10 + 0.4 * normal(random)))},
           {"balance", absl::StrFormat("%.2f", std::exp(6 + 2.5 * normal(random)))},
           {"age", absl::StrFormat("%.0f", 40 + 12 * normal(random))},
           {"flag", random() % 5 == 0 ? "1" : "0"},
           {"grade", absl::StrCat(1 + random() % 5)},
           {"region", absl::StrCat("r", random() % 4)},
           {"note", "text"},
           {"day", absl::StrFormat("2024-01-%02d", 1 + i % 25)},
           {"y", random() % 3 == 0 ? "1" : "0"}});
    }
    return table;
  }

  static std::string Text(const Rows& rows, const std::vector<std::string>& columns) {
    std::string text = absl::StrJoin(columns, ",") + "\n";
    for (const auto& row : rows) {
      absl::StrAppend(
          &text,
          absl::StrJoin(columns, ",",
                        [&](std::string* out, const std::string& column) { absl::StrAppend(out, row.at(column)); }),
          "\n");
    }
    return text;
  }

  // Later rows with `column` changed cell by cell.
  template <typename Change>
  void Write(const std::string& column, Change change) const {
    Rows rows = Table(400, 2);
    for (auto& row : rows) {
      row[column] = change(row[column]);
    }
    WriteText(folder_.File("new.csv"), Text(rows, kColumns));
  }

  std::vector<std::string> Arguments(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {
        "transform",    "--fitted=" + folder_.File("fitted"), "--party=label_party",         "--schema=" + schema_,
        "--unlabelled", "--input=" + folder_.File("new.csv"), "--out=" + folder_.File("new")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  // No column that only says how rows are split or left out.
  const std::vector<std::string> kColumns = {"id", "income", "balance", "age", "flag", "grade", "region"};
  const TempFolder folder_;
  const std::string schema_ = folder_.File("schema");
};

TEST_F(ChangedTableTest, RowsOfTheSameKindNeedNothingThatIsNotUsedAndWarnOfNothing) {
  Write("id", [](const std::string& cell) { return cell; });
  EXPECT_THAT(ExpectDone(Arguments()), AllOf(HasSubstr(": 400 rows, without labels\n  column   shift (PSI)"),
                                             HasSubstr("\n  region "), Not(HasSubstr("WARNING"))));
  const std::string table = ReadFile(folder_.File("new/label_party.drift.csv")).value();
  EXPECT_THAT(table, StartsWith("column,verdict,psi,missing_in_training,missing_here,clipped_or_unseen_in_training,"
                                "clipped_or_unseen_here\nincome,same,0.0"));
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 7);
}

// Whatever happens to whichever column, it is an error or a warning that names it.
TEST_F(ChangedTableTest, EachColumnMissingAbsentRenamedRescaledOrRetypedIsSeen) {
  for (size_t i = 1; i < kColumns.size(); ++i) {
    const std::string& column = kColumns[i];
    const std::string quoted = absl::StrCat("column \"", column, "\"");
    Write(column, [](const std::string&) { return ""; });
    EXPECT_THAT(ExpectError(2, Arguments()), AllOf(HasSubstr(quoted + ": 100.0% missing, in the training "),
                                                   HasSubstr("--allow_changed=" + column)));
    std::vector<std::string> columns = kColumns;
    columns.erase(columns.begin() + static_cast<ptrdiff_t>(i));
    WriteText(folder_.File("new.csv"), Text(Table(400, 2), columns));
    EXPECT_THAT(ExpectError(2, Arguments()), HasSubstr(absl::StrCat("expected a ", quoted,
                                                                    " in the header line, found none; "
                                                                    "--allow_changed=",
                                                                    column, " takes it as missing")));
    EXPECT_FALSE(std::filesystem::exists(folder_.File("new/label_party.data")));
    EXPECT_THAT(ExpectDone(Arguments({"--allow_changed=" + column})),
                HasSubstr(absl::StrCat("  WARNING: \"", column, "\" differs from the training: PSI ")));
    EXPECT_THAT(ReadFile(folder_.File("new/label_party.drift.csv")).value(), HasSubstr("\n" + column + ",gone,"));
    std::filesystem::remove_all(folder_.File("new"));
    Rows renamed = Table(400, 2);
    for (auto& row : renamed) {
      row[column + "s"] = row[column];
    }
    columns = kColumns;
    columns[i] += "s";
    WriteText(folder_.File("new.csv"), Text(renamed, columns));
    EXPECT_THAT(ExpectError(2, Arguments()), HasSubstr(absl::StrCat("found \"", column, "s\"; if it is \"", column)));
    Write(column, [](const std::string& cell) { return cell.empty() ? "" : "x" + cell; });
    EXPECT_THAT(ExpectError(2, Arguments()), HasSubstr(column));
  }
}

TEST_F(ChangedTableTest, AnotherUnitIsAnErrorOrAWarning) {
  for (const char* const column : {"income", "balance", "age", "flag"}) {
    for (const double factor : {0.001, 0.01, 0.45, 2.54, 12.0, 100.0, 1000.0}) {
      if (factor > 0.4 && factor < 3 && column == kColumns[2]) {
        continue;  // The balances' own spread is wider, a factor of e^2.5.
      }
      Write(column, [&](const std::string& cell) {
        double number = 0;
        return absl::SimpleAtod(cell, &number) ? absl::StrCat(number * factor) : "";
      });
      const ChildResult result = RunTool(Arguments());
      const std::string named = absl::StrCat("\"", column, "\"");
      if (result.exit_code == 0) {
        EXPECT_THAT(result.out, HasSubstr("WARNING: " + named)) << factor;
      } else {
        EXPECT_EQ(result.exit_code, 2);
        EXPECT_THAT(result.err, HasSubstr("column " + named)) << factor;
      }
    }
  }
}

// Counts what the tests above look at one by one: no change of a whole column goes unseen, a factor of ten in either
// direction among them. How small a factor may be depends on the column's own spread.
TEST_F(ChangedTableTest, EveryChangeOfAWholeColumnIsSeen) {
  const auto scaled = [](double factor) {
    return [factor](const std::string& cell) {
      double number = 0;
      return absl::SimpleAtod(cell, &number) ? absl::StrCat(number * factor) : "";
    };
  };
  const auto is_seen = [this](const std::string& column) {
    const ChildResult result = RunTool(Arguments());
    std::filesystem::remove_all(folder_.File("new"));
    const std::string named = absl::StrCat("\"", column, "\"");
    return result.exit_code == 2 ? absl::StrContains(result.err, column)
                                 : absl::StrContains(result.out, "WARNING: " + named) ||
                                       absl::StrContains(result.out, "WARNING: column " + named);
  };
  int seen = 0, changes = 0;
  const auto count = [&](const std::string& column) {
    ++changes;
    seen += is_seen(column) ? 1 : 0;
  };
  std::map<std::string, double> least;  // Factor above 1 that is seen.
  for (size_t i = 1; i < kColumns.size(); ++i) {
    const std::string& column = kColumns[i];
    const auto change = [&](const std::function<std::string(const std::string&)>& changed) {
      Write(column, changed);
      count(column);
    };
    change([](const std::string&) { return ""; });
    change([](const std::string& cell) { return cell.empty() ? "" : "x" + cell; });
    for (const std::string& name : {std::string(), column + "s"}) {
      std::vector<std::string> columns = kColumns;
      columns.erase(columns.begin() + static_cast<ptrdiff_t>(i));
      if (!name.empty()) {
        columns.push_back(name);
      }
      Rows rows = Table(400, 2);
      for (auto& row : rows) {
        row[name] = row[column];
      }
      WriteText(folder_.File("new.csv"), Text(rows, columns));
      count(column);
    }
    if (column == "region") {
      continue;  // No numbers.
    }
    change(scaled(10));
    change(scaled(0.1));
    for (const double factor : {5.0, 2.0, 1.5, 1.2, 1.1, 1.05}) {
      Write(column, scaled(factor));
      if (is_seen(column)) {
        least[column] = factor;
      }
    }
  }
  EXPECT_EQ(changes, 4 * 6 + 2 * 5);
  EXPECT_EQ(seen, changes);
  EXPECT_THAT(least, ::testing::ElementsAre(std::pair("age", 1.2), std::pair("balance", 5.0), std::pair("flag", 1.05),
                                            std::pair("grade", 1.05), std::pair("income", 1.5)));
}

TEST_F(ChangedTableTest, NumbersThatNowMeanUnknownAreNamed) {
  int row = 0;
  Write("income", [&row](const std::string& cell) { return ++row % 40 == 0 ? "9999999" : cell; });
  EXPECT_THAT(ExpectDone(Arguments()), HasSubstr("WARNING: column \"income\": 9999999 in 2.5% of the rows"));
}

TEST_F(ChangedTableTest, CodesThatBecameFloatsAreTheSame) {
  Write("grade", [](const std::string& cell) { return cell + ".0"; });
  const std::string out = ExpectDone(Arguments({"--csv=" + folder_.File("floats.csv")}));
  EXPECT_THAT(out, AllOf(HasSubstr("\"grade\": 400 rows write a number otherwise"), Not(HasSubstr("WARNING"))));
  Write("age", [](const std::string& cell) { return cell + ".0"; });
  EXPECT_THAT(ExpectDone(Arguments({"--csv=" + folder_.File("integers.csv")})), Not(HasSubstr("WARNING")));
  EXPECT_EQ(ReadFile(folder_.File("floats.csv")).value(), ReadFile(folder_.File("integers.csv")).value());
}

// In 3% of the rows they are no shift that is worth a word.
TEST_F(ChangedTableTest, NumbersForUnknownThatTrainingLacksAreNamed) {
  for (const auto& [column, unknown] :
       std::map<std::string, std::string>{{"income", "0"}, {"balance", "-1"}, {"age", "999"}, {"flag", "9"}}) {
    int row = 0;
    Write(column, [&, unknown = unknown](const std::string& cell) { return row++ % 33 == 0 ? unknown : cell; });
    EXPECT_THAT(ExpectDone(Arguments()), HasSubstr(absl::StrCat("WARNING: column \"", column, "\": ", unknown,
                                                                " in 3.2% of the rows, beyond all")));
  }
  int row = 0;
  Write("age", [&](const std::string& cell) { return row++ == 0 ? "999" : cell; });
  EXPECT_THAT(ExpectDone(Arguments()), Not(HasSubstr("beyond all")));
}

TEST_F(ChangedTableTest, KnownValuesInADifferentWritingAreNamed) {
  for (const auto& [column, change] : std::map<std::string, std::function<std::string(const std::string&)>>{
           {"grade", [](const std::string& cell) { return "0" + cell; }},
           {"region", [](const std::string& cell) { return "R" + cell.substr(1); }}}) {
    int row = 0;
    Write(column, [&, change = change](const std::string& cell) { return row++ % 50 == 0 ? change(cell) : cell; });
    EXPECT_THAT(ExpectDone(Arguments()),
                HasSubstr(absl::StrCat("WARNING: column \"", column, "\": 2% of the rows have a value that")));
  }
}

TEST_F(ChangedTableTest, OnlyFeaturesMayBeAllowedToChange) {
  for (const char* const name : {"id", "y", "note", "incomes"}) {
    EXPECT_THAT(ExpectError(2, Arguments({absl::StrCat("--allow_changed=", name)})),
                HasSubstr("--allow_changed: expected a column of kind NUMERIC or CATEGORICAL"));
  }
}

TEST_F(ChangedTableTest, TheDriftTableReplacesNothingElse) {
  Write("id", [](const std::string& cell) { return cell; });
  std::filesystem::create_directory(folder_.File("new"));
  WriteText(folder_.File("new/label_party.drift.csv"), "mine\n");
  EXPECT_THAT(ExpectError(2, Arguments()), HasSubstr("label_party.drift.csv: expected no file of this name"));
  EXPECT_EQ(ReadFile(folder_.File("new/label_party.drift.csv")).value(), "mine\n");
}

}  // namespace
}  // namespace splitveil::testing
