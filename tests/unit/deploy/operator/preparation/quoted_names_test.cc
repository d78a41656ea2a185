#include "deploy/operator/preparation/quoted_names.h"

#include <gtest/gtest.h>

namespace splitveil {
namespace {

TEST(QuotedNamesTest, TellsANameWithACommaFromTwoNames) {
  EXPECT_EQ(QuotedNames({"patient no", "age, years"}), "\"patient no\", \"age, years\"");
  EXPECT_EQ(QuotedNames({}), "");
}

}  // namespace
}  // namespace splitveil
