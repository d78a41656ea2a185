// A SQLite file in a folder of its own, and a look into it that does not go through the code under test.
#ifndef SPLITVEIL_TESTS_TESTING_SQLITE_FILE_H_
#define SPLITVEIL_TESTS_TESTING_SQLITE_FILE_H_

#include <sqlite3.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <string>

namespace splitveil {

class SqliteFileTest : public ::testing::Test {
 protected:
  SqliteFileTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "sqlite_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ + "/run.db";
  }
  ~SqliteFileTest() override { std::filesystem::remove_all(folder_); }

  // Rows of the answer as "a|b|c", one per line; NULL as "NULL", an error as its message.
  std::string Sql(const std::string& sql) const {
    sqlite3* database = nullptr;
    sqlite3_open(path_.c_str(), &database);
    std::string answer;
    const auto append_row = [](void* to, int columns, char** values, char**) {
      auto& text = *static_cast<std::string*>(to);
      text += text.empty() ? "" : "\n";
      for (int i = 0; i < columns; ++i) {
        text += (i == 0 ? "" : "|") + std::string(values[i] == nullptr ? "NULL" : values[i]);
      }
      return 0;
    };
    if (sqlite3_exec(database, sql.c_str(), append_row, &answer, nullptr) != SQLITE_OK) {
      answer = sqlite3_errmsg(database);
    }
    sqlite3_close(database);
    return answer;
  }

  void WriteFile(const std::string& contents) const { std::ofstream(path_, std::ios::binary) << contents; }

  std::string ReadFile() const {
    std::ifstream stream(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  }

  std::string folder_, path_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_TESTING_SQLITE_FILE_H_
