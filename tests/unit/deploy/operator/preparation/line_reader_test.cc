#include "deploy/operator/preparation/line_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/testing/scratch_folder.h"
#include "tests/unit/deploy/operator/preparation/gzip_bytes.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct ReadAll {
  std::vector<std::string> lines;
  absl::Status status;
};

ReadAll Drain(absl::StatusOr<std::unique_ptr<LineReader>> reader) {
  ReadAll all;
  if (!reader.ok()) {
    all.status = reader.status();
    return all;
  }
  absl::string_view line;
  while (true) {
    absl::StatusOr<bool> more = (*reader)->Next(&line);
    if (!more.ok() || !*more) {
      all.status = more.status();
      return all;
    }
    all.lines.emplace_back(line);
    EXPECT_EQ((*reader)->line_number(), static_cast<int64_t>(all.lines.size()));
  }
}

ReadAll DrainBytes(std::string bytes, int64_t max_line_bytes = LineReader::kDefaultMaxLineBytes) {
  return Drain(LineReader::FromBytes("data", std::move(bytes), max_line_bytes));
}

// Long enough to fill the reader's buffers several times.
std::string ManyLines(std::vector<std::string>* lines) {
  std::string text;
  for (int i = 0; i < 60000; ++i) {
    lines->push_back("line " + std::to_string(i) + std::string(i % 90, 'x'));
    text += lines->back() + "\n";
  }
  return text;
}

TEST(LineReaderTest, ReadsLinesWithAndWithoutALastLineEnd) {
  EXPECT_THAT(DrainBytes("a\n\nb\n").lines, ElementsAre("a", "", "b"));
  EXPECT_THAT(DrainBytes("a\nb").lines, ElementsAre("a", "b"));
  EXPECT_THAT(DrainBytes("a").lines, ElementsAre("a"));
  EXPECT_THAT(DrainBytes("").lines, IsEmpty());
}

TEST(LineReaderTest, TakesOneCarriageReturnOffTheEndOnly) {
  EXPECT_THAT(DrainBytes("a\r\nb\rc\r\r\nd\r").lines, ElementsAre("a", "b\rc\r", "d"));
}

TEST(LineReaderTest, KeepsArbitraryBytes) {
  const std::string bytes("\x00\xff\xfe\x80", 4);
  EXPECT_THAT(DrainBytes(bytes + "\n").lines, ElementsAre(bytes));
}

TEST(LineReaderTest, LeavesOutTheByteOrderMarkOfUtf8InFrontOfTheText) {
  const std::string mark = "\xef\xbb\xbf";
  EXPECT_THAT(DrainBytes(mark + "a\n" + mark + "b").lines, ElementsAre("a", mark + "b"));
  EXPECT_THAT(DrainBytes(GzipBytes(mark + "a")).lines, ElementsAre("a"));
}

TEST(LineReaderTest, FailsOnUtf16) {
  for (const std::string& bytes : {std::string("\xff\xfe"
                                               "a\0\n\0",
                                               6),
                                   std::string("\xfe\xff\0a\0\n", 6)}) {
    const ReadAll all = DrainBytes(bytes);
    EXPECT_EQ(all.status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(all.status.message()), HasSubstr("data:1: expected text in UTF-8, found the byte order"));
    EXPECT_THAT(all.lines, IsEmpty());
  }
}

TEST(LineReaderTest, FailsOnLinesThatEndInCarriageReturnsAlone) {
  for (const std::string& bytes : {std::string("id,age\ra,1\rb,2\r"), std::string("id,age\ra,1"), GzipBytes("a\rb\r"),
                                   std::string("\xef\xbb\xbfid\ra\r"), std::string("12345678\r87654321\r")}) {
    const ReadAll all = DrainBytes(bytes, 12);
    EXPECT_EQ(all.status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(std::string(all.status.message()),
              "data:1: expected lines that end in LF or CR LF, found ones that end in CR alone; `tr '\\r' '\\n'` "
              "converts it");
    EXPECT_THAT(all.lines, IsEmpty());
  }
  EXPECT_THAT(DrainBytes("a\r").lines, ElementsAre("a"));  // One line, which is a line of CR LF cut short.
  EXPECT_THAT(DrainBytes("a\rb\nc\rd").lines, ElementsAre("a\rb", "c\rd"));  // A part of the cells.
}

TEST(LineReaderTest, ReadsPlainAndGzipAlikeAcrossBufferBoundaries) {
  std::vector<std::string> lines;
  const std::string text = ManyLines(&lines);
  const ReadAll plain = DrainBytes(text, 128);
  const ReadAll gzip = DrainBytes(GzipBytes(text), 128);
  EXPECT_TRUE(plain.status.ok()) << plain.status;
  EXPECT_TRUE(gzip.status.ok()) << gzip.status;
  EXPECT_EQ(plain.lines, lines);
  EXPECT_EQ(gzip.lines, lines);
}

TEST(LineReaderTest, RecognisesGzipByItsBytesNotItsName) {
  const ScratchFolder folder;
  EXPECT_THAT(Drain(LineReader::Open(folder.Write("data.tsv", GzipBytes("a\nb\n")))).lines, ElementsAre("a", "b"));
  EXPECT_THAT(Drain(LineReader::Open(folder.Write("data.gz", "a\nb\n"))).lines, ElementsAre("a", "b"));
}

TEST(LineReaderTest, ReadsSeveralGzipMembersAsOneText) {
  EXPECT_THAT(DrainBytes(GzipBytes("a\nb") + GzipBytes("") + GzipBytes("c\n")).lines, ElementsAre("a", "bc"));
}

TEST(LineReaderTest, AcceptsALineOfExactlyTheLimit) {
  for (const char* line_end : {"\n", "\r\n", ""}) {
    const ReadAll all = DrainBytes("12345678" + std::string(line_end), 8);
    EXPECT_TRUE(all.status.ok()) << all.status;
    EXPECT_THAT(all.lines, ElementsAre("12345678"));
  }
}

TEST(LineReaderTest, FailsOnALongerLineAndNamesIt) {
  for (const char* line_end : {"\n", "\r\n", "", "9876543210\n"}) {
    const ReadAll all = DrainBytes("a\nb\n123456789" + std::string(line_end), 8);
    EXPECT_EQ(all.status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(all.status.message()), HasSubstr("data:3: the line is longer than 8 bytes"));
    EXPECT_THAT(all.lines, ElementsAre("a", "b"));
  }
}

TEST(LineReaderTest, FailsWhereTheFileDoesNotExist) {
  const ScratchFolder folder;
  EXPECT_EQ(Drain(LineReader::Open(folder.Path("absent"))).status.code(), absl::StatusCode::kNotFound);
}

TEST(LineReaderTest, FailsOnAFolder) {
  const ScratchFolder folder;
  EXPECT_EQ(Drain(LineReader::Open(folder.Path("."))).status.code(), absl::StatusCode::kInvalidArgument);
}

TEST(LineReaderTest, FailsOnALimitBelowOne) {
  EXPECT_EQ(DrainBytes("a", 0).status.code(), absl::StatusCode::kInvalidArgument);
}

TEST(LineReaderTest, FailsWhereverAGzipStreamIsCutShort) {
  const std::string whole = GzipBytes("first\nsecond\nthird\n");
  for (size_t size = 2; size < whole.size(); ++size) {
    const ReadAll all = DrainBytes(whole.substr(0, size));
    EXPECT_EQ(all.status.code(), absl::StatusCode::kInvalidArgument) << size;
    EXPECT_THAT(std::string(all.status.message()), HasSubstr("cut short")) << size;
  }
}

TEST(LineReaderTest, FailsOnADamagedChecksum) {
  std::string bytes = GzipBytes("first\n");
  bytes[bytes.size() - 8] ^= 1;
  EXPECT_EQ(DrainBytes(bytes).status.code(), absl::StatusCode::kInvalidArgument);
}

TEST(LineReaderTest, FailsOnGarbageBehindAGzipStream) {
  const ReadAll all = DrainBytes(GzipBytes("first\n") + "garbage");
  EXPECT_EQ(all.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(all.status.message()), HasSubstr("damaged"));
}

TEST(LineReaderTest, RepeatsItsError) {
  std::unique_ptr<LineReader> reader = *LineReader::FromBytes("data", "123456789\nb\n", 8);
  absl::string_view line;
  const absl::Status first = reader->Next(&line).status();
  EXPECT_FALSE(first.ok());
  EXPECT_EQ(reader->Next(&line).status(), first);
}

}  // namespace
}  // namespace splitveil
