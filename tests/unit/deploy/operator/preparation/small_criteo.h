// A small table of Criteo's format, and how it is prepared.
#ifndef SPLITVEIL_TESTS_UNIT_COMMON_PREPARATION_SMALL_CRITEO_H_
#define SPLITVEIL_TESTS_UNIT_COMMON_PREPARATION_SMALL_CRITEO_H_

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "deploy/operator/preparation/prepare.h"
#include "deploy/operator/preparation/table_schema.h"

#include "tests/testing/scratch_folder.h"

namespace splitveil {

inline constexpr int kCriteoColumns = 1 + kCriteoFeatures;

// Row i holds i in I1, -i in I2, a value of its own in C1, and every seventh row an empty I3.
inline std::vector<std::string> Cells(int i) {
  std::vector<std::string> cells(kCriteoColumns, "deadbeef");
  cells[0] = i % 4 == 0 ? "1" : "0";
  for (int n = 1; n <= kCriteoNumeric; ++n) {
    cells[n] = std::to_string(n == 2 ? -i : i);
  }
  cells[3] = i % 7 == 0 ? "" : "5";
  cells[kCriteoNumeric + 1] = absl::StrCat(10000000 + i);
  return cells;
}

inline std::string Rows(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    absl::StrAppend(&text, absl::StrJoin(Cells(i), "\t"), "\n");
  }
  return text;
}

inline PrepareOptions OptionsFor(const ScratchFolder& folder, const std::string& text) {
  PrepareOptions options;
  options.rows.input_paths = {folder.Write("criteo", text)};
  options.rows.schema = CriteoSchema();
  options.out_dir = folder.Path("out");
  options.test_fraction = options.validation_fraction = 0;
  return options;
}

// The second of three rows has `value` in `column`, from 1.
inline std::string WithCell(int column, const std::string& value) {
  std::vector<std::string> cells = Cells(1);
  cells[column - 1] = value;
  return absl::StrCat(Rows(1), absl::StrJoin(cells, "\t"), "\n", Rows(1));
}

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_UNIT_COMMON_PREPARATION_SMALL_CRITEO_H_
