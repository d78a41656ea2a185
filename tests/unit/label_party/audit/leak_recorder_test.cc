#include "label_party/audit/leak_recorder.h"

#include <gtest/gtest.h>
#include <memory>
#include <tuple>
#include <vector>

#include "common/leakage/scores.h"
#include "tests/testing/process/temp_folder.h"

namespace splitveil {
namespace {

class LeakRecorderTest : public ::testing::Test {
 protected:
  LeakRecorderTest() {
    RunRow run;
    run.run_id = "recorded-1";
    run.role = "label_party";
    ledger_ = Ledger::Create(files_.File("ledger.db"), run).value();
    recorder_ = std::make_unique<LeakRecorder>(ledger_.get(), ExampleSample(4));
    batch_.labels = {1, 1, 0, 0};
    batch_.positions = {0, 1, 2, 3};
  }

  std::optional<double> Record(Observer observer, v1::Attack attack, const std::vector<float>& scores) {
    return recorder_->RecordBatch({observer, "cut", {attack}, scores}, batch_).value();
  }

  testing::TempFolder files_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<LeakRecorder> recorder_;
  ReleasedBatch batch_;
};

TEST_F(LeakRecorderTest, ProgressSaysWhatAnAdversaryThatInvertsItsScoresReads) {
  EXPECT_EQ(recorder_->latest(), "");
  EXPECT_EQ(Record(Observer::kLabelParty, v1::NORM, {1, 2, 3, 4}), 0);  // Ledgers keep it as it was measured.
  EXPECT_EQ(recorder_->latest(), "norm 1.00 at cut");
  batch_.step = 1;
  Record(Observer::kLabelParty, v1::NORM, {1, 3, 2, 4});
  EXPECT_EQ(recorder_->latest(), "norm 0.75 at cut");
}

TEST_F(LeakRecorderTest, ProgressSaysNothingOfWhatThePeerSubmitted) {
  Record(Observer::kNonLabelParty, v1::NORM, {4, 3, 2, 1});
  EXPECT_EQ(recorder_->latest(), "");
}

// Of four examples three are sampled: what adds up releases is measured over these, all else of a batch over all of it.
TEST_F(LeakRecorderTest, MeasuresWhatIsRememberedOverTheSample) {
  recorder_ = std::make_unique<LeakRecorder>(ledger_.get(), ExampleSample(4, 3));
  EXPECT_EQ(Record(Observer::kLabelParty, v1::NORM, {1, 2, 3, 0}), 0.5);
  EXPECT_EQ(Record(Observer::kLabelParty, v1::CUMULATIVE_SPECTRAL, {1, 2, 3, 0}), 0);
  for (const v1::Attack attack : {v1::NORM, v1::CUMULATIVE_SPECTRAL}) {
    recorder_->Pool({Observer::kLabelParty, "cut", {attack}, std::vector<float>{1, 2, 3, 0}}, batch_);
  }
  ASSERT_TRUE(recorder_->RecordEpoch(Observer::kLabelParty, 0, {}).ok());
  for (const char* attack : {"norm", "cumulative_spectral"}) {
    EXPECT_EQ(recorder_->epoch_leaks().at({"cut", attack}).auc, 0) << attack;
    EXPECT_EQ(recorder_->epoch_leaks().at({"cut", attack}).examples, 3) << attack;
  }
}

TEST_F(LeakRecorderTest, RecordsNothingOfABatchOfOneClass) {
  batch_.labels = {1, 1, 1, 1};
  EXPECT_FALSE(Record(Observer::kLabelParty, v1::NORM, {1, 2, 3, 4}).has_value());
  EXPECT_TRUE(recorder_->series().empty());
}

constexpr float kReleased[] = {3, 4, 0, 2, -1, 0, 0, 0.5f};
constexpr float kClean[] = {1, 0, 0, 1, -1, 0, 0, 0.25f};

using Bin = std::tuple<std::string, int64_t, int64_t, int64_t>;  // Quantity, label, bin, examples.

std::vector<Bin> Bins(const std::vector<BatchScores>& own) {
  ReleasedBatch batch;
  batch.labels = {1, 1, 0, 0};
  batch.positions = {0, 1, 2, 3};
  batch.hint_rows = {0};
  ClassHistograms histograms;
  histograms.Add(batch, {ConstMatrixView(kReleased, 4, 2), ConstMatrixView(kClean, 4, 2), {}}, own, ExampleSample(4));
  std::vector<Bin> bins;
  for (const DistributionRow& row : histograms.Finish(0)) {
    bins.emplace_back(row.quantity, row.label, row.bin, row.examples);
  }
  return bins;
}

TEST(ClassHistogramsTest, CountByHand) {
  // Norms 2 | 1, 0.5 of up to 2; cosines with (1, 0): 0 | -1, 0. The hint row counts nowhere.
  EXPECT_EQ(Bins({}), (std::vector<Bin>{{"clean_cosine", 0, 0, 1},
                                        {"clean_cosine", 0, 20, 1},
                                        {"clean_cosine", 1, 20, 1},
                                        {"clean_norm", 0, 10, 1},
                                        {"clean_norm", 0, 39, 1},
                                        {"clean_norm", 1, 39, 1},
                                        {"cosine", 0, 0, 1},
                                        {"cosine", 0, 20, 1},
                                        {"cosine", 1, 20, 1},
                                        {"norm", 0, 10, 1},
                                        {"norm", 0, 20, 1},
                                        {"norm", 1, 39, 1}}));
}

TEST(ClassHistogramsTest, TakeWhatTheAttacksHaveScored) {
  const ConstMatrixView released(kReleased, 4, 2);
  const float g_plus[] = {1, 0};
  const BatchScores norms = {v1::NORM, NormScores(released)}, cosines = {v1::COSINE, CosineScores(released, g_plus)};
  EXPECT_EQ(Bins({norms, cosines}), Bins({}));
  EXPECT_EQ(Bins({norms}), Bins({}));
  // Other numbers there show that they are read, not computed again.
  EXPECT_NE(Bins({norms, {v1::COSINE, {1, 1, 1, 1}}}), Bins({}));
}

}  // namespace

}  // namespace splitveil
