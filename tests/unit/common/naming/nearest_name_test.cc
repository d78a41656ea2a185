#include "common/naming/nearest_name.h"

#include "gtest/gtest.h"

namespace splitveil {
namespace {

TEST(NearestNameTest, FindsWhatAMistypedWordWasMeantToBe) {
  const std::vector<std::string> names = {"--ledger", "--policy", "--report"};
  EXPECT_EQ(NearestName("--ledgr", names), "--ledger");
  EXPECT_EQ(NearestName("--polciy", names), "--policy");
  EXPECT_EQ(NearestName("-report", names), "--report");
  EXPECT_EQ(NearestName("--report", names), "--report");
}

TEST(NearestNameTest, AHyphenIsAnUnderscore) { EXPECT_EQ(NearestName("dry-run", {"jobs", "dry_run"}), "dry_run"); }

TEST(NearestNameTest, TheFirstOfTheNearestIsNamed) { EXPECT_EQ(NearestName("bat", {"cat", "hat"}), "cat"); }

TEST(NearestNameTest, ANeighbourSwapIsOneEdit) { EXPECT_EQ(NearestName("auidt", {"guide", "audit"}), "audit"); }

TEST(NearestNameTest, NothingIsNearToAWordOfItsOwn) {
  EXPECT_EQ(NearestName("analyse", {"report", "audit"}), "");
  EXPECT_EQ(NearestName("", {"audit"}), "");
  EXPECT_EQ(NearestName("a", {"b"}), "");
  EXPECT_EQ(NearestName("audit", {}), "");
  EXPECT_EQ(NearestName(std::string(1000, 'a'), {std::string(1000, 'b')}), "");
}

}  // namespace
}  // namespace splitveil
