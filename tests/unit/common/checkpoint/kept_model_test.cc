#include "common/checkpoint/kept_model.h"

#include <gtest/gtest.h>
#include <string>

#include "tests/testing/process/temp_folder.h"

namespace splitveil::testing {
namespace {

class OneWeight final : public ModelState {
 public:
  NamedParameters Parameters() const override { return TrainingState(); }
  absl::Status SetParameters(const NamedParameters& parameters) override { return SetTrainingState(parameters); }
  NamedParameters TrainingState() const override { return {{"bias", {weight}}}; }
  absl::Status SetTrainingState(const NamedParameters& state) override {
    weight = state.front().second.front();
    return absl::OkStatus();
  }
  absl::Status ExportTo(const std::string& /*folder*/) const override { return absl::OkStatus(); }

  float weight = 0;
};

class KeptModelTest : public ::testing::Test {
 protected:
  // As a party writes it after so many epochs and batches, and resumes from it.
  KeptModel ThroughACheckpoint(uint32_t epochs, uint32_t batches) {
    v1::CheckpointHeader header;
    header.set_run_id("run-1");
    header.set_epochs(epochs);
    header.set_batches(batches);
    header.set_kept_epochs(kept_.epochs());
    const std::shared_ptr<const NamedParameters> beside = kept_.Beside(epochs, batches);
    const std::string path = folder_.File("half.checkpoint");
    EXPECT_TRUE(
        Checkpoint::Write(path, header, model_.TrainingState(), "", beside == nullptr ? NamedParameters() : *beside)
            .ok());
    const std::unique_ptr<Checkpoint> checkpoint = *Checkpoint::Open(path);
    EXPECT_EQ(*checkpoint->State(), model_.TrainingState());
    KeptModel resumed;
    EXPECT_TRUE(resumed.Resume(*checkpoint, model_).ok());
    return resumed;
  }

  // The weight that the run ends with.
  float EndOf(KeptModel kept) const {
    OneWeight model = model_;
    EXPECT_TRUE(kept.Restore(model).ok());
    return model.weight;
  }

  const TempFolder folder_;
  OneWeight model_;
  KeptModel kept_;
};

TEST_F(KeptModelTest, PutsBackWhatWasKept) {
  EXPECT_EQ(kept_.Beside(0, 0), nullptr);
  model_.weight = 1;
  kept_.Keep(1, model_);
  model_.weight = 2;
  kept_.Keep(2, model_);
  model_.weight = 3;
  EXPECT_EQ(EndOf(kept_), 2);
  EXPECT_TRUE(kept_.Restore(model_).ok());
  EXPECT_EQ(model_.weight, 2);
  EXPECT_EQ(kept_.epochs(), 2);
  EXPECT_EQ(kept_.Beside(3, 0), nullptr);  // The model is it.
  model_.weight = 4;
  kept_.Drop();
  EXPECT_EQ(EndOf(kept_), 4);
}

TEST_F(KeptModelTest, GoesOnFromACheckpoint) {
  model_.weight = 1;
  EXPECT_EQ(EndOf(ThroughACheckpoint(1, 0)), 1);
  kept_.Keep(1, model_);
  EXPECT_EQ(kept_.Beside(1, 0), nullptr);  // Not held twice.
  const KeptModel at_once = ThroughACheckpoint(1, 0);
  EXPECT_EQ(at_once.epochs(), 1);
  model_.weight = 5;
  EXPECT_EQ(EndOf(at_once), 1);
  EXPECT_EQ(EndOf(ThroughACheckpoint(1, 3)), 1);  // Within the next epoch.
  EXPECT_EQ(EndOf(ThroughACheckpoint(2, 0)), 1);
  EXPECT_TRUE(kept_.Restore(model_).ok());
  EXPECT_EQ(EndOf(ThroughACheckpoint(2, 0)), 1);  // The last of the run.
}

}  // namespace
}  // namespace splitveil::testing
