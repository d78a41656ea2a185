#include "common/telemetry/one_line.h"

#include <string>

#include "gtest/gtest.h"

namespace splitveil {
namespace {

TEST(OneLineTest, KeepsPlainTextAndUtf8) {
  EXPECT_EQ(OneLine("field: expected 1…2, found \"é\" \\n"), "field: expected 1…2, found \"é\" \\n");
}

TEST(OneLineTest, KeepsInvalidUtf8ByteForByte) { EXPECT_EQ(OneLine("\xFF\x80 \xC2"), "\xFF\x80 \xC2"); }

TEST(OneLineTest, JoinsLines) { EXPECT_EQ(OneLine("a\nb\r\nc\vd\n\n"), "a b  c d"); }

TEST(OneLineTest, TakesAwayEscapeSequences) {
  for (int c = 0; c < 256; ++c) {
    const std::string line = OneLine(std::string("x") + static_cast<char>(c) + "y");
    EXPECT_EQ(line[1], c < 0x20 || c == 0x7F ? ' ' : static_cast<char>(c)) << c;
  }
}

TEST(OneLineTest, TakesAwayC1ControlsAndNothingBesideThem) {
  EXPECT_EQ(OneLine("x\xC2\x80y\xC2\x9Fz"), "x y z");
  EXPECT_EQ(OneLine("x\xC2\xA0y"), "x\xC2\xA0y");  // No-break space.
}

TEST(OneLineTest, OfNothingIsNothing) { EXPECT_EQ(OneLine(""), ""); }

}  // namespace
}  // namespace splitveil
