#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/storage/section_file.h"
#include "tests/unit/deploy/operator/operator_tool.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// What runs is tested in tests/integration/deploy/operator/sweep; here, what the command line answers at once.
class SweepCommandTest : public ::testing::Test {
 protected:
  SweepCommandTest() {
    WriteText(folder_.File("run.textproto"), "run_name: \"base\" cut_width: 8");
    WriteText(folder_.File("label.textproto"), LabelConfig());
    WriteText(folder_.File("nonlabel.textproto"), NonLabelConfig());
    Grid("protection { name: \"none\" config { none {} } } iso_ratio: 2 seeds: [5, 6]");
  }
  void Grid(const std::string& grid) {
    WriteText(folder_.File("sweep.textproto"),
              absl::StrCat("agreement_path: \"run.textproto\" label_config_path: \"label.textproto\" "
                           "nonlabel_config_path: \"nonlabel.textproto\"\n",
                           grid));
  }
  std::vector<std::string> Sweep(const std::string& flag) const {
    return {"sweep", "--config=" + folder_.File("sweep.textproto"), "--out=" + folder_.File("out"), flag};
  }

  TempFolder folder_;
};

TEST_F(SweepCommandTest, DryRunListsTheRunsAndWritesNothing) {
  for (const char* party : {"label", "nonlabel"}) {
    ASSERT_TRUE((*SectionFileWriter::Create(folder_.File(absl::StrCat(party, "_party.data")), {}))->Publish().ok());
  }
  EXPECT_THAT(ExpectDone(Sweep("--dry_run")),
              MatchesRegex("none-seed5 +to run\niso-ratio=2-seed5 +to run\nfrozen-seed5 +to run\n"
                           "none-seed6 +to run\niso-ratio=2-seed6 +to run\nfrozen-seed6 +to run\n"));
  EXPECT_FALSE(std::filesystem::exists(folder_.File("out")));
}

TEST_F(SweepCommandTest, FailsOnABadGridBeforeItWritesAnything) {
  Grid("iso_ratio: [2, -1] seeds: 5");
  EXPECT_THAT(ExpectError(2, Sweep("--jobs=1")), HasSubstr("iso_ratio[1]: expected"));
  EXPECT_FALSE(std::filesystem::exists(folder_.File("out")));
}

TEST_F(SweepCommandTest, FailsOnFlagsItCannotUse) {
  EXPECT_THAT(ExpectError(2, Sweep("--jobs=-1")), HasSubstr("--jobs"));
  EXPECT_THAT(ExpectError(2, {"sweep", "--config=a"}), HasSubstr("--out"));
  EXPECT_THAT(ExpectError(2, {"sweep", "--out=a"}), HasSubstr("--config"));
  EXPECT_THAT(ExpectError(2, {"sweep", "--config=" + folder_.File("none"), "--out=a"}),
              HasSubstr("none: no such file"));
}

}  // namespace
}  // namespace splitveil::testing
