// A ledger's file in a folder of its own.
#ifndef SPLITVEIL_TESTS_UNIT_COMMON_LEDGER_LEDGER_FILE_H_
#define SPLITVEIL_TESTS_UNIT_COMMON_LEDGER_LEDGER_FILE_H_

#include <gtest/gtest.h>
#include <memory>
#include <string>

#include "common/ledger/ledger.h"
#include "tests/testing/sqlite_file.h"

namespace splitveil {

class LedgerFileTest : public SqliteFileTest {
 protected:
  static RunRow Run(const std::string& run_id) {
    return {run_id, "label_party", "ab12", "marvell(s=4)", R"({"batch_size":128})"};
  }

  std::unique_ptr<Ledger> Open(const std::string& run_id) {
    auto ledger = Ledger::Create(path_, Run(run_id));
    EXPECT_TRUE(ledger.ok()) << ledger.status();
    return ledger.ok() ? *std::move(ledger) : nullptr;
  }
};

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_UNIT_COMMON_LEDGER_LEDGER_FILE_H_
