#include <algorithm>
#include <gtest/gtest.h>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "nonlabel_party/bottom/bottom_model.h"
#include "tests/unit/common/model/model_fixtures.h"

namespace splitveil {
namespace {

constexpr int64_t kBatch = 10;
constexpr double kLearningRate = 0.5;

// One of the models that have objectives; a batch comes in two slices.
class BottomObjectivesTest : public ::testing::TestWithParam<const char*> {
 protected:
  BottomObjectivesTest() {
    options_.features = {/*numeric=*/3, /*categorical=*/2, /*embedding_rows=*/6};
    options_.spec.mutable_embedding()->set_dimension(2);
    options_.cut_width = 7;
    if (std::string(GetParam()) == "layers") {
      *options_.spec.add_layers() = MakeLayer("first", 5, v1::TANH);
      *options_.spec.add_layers() = MakeLayer("second", 7, v1::LINEAR);
    }
    options_.optimizer.set_learning_rate(kLearningRate);
    options_.optimizer.mutable_sgd();
    options_.seed = 21;
    for (const int64_t rows : {4, 6}) {
      slices_.push_back(RandomFeatures(rows, options_.features, generator_));
    }
    for (int i = 0; i < 3; ++i) {
      gradients_.push_back(RandomMatrix(kBatch, 7, generator_));
    }
  }

  // A model that has back-propagated `gradient`.
  std::unique_ptr<BottomModel> Backpropagated(ConstMatrixView gradient) const {
    std::unique_ptr<BottomModel> model = *BottomModel::Create(options_);
    for (const FeatureBatch& slice : slices_) {
      EXPECT_TRUE(model->Forward(slice).ok());
    }
    EXPECT_TRUE(model->Backward(gradient.block(0, 4), {}).ok());
    EXPECT_TRUE(model->Backward(gradient.block(4, 6), {}).ok());
    return model;
  }
  // What one plain step moves the parameters by: the gradient of the mean, as everybody computes it.
  std::vector<double> Gradient(BottomModel& model) const {
    std::vector<double> gradient;
    const NamedParameters before = model.Parameters();
    EXPECT_TRUE(model.Update().ok());
    const NamedParameters after = model.Parameters();
    for (size_t p = 0; p < before.size(); ++p) {
      for (size_t k = 0; k < before[p].second.size(); ++k) {
        gradient.push_back((before[p].second[k] - after[p].second[k]) / kLearningRate);
      }
    }
    return gradient;
  }

  BottomModelOptions options_;
  std::mt19937 generator_{4};
  std::vector<FeatureBatch> slices_;
  std::vector<Matrix> gradients_;
};

TEST_P(BottomObjectivesTest, ProductsAreThoseOfTheStepsThatEachWouldTake) {
  std::vector<std::vector<double>> steps;
  for (const Matrix& gradient : gradients_) {
    steps.push_back(Gradient(*Backpropagated(gradient)));
  }
  const std::unique_ptr<BottomModel> model = Backpropagated(gradients_[0]);
  const absl::StatusOr<std::vector<double>> products =
      model->GradientProducts({gradients_[0], gradients_[1], gradients_[2]});
  ASSERT_TRUE(products.ok()) << products.status();
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 3; ++j) {
      const double expected = std::inner_product(steps[i].begin(), steps[i].end(), steps[j].begin(), 0.0);
      EXPECT_NEAR((*products)[3 * i + j], expected, 1e-5) << i << ", " << j;
    }
  }
  EXPECT_EQ(Gradient(*model), steps[0]);  // Nothing was changed.
}

TEST_P(BottomObjectivesTest, AddedGradientsCountAsIfTheyHadComeTogether) {
  const std::unique_ptr<BottomModel> model = Backpropagated(gradients_[0]);
  ASSERT_TRUE(model->AddGradient(gradients_[1]).ok());
  ASSERT_TRUE(model->AddGradient(gradients_[2]).ok());
  Matrix sum = gradients_[0];
  for (int64_t k = 0; k < sum.size(); ++k) {
    sum.data()[k] += gradients_[1].data()[k] + gradients_[2].data()[k];
  }
  const std::vector<double> found = Gradient(*model), expected = Gradient(*Backpropagated(sum));
  for (size_t k = 0; k < found.size(); ++k) {
    EXPECT_NEAR(found[k], expected[k], 1e-5) << k;
  }
}

TEST_P(BottomObjectivesTest, RefusesAnotherBatch) {
  const std::unique_ptr<BottomModel> model = Backpropagated(gradients_[0]);
  EXPECT_FALSE(model->AddGradient(gradients_[0].block(0, 9)).ok());
  EXPECT_FALSE(model->GradientProducts({gradients_[0].block(0, 9)}).ok());
}

INSTANTIATE_TEST_SUITE_P(Models, BottomObjectivesTest, ::testing::Values("layers", "embeddings"),
                         [](const ::testing::TestParamInfo<const char*>& kind) { return std::string(kind.param); });

}  // namespace
}  // namespace splitveil
