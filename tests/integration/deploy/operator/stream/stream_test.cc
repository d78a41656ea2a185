// `splitveil stream` for real: days prepared one upon the other, both parties' programs for every day.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "tests/testing/process/child_process.h"
#include "tests/testing/two_party_run.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int kDays = 3;
constexpr char kNoneAndMarvell[] =
    "protection { name: \"none\" config { none {} } }\n"
    "protection { name: \"marvell\" config { marvell { sum_kl: 0.1 } } }\n";

// Three days of data, certificates, base files and stream.textproto.
class StreamTest : public ::testing::Test {
 protected:
  StreamTest() : files_(200) {
    for (int day = 1; day <= kDays; ++day) {
      Prepare(day, day, day - 1);
    }
    files_.label_agreement.set_epochs(1);
    files_.label_agreement.set_batch_size(128);
    Write("run.textproto", files_.label_agreement);
    Write("label.textproto", files_.label_config);
    Write("nonlabel.textproto", files_.nonlabel_config);
  }

  // A day of generated rows, whose ids are their numbers, that extends the day `before` if that is not 0.
  void Prepare(int day, int seed, int before) const {
    Tool({"generate", "--force", "--rows=1500", absl::StrCat("--seed=", seed), "--out=" + files_.folder + "/rows.tsv"});
    std::vector<std::string> prepare = {"prepare",
                                        "--format=criteo",
                                        "--input=" + files_.folder + "/rows.tsv",
                                        "--out=" + DayFolder(day),
                                        "--test_fraction=0",
                                        "--validation_fraction=0"};
    std::filesystem::create_directories(DayFolder(day));
    if (before > 0) {
      prepare.push_back("--extend=" + DayFolder(before));
    }
    Tool(prepare);
  }
  static void Tool(const std::vector<std::string>& arguments) { ASSERT_EQ(TwoPartyRun::Tool(arguments), 0); }
  std::string DayFolder(int day) const { return absl::StrCat(files_.folder, "/day", day); }
  std::string Out() const { return files_.folder + "/out"; }

  // Streams these days of data under these protections.
  ChildResult Stream(const std::vector<int>& days, const std::string& protections = kNoneAndMarvell) const {
    std::ofstream config(files_.folder + "/stream.textproto");
    config << "agreement_path: \"run.textproto\" label_config_path: \"label.textproto\" "
           << "nonlabel_config_path: \"nonlabel.textproto\"\n"
           << protections;
    for (int day : days) {
      config << "day { name: \"day" << day << "\" label_dataset: \"day" << day << "/label_party.data\" "
             << "nonlabel_dataset: \"day" << day << "/nonlabel_party.data\" }\n";
    }
    config.close();
    ChildOptions options;
    options.limit_seconds = 240;
    return RunChild({BinDir() + "/splitveil", "stream", "--config=" + files_.folder + "/stream.textproto",
                     "--out=" + Out(), "--jobs=2"},
                    options);
  }

  std::string ResultPath(const std::string& protection, int day) const {
    return absl::StrCat(Out(), "/runs/", protection, "/day", day, "/result.json");
  }
  nlohmann::json Result(const std::string& protection, int day) const {
    return nlohmann::json::parse(ReadWholeFile(ResultPath(protection, day)), nullptr, false);
  }
  // A repeated run writes a new file.
  ino_t ResultFile(const std::string& protection, int day) const {
    struct stat status = {};
    EXPECT_EQ(stat(ResultPath(protection, day).c_str(), &status), 0);
    return status.st_ino;
  }

  void Write(const std::string& name, const google::protobuf::Message& message) {
    std::string text;
    ASSERT_TRUE(google::protobuf::TextFormat::PrintToString(message, &text));
    std::ofstream(files_.folder + "/" + name) << text;
  }

  TwoPartyRun files_;
};

TEST_F(StreamTest, EachDayContinuesFromTheOneBeforeAndAFinishedDayIsNotRepeated) {
  const ChildResult two = Stream({1, 2});
  ASSERT_EQ(two.exit_code, 0) << two.err;
  const ino_t first = ResultFile("none", 1);
  const ChildResult three = Stream({1, 2, 3});
  ASSERT_EQ(three.exit_code, 0) << three.err;
  EXPECT_THAT(three.err, HasSubstr("4 of 6 runs are finished already"));
  EXPECT_EQ(ResultFile("none", 1), first);

  for (const std::string protection : {"none", "marvell"}) {
    std::string before;
    for (int day = 1; day <= kDays; ++day) {
      const nlohmann::json result = Result(protection, day);
      EXPECT_EQ(result.value("resumed_from", "?"), before) << protection << day;
      EXPECT_EQ(result.value("best_epoch", -1), 0);  // Predicted before the first epoch.
      EXPECT_TRUE(result["test_auc"].is_number());
      before = result.value("run_id", "") + "/1";
    }
  }
  // What two days taught serves on the third; on the first, the weights were fresh.
  EXPECT_GT(Result("none", 3)["test_auc"].get<double>(), Result("none", 1)["test_auc"].get<double>() + 0.03);
  // One release of an example a day, and each example returned every day, for all the label party knows.
  EXPECT_NEAR(Result("marvell", 3)["run_auc_bound"].get<double>(),
              Result("marvell", 1)["all_runs_auc_bound"].get<double>(), 1e-6);
  EXPECT_GT(Result("marvell", 3)["all_runs_auc_bound"].get<double>(),
            Result("marvell", 2)["all_runs_auc_bound"].get<double>());
  const std::vector<std::string> lines = absl::StrSplit(ReadWholeFile(Out() + "/stream.csv"), '\n', absl::SkipEmpty());
  ASSERT_THAT(lines, SizeIs(1 + 2 * kDays));
  EXPECT_EQ(lines[0].rfind("day,protection,test_auc,log_loss,", 0), 0);
  EXPECT_THAT(lines[0], HasSubstr("cut_norm_mean"));
  EXPECT_EQ(lines[3].rfind("day3,none,", 0), 0);
  EXPECT_THAT(ReadWholeFile(Out() + "/report.html"), HasSubstr("\"days\":{\"charted\""));
}

// What a day's head has learned is covered on the next one, because one account flips the labels of all days. The same
// rows on both, as an account takes no other label for an id.
TEST_F(StreamTest, FlippedLabelsStayFlippedFromDayToDay) {
  constexpr int kAgain = kDays + 1;
  Prepare(kAgain, 1, 1);
  files_.label_agreement.clear_audit();
  files_.label_agreement.mutable_audit()->set_disclosure(v1::LABEL_SIDE_ONLY);
  Write("run.textproto", files_.label_agreement);
  const ChildResult two = Stream({1, kAgain}, "protection { name: \"flipped\" config { label_dp { epsilon: 2 } } }\n");
  ASSERT_EQ(two.exit_code, 0) << two.err;
  // Nothing is added.
  EXPECT_LT(Result("flipped", 1)["all_runs_auc_bound"].get<double>(), 1);
  EXPECT_EQ(Result("flipped", kAgain)["all_runs_auc_bound"], Result("flipped", 1)["all_runs_auc_bound"]);
}

TEST_F(StreamTest, ADayThatDoesNotExtendTheOneBeforeEndsItsProtectionsDays) {
  const ChildResult result = Stream({1, 3});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("none, day3: FAILED"));
  EXPECT_THAT(result.err, HasSubstr("was trained on, or data that extend them"));
  EXPECT_THAT(result.err, HasSubstr("exit code 2"));
  EXPECT_TRUE(std::filesystem::exists(ResultPath("none", 1)));
  EXPECT_TRUE(std::filesystem::exists(Out() + "/report.html"));
}

}  // namespace
}  // namespace splitveil::testing
