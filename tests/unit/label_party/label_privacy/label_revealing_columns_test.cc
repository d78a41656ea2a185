#include "label_party/label_privacy/label_revealing_columns.h"

#include <algorithm>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/testing/small_table.h"

namespace splitveil::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

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
  return DescribeLabelRevealingColumns(*table.Store());
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
  EXPECT_THAT(DescribeLabelRevealingColumns(*classes.Store()), HasSubstr("AUC 1.000"));
  EXPECT_THAT(DescribeLabelRevealingColumns(*numbers.Store()), HasSubstr("AUC 1.000"));
}

// Labels of a quarter of the rows, and numbers that `row` makes of (label, random numbers); as many columns as it
// gives.
std::string OfNumbers(const std::function<std::vector<float>(int, std::mt19937&)>& row, int rows = kRows) {
  SmallTable table;
  std::mt19937 random(7);
  for (int i = 0; i < rows; ++i) {
    const auto label = static_cast<uint8_t>(random() % 4 == 0);
    table.ids.push_back(absl::StrCat("id", i));
    table.labels.push_back(label);
    table.numeric.push_back(row(label, random));
  }
  return DescribeLabelRevealingColumns(*table.Store());
}

float Uniform(std::mt19937& random) { return std::uniform_real_distribution<float>(0, 1)(random); }
float Normal(std::mt19937& random) { return std::normal_distribution<float>(0, 1)(random); }

// As a rank its AUC is 0.5: every third code in turn is one of the label.
TEST(LabelRevealingColumnsTest, FindsAStatusCodeThatIsReadAsANumber) {
  EXPECT_THAT(OfNumbers([](int label, std::mt19937& random) {
                const auto code = static_cast<float>(random() % 8);
                return std::vector<float>{(3 * code + static_cast<float>(label)) / 24, Uniform(random)};
              }),
              HasSubstr("N1 alone, value by value, ranks the labels at AUC 1.000"));
}

TEST(LabelRevealingColumnsTest, FindsAUShape) {
  EXPECT_THAT(OfNumbers([](int label, std::mt19937& random) {
                const float side = random() % 2 == 0 ? -1.0F : 1.0F;
                return std::vector<float>{Uniform(random), 0.5F + side * (label == 0 ? 0.3F * Uniform(random)
                                                                                     : 0.3F + 0.2F * Uniform(random))};
              }),
              HasSubstr("N2 alone, value by value, ranks the labels at AUC"));
}

TEST(LabelRevealingColumnsTest, FindsASquareOfANumberToBePredicted) {
  std::mt19937 random(7);
  for (const bool is_made_of_it : {true, false}) {
    SmallTable table;
    table.task = {Task::Kind::kRegression};
    for (int i = 0; i < kRows; ++i) {
      const float target = std::clamp(0.5F + 0.15F * Normal(random), 0.0F, 1.0F);
      const float made = is_made_of_it ? target : 0.5F + 0.15F * Normal(random);
      table.ids.push_back(absl::StrCat("id", i));
      table.targets.push_back(target);
      table.numeric.push_back({(made - 0.5F) * (made - 0.5F), target + 0.5F * Normal(random)});
    }
    const std::string found = DescribeLabelRevealingColumns(*table.Store());
    EXPECT_EQ(found.empty(), !is_made_of_it) << found;
  }
}

// "before" and "after" say nothing by themselves: they spread a hundred times as far as they differ.
TEST(LabelRevealingColumnsTest, FindsADifferenceOfTwoColumns) {
  EXPECT_THAT(
      OfNumbers([](int label, std::mt19937& random) {
        const float before = Uniform(random);
        const float other = Uniform(random);
        return std::vector<float>{before, other, before - 0.01F * (static_cast<float>(label) + 0.5F * Uniform(random))};
      }),
      HasSubstr("the difference of columns N1 and N3 ranks the labels at AUC 1.000"));
}

// The sign of each column depends on the others: no single one and no difference tells anything.
TEST(LabelRevealingColumnsTest, FindsWhatOnlySeveralColumnsTellTogether) {
  EXPECT_THAT(OfNumbers(
                  [](int label, std::mt19937& random) {
                    const bool a = random() % 2 == 0, b = random() % 2 == 0;
                    const bool c = (a != b) != (label == 1);
                    std::vector<float> row;
                    for (const bool high : {a, b, c}) {
                      row.push_back(high ? 0.5F + 0.5F * Uniform(random) : 0.5F * Uniform(random));
                    }
                    row.push_back(Uniform(random));
                    return row;
                  },
                  4 * kRows),
              AllOf(HasSubstr("the own columns together, above all "), HasSubstr("N1"), HasSubstr("N2"),
                    HasSubstr("N3"), Not(HasSubstr("N4"))));
}

// If rows in turn were the halves, each half would say the label of the other's rows.
TEST(LabelRevealingColumnsTest, LabelsThatComeInTurnsAreNoColumn) {
  SmallTable table;
  table.categories_per_column = 37;
  for (int row = 0; row < 400; ++row) {
    table.ids.push_back(absl::StrCat("id", row));
    table.labels.push_back(static_cast<uint8_t>(row % 2));
    table.numeric.push_back({static_cast<float>(row % 37) / 37});
    table.categories.push_back({1 + row % 37});
  }
  EXPECT_EQ(DescribeLabelRevealingColumns(*table.Store()), "");
}

TEST(LabelRevealingColumnsTest, IsTheSameEveryTime) {
  const auto together = [] {
    return OfNumbers([](int label, std::mt19937& random) {
      return std::vector<float>{Normal(random) + 2 * static_cast<float>(label),
                                Normal(random) - 2 * static_cast<float>(label), Uniform(random)};
    });
  };
  EXPECT_NE(together(), "");
  EXPECT_EQ(together(), together());
}

// 40 columns and 780 differences of noise, and labels of one row in 100.
TEST(LabelRevealingColumnsTest, ManyColumnsOfNoiseTellNothing) {
  for (const int rows : {400, 4000}) {
    SmallTable table;
    std::mt19937 random(3);
    table.categories_per_column = 50;
    for (int i = 0; i < rows; ++i) {
      table.ids.push_back(absl::StrCat("id", i));
      table.labels.push_back(static_cast<uint8_t>(random() % 100 == 0));
      std::vector<float> numeric(40);
      std::generate(numeric.begin(), numeric.end(), [&] { return Normal(random); });
      table.numeric.push_back(numeric);
      table.categories.push_back({static_cast<int32_t>(1 + random() % 50), static_cast<int32_t>(1 + random() % 50)});
    }
    table.labels[0] = 1;
    EXPECT_EQ(DescribeLabelRevealingColumns(*table.Store()), "") << rows;
  }
}

// A good scorecard: AUC 0.87 of three columns together.
TEST(LabelRevealingColumnsTest, FeaturesThatHelpTogetherAreLeftInPeace) {
  EXPECT_EQ(OfNumbers(
                [](int label, std::mt19937& random) {
                  std::vector<float> row;
                  for (int k = 0; k < 3; ++k) {
                    row.push_back(Normal(random) + 0.9F * static_cast<float>(label));
                  }
                  return row;
                },
                2 * kRows),
            "");
}

TEST(LabelRevealingColumnsTest, PixelsInFrontOfTheNumbersAreNoColumns) {
  SmallTable table;
  table.image = {1, 2, 2};
  for (int row = 0; row < kRows; ++row) {
    table.ids.push_back(absl::StrCat("id", row));
    table.labels.push_back(static_cast<uint8_t>(row % 2));
    table.pixels.push_back({1, 2, 3, 4});
    table.numeric.push_back({Noise(0, row), static_cast<float>(row % 2)});
  }
  EXPECT_THAT(DescribeLabelRevealingColumns(*table.Store()), HasSubstr("column N2 alone ranks"));
}

TEST(LabelRevealingColumnsTest, WithoutLabelsOrFeaturesThereIsNothingToSay) {
  SmallTable table;
  table.ids = {"a", "b"};
  table.numeric = {{0}, {1}};
  EXPECT_EQ(DescribeLabelRevealingColumns(*table.Store()), "");
  table.numeric = {{}, {}};
  table.labels = {0, 1};
  EXPECT_EQ(DescribeLabelRevealingColumns(*table.Store()), "");
}

}  // namespace
}  // namespace splitveil::testing
