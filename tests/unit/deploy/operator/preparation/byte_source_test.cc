#include "deploy/operator/preparation/byte_source.h"

#include <lzma.h>
#include <zstd.h>

#include <cstdint>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>

#include "tests/unit/deploy/operator/preparation/gzip_bytes.h"

namespace splitveil {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string ZstdBytes(const std::string& text) {
  std::string bytes(ZSTD_compressBound(text.size()), '\0');
  bytes.resize(ZSTD_compress(&bytes[0], bytes.size(), text.data(), text.size(), 3));
  return bytes;
}

std::string XzBytes(const std::string& text) {
  std::string bytes(lzma_stream_buffer_bound(text.size()), '\0');
  size_t size = 0;
  EXPECT_EQ(lzma_easy_buffer_encode(1, LZMA_CHECK_CRC32, nullptr, reinterpret_cast<const uint8_t*>(text.data()),
                                    text.size(), reinterpret_cast<uint8_t*>(&bytes[0]), &size, bytes.size()),
            LZMA_OK);
  bytes.resize(size);
  return bytes;
}

// The text, read `step` bytes at once, or what is wrong.
std::string Unpacked(const std::string& bytes, size_t step = 1000,
                     ByteSource::Contents contents = ByteSource::Contents::kText) {
  const absl::StatusOr<std::unique_ptr<ByteSource>> source = ByteSource::FromBytes(bytes, contents);
  if (!source.ok()) {
    return std::string(source.status().message());
  }
  std::string text;
  std::string chunk(step, '\0');
  while (true) {
    const absl::StatusOr<size_t> count = (*source)->Read(&chunk[0], step);
    if (!count.ok() || *count == 0) {
      return count.ok() ? text : std::string(count.status().message());
    }
    text.append(chunk, 0, *count);
  }
}

// Packs well, so that a decoder holds far more than it was given.
std::string LongText() {
  std::string text;
  for (int i = 0; i < 40'000; ++i) {
    text += "row " + std::to_string(i % 300) + std::string(static_cast<size_t>(i % 50), 'x') + "\n";
  }
  return text;
}

class PackedTest : public ::testing::TestWithParam<std::pair<const char*, std::function<std::string(std::string)>>> {};

TEST_P(PackedTest, UnpacksTheSameBytesWhateverIsReadAtOnce) {
  const std::string text = LongText(), packed = GetParam().second(text);
  ASSERT_LT(packed.size(), text.size() / 4);
  for (const size_t step : {size_t{1000}, size_t{65'536}, text.size(), 2 * text.size()}) {
    EXPECT_TRUE(Unpacked(packed, step) == text) << step;
  }
  EXPECT_EQ(Unpacked(GetParam().second("abc\n"), 1), "abc\n");
}

TEST_P(PackedTest, SeveralInARowAreOneText) {
  const auto& pack = GetParam().second;
  EXPECT_EQ(Unpacked(pack("a\nb") + pack("") + pack("c\n")), "a\nbc\n");
}

TEST_P(PackedTest, FailsWhereverItIsCutShort) {
  const std::string packed = GetParam().second("first\nsecond\n");
  for (size_t size = 6; size < packed.size(); ++size) {
    EXPECT_EQ(Unpacked(packed.substr(0, size)), std::string("the ") + GetParam().first + " stream is cut short")
        << size;
  }
}

TEST_P(PackedTest, FailsForDamageAndForGarbageBehindIt) {
  std::string packed = GetParam().second(LongText());
  packed[packed.size() / 2] = static_cast<char>(~packed[packed.size() / 2]);
  packed[packed.size() / 2 + 1] = static_cast<char>(~packed[packed.size() / 2 + 1]);
  EXPECT_THAT(Unpacked(packed), HasSubstr("stream is damaged"));
  EXPECT_THAT(Unpacked(GetParam().second("a\n") + "garbage that is no stream"), HasSubstr("stream is damaged"));
}

INSTANTIATE_TEST_SUITE_P(Formats, PackedTest,
                         ::testing::Values(std::pair("gzip", &GzipBytes), std::pair("zstd", &ZstdBytes),
                                           std::pair("xz", &XzBytes)),
                         [](const auto& info) { return std::string(info.param.first); });

TEST(ByteSourceTest, PaddingBehindXzIsNoStream) { EXPECT_EQ(Unpacked(XzBytes("a\n") + std::string(4, '\0')), "a\n"); }

TEST(ByteSourceTest, NamesWhatIsNoTextAndHowToConvertIt) {
  const std::string zip("PK\x03\x04\x14\0\x06\0", 8);
  EXPECT_THAT(Unpacked(zip + std::string("[Content_Types].xml")), HasSubstr("Excel workbook (xlsx); save the sheet"));
  EXPECT_THAT(Unpacked(zip + "shop.csv"), HasSubstr("a zip archive; unpack it"));
  EXPECT_THAT(Unpacked("\xd0\xcf\x11\xe0\xa1\xb1"), HasSubstr("Excel workbook (xls)"));
  EXPECT_THAT(Unpacked("PAR1\x15\x04\x15\x10"), AllOf(HasSubstr("a Parquet file"), HasSubstr("read_parquet(")));
  EXPECT_THAT(Unpacked(std::string("ARROW1\0\0\xff", 9)), AllOf(HasSubstr("an Arrow file"), HasSubstr("to_csv(")));
  EXPECT_THAT(Unpacked("BZh91AY&SY\x01"), HasSubstr("bunzip2"));
}

TEST(ByteSourceTest, TextMayBeginWithTheSameLetters) {
  for (const char* text : {"PAR1,PAR2\n1,2\n", "BZh;id\r\n", "ARROW1\tx\n", "PK"}) {
    EXPECT_EQ(Unpacked(text), text);
  }
}

TEST(ByteSourceTest, BytesOfImagesMayBeAny) {
  const std::string white("\xff\xff\xff\xff\0\1", 6);
  EXPECT_EQ(Unpacked(white, 1000, ByteSource::Contents::kBytes), white);
}

}  // namespace
}  // namespace splitveil
