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
  for (const std::string& read : {fitted_, new_}) {
    EXPECT_THAT(ExpectError(2, Transform("d", read)),
                HasSubstr("--csv: expected another file than those that are read, found " + read));
  }
  EXPECT_EQ(ReadFile(fitted_).value(), before);
  EXPECT_EQ(ReadFile(new_).value(), "id,n\nd,2\n");
}

// As `splitveil prepare`: a table that was corrected takes the place of its own earlier outcome; of rows whose number
// is to be predicted, too.
TEST_F(TransformCommandTest, ReplacesItsOwnEarlierOutcome) {
  for (int time = 0; time < 2; ++time) {
    EXPECT_THAT(ExpectDone(Transform("d", folder_.File("d.csv"))), HasSubstr(": 1 rows, without labels"));
  }
  EXPECT_EQ(ReadFile(folder_.File("d.csv")).value(), "id,n\nd,0.5\n");
}

}  // namespace
}  // namespace splitveil::testing
