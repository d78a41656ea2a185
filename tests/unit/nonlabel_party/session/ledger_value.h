// A look into a run's ledger that does not go through the code under test.
#ifndef SPLITVEIL_TESTS_UNIT_NONLABEL_PARTY_SESSION_LEDGER_VALUE_H_
#define SPLITVEIL_TESTS_UNIT_NONLABEL_PARTY_SESSION_LEDGER_VALUE_H_

#include <sqlite3.h>

#include <gtest/gtest.h>
#include <string>

namespace splitveil::testing {

// The one value that `query` gives, as text; empty where it is NULL or there is none.
inline std::string LedgerValue(const std::string& path, const std::string& query) {
  sqlite3* database = nullptr;
  EXPECT_EQ(sqlite3_open_v2(path.c_str(), &database, SQLITE_OPEN_READONLY, nullptr), SQLITE_OK);
  sqlite3_busy_timeout(database, 10'000);  // Another connection may be closing the file.
  sqlite3_stmt* statement = nullptr;
  EXPECT_EQ(sqlite3_prepare_v2(database, query.c_str(), -1, &statement, nullptr), SQLITE_OK) << query;
  std::string value;
  if (sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_type(statement, 0) != SQLITE_NULL) {
    value = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
  }
  sqlite3_finalize(statement);
  sqlite3_close(database);
  return value;
}

}  // namespace splitveil::testing

#endif  // SPLITVEIL_TESTS_UNIT_NONLABEL_PARTY_SESSION_LEDGER_VALUE_H_
