#include "label_party/label_privacy/label_revealing_columns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/testing/small_table.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kRows = 2000;

// Random labels of two classes, one number and one category of each row, `number` and `category` of (label, row).
template <typename Number, typename Category>
std::string OfColumns(const Number& number, const Category& category, int32_t categories) {
  SmallTable table;
  std::mt19937 random(1);
  table.categories_per_column = categories;
  for (int row = 0; row < kRows; ++row) {
    const auto label = static_cast<uint8_t>(random() % 4 == 0);
    table.ids.push_back(absl::StrCat("id", row));
    table.labels.push_back(label);
    table.numeric.push_back({number(label, row)});
    table.categories.push_back({category(label, row)});
  }
  return DescribeLabelRevealingColumn(*table.Store());
}

float Noise(int, int row) { return static_cast<float>((row * 7919) % 1000) / 1000; }
int32_t AnyCategory(int, int row) { return 1 + (row * 31) % 10; }

TEST(LabelRevealingColumnsTest, FindsANumberThatIsMadeFromTheLabelWhicheverWayItPoints) {
  for (const float sign : {1.0F, -1.0F}) {
    EXPECT_THAT(OfColumns([&](int label, int row) { return sign * (static_cast<float>(label) + 0.5F * Noise(0, row)); },
                          AnyCategory, 10),
                HasSubstr("alone ranks the labels at AUC 1.000"));
  }
}

TEST(LabelRevealingColumnsTest, FindsACategoryThatIsMadeFromTheLabel) {
  EXPECT_THAT(OfColumns(
                  Noise, [](int label, int row) { return 1 + 5 * label + row % 5; }, 10),
              HasSubstr("alone ranks the labels at AUC 1.000"));
}

TEST(LabelRevealingColumnsTest, AFeatureThatOnlyHelpsIsLeftInPeace) {
  EXPECT_EQ(
      OfColumns([](int label, int row) { return 0.4F * static_cast<float>(label) + Noise(0, row); }, AnyCategory, 10),
      "");
}

// Each row its own category: told from themselves, they would tell every label.
TEST(LabelRevealingColumnsTest, CategoriesThatOccurOnceTellNothing) {
  EXPECT_EQ(OfColumns(
                Noise, [](int, int row) { return 1 + row; }, kRows),
            "");
}

TEST(LabelRevealingColumnsTest, AsksOfClassesOneByOneAndOfNumbersWhetherTheyAreAboveTheMedian) {
  SmallTable classes, numbers;
  classes.task = {Task::Kind::kMultiClass, 3};
  numbers.task = {Task::Kind::kRegression};
  for (int row = 0; row < kRows; ++row) {
    for (SmallTable* const table : {&classes, &numbers}) {
      table->ids.push_back(absl::StrCat("id", row));
    }
    classes.labels.push_back(static_cast<uint8_t>(row % 3));
    classes.numeric.push_back({row % 3 == 1 ? 1.0F : 0.0F});
    numbers.targets.push_back(Noise(0, row));
    numbers.numeric.push_back({1 - Noise(0, row)});
  }
  EXPECT_THAT(DescribeLabelRevealingColumn(*classes.Store()), HasSubstr("AUC 1.000"));
  EXPECT_THAT(DescribeLabelRevealingColumn(*numbers.Store()), HasSubstr("AUC 1.000"));
}

TEST(LabelRevealingColumnsTest, WithoutLabelsOrFeaturesThereIsNothingToSay) {
  SmallTable table;
  table.ids = {"a", "b"};
  table.numeric = {{0}, {1}};
  EXPECT_EQ(DescribeLabelRevealingColumn(*table.Store()), "");
  table.numeric = {{}, {}};
  table.labels = {0, 1};
  EXPECT_EQ(DescribeLabelRevealingColumn(*table.Store()), "");
}

}  // namespace
}  // namespace splitveil::testing
