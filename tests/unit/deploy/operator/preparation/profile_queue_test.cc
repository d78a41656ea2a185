#include "deploy/operator/preparation/profile_queue.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/operator/preparation/seeded_draws.h"

namespace splitveil {
namespace {

// Whatever is queued, a column has what it has when each cell goes to it at once.
TEST(ProfileQueueTest, AddsWhatTheColumnsWouldHaveWithoutIt) {
  TableProfile direct, queued;
  for (const char* name : {"number", "text", "other"}) {
    direct.columns.emplace_back(name);
    queued.columns.emplace_back(name);
  }
  const std::vector<size_t> places = {2, 0, 1};
  SeededDraws draws(7, 1);
  {
    ProfileQueue queue(&queued, places);
    for (int64_t line = 2; line < 60'000; ++line) {
      // Now and then nothing, and twice a cell that is longer than all that the queue holds.
      const std::vector<std::string> cells = {line % 30'000 == 9 ? std::string(2'000'000, 'x') : absl::StrCat(line),
                                              absl::StrCat(static_cast<double>(draws.Below(100'000)) / 100),
                                              draws.Below(9) == 0 ? "" : absl::StrCat("kind ", draws.Below(300))};
      queue.Add({cells.begin(), cells.end()}, line);
      for (size_t cell = 0; cell < cells.size(); ++cell) {
        direct.columns[places[cell]].Add(cells[cell], line);
      }
    }
  }
  for (size_t i = 0; i < direct.columns.size(); ++i) {
    const ColumnProfile& expected = direct.columns[i];
    const ColumnProfile& found = queued.columns[i];
    EXPECT_EQ(found.rows(), expected.rows());
    EXPECT_EQ(found.empty(), expected.empty());
    EXPECT_EQ(found.distinct(), expected.distinct());
    EXPECT_EQ(found.sample(false).numbers(), expected.sample(false).numbers());
    for (size_t form = 0; form < kCellFormNames.size(); ++form) {
      EXPECT_EQ(found.form(static_cast<CellForm>(form)).rows, expected.form(static_cast<CellForm>(form)).rows);
      EXPECT_EQ(found.form(static_cast<CellForm>(form)).last_line,
                expected.form(static_cast<CellForm>(form)).last_line);
    }
  }
  EXPECT_EQ(queued.columns[0].numbers(), 59'998);
}

}  // namespace
}  // namespace splitveil
