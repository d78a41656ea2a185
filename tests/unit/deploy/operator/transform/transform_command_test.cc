#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/process/file.h"
#include "tests/unit/deploy/operator/operator_tool.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

class TransformCommandTest : public ::testing::Test {
 protected:
  TransformCommandTest() {
    WriteText(schema_,
              "columns { name: 'id' kind: ID } columns { name: 'n' kind: NUMERIC } columns { name: 'y' kind: TARGET } "
              "target_minimum: 0 target_maximum: 10 scaling: MIN_MAX");
    WriteText(trained_, "id,n,y\na,1,2\nb,2,3\nc,3,4\n");
    WriteText(new_, "id,n\nd,2\n");
    ExpectDone({"prepare", "--format=table", "--party=label_party", "--schema=" + schema_, "--input=" + trained_,
                "--test_fraction=0", "--validation_fraction=0", "--out=" + folder_.File("c")});
  }

  std::vector<std::string> Transform(const std::string& out, const std::string& csv = "") const {
    std::vector<std::string> arguments = {"transform",
                                          "--fitted=" + folder_.File("c"),
                                          "--party=label_party",
                                          "--schema=" + schema_,
                                          "--unlabelled",
                                          "--input=" + new_,
                                          "--out=" + folder_.File(out)};
    if (!csv.empty()) {
      arguments.push_back("--csv=" + csv);
    }
    return arguments;
  }

  const TempFolder folder_;
  const std::string schema_ = folder_.File("schema"), trained_ = folder_.File("trained.csv"),
                    new_ = folder_.File("new.csv"), fitted_ = folder_.File("c/label_party.data");
};

TEST_F(TransformCommandTest, NeverReplacesWhatItReads) {
  const std::string before = ReadFile(fitted_).value();
  EXPECT_THAT(ExpectError(2, Transform("c")),
              HasSubstr(fitted_ + ": expected another file than the earlier data whose encoding is applied, found "
                                  "these: name another folder with --out"));
  const std::string schema = ReadFile(schema_).value();
  for (const std::string& path : {fitted_, new_, schema_, folder_.File("d/label_party.data")}) {
    EXPECT_THAT(ExpectError(2, Transform("d", path)),
                HasSubstr("--csv: expected another file than those that are read or written, found " + path));
  }
  EXPECT_EQ(ReadFile(fitted_).value(), before);
  EXPECT_EQ(ReadFile(new_).value(), "id,n\nd,2\n");
  EXPECT_EQ(ReadFile(schema_).value(), schema);
}

// A checkpoint, or a table of other columns.
TEST_F(TransformCommandTest, ReplacesNothingThatItHasNotWritten) {
  for (const char* const contents : {"SVSECT01", "id,m\nd,2\n", ""}) {
    WriteText(folder_.File("other"), contents);
    EXPECT_THAT(ExpectError(2, Transform("d", folder_.File("other"))),
                HasSubstr("other: expected no file of this name, or an earlier table with the same first line"));
    EXPECT_EQ(ReadFile(folder_.File("other")).value(), contents);
  }
  EXPECT_FALSE(std::filesystem::exists(folder_.File("d")));
}

// As `splitveil prepare`: the same data at any time, others unless they are kept; of rows whose number is to be
// predicted, too.
TEST_F(TransformCommandTest, ReplacesItsOwnEarlierOutcome) {
  for (int time = 0; time < 2; ++time) {
    EXPECT_THAT(ExpectDone(Transform("d", folder_.File("d.csv"))), HasSubstr(": 1 rows, without labels"));
  }
  WriteText(new_, "id,n\nd,2\ne,3\n");
  std::vector<std::string> keeping = Transform("d", folder_.File("d.csv"));
  keeping.emplace_back("--keep");
  EXPECT_THAT(
      ExpectError(2, keeping),
      HasSubstr("d/label_party.data: expected no file of this name, or one of the same bytes, found a different one: "
                "give another --out"));
  EXPECT_EQ(ReadFile(folder_.File("d.csv")).value(), "id,n\nd,0.5\n");
  EXPECT_THAT(ExpectDone(Transform("d", folder_.File("d.csv"))), HasSubstr(": 2 rows, without labels"));
  EXPECT_EQ(ReadFile(folder_.File("d.csv")).value(), "id,n\nd,0.5\ne,1\n");
}

}  // namespace
}  // namespace splitveil::testing
