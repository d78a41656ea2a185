#include "deploy/operator/drift/drift_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "common/process/file.h"
#include "tests/testing/scratch_folder.h"

namespace splitveil {
namespace {

using Verdict = ColumnDrift::Verdict;

ColumnDrift Drift(const std::string& name, Verdict verdict, const std::string& what = "") {
  ColumnDrift drift;
  drift.name = name;
  drift.is_number = name != "region";
  drift.verdict = verdict;
  drift.index = 0.5;
  drift.training = {0.01, 0.02};
  drift.here = {0.25, 0.125};
  drift.what = what;
  return drift;
}

TEST(DriftTableTest, HasALineForEachColumnAndAWarningForEachThatShifted) {
  std::vector<ColumnDrift> drifts = {Drift("income", Verdict::kSame), Drift("age", Verdict::kShifted, "why"),
                                     Drift("region", Verdict::kMoved, "so"), Drift("old", Verdict::kNotCompared)};
  drifts[2].rewritten = 7;
  EXPECT_EQ(DriftText(drifts),
            "  column  shift (PSI)  missing  in training        outside  in training\n"
            "  income         0.50    25.0%         1.0%  12.5% clipped         2.0%\n"
            "  age            0.50    25.0%         1.0%  12.5% clipped         2.0%\n"
            "  region         0.50    25.0%         1.0%   12.5% unseen         2.0%\n"
            "  old               -    25.0%            -  12.5% clipped            -\n"
            "  WARNING: \"age\" differs from the training: PSI 0.50; why\n"
            "  NOTE: \"region\" differs somewhat from the training: PSI 0.50; so\n"
            "  \"region\": 7 rows write a number otherwise than the training, such as 3.0 for 3: taken as the same\n"
            "  columns without a PSI are not compared: the training data or these have no counts of their values\n");
  EXPECT_EQ(DriftText({}), "");
  EXPECT_EQ(DriftText({Drift("a\x1b[31m", Verdict::kShifted, "why")}).find('\x1b'), std::string::npos);
}

TEST(DriftTableTest, HasMetricsOfTheColumnsThatAreCompared) {
  const ScratchFolder folder;
  const std::string path = folder.Path("drift.prom");
  for (int repeat = 0; repeat < 2; ++repeat) {
    ASSERT_TRUE(WriteDriftMetrics(path, "nonlabel_party",
                                  {Drift("a\"\\\n", Verdict::kSame), Drift("old", Verdict::kNotCompared)})
                    .ok());
  }
  const std::string text = *ReadFile(path);
  EXPECT_EQ(text.substr(text.find("\nsplitveil") + 1),
            "splitveil_prediction_drift_psi{party=\"nonlabel_party\",column=\"a\\\"\\\\\\n\"} 0.5\n");
  EXPECT_EQ(WriteDriftTable(path, {}).code(), absl::StatusCode::kAlreadyExists);
}

TEST(DriftTableTest, IsCsvAndReplacesOnlyAnEarlierOne) {
  const ScratchFolder folder;
  const std::string path = folder.Path("drift.csv");
  for (int time = 0; time < 2; ++time) {
    ASSERT_TRUE(WriteDriftTable(path, {Drift("a,b", Verdict::kGone), Drift("old", Verdict::kNotCompared)}).ok());
  }
  EXPECT_EQ(*ReadFile(path),
            "column,verdict,psi,missing_in_training,missing_here,clipped_or_unseen_in_training,clipped_or_unseen_here\n"
            "\"a,b\",gone,0.5,0.01,0.25,0.02,0.125\nold,not compared,,,0.25,,0.125\n");
  ASSERT_TRUE(WriteFile(path, "other\n").ok());
  EXPECT_EQ(WriteDriftTable(path, {}).code(), absl::StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace splitveil
