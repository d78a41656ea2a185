#include "common/dataset/label_variety.h"

#include <gtest/gtest.h>

namespace splitveil {
namespace {

TEST(LabelVarietyTest, TwoDifferentLabelsAreEnoughAndOneIsNot) {
  LabelVariety labels;
  EXPECT_EQ(labels.Check("rows").message(), "expected labels that differ among the rows, found 0");
  labels.Add(0.25);
  labels.Add(0.25);
  const absl::Status alike = labels.Check("rows");
  EXPECT_EQ(alike.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(alike.message(), "expected labels that differ among the rows, found 2 with one and the same label");
  labels.Add(0);
  EXPECT_TRUE(labels.Check("rows").ok());
  EXPECT_EQ(labels.examples(), 3);
}

}  // namespace
}  // namespace splitveil
