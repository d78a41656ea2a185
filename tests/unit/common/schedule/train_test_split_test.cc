#include "common/schedule/train_test_split.h"

#include <algorithm>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "tests/testing/small_table.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAreArray;

std::vector<uint32_t> Iota(size_t count) {
  std::vector<uint32_t> positions(count);
  std::iota(positions.begin(), positions.end(), 0U);
  return positions;
}

// The split of examples "id-0", "id-1", ... in this order.
TrainTestSplit Split(const std::string& salt, size_t examples, double test_fraction) {
  std::vector<std::string> ids;
  for (size_t i = 0; i < examples; ++i) {
    ids.push_back(absl::StrCat("id-", i));
  }
  return SplitRule(salt, test_fraction).Split(ids, Iota(examples));
}

// Computed in Python from the definition in the header.
TEST(SplitRuleTest, MatchesAnIndependentImplementation) {
  EXPECT_THAT(Split("first run", 40, 0.25).test, ElementsAre(4, 5, 7, 9, 14, 17, 18, 28, 34, 37));
}

// Likewise.
TEST(SplitRuleTest, TakesAuxiliaryExamplesNextToTheTestExamples) {
  std::vector<std::string> ids;
  for (size_t i = 0; i < 40; ++i) {
    ids.push_back(absl::StrCat("id-", i));
  }
  const SplitRule rule("first run", 0.25, 0.2);
  const TrainTestSplit split = rule.Split(ids, Iota(40));
  EXPECT_EQ(split.test, Split("first run", 40, 0.25).test);
  EXPECT_THAT(split.auxiliary, ElementsAre(10, 15, 20, 30, 33));
  EXPECT_EQ(split.train.size() + split.test.size() + split.auxiliary.size(), 40);
  for (const uint32_t position : split.train) {
    EXPECT_EQ(rule.PartOf(ids[position]), SplitPart::kTraining);
  }
}

TEST(SplitRuleTest, IsThatOfTheAgreement) {
  v1::RunAgreement agreement;
  agreement.set_split_salt("first run");
  agreement.set_test_fraction(0.25);
  agreement.mutable_attribute_audit()->set_auxiliary_fraction(0.2);
  agreement.mutable_attribute_audit()->set_marked_fraction(0.2);
  agreement.set_validation_fraction(0.15);
  const SplitRule agreed(agreement), rule("first run", 0.25, 0.2, 0.15);
  v1::Preprocessing prepared;
  prepared.set_split_salt("first run");
  prepared.set_test_fraction(0.25);
  prepared.set_auxiliary_fraction(0.2);
  prepared.set_validation_fraction(0.15);
  const SplitRule of_data(prepared);
  const MarkRule agreed_marks(agreement), marks("first run", 0.2);
  for (size_t i = 0; i < 100; ++i) {
    const std::string id = absl::StrCat("id-", i);
    EXPECT_EQ(agreed.PartOf(id), rule.PartOf(id));
    EXPECT_EQ(of_data.PartOf(id), rule.PartOf(id));
    EXPECT_EQ(agreed_marks.IsMarked(id), marks.IsMarked(id));
  }
}

// Likewise.
TEST(MarkRuleTest, MatchesAnIndependentImplementation) {
  const MarkRule rule("first run", 0.2), none("first run", 0);
  std::vector<int> marked;
  for (int i = 0; i < 40; ++i) {
    if (rule.IsMarked(absl::StrCat("id-", i))) {
      marked.push_back(i);
    }
    EXPECT_FALSE(none.IsMarked(absl::StrCat("id-", i)));
  }
  EXPECT_THAT(marked, ElementsAre(2, 7, 8, 12, 17, 20));
}

TEST(SplitRuleTest, PutsEachPositionIntoExactlyOnePart) {
  const TrainTestSplit split = Split("", 10000, 0.3);
  std::vector<uint32_t> merged;
  std::merge(split.train.begin(), split.train.end(), split.test.begin(), split.test.end(), std::back_inserter(merged));
  EXPECT_EQ(merged, Iota(10000));
}

TEST(SplitRuleTest, HitsTheFraction) {
  // The salt is fixed; for a random one six standard deviations are exceeded with probability 2e-9.
  const double examples = 200000;
  for (double fraction : {0.001, 0.1, 0.5, 0.9}) {
    const auto test_examples = static_cast<double>(Split("", 200000, fraction).test.size());
    EXPECT_NEAR(test_examples, examples * fraction, 6 * std::sqrt(examples * fraction * (1 - fraction)));
  }
}

TEST(SplitRuleTest, DependsOnTheIdsAndNotOnTheirOrder) {
  const std::vector<std::string> ids = {"a", "b", "c", "d", "e", "f", "g", "h"};
  const std::vector<std::string> own_order = {"h", "c", "a", "x", "b", "g", "f", "d", "y", "e"};
  const std::vector<uint32_t> rows = {2, 4, 1, 7, 9, 6, 5, 0};  // The same ids in another party's file.
  const SplitRule rule("salt", 0.5);
  EXPECT_EQ(rule.Split(ids, Iota(8)).test, rule.Split(own_order, rows).test);
  const std::vector<std::string> reversed(ids.rbegin(), ids.rend());
  std::vector<std::string> first_test, second_test;
  for (uint32_t position : rule.Split(ids, Iota(8)).test) {
    first_test.push_back(ids[position]);
  }
  for (uint32_t position : rule.Split(reversed, Iota(8)).test) {
    second_test.push_back(reversed[position]);
  }
  EXPECT_THAT(second_test, UnorderedElementsAreArray(first_test));
}

TEST(SplitRuleTest, ASmallerFractionHoldsOutPartOfALargerOne) {
  const std::vector<uint32_t> small = Split("salt", 1000, 0.1).test;
  const std::vector<uint32_t> large = Split("salt", 1000, 0.3).test;
  EXPECT_TRUE(std::includes(large.begin(), large.end(), small.begin(), small.end()));
}

TEST(SplitRuleTest, ValidationStandsNextToTheOthersAndMovesNeither) {
  std::vector<std::string> texts;
  for (int i = 0; i < 20000; ++i) {
    texts.push_back("id-" + std::to_string(i));
  }
  const IdList ids(texts);
  const TrainTestSplit without = SplitRule("salt", 0.2, 0.1).Split(ids, Iota(texts.size()));
  const TrainTestSplit with = SplitRule("salt", 0.2, 0.1, 0.25).Split(ids, Iota(texts.size()));
  EXPECT_EQ(with.test, without.test);
  EXPECT_EQ(with.auxiliary, without.auxiliary);
  std::vector<uint32_t> rest;
  std::merge(with.train.begin(), with.train.end(), with.validation.begin(), with.validation.end(),
             std::back_inserter(rest));
  EXPECT_EQ(rest, without.train);
  EXPECT_NEAR(static_cast<double>(with.validation.size()), 5000, 5 * 61.2);  // Five standard deviations.
  std::vector<uint32_t> evaluated = with.test;
  evaluated.insert(evaluated.end(), with.validation.begin(), with.validation.end());
  EXPECT_EQ(with.Evaluated(), evaluated);
}

TEST(SplitDigestTest, IsThatOfThePartsInAlignedOrder) {
  const TrainTestSplit split{{0, 4}, {1}, {2}, {3}};
  // printf 'splitveil.v1 parts of the aligned examples\n\0\1\2\3\0' | sha256sum
  EXPECT_EQ(absl::BytesToHexString(AsBytes(SplitDigest(split))),
            "17a0248dfbb73986e4fb61d6c36d13a10b4ddcbd2a728275e08893140a011de4");
  const TrainTestSplit other{{0, 3}, {1}, {2}, {4}};
  EXPECT_NE(SplitDigest(split), SplitDigest(other));
}

TEST(SplitRuleTest, DependsOnTheSalt) { EXPECT_NE(Split("a", 1000, 0.5).test, Split("b", 1000, 0.5).test); }

TEST(SplitRuleTest, SaltAndIdDoNotRunIntoEachOther) {
  int differences = 0;
  for (int i = 0; i < 64; ++i) {
    const std::string id = absl::StrCat("x", i);
    differences += SplitRule("salt", 0.5).IsTest(id) != SplitRule("saltx", 0.5).IsTest(id.substr(1)) ? 1 : 0;
  }
  EXPECT_GT(differences, 0);
}

TEST(SplitRuleTest, TakesNoExamplesAndNoTestPart) {
  EXPECT_TRUE(Split("", 0, 0.5).train.empty());
  EXPECT_EQ(Split("", 1000, 0).train, Iota(1000));
}

TEST(SplitRuleDeathTest, AbortsForPartsThatLeaveNothingToTrainOn) {
  EXPECT_DEATH(SplitRule("", 0.5, 0.5), "auxiliary_fraction in \\[0, 1 - test_fraction\\)");
  EXPECT_DEATH(SplitRule("", 0.5, -0.1), "auxiliary_fraction");
  EXPECT_DEATH(MarkRule("", 1), "marked_fraction in \\[0, 1\\)");
}

TEST(SplitRuleDeathTest, AbortsForAFractionOutOfRange) {
  for (double fraction : {-0.1, 1.0, std::nan("")}) {
    EXPECT_DEATH(SplitRule("", fraction), "test_fraction in \\[0, 1\\)");
  }
}

TEST(SharedExamplesTest, AsManyAsTheSmallestBatchAreEnough) {
  EXPECT_TRUE(CheckSharedExamples({16, 100, 200}, 16).ok());
  const absl::Status status = CheckSharedExamples({15, 100, 200}, 16);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("minimum_batch_size = 16 shared examples, found 15 of 100 own ids and 200 of the "
                                   "peer's"));
}

TEST(SharedExamplesTest, ALowShareOfTheSmallerTableIsAWarningWithTheLikelyReasons) {
  EXPECT_EQ(DescribeLowShare({200, 1000, 50'000}, 0.2), "");
  EXPECT_THAT(
      DescribeLowShare({199, 50'000, 1000}, 0.2),
      ::testing::AllOf(::testing::HasSubstr("only 199 of 50000 own ids and 1000 of the peer's are shared, 19.9% "
                                            "of the smaller table (low_shared_share: 0.2)"),
                       ::testing::HasSubstr("leading zeros"), ::testing::HasSubstr("row number")));
  EXPECT_NE(DescribeLowShare({0, 1000, 1000}, 0.2), "");
  EXPECT_EQ(DescribeLowShare({0, 1000, 1000}, 0), "");
}

TEST(AttributeExamplesTest, AreTheFirstOfEachKindAtBothParties) {
  testing::SmallTable table;
  for (size_t i = 0; i < 400; ++i) {
    table.ids.push_back(absl::StrCat("id-", i));
    table.numeric.push_back({0});
  }
  table.categories.resize(400);
  const std::shared_ptr<const Dataset> data = table.Store();
  v1::RunAgreement agreement;
  agreement.set_split_salt("salt");
  agreement.set_test_fraction(0.25);
  agreement.mutable_attribute_audit()->set_auxiliary_fraction(0.2);
  agreement.mutable_attribute_audit()->set_marked_fraction(0.3);
  std::vector<uint32_t> rows = Iota(400);
  std::reverse(rows.begin(), rows.end());  // The aligned order is not that of the table.
  const TrainTestSplit split = SplitRule(agreement).Split(*data, rows);
  const AttributeExamples all = AttributeExamplesOf(agreement, *data, rows, split);
  EXPECT_FALSE(all.is_sample);
  EXPECT_EQ(DescribeSample(all), "");
  EXPECT_EQ(all.test, split.test);
  EXPECT_EQ(all.auxiliary, split.auxiliary);
  EXPECT_EQ(all.marked.size() + all.unmarked.size(), split.train.size());
  const MarkRule rule(agreement);
  for (const uint32_t position : all.marked) {
    EXPECT_TRUE(rule.IsMarked(absl::StrCat("id-", rows[position])));
  }
  const AttributeExamples few = AttributeExamplesOf(agreement, *data, rows, split, /*most=*/20);
  EXPECT_TRUE(few.is_sample);
  EXPECT_NE(DescribeSample(few), "");
  const auto first = [](const std::vector<uint32_t>& positions) {
    return std::vector<uint32_t>(positions.begin(), positions.begin() + 20);
  };
  EXPECT_EQ(few.test, first(all.test));
  EXPECT_EQ(few.auxiliary, first(all.auxiliary));
  EXPECT_EQ(few.marked, first(all.marked));
  EXPECT_EQ(few.unmarked, first(all.unmarked));
}

}  // namespace
}  // namespace splitveil
