// What a privacy account's file has counted, read without the account's own code.
#ifndef SPLITVEIL_TESTS_TESTING_ACCOUNT_CONTENTS_H_
#define SPLITVEIL_TESTS_TESTING_ACCOUNT_CONTENTS_H_

#include <sqlite3.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <map>
#include <string>
#include <vector>

namespace splitveil {

// By example, its 12 bytes: release, draws and label of each debit.
using AccountContents = std::map<std::string, std::vector<std::array<int64_t, 3>>>;

// Fails the test where an example is out of order or in a block that is not its own.
inline AccountContents ReadAccount(const std::string& path) {
  sqlite3* file = nullptr;
  sqlite3_stmt* select = nullptr;
  EXPECT_EQ(sqlite3_open_v2(path.c_str(), &file, SQLITE_OPEN_READONLY, nullptr), SQLITE_OK) << path;
  EXPECT_EQ(sqlite3_prepare_v2(file, "SELECT first, examples FROM debit ORDER BY first", -1, &select, nullptr), 0);
  const auto text = [&](int column) {
    return std::string(static_cast<const char*>(sqlite3_column_blob(select, column)),
                       static_cast<size_t>(sqlite3_column_bytes(select, column)));
  };
  AccountContents contents;
  while (sqlite3_step(select) == SQLITE_ROW) {
    const std::string first = text(0), block = text(1);
    EXPECT_TRUE(contents.empty() || contents.rbegin()->first < first) << "an example before its block";
    for (size_t at = 0; at < block.size();) {
      const auto number = [&] {
        uint64_t value = 0;
        for (int shift = 0; at < block.size(); shift += 7) {
          const auto byte = static_cast<unsigned char>(block[at++]);
          value += uint64_t{byte & 127U} << shift;
          if (byte < 128) {
            break;
          }
        }
        return static_cast<int64_t>(value);
      };
      const std::string example = block.substr(at, 12);
      EXPECT_TRUE(example >= first && (contents.empty() || contents.rbegin()->first < example)) << "out of order";
      at += 12;
      for (int64_t debits = number(); debits > 0; --debits) {
        std::array<int64_t, 3>& debit = contents[example].emplace_back();
        debit = {number(), number(), number()};  // In this order: between braces it is from left to right.
      }
    }
  }
  sqlite3_finalize(select);
  sqlite3_close(file);
  return contents;
}

// Of one example, in all releases.
inline int64_t DrawsOf(const std::vector<std::array<int64_t, 3>>& debits) {
  int64_t draws = 0;
  for (const std::array<int64_t, 3>& debit : debits) {
    draws += debit[1];
  }
  return draws;
}

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_TESTING_ACCOUNT_CONTENTS_H_
