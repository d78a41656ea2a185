#include "deploy/operator/preparation/category_writings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace splitveil {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Vocabulary Of(const std::vector<std::string>& values) {
  Vocabulary vocabulary;
  for (const std::string& value : values) {
    vocabulary.Add(value);
  }
  return vocabulary;
}

// The first value in 100 rows, each other one in 10.
std::string Twins(const std::vector<std::string>& values) {
  const auto rows = 100 + 10 * (static_cast<int64_t>(values.size()) - 1);
  return DescribeTwins(
      "town", Of(values), [](int32_t number) { return number == 1 ? int64_t{100} : int64_t{10}; }, rows);
}

TEST(CategoryWritingsTest, EachWritingOfAValueIsCountedAndNoneIsShown) {
  const std::vector<std::vector<std::string>> pairs = {{"north", "North"},
                                                       {"north", "NORTH"},
                                                       {"north", "north\xc2\xa0"},
                                                       {"caf\xc3\xa9", "cafe\xcc\x81"},
                                                       {"no\xe2\x80\x8brth", "north"},
                                                       {"new town", "new  town"},
                                                       {"new\xc2\xa0town", "new town"},
                                                       {"TRUE", "true"},
                                                       {"1", "1.0"},
                                                       {"3.5", "3.50"}};
  for (const std::vector<std::string>& pair : pairs) {
    EXPECT_THAT(
        Twins({pair[0], pair[1], "south", "east"}),
        AllOf(HasSubstr("column \"town\": 1 of 4 values"), HasSubstr("in 7.7% of the rows"), Not(HasSubstr(pair[1]))))
        << pair[0];
    EXPECT_TRUE(KnownWritings(Of({pair[0]})).Has(pair[1])) << pair[0];
  }
  EXPECT_THAT(Twins({"a", "A", "b", "B", "c"}), HasSubstr("2 of 5 values"));
}

TEST(CategoryWritingsTest, DifferentValuesAreNone) {
  EXPECT_EQ(Twins({"north", "south", "n", "s", "1", "10", "01", "1.5", "-1", "\xff\xfe", "stra\xc3\x9f", "cafe",
                   "caf\xc3\xa9"}),
            "");
  const KnownWritings known(Of({"north", "17"}));
  for (const char* other : {"", "nort", "northern", "18", "170", "-17", "1.7"}) {
    EXPECT_FALSE(known.Has(other)) << other;
  }
}

// In training 04109 and 4109 may be two codes; later rows without zeros are likely those of a spreadsheet.
TEST(CategoryWritingsTest, ZerosInFrontCountAsAWritingInLaterRowsOnly) {
  EXPECT_TRUE(KnownWritings(Of({"04109", "10115"})).Has("4109"));
  EXPECT_TRUE(KnownWritings(Of({"4109"})).Has("04109"));
  EXPECT_EQ(Twins({"04109", "4109"}), "");
}

}  // namespace
}  // namespace splitveil
