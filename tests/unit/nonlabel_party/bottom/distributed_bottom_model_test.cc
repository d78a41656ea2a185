// Several workers compute what one computes alone.
#include "nonlabel_party/bottom/distributed_bottom_model.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/process/exit_code.h"
#include "nonlabel_party/bottom/bottom_worker.h"
#include "tests/unit/common/model/model_fixtures.h"
#include "tests/unit/common/workers/worker_threads.h"

namespace splitveil {
namespace {

using ::testing::FloatNear;
using ::testing::Pointwise;

constexpr int kWorkers = 3;
const std::vector<std::string> kAudited = {"second", "cut", "first"};

BottomModelOptions ModelOptions() {
  BottomModelOptions options;
  options.features = {/*numeric=*/3, /*categorical=*/2, /*embedding_rows=*/20};
  options.spec.mutable_embedding()->set_dimension(2);
  *options.spec.add_layers() = MakeLayer("first", 5, v1::TANH);
  *options.spec.add_layers() = MakeLayer("second", 6, v1::SIGMOID);
  *options.spec.add_layers() = MakeLayer("third", 4, v1::RELU);
  options.optimizer = MakeAdam(1e-2);
  options.optimizer.set_clip_norm(0.5);
  options.optimizer.set_average_decay(0.9);
  options.cut_width = 4;
  options.seed = 21;
  return options;
}

// Numbers that the model gave, in the order in which it did.
struct Found {
  std::vector<float> values;
  void Add(ConstMatrixView matrix) { values.insert(values.end(), matrix.data(), matrix.data() + matrix.size()); }
};

// Trains with slices of many sizes (fewer rows than workers among them), several batches in flight, a discarded one,
// hints of every row and predictions; all that it finds.
void Train(BottomModel& model, bool from_state, Found& found) {
  std::mt19937 generator(4);
  const BottomModelOptions options = ModelOptions();
  const auto forward = [&](int64_t rows) {
    const auto activations = model.Forward(RandomFeatures(rows, options.features, generator));
    ASSERT_TRUE(activations.ok()) << activations.status();
    found.Add(*activations);
  };
  const auto backward = [&](int64_t rows) {
    const Matrix at_cut = RandomMatrix(rows, 4, generator);
    const auto gradients = model.Backward(at_cut, kAudited);
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    for (const ConstMatrixView& gradient : *gradients) {
      found.Add(gradient);
    }
  };
  for (const auto& [first, second] : {std::pair(7, 1), {1, 1}, {6, 4}, {2, 9}}) {
    forward(first);
    forward(second);
    forward(5);  // Of the next batch, with the parameters of now.
    backward(first);
    backward(second);
    for (int64_t row = 0; row < first + second; ++row) {
      const auto hint = model.BackpropagateHint(row, {0.5F, -1, 2, 0.25F}, kAudited);
      ASSERT_TRUE(hint.ok()) << hint.status();
      for (const std::vector<float>& values : *hint) {
        found.values.insert(found.values.end(), values.begin(), values.end());
      }
    }
    ASSERT_TRUE(model.Update().ok());
    ASSERT_TRUE(model.Discard().ok());
    const auto predicted = model.Predict(RandomFeatures(8, options.features, generator));
    ASSERT_TRUE(predicted.ok()) << predicted.status();
    found.Add(*predicted);
    if (from_state) {
      // As after a restart: others would go on from their own otherwise.
      NamedParameters state = model.TrainingState();
      state.front().second.front() += 0.125F;
      ASSERT_TRUE(model.SetTrainingState(state).ok());
      ASSERT_TRUE(model.SetParameters(model.Parameters()).ok());
    }
  }
  for (const auto& [name, values] : model.TrainingState()) {
    found.values.insert(found.values.end(), values.begin(), values.end());
  }
}

void ExpectAsAlone(bool from_state) {
  const auto alone = CreateBottomModel(ModelOptions(), /*group=*/nullptr);
  ASSERT_TRUE(alone.ok()) << alone.status();
  Found expected;
  Train(**alone, from_state, expected);
  WithWorkers(kWorkers, [&](WorkerGroup& group) {
    if (!group.leads()) {
      BottomModelOptions options = ModelOptions();
      options.features = {};  // The leader tells them.
      options.seed = 0;
      EXPECT_TRUE(ServeBottomWorker(options, &group).ok());
      return;
    }
    const auto shared = CreateBottomModel(ModelOptions(), &group);
    ASSERT_TRUE(shared.ok()) << shared.status();
    Found found;
    Train(**shared, from_state, found);
    EXPECT_THAT(found.values, Pointwise(FloatNear(1e-5F), expected.values));
    EXPECT_TRUE(EndBottomWorkers(&group, absl::OkStatus()).ok());
  });
}

TEST(DistributedBottomModelTest, ComputesWhatOneProcessComputes) { ExpectAsAlone(/*from_state=*/false); }

TEST(DistributedBottomModelTest, GoesOnFromTheLeadersState) { ExpectAsAlone(/*from_state=*/true); }

TEST(DistributedBottomModelTest, TwoRunsGiveTheSameBits) {
  std::vector<Found> runs(2);
  for (Found& run : runs) {
    WithWorkers(kWorkers, [&](WorkerGroup& group) {
      if (!group.leads()) {
        EXPECT_TRUE(ServeBottomWorker(ModelOptions(), &group).ok());
        return;
      }
      Train(**CreateBottomModel(ModelOptions(), &group), /*from_state=*/false, run);
      EXPECT_TRUE(EndBottomWorkers(&group, absl::OkStatus()).ok());
    });
  }
  EXPECT_EQ(runs[0].values, runs[1].values);
}

TEST(DistributedBottomModelTest, TheOthersEndAsTheLeaderDoes) {
  for (const absl::Status& outcome : {StoppedOnRequest(), absl::InternalError("of the leader")}) {
    WithWorkers(2, [&](WorkerGroup& group) {
      if (group.leads()) {
        EXPECT_TRUE(EndBottomWorkers(&group, outcome).ok());
        return;
      }
      const absl::Status ended = ServeBottomWorker(ModelOptions(), &group);
      EXPECT_EQ(IsStoppedOnRequest(ended), IsStoppedOnRequest(outcome));
      EXPECT_EQ(ended.code(), absl::StatusCode::kCancelled);
    });
  }
}

TEST(DistributedBottomModelTest, RefusesWhatOneProcessRefuses) {
  WithWorkers(2, [](WorkerGroup& group) {
    if (!group.leads()) {
      EXPECT_TRUE(ServeBottomWorker(ModelOptions(), &group).ok());
      return;
    }
    const std::unique_ptr<BottomModel> model = *CreateBottomModel(ModelOptions(), &group);
    EXPECT_EQ(model->Backward(Matrix(2, 4), {}).status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(model->Update().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(model->Discard().code(), absl::StatusCode::kFailedPrecondition);
    std::mt19937 generator(4);
    ASSERT_TRUE(model->Forward(RandomFeatures(4, ModelOptions().features, generator)).ok());
    EXPECT_EQ(model->Backward(Matrix(3, 4), {}).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(model->Backward(Matrix(4, 4), {"fourth"}).status().code(), absl::StatusCode::kInvalidArgument);
    // And goes on.
    EXPECT_TRUE(model->Backward(Matrix(4, 4), {}).ok());
    EXPECT_TRUE(model->Update().ok());
    EXPECT_TRUE(EndBottomWorkers(&group, absl::OkStatus()).ok());
  });
}

}  // namespace
}  // namespace splitveil
