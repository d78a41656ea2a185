// The two halves, taking turns, against the same Wide & Deep in one piece, written with torch::nn and autograd.
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <string>
#include <torch/torch.h>
#include <tuple>
#include <utility>
#include <vector>

#include "label_party/head/top_model.h"
#include "nonlabel_party/bottom/bottom_model.h"
#include "tests/unit/common/model/model_fixtures.h"
#include "tests/unit/common/model/reference_network.h"

namespace splitveil {
namespace {

constexpr int64_t kCutWidth = 16;
constexpr FeatureShape kBottomFeatures = {/*numeric=*/3, /*categorical=*/5, /*embedding_rows=*/200};
constexpr FeatureShape kTopFeatures = {/*numeric=*/2, /*categorical=*/4, /*embedding_rows=*/120};

// An embedding whose table is an ordinary dense parameter, trained as in torch/optim/_functional.py, sparse_adam.
class ReferenceEmbedding {
 public:
  ReferenceEmbedding(const NamedParameters& parameters, const std::string& name, int64_t dimension) {
    const std::vector<float>& values = FindParameter(parameters, name);
    table_ = torch::tensor(values).view({-1, dimension}).requires_grad_();
    first_moment_ = torch::zeros_like(table_);
    second_moment_ = torch::zeros_like(table_);
  }

  torch::Tensor Forward(const FeatureBatch& batch) {
    indices_ = torch::tensor(batch.categories);
    return torch::embedding(table_, indices_.view({batch.rows, -1})).flatten(1);
  }

  void Step(const v1::Optimizer& optimizer) {
    const torch::NoGradGuard no_grad;
    const v1::Optimizer::Adam& adam = optimizer.adam();
    ++steps_;
    const torch::Tensor rows = std::get<0>(at::_unique(indices_, /*sorted=*/true));
    const torch::Tensor gradient = table_.grad().index_select(0, rows);
    const torch::Tensor m = first_moment_.index_select(0, rows).mul(adam.beta1()).add(gradient, 1 - adam.beta1());
    const torch::Tensor v =
        second_moment_.index_select(0, rows).mul(adam.beta2()).addcmul(gradient, gradient, 1 - adam.beta2());
    first_moment_.index_copy_(0, rows, m);
    second_moment_.index_copy_(0, rows, v);
    const double step_size = optimizer.learning_rate() * std::sqrt(1 - std::pow(adam.beta2(), steps_)) /
                             (1 - std::pow(adam.beta1(), steps_));
    table_.index_add_(0, rows, m.div(v.sqrt().add(adam.epsilon())).mul(-step_size));
    table_.mutable_grad() = torch::Tensor();
  }

  const torch::Tensor& table() const { return table_; }

 private:
  torch::Tensor table_;
  torch::Tensor first_moment_;
  torch::Tensor second_moment_;
  torch::Tensor indices_;
  int steps_ = 0;
};

class ReferenceModel {
 public:
  ReferenceModel(const NamedParameters& bottom, const NamedParameters& top, const BottomModelOptions& bottom_options,
                 const TopModelOptions& top_options)
      : optimizer_spec_(bottom_options.optimizer),
        embedding_(bottom, "embedding", bottom_options.spec.embedding().dimension()),
        wide_embedding_(top, "wide.embedding", top_options.spec.wide().embedding().dimension()) {
    for (const v1::Layer& layer : bottom_options.spec.layers()) {
      layers_.push_back(Linear(bottom, layer.name()));
    }
    for (const v1::Layer& layer : top_options.spec.layers()) {
      layers_.push_back(Linear(top, layer.name()));
    }
    logit_ = Linear(top, "logit");
    wide_ = Linear(top, "wide");
    std::vector<torch::Tensor> parameters;
    for (torch::nn::Linear& layer : layers_) {
      parameters.insert(parameters.end(), {layer->weight, layer->bias});
    }
    parameters.insert(parameters.end(), {logit_->weight, logit_->bias, wide_->weight, wide_->bias});
    const v1::Optimizer::Adam& adam = optimizer_spec_.adam();
    optimizer_ =
        std::make_unique<torch::optim::Adam>(parameters, torch::optim::AdamOptions(optimizer_spec_.learning_rate())
                                                             .betas(std::make_tuple(adam.beta1(), adam.beta2()))
                                                             .eps(adam.epsilon())
                                                             .weight_decay(optimizer_spec_.l2()));
  }

  double Step(const FeatureBatch& features, const FeatureBatch& own, const std::vector<uint8_t>& labels) {
    torch::Tensor values = torch::cat({embedding_.Forward(features), Numeric(features)}, 1);
    for (torch::nn::Linear& layer : layers_) {
      values = torch::relu(layer->forward(values));
    }
    const torch::Tensor logits =
        logit_->forward(values) + wide_->forward(torch::cat({wide_embedding_.Forward(own), Numeric(own)}, 1));
    const torch::Tensor targets = torch::tensor(std::vector<float>(labels.begin(), labels.end())).view({-1, 1});
    const torch::Tensor loss = torch::binary_cross_entropy_with_logits(logits, targets);
    optimizer_->zero_grad();
    loss.backward();
    optimizer_->step();
    embedding_.Step(optimizer_spec_);
    wide_embedding_.Step(optimizer_spec_);
    return loss.item<double>();
  }

  // Largest difference from the halves' parameters.
  double Distance(const NamedParameters& bottom, const NamedParameters& top,
                  const std::vector<std::string>& bottom_layers, const std::vector<std::string>& top_layers) {
    double largest = 0;
    const auto compare = [&](const torch::Tensor& mine, const NamedParameters& theirs, const std::string& name) {
      const torch::Tensor difference = mine.detach().flatten() - torch::tensor(FindParameter(theirs, name));
      largest = std::max(largest, difference.abs().max().item<double>());
    };
    const auto compare_linear = [&](torch::nn::Linear& mine, const NamedParameters& theirs, const std::string& name) {
      compare(mine->weight, theirs, name + ".weight");
      compare(mine->bias, theirs, name + ".bias");
    };
    size_t next = 0;
    for (const std::string& name : bottom_layers) {
      compare_linear(layers_[next++], bottom, name);
    }
    for (const std::string& name : top_layers) {
      compare_linear(layers_[next++], top, name);
    }
    compare_linear(logit_, top, "logit");
    compare_linear(wide_, top, "wide");
    compare(embedding_.table(), bottom, "embedding");
    compare(wide_embedding_.table(), top, "wide.embedding");
    return largest;
  }

 private:
  static torch::Tensor Numeric(const FeatureBatch& batch) {
    const std::vector<float> values(batch.numeric.data(), batch.numeric.data() + batch.numeric.size());
    return torch::tensor(values).view({batch.rows, -1});
  }
  static torch::nn::Linear Linear(const NamedParameters& parameters, const std::string& name) {
    const torch::NoGradGuard no_grad;
    const torch::Tensor weight = torch::tensor(FindParameter(parameters, name + ".weight"));
    const torch::Tensor bias = torch::tensor(FindParameter(parameters, name + ".bias"));
    torch::nn::Linear layer(weight.numel() / bias.numel(), bias.numel());
    layer->weight.copy_(weight.view({bias.numel(), -1}));
    layer->bias.copy_(bias);
    return layer;
  }

  v1::Optimizer optimizer_spec_;
  ReferenceEmbedding embedding_;
  ReferenceEmbedding wide_embedding_;
  std::vector<torch::nn::Linear> layers_;
  torch::nn::Linear logit_ = nullptr;
  torch::nn::Linear wide_ = nullptr;
  std::unique_ptr<torch::optim::Adam> optimizer_;
};

// Labels that depend on the features of both parties, so that the loss falls.
std::vector<uint8_t> MakeLabels(const FeatureBatch& features, const FeatureBatch& own) {
  std::vector<uint8_t> labels;
  for (int64_t j = 0; j < features.rows; ++j) {
    const bool category = features.categories[j * kBottomFeatures.categorical] % 2 == 0;
    labels.push_back(features.numeric.row(j)[0] + own.numeric.row(j)[1] + (category ? 0.5f : -0.5f) > 0.4f);
  }
  return labels;
}

class SplitModelTest : public testing::Test {
 protected:
  SplitModelTest() {
    bottom_.features = kBottomFeatures;
    top_.features = kTopFeatures;
    bottom_.cut_width = top_.cut_width = kCutWidth;
    bottom_.spec.mutable_embedding()->set_dimension(4);
    top_.spec.mutable_wide()->mutable_embedding()->set_dimension(1);
    for (const char* name : {"first", "second", "third"}) {
      *bottom_.spec.add_layers() = MakeLayer(name, kCutWidth);
      *top_.spec.add_layers() = MakeLayer(name, kCutWidth);
    }
    bottom_.seed = 1;
    top_.seed = 2;
  }

  // Trains both ways for 100 steps of 64 examples; every tenth has `last_rows`.
  void ExpectSameTraining(const v1::Optimizer& optimizer, int64_t last_rows) {
    bottom_.optimizer = top_.optimizer = optimizer;
    auto bottom = BottomModel::Create(bottom_);
    auto top = TopModel::Create(top_);
    ASSERT_TRUE(bottom.ok()) << bottom.status();
    ASSERT_TRUE(top.ok()) << top.status();
    const NamedParameters initial_bottom = (*bottom)->Parameters();
    const NamedParameters initial_top = (*top)->Parameters();
    ReferenceModel reference(initial_bottom, initial_top, bottom_, top_);
    std::mt19937 generator(5);
    double loss_difference = 0;
    for (int step = 0; step < 100; ++step) {
      const int64_t rows = step % 10 == 9 ? last_rows : 64;
      const FeatureBatch features = RandomFeatures(rows, kBottomFeatures, generator);
      const FeatureBatch own = RandomFeatures(rows, kTopFeatures, generator);
      const std::vector<uint8_t> labels = MakeLabels(features, own);
      const auto activations = (*bottom)->Forward(features);
      ASSERT_TRUE(activations.ok()) << activations.status();
      const auto head = (*top)->ForwardBackward(*activations, own, labels, {});
      ASSERT_TRUE(head.ok()) << head.status();
      ASSERT_TRUE((*top)->Update().ok());
      ASSERT_TRUE((*bottom)->Backward(head->cut_gradient, {}).ok());
      ASSERT_TRUE((*bottom)->Update().ok());
      loss_difference = std::max(loss_difference, std::abs(head->mean_loss - reference.Step(features, own, labels)));
    }
    const std::vector<std::string> layers = {"first", "second", "third"};
    const double distance = reference.Distance((*bottom)->Parameters(), (*top)->Parameters(), layers, layers);
    RecordProperty("largest_weight_difference", std::to_string(distance * 1e9) + "e-9");
    RecordProperty("largest_loss_difference", std::to_string(loss_difference * 1e9) + "e-9");
    EXPECT_LE(distance, 1e-6);
    EXPECT_LE(loss_difference, 1e-6);
    EXPECT_GT(reference.Distance(initial_bottom, initial_top, layers, layers), 0.02);  // They did not stand still.
  }

  BottomModelOptions bottom_;
  TopModelOptions top_;
};

// Batches of a power of two: both ways then round alike, and Adam, which makes a step of the full learning rate from a
// gradient however small, has no difference to amplify.
TEST_F(SplitModelTest, TrainsAsTheModelInOnePiece) { ExpectSameTraining(MakeAdam(1e-3), 64); }

// Adam hides a wrong scale of the gradient; a penalty and a large epsilon show it, also for a partial batch.
TEST_F(SplitModelTest, TrainsAsTheModelInOnePieceWhereTheScaleOfTheGradientCounts) {
  v1::Optimizer optimizer = MakeAdam(1e-2);
  optimizer.set_l2(1e-3);
  optimizer.mutable_adam()->set_beta1(0.8);
  optimizer.mutable_adam()->set_beta2(0.99);
  optimizer.mutable_adam()->set_epsilon(1e-3);
  ExpectSameTraining(optimizer, 37);
}

}  // namespace
}  // namespace splitveil
