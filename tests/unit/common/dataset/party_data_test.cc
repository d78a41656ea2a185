#include "common/dataset/party_data.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/dataset/line_reader.h"
#include "tests/unit/common/dataset/gzip_bytes.h"
#include "tests/unit/common/dataset/scratch_folder.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kHeader[] = "id\tlabel\tnumeric:age\tcategorical:city\n";

absl::StatusOr<PartyData> Parse(std::string text) {
  return ParsePartyData(LineReader::FromBytes("party.tsv", std::move(text))->get());
}

std::string ErrorOf(std::string text) {
  const absl::Status status = Parse(std::move(text)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(PartyDataTest, ReadsEveryKindOfColumn) {
  absl::StatusOr<PartyData> data = Parse(absl::StrCat(kHeader, "a\t1\t3.5\tRome\nb\t0\t-2\tOslo\nc\t0\t1e3\tRome\n"));
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(data->ids, ElementsAre("a", "b", "c"));
  EXPECT_THAT(data->labels, ElementsAre(1, 0, 0));
  ASSERT_EQ(data->numeric.size(), 1);
  EXPECT_EQ(data->numeric[0].name, "age");
  EXPECT_THAT(data->numeric[0].values, ElementsAre(3.5F, -2.0F, 1000.0F));
  ASSERT_EQ(data->categorical.size(), 1);
  EXPECT_EQ(data->categorical[0].name, "city");
  EXPECT_THAT(data->categorical[0].values, ElementsAre("Rome", "Oslo"));
  EXPECT_THAT(data->categorical[0].codes, ElementsAre(0, 1, 0));
}

TEST(PartyDataTest, LeavesLabelsEmptyWithoutALabelColumn) {
  absl::StatusOr<PartyData> data = Parse("id\tcategorical:label\na\t1\n");
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(data->labels, IsEmpty());
  EXPECT_THAT(Parse("id\n")->ids, IsEmpty());
}

TEST(PartyDataTest, ReadsAnEmptyNumberAsNanAndAnEmptyCategoryAsAValue) {
  absl::StatusOr<PartyData> data = Parse(absl::StrCat(kHeader, "a\t1\t\t\nb\t0\t2\tOslo\n"));
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_TRUE(std::isnan(data->numeric[0].values[0]));
  EXPECT_THAT(data->categorical[0].values, ElementsAre("", "Oslo"));
}

TEST(PartyDataTest, KeepsCategoriesThatReadAsTheSameNumberApart) {
  absl::StatusOr<PartyData> data =
      Parse("id\tcategorical:c\na\t1e10\nb\t10000000000\nc\t00001e10\nd\t1E10\ne\tinf\nf\t 1e10\n");
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(data->categorical[0].values, ElementsAre("1e10", "10000000000", "00001e10", "1E10", "inf", " 1e10"));
}

TEST(PartyDataTest, TrimsIdsAndToleratesCarriageReturns) {
  absl::StatusOr<PartyData> data = Parse("id\tcategorical:c\r\n \v a b \t x \r\nc\ty\r\n");
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(data->ids, ElementsAre("a b", "c"));
  EXPECT_THAT(data->categorical[0].values, ElementsAre(" x ", "y"));
}

TEST(PartyDataTest, ReadsNumbersNextToZeroAndAtTheEdgesOfFloat) {
  absl::StatusOr<PartyData> data = Parse("id\tnumeric:n\na\t1e-60\nb\t-0\nc\t3.4028234e38\nd\t.5\n");
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(data->numeric[0].values, ElementsAre(0.0F, 0.0F, std::numeric_limits<float>::max(), 0.5F));
}

TEST(PartyDataTest, ReadsAGzipFile) {
  const ScratchFolder folder;
  absl::StatusOr<PartyData> data = ReadPartyData(folder.Write("p.tsv.gz", GzipBytes("id\na\nb\n")));
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(data->ids, ElementsAre("a", "b"));
}

TEST(PartyDataTest, FailsWhereTheFileDoesNotExist) {
  EXPECT_EQ(ReadPartyData("/nonexistent/party.tsv").status().code(), absl::StatusCode::kNotFound);
}

TEST(PartyDataTest, FailsOnAnEmptyFile) { EXPECT_THAT(ErrorOf(""), HasSubstr("party.tsv: expected a header line")); }

TEST(PartyDataTest, FailsOnAMalformedHeader) {
  EXPECT_THAT(ErrorOf("\n"), HasSubstr("party.tsv:1:1: "));
  EXPECT_THAT(ErrorOf("ID\n"), HasSubstr("party.tsv:1:1: "));
  EXPECT_THAT(ErrorOf("label\tid\n"), HasSubstr("party.tsv:1:1: "));
  EXPECT_THAT(ErrorOf("id\tage\n"), HasSubstr("party.tsv:1:2: "));
  EXPECT_THAT(ErrorOf("id\tnumeric:\n"), HasSubstr("party.tsv:1:2: "));
  EXPECT_THAT(ErrorOf("id\tcategorical:\n"), HasSubstr("party.tsv:1:2: "));
  EXPECT_THAT(ErrorOf("id\tnumeric:a\tlabel\n"), HasSubstr("party.tsv:1:3: "));
  EXPECT_THAT(ErrorOf("id\tnumeric:a\tnumeric:a\n"), HasSubstr("party.tsv:1:3: the header line names a column twice"));
}

TEST(PartyDataTest, FailsOnAMissingHeaderWithoutShowingItsData) {
  EXPECT_THAT(ErrorOf("id\tPLANTED\n"), Not(HasSubstr("PLANTED")));
  EXPECT_THAT(ErrorOf("PLANTED\t1\n"), Not(HasSubstr("PLANTED")));
}

TEST(PartyDataTest, FailsOnAWrongNumberOfColumns) {
  EXPECT_THAT(ErrorOf(absl::StrCat(kHeader, "a\t1\t2\tx\nb\t1\t2\n")),
              HasSubstr("party.tsv:3:3: expected 4 columns, found 3"));
  EXPECT_THAT(ErrorOf(absl::StrCat(kHeader, "a\t1\t2\tx\ty\tz\n")),
              HasSubstr("party.tsv:2:5: expected 4 columns, found 6"));
  EXPECT_THAT(ErrorOf(absl::StrCat(kHeader, "a\t1\t2\tx\n\n")),
              HasSubstr("party.tsv:3:1: expected 4 columns, found 1"));
}

TEST(PartyDataTest, FailsOnALabelThatIsNotZeroOrOneWithoutShowingIt) {
  for (const char* label : {"", "2", "-1", "01", "1.0", " 1", "true", "PLANTED"}) {
    const std::string error = ErrorOf(absl::StrCat(kHeader, "a\t", label, "\t2\tx\n"));
    EXPECT_EQ(error, "party.tsv:2:2: label: expected 0 or 1") << label;
  }
}

TEST(PartyDataTest, FailsOnANumberThatIsNotFiniteOrNotANumberWithoutShowingIt) {
  for (const char* number : {"inf", "-inf", "nan", "NaN", "1e39", "-1e39", "0x10", "+-1", "+", "1,5", "1.2.3", " 1",
                             "1 ", " ", "1e", "77x"}) {
    const std::string error = ErrorOf(absl::StrCat(kHeader, "a\t1\t", number, "\tx\n"));
    EXPECT_EQ(error, "party.tsv:2:3: numeric:age: expected a finite number or nothing") << number;
  }
}

TEST(PartyDataTest, FailsOnEmptyAndRepeatedIdsWithLinesButNoId) {
  const std::string error = ErrorOf("id\nPLANTED\n\n \nother\nPLANTED \nPLANTED\n");
  EXPECT_EQ(error, "party.tsv: expected distinct ids, found 2 empty (lines 3, 4), 2 repeated (lines 6, 7)");
}

TEST(PartyDataTest, FailsOnManyRepeatedIdsWithTheFirstTenLines) {
  std::string text = "id\n";
  for (int i = 0; i < 25; ++i) {
    text += "same\n";
  }
  EXPECT_EQ(ErrorOf(text),
            "party.tsv: expected distinct ids, found 24 repeated (lines 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, ...)");
}

TEST(PartyDataTest, FailsOnADamagedGzipFile) {
  std::string bytes = GzipBytes("id\na\nb\n");
  bytes.resize(bytes.size() - 3);
  EXPECT_THAT(ErrorOf(bytes), HasSubstr("cut short"));
}

}  // namespace
}  // namespace splitveil
