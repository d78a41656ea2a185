// Both halves trained through, against halves that went through checkpoint files and new objects on the way: the same
// batches, and the same weights to the last bit, whatever the optimiser.
#include <algorithm>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/checkpoint/checkpoint.h"
#include "label_party/top/top_model.h"
#include "nonlabel_party/bottom/bottom_model.h"
#include "tests/testing/process/temp_folder.h"
#include "tests/unit/common/model/model_fixtures.h"

namespace splitveil::testing {
namespace {

constexpr int kBatches = 12;
constexpr int64_t kCutWidth = 5, kRows = 24;

// Both halves with embeddings of `embedding_rows` rows.
struct Halves {
  Halves(const v1::Optimizer& optimizer, uint64_t seed, int64_t embedding_rows = 40) {
    BottomModelOptions bottom_options;
    *bottom_options.spec.add_layers() = MakeLayer("first", 8);
    *bottom_options.spec.add_layers() = MakeLayer("second", kCutWidth);
    bottom_options.spec.mutable_embedding()->set_dimension(3);
    bottom_options.optimizer = optimizer;
    bottom_options.features.numeric = 2;
    bottom_options.features.categorical = 2;
    bottom_options.features.embedding_rows = embedding_rows;
    bottom_options.cut_width = kCutWidth;
    bottom_options.seed = seed;
    bottom = *BottomModel::Create(bottom_options);
    TopModelOptions top_options;
    *top_options.spec.add_layers() = MakeLayer("top", 6);
    top_options.spec.mutable_wide()->mutable_embedding()->set_dimension(1);
    top_options.optimizer = optimizer;
    top_options.features = bottom_options.features;
    top_options.cut_width = kCutWidth;
    top_options.seed = seed + 1;
    top = *TopModel::Create(top_options);
    shape = bottom_options.features;
  }

  // Trains on batch number `batch`, whose categories are below `used_rows`.
  void Train(int batch, int64_t used_rows = 40) {
    std::mt19937 generator(static_cast<uint32_t>(1000 + batch));
    FeatureShape used = shape;
    used.embedding_rows = used_rows;
    const FeatureBatch features = RandomFeatures(kRows, used, generator);
    std::vector<float> labels(kRows);
    std::generate(labels.begin(), labels.end(), [&] { return static_cast<float>(generator() % 2); });
    const ConstMatrixView activations = *bottom->Forward(features);
    const TopStep step = *top->ForwardBackward(activations, features, labels, {});
    ASSERT_TRUE(bottom->Backward(step.cut_gradient, {}).ok());
    ASSERT_TRUE(top->Update().ok());
    ASSERT_TRUE(bottom->Update().ok());
  }

  FeatureShape shape;
  std::unique_ptr<BottomModel> bottom;
  std::unique_ptr<TopModel> top;
};

// Through a file each, as two parties would.
void Pass(const Halves& from, Halves& to) {
  const TempFolder folder;
  v1::CheckpointHeader header;
  header.set_run_id("run");
  header.set_epochs(1);
  for (const auto& [name, state] :
       {std::pair{"bottom", from.bottom->TrainingState()}, {"top", from.top->TrainingState()}}) {
    const absl::Status written = Checkpoint::Write(folder.File(name), header, state, "");
    ASSERT_TRUE(written.ok()) << written;
  }
  const absl::Status bottom = to.bottom->SetTrainingState(*(*Checkpoint::Open(folder.File("bottom")))->State());
  const absl::Status top = to.top->SetTrainingState(*(*Checkpoint::Open(folder.File("top")))->State());
  ASSERT_TRUE(bottom.ok()) << bottom;
  ASSERT_TRUE(top.ok()) << top;
}

const std::vector<float>& ValuesOf(const NamedParameters& parameters, const std::string& name) {
  const auto found =
      std::find_if(parameters.begin(), parameters.end(), [&](const auto& entry) { return entry.first == name; });
  static const std::vector<float> kNone;
  EXPECT_NE(found, parameters.end()) << name;
  return found == parameters.end() ? kNone : found->second;
}

class ResumedModelTest : public ::testing::TestWithParam<const char*> {
 protected:
  v1::Optimizer Optimizer() const {
    v1::Optimizer optimizer;
    optimizer.set_learning_rate(0.01);
    const std::string name = GetParam();
    if (name == "adam") {
      optimizer.mutable_adam();
    } else if (name == "adamw") {
      optimizer.mutable_adamw();
    } else if (name == "averaged") {
      optimizer.mutable_adam();
      optimizer.set_average_decay(0.7);
    } else if (name == "sgd") {
      optimizer.mutable_sgd()->set_momentum(0.9);
    } else {
      optimizer.mutable_adagrad();
    }
    // The step counts: half of them fall into the warm-up.
    optimizer.mutable_schedule()->set_warmup_steps(kBatches / 2 + 2);
    return optimizer;
  }
};

TEST_P(ResumedModelTest, GoesOnAsIfNothingHadHappened) {
  Halves through(Optimizer(), 1), before(Optimizer(), 1), after(Optimizer(), 77);
  for (int batch = 0; batch < kBatches; ++batch) {
    through.Train(batch);
    if (batch < kBatches / 2) {
      before.Train(batch);
      continue;
    }
    if (batch == kBatches / 2) {
      Pass(before, after);
    }
    after.Train(batch);
  }
  EXPECT_EQ(after.bottom->Parameters(), through.bottom->Parameters());
  EXPECT_EQ(after.top->Parameters(), through.top->Parameters());
  EXPECT_EQ(after.top->TrainingState(), through.top->TrainingState());
}

// Weights alone are not enough to go on: the test above would notice.
TEST_P(ResumedModelTest, WithoutTheOptimisersStateItGoesAnotherWay) {
  Halves through(Optimizer(), 1), after(Optimizer(), 77);
  through.Train(0);
  ASSERT_TRUE(after.bottom->SetParameters(through.bottom->Parameters()).ok());
  ASSERT_TRUE(after.top->SetParameters(through.top->Parameters()).ok());
  through.Train(1);
  after.Train(1);
  EXPECT_NE(after.bottom->Parameters(), through.bottom->Parameters());
}

TEST_P(ResumedModelTest, ALargerEmbeddingKeepsWhatIsKnownAndTrainsTheRest) {
  Halves before(Optimizer(), 1), after(Optimizer(), 77, 60);
  for (int batch = 0; batch < 4; ++batch) {
    before.Train(batch);
  }
  const std::vector<float> fresh = ValuesOf(after.bottom->Parameters(), "embedding");
  Pass(before, after);
  const std::vector<float> known = ValuesOf(before.bottom->Parameters(), "embedding");
  std::vector<float> grown = ValuesOf(after.bottom->Parameters(), "embedding");
  ASSERT_EQ(grown.size(), 60 * 3);
  EXPECT_TRUE(std::equal(known.begin(), known.end(), grown.begin()));
  EXPECT_TRUE(std::equal(fresh.begin() + 40 * 3, fresh.end(), grown.begin() + 40 * 3));
  for (int batch = 4; batch < 8; ++batch) {
    after.Train(batch, 60);
  }
  const std::vector<float> trained = ValuesOf(after.bottom->Parameters(), "embedding");
  EXPECT_FALSE(std::equal(grown.begin() + 40 * 3, grown.end(), trained.begin() + 40 * 3));
}

TEST_P(ResumedModelTest, ASmallerEmbeddingIsRefusedAndNothingChanged) {
  Halves before(Optimizer(), 1), after(Optimizer(), 77, 20);
  const NamedParameters untouched = after.bottom->Parameters();
  EXPECT_EQ(after.bottom->SetTrainingState(before.bottom->TrainingState()).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(after.bottom->Parameters(), untouched);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, ResumedModelTest, ::testing::Values("adam", "adamw", "averaged", "sgd", "adagrad"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace splitveil::testing
