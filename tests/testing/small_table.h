// Rows made up by a test, stored as prepared data.
#ifndef SPLITVEIL_TESTS_TESTING_SMALL_TABLE_H_
#define SPLITVEIL_TESTS_TESTING_SMALL_TABLE_H_

#include <memory>
#include <string>
#include <vector>

#include "common/dataset/dataset.h"

namespace splitveil::testing {

struct SmallTable {
  // Rows: as many as ids. Of `task`, one of `labels` and `targets` is filled; a party without labels has neither.
  std::vector<std::string> ids;
  Task task;
  std::vector<uint8_t> labels;
  std::vector<float> targets;
  std::vector<std::vector<float>> numeric;
  // Numbers of values in 1..categories_per_column; 0 is every unseen one.
  std::vector<std::vector<int32_t>> categories;
  int32_t categories_per_column = 0;
  // Where image.channels is not 0: [channels, height, width] each.
  ImageShape image;
  std::vector<std::vector<uint8_t>> pixels;

  // Sensitive attributes: of every row one number per column or kUnknownAttribute; column a has attribute_values[a]
  // values. Named A1, A2, … and their values value0, value1, ….
  std::vector<std::vector<uint8_t>> attributes;
  std::vector<int> attribute_values;

  // Classes are named class0, class1, …; targets lie between 0 and 1. Writes the file, opens it as a service does, and
  // removes its name.
  std::shared_ptr<const Dataset> Store(double test_fraction = 0, const std::string& split_salt = "",
                                       double validation_fraction = 0) const;
};

}  // namespace splitveil::testing

#endif  // SPLITVEIL_TESTS_TESTING_SMALL_TABLE_H_
