// Halves of ours against the TorchScript files they export, brought back as halves: one must train as the other.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"

#include "label_party/top/top_model.h"
#include "nonlabel_party/bottom/bottom_model.h"
#include "tests/testing/process/temp_folder.h"
#include "tests/unit/common/model/model_fixtures.h"
#include "tests/unit/common/model/torchscript_fixtures.h"

namespace splitveil {
namespace {

constexpr int64_t kCutWidth = 6;

// Largest difference of any number that both have under the same name.
double Distance(const NamedParameters& one, const NamedParameters& other) {
  EXPECT_EQ(one.size(), other.size());
  double distance = 0;
  for (const auto& [name, values] : one) {
    const auto found = std::find_if(other.begin(), other.end(),
                                    [&, &name = name](const auto& candidate) { return candidate.first == name; });
    if (found == other.end() || found->second.size() != values.size()) {
      ADD_FAILURE() << name << " differs in size, or is missing";
      continue;
    }
    for (size_t i = 0; i < values.size(); ++i) {
      distance = std::max<double>(distance, std::abs(values[i] - found->second[i]));
    }
  }
  return distance;
}

double Distance(ConstMatrixView one, ConstMatrixView other) {
  EXPECT_EQ(one.size(), other.size());
  double distance = 0;
  for (int64_t i = 0; i < one.size(); ++i) {
    distance = std::max<double>(distance, std::abs(one.data()[i] - other.data()[i]));
  }
  return distance;
}

class TorchScriptHalvesTest : public ::testing::Test {
 protected:
  TorchScriptHalvesTest() {
    bottom_.features = {/*numeric=*/4, /*categorical=*/0, /*embedding_rows=*/0};
    bottom_.cut_width = top_.cut_width = kCutWidth;
    bottom_.optimizer = top_.optimizer = MakeAdam(1e-2);
    *bottom_.spec.add_layers() = MakeLayer("1st layer", 8);
    *bottom_.spec.add_layers() = MakeLayer("second", kCutWidth, v1::TANH);
    *top_.spec.add_layers() = MakeLayer("top", 8);
    bottom_.seed = top_.seed = 3;
  }

  std::unique_ptr<BottomModel> NewBottom() {
    auto model = BottomModel::Create(bottom_);
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? *std::move(model) : nullptr;
  }
  // The half that `model` exports, brought back.
  std::unique_ptr<BottomModel> BringBack(const BottomModel& model) {
    const absl::Status status = model.ExportTo(folder_.path());
    EXPECT_TRUE(status.ok()) << status;
    BottomModelOptions options = bottom_;
    options.spec.Clear();
    options.spec.set_torchscript_path(folder_.File("nonlabel_party.pt"));
    auto brought = BottomModel::Create(options);
    EXPECT_TRUE(brought.ok()) << brought.status();
    return brought.ok() ? *std::move(brought) : nullptr;
  }

  const testing::TempFolder folder_;
  std::mt19937 random_{5};
  BottomModelOptions bottom_;
  TopModelOptions top_;
};

TEST_F(TorchScriptHalvesTest, ABottomHalfTrainsAsItsFileWithBatchesInFlightAndHints) {
  const auto ours = NewBottom();
  const auto theirs = BringBack(*ours);
  ASSERT_NE(theirs, nullptr);
  // Names that cannot stand in a TorchScript file are written otherwise.
  EXPECT_EQ(theirs->layer_names(), (std::vector<std::string>{"1st_layer", "second", "cut"}));
  for (int step = 0; step < 8; ++step) {
    const FeatureBatch first = RandomFeatures(16, bottom_.features, random_);
    const FeatureBatch second = RandomFeatures(16, bottom_.features, random_);
    const Matrix gradient = RandomMatrix(16, kCutWidth, random_);
    for (const FeatureBatch& batch : {first, second}) {
      EXPECT_LE(Distance(*ours->Forward(batch), *theirs->Forward(batch)), 1e-5);
    }
    const auto expected = ours->Backward(gradient, {"1st layer", "cut"});
    const auto found = theirs->Backward(gradient, {"1st_layer", "cut"});
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_LE(Distance((*expected)[0], (*found)[0]), 1e-5);
    EXPECT_EQ(Distance(gradient, (*found)[1]), 0);
    const std::vector<float> hint(gradient.row(3).begin(), gradient.row(3).end());
    const auto expected_hint = ours->BackpropagateHint(3, hint, {"cut", "1st layer"});
    const auto found_hint = theirs->BackpropagateHint(3, hint, {"cut", "1st_layer"});
    ASSERT_TRUE(found_hint.ok()) << found_hint.status();
    EXPECT_EQ((*found_hint)[0], hint);
    EXPECT_LE(Distance({(*expected_hint)[1].data(), 1, 8}, {(*found_hint)[1].data(), 1, 8}), 1e-5);
    for (BottomModel* model : {ours.get(), theirs.get()}) {
      ASSERT_TRUE(model->Update().ok());
      ASSERT_TRUE(model->Discard().ok());
    }
  }
  NamedParameters renamed = ours->Parameters();
  for (auto& [name, values] : renamed) {
    std::replace(name.begin(), name.end(), ' ', '_');
  }
  EXPECT_LE(Distance(renamed, theirs->Parameters()), 1e-5);
}

TEST_F(TorchScriptHalvesTest, EmbeddingsAloneAreExportedAsTheyPredict) {
  bottom_.features = {/*numeric=*/3, /*categorical=*/2, /*embedding_rows=*/10};
  bottom_.spec.clear_layers();
  bottom_.spec.mutable_embedding()->set_dimension(4);
  bottom_.cut_width = 2 * 4 + 3;
  const auto ours = NewBottom();
  const FeatureBatch batch = RandomFeatures(5, bottom_.features, random_);
  const auto theirs = BringBack(*ours);
  ASSERT_NE(theirs, nullptr);
  EXPECT_EQ(Distance(*ours->Predict(batch), *theirs->Predict(batch)), 0);
  EXPECT_EQ(Distance(ours->Parameters(), theirs->Parameters()), 0);
}

TEST_F(TorchScriptHalvesTest, ExportedConvolutionsAndEmbeddingsPredictAlike) {
  bottom_.spec.clear_layers();
  bottom_.features.image = {2, 7, 6};
  bottom_.features.numeric = 2 * 7 * 6;
  v1::Layer& convolution = *bottom_.spec.add_layers();
  convolution.set_name("first");
  convolution.mutable_convolution()->set_channels(3);
  convolution.mutable_convolution()->set_max_pool(2);
  *bottom_.spec.add_layers() = MakeLayer("second", kCutWidth, v1::SIGMOID);
  const auto images = NewBottom();
  FeatureBatch batch = RandomFeatures(5, bottom_.features, random_);
  EXPECT_LE(Distance(*images->Predict(batch), *BringBack(*images)->Predict(batch)), 1e-6);

  bottom_.features = {/*numeric=*/3, /*categorical=*/2, /*embedding_rows=*/10};
  bottom_.spec.clear_layers();
  *bottom_.spec.add_layers() = MakeLayer("first", kCutWidth);
  bottom_.spec.mutable_embedding()->set_dimension(4);
  const auto embedded = NewBottom();
  batch = RandomFeatures(5, bottom_.features, random_);
  EXPECT_LE(Distance(*embedded->Predict(batch), *BringBack(*embedded)->Predict(batch)), 1e-6);
}

TEST_F(TorchScriptHalvesTest, ATopHalfWithOwnFeaturesTrainsAsItsFile) {
  top_.features = {/*numeric=*/3, /*categorical=*/0, /*embedding_rows=*/0};
  top_.spec.mutable_own_features()->set_before("logit");
  const auto ours = *TopModel::Create(top_);
  ASSERT_TRUE(ours->ExportTo(folder_.path()).ok());
  TopModelOptions options = top_;
  options.spec.Clear();
  options.spec.set_torchscript_path(folder_.File("label_party.pt"));
  for (const bool assembled : {false, true}) {  // The columns as they are, or as own_features makes them: alike here.
    if (assembled) {
      options.spec.mutable_own_features();
    }
    const auto created = TopModel::Create(options);
    ASSERT_TRUE(created.ok()) << created.status();
    const auto reference = *TopModel::Create(top_);
    for (int step = 0; step < 8; ++step) {
      const Matrix z = RandomMatrix(16, kCutWidth, random_);
      const FeatureBatch own = RandomFeatures(16, top_.features, random_);
      std::vector<float> labels(16);
      std::generate(labels.begin(), labels.end(), [&] { return random_() % 2; });
      const auto expected = reference->ForwardBackward(z, own, labels, {});
      const auto found = (*created)->ForwardBackward(z, own, labels, {});
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_NEAR(expected->mean_loss, found->mean_loss, 1e-5);
      EXPECT_LE(Distance(expected->cut_gradient, found->cut_gradient), 1e-5);
      ASSERT_TRUE(reference->Update().ok());
      ASSERT_TRUE((*created)->Update().ok());
    }
    EXPECT_LE(Distance(reference->Parameters(), (*created)->Parameters()), 1e-5);
  }
}

TEST_F(TorchScriptHalvesTest, ATrainingStateGoesOnInAnotherHalf) {
  const auto ours = NewBottom();
  const auto one = BringBack(*ours);
  const auto other = BringBack(*ours);
  const auto step = [&](BottomModel& model, const FeatureBatch& batch, const Matrix& gradient) {
    ASSERT_TRUE(model.Forward(batch).ok());
    ASSERT_TRUE(model.Backward(gradient, {}).ok());
    ASSERT_TRUE(model.Update().ok());
  };
  const FeatureBatch batch = RandomFeatures(16, bottom_.features, random_);
  const Matrix gradient = RandomMatrix(16, kCutWidth, random_);
  step(*one, batch, gradient);
  ASSERT_TRUE(other->SetTrainingState(one->TrainingState()).ok());
  step(*one, batch, gradient);
  step(*other, batch, gradient);
  EXPECT_EQ(one->TrainingState(), other->TrainingState());
  NamedParameters wrong = one->TrainingState();
  wrong.front().second.pop_back();
  EXPECT_EQ(other->SetTrainingState(wrong).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(other->SetParameters({}).code(), absl::StatusCode::kInvalidArgument);
}

// Whatever seed the other process was started with.
TEST_F(TorchScriptHalvesTest, WhatIsDrawnGoesOnInAnotherHalf) {
  const std::string path = folder_.File("dropping.pt");
  MakeScript("Top", {{"w", torch::ones({1, kCutWidth})}}, {},
             "def forward(self, z): return torch.linear(torch.dropout(z, 0.5, self.training), self.w)")
      .save(path);
  TopModelOptions options;
  options.spec.set_torchscript_path(path);
  options.cut_width = kCutWidth;
  options.optimizer = bottom_.optimizer;
  const Matrix activations = RandomMatrix(16, kCutWidth, random_);
  const std::vector<float> labels(16, 1);
  const auto step = [&](TopModel& model) {
    const absl::StatusOr<TopStep> answer = model.ForwardBackward(activations, {}, labels, {});
    EXPECT_TRUE(answer.ok() && model.Update().ok()) << answer.status();
    return answer->mean_loss;
  };
  options.seed = 1;
  const std::unique_ptr<TopModel> one = *TopModel::Create(options);
  options.seed = ~uint64_t{0};
  const std::unique_ptr<TopModel> other = *TopModel::Create(options);
  step(*one);
  ASSERT_TRUE(other->SetTrainingState(one->TrainingState()).ok());
  EXPECT_EQ(other->TrainingState(), one->TrainingState());
  for (int again = 0; again < 3; ++again) {
    EXPECT_EQ(step(*other), step(*one));
  }
  NamedParameters wrong = one->TrainingState();
  wrong.back().second.front() = 0.5;  // "draws" is the last.
  EXPECT_EQ(other->SetTrainingState(wrong).code(), absl::StatusCode::kInvalidArgument);
  wrong.pop_back();
  EXPECT_EQ(other->SetTrainingState(wrong).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(TorchScriptHalvesTest, RefusesCallsOutOfTurnAndWhatDoesNotFit) {
  const auto model = BringBack(*NewBottom());
  EXPECT_EQ(model->Backward({}, {}).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(model->Update().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(model->Discard().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(model->BackpropagateHint(0, {}, {}).status().code(), absl::StatusCode::kFailedPrecondition);
  FeatureBatch batch = RandomFeatures(4, bottom_.features, random_);
  batch.rows = 5;
  EXPECT_EQ(model->Forward(batch).status().code(), absl::StatusCode::kInvalidArgument);

  BottomModelOptions options = bottom_;
  options.spec.set_torchscript_path(folder_.File("nonlabel_party.pt"));
  EXPECT_EQ(BottomModel::Create(options).status().code(), absl::StatusCode::kInvalidArgument);  // Layers beside it.
  options.spec.clear_layers();
  options.cut_width = kCutWidth + 1;
  const absl::Status width = BottomModel::Check(options).status();
  EXPECT_TRUE(absl::StrContains(width.message(), "[2, 7]") && absl::StrContains(width.message(), "[2, 6]")) << width;
}

TEST_F(TorchScriptHalvesTest, AnExportThatFailsLeavesNoPartOfAPairAndKeepsTheFormer) {
  const auto model = NewBottom();
  const std::string module_path = folder_.File("nonlabel_party.pt");
  // A folder in the way of the second file.
  std::filesystem::create_directories(folder_.File("nonlabel_party.state_dict.pt/in_the_way"));
  EXPECT_FALSE(model->ExportTo(folder_.path()).ok());
  EXPECT_FALSE(std::filesystem::exists(module_path));
  std::ofstream(module_path) << "of a former run";
  EXPECT_FALSE(model->ExportTo(folder_.path()).ok());
  std::stringstream former;
  former << std::ifstream(module_path).rdbuf();
  EXPECT_EQ(former.str(), "of a former run");
  EXPECT_EQ(model->ExportTo(folder_.File("no such folder")).code(), absl::StatusCode::kInvalidArgument);
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    const std::string name = entry.path().filename();
    EXPECT_FALSE(absl::EndsWith(name, ".partial") || absl::EndsWith(name, ".replaced")) << name;
  }
}

}  // namespace
}  // namespace splitveil
