// A process is killed and the run repeated: every gradient that leaves once more has the noise that it had.
#include <csignal>
#include <filesystem>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"

#include "common/process/file.h"
#include "tests/integration/interrupted_run.h"

namespace splitveil::testing {
namespace {

class RepeatedNoiseTest : public ::testing::TestWithParam<const char*> {
 protected:
  // `key`: of the noise; empty: the party makes one.
  static std::unique_ptr<InterruptedRun> MakeRun(const std::string& key) {
    auto run = std::make_unique<InterruptedRun>(1);
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(GetParam(), run->run.label_config.mutable_protection()));
    if (!key.empty()) {
      EXPECT_TRUE(WriteFile(KeyPath(*run), key).ok());
    }
    return run;
  }
  static std::string KeyPath(const InterruptedRun& run) { return run.run.folder + "/label.checkpoint.noise_key"; }

  const std::string key_ = std::string(32, 'k');
};

// Equal parameters at both parties: each of some thirty steps got the same noise. The aligned order, the seeds and the
// weights repeat by the test's doing; the noise by the party's own.
TEST_P(RepeatedNoiseTest, AfterAKillTheRepeatedRunIsTheSameToTheBit) {
  const std::unique_ptr<InterruptedRun> quiet = MakeRun(key_);
  quiet->Start();
  const Remains expected = quiet->Finish();
  const int64_t bytes = std::stoll(quiet->Label("SELECT sum(bytes_sent) + sum(bytes_received) FROM step"));
  std::mt19937 draw(7);
  for (const bool kills_label_party : {true, false}) {
    const std::unique_ptr<InterruptedRun> run = MakeRun(key_);
    // In the first of four epochs, whose steps all come again.
    run->proxy.GoDownAfter(quiet->BytesBeforeTraining() +
                           static_cast<int64_t>(draw() % static_cast<uint64_t>(bytes / 8)));
    run->Start();
    ASSERT_TRUE(run->proxy.WaitForCut()) << run->run.nonlabel->Errors();
    RunningProgram* const label = run->run.label.get();
    RunningProgram* const nonlabel = run->run.nonlabel.get();
    RunningProgram* const killed = kills_label_party ? label : nonlabel;
    RunningProgram* const stopped = kills_label_party ? nonlabel : label;
    killed->Signal(SIGKILL);  // First: a party that stops tells the other one, which then ends by itself.
    EXPECT_EQ(killed->Wait(), 128 + SIGKILL) << killed->Errors();
    stopped->Signal(SIGTERM);
    EXPECT_EQ(stopped->Wait(), 6) << stopped->Errors();
    run->proxy.SetDown(false);
    run->Start();
    EXPECT_TRUE(run->Finish() == expected) << kills_label_party;
    EXPECT_EQ(*ReadFile(KeyPath(*run)), key_);
  }
}

// So the check above can fail.
TEST_P(RepeatedNoiseTest, AnotherKeyIsAnotherRun) {
  const std::unique_ptr<InterruptedRun> one = MakeRun(key_);
  one->Start();
  const std::unique_ptr<InterruptedRun> other = MakeRun("");
  other->Start();
  EXPECT_FALSE(other->Finish() == one->Finish());
  EXPECT_EQ(std::filesystem::status(KeyPath(*other)).permissions(), std::filesystem::perms(0600));
  EXPECT_EQ(ReadFile(KeyPath(*other))->size(), 32);
}

INSTANTIATE_TEST_SUITE_P(Methods, RepeatedNoiseTest,
                         ::testing::Values("marvell { s: 4 }", "iso { t: 1 }", "max_norm {}"));

}  // namespace
}  // namespace splitveil::testing
