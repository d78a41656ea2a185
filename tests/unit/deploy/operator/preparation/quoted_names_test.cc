#include <gtest/gtest.h>

#include "deploy/operator/preparation/table_schema.h"

namespace splitveil {
namespace {

TEST(QuotedNamesTest, TellsANameWithACommaFromTwoNames) {
  EXPECT_EQ(QuotedNames({"patient no", "age, years"}), "\"patient no\", \"age, years\"");
  EXPECT_EQ(QuotedNames({}), "");
}

}  // namespace
}  // namespace splitveil
