#include "label_party/top/task_loss.h"

#include <cmath>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

namespace splitveil {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatNear;

constexpr Task kThreeClasses = {Task::Kind::kMultiClass, 3};
constexpr Task kNumber = {Task::Kind::kRegression, 0};

// Two rows of three logits.
class TaskLossTest : public ::testing::Test {
 protected:
  static Matrix MatrixOf(const std::vector<float>& values, int64_t cols) {
    return Matrix(ConstMatrixView(values.data(), static_cast<int64_t>(values.size()) / cols, cols));
  }
  static TaskLoss Loss(const LossOptions& options, const Matrix& outputs, const std::vector<float>& labels,
                       const std::vector<float>& targets = {}) {
    absl::StatusOr<TaskLoss> loss = LossOf(options, outputs, labels, targets);
    EXPECT_TRUE(loss.ok()) << loss.status();
    return *std::move(loss);
  }
  // Holds the gradient of row j against central differences of `loss_of_row`, a function of that row's outputs.
  static void ExpectDerivatives(const TaskLoss& loss, const std::vector<float>& outputs, int64_t cols,
                                const std::function<double(const std::vector<double>&, int64_t)>& loss_of_row) {
    constexpr double kStep = 1e-5;
    for (int64_t j = 0; j < loss.gradient.rows(); ++j) {
      for (int64_t k = 0; k < cols; ++k) {
        std::vector<double> above(outputs.begin() + j * cols, outputs.begin() + (j + 1) * cols), below = above;
        above[k] += kStep;
        below[k] -= kStep;
        EXPECT_NEAR(loss.gradient.row(j)[k], (loss_of_row(above, j) - loss_of_row(below, j)) / (2 * kStep), 1e-5);
      }
    }
  }
  static std::vector<double> Softmax(const std::vector<double>& logits) {
    std::vector<double> shares;
    double sum = 0;
    for (const double logit : logits) {
      sum += shares.emplace_back(std::exp(logit));
    }
    for (double& share : shares) {
      share /= sum;
    }
    return shares;
  }

  const std::vector<float> logits_ = {0.3F, -1.2F, 0.8F, 2.1F, 0.4F, -0.6F};
  const std::vector<float> classes_ = {2, 1};
};

TEST_F(TaskLossTest, OfClassesIsTheCrossEntropyOfTheirSoftmax) {
  const TaskLoss loss = Loss({kThreeClasses}, MatrixOf(logits_, 3), classes_);
  const auto of_row = [&](const std::vector<double>& row, int64_t j) {
    return -std::log(Softmax(row)[static_cast<size_t>(classes_[j])]);
  };
  ExpectDerivatives(loss, logits_, 3, of_row);
  EXPECT_NEAR(loss.mean, (of_row({0.3, -1.2, 0.8}, 0) + of_row({2.1, 0.4, -0.6}, 1)) / 2, 1e-6);
  for (int64_t j = 0; j < 2; ++j) {
    EXPECT_NEAR(loss.predictions[3 * j] + loss.predictions[3 * j + 1] + loss.predictions[3 * j + 2], 1, 1e-6);
  }
}

TEST_F(TaskLossTest, OfClassesIsLinearInTheirTargets) {
  const std::vector<float> targets = {3.5F, -2, 0.25F, 0, 7, -1};
  const TaskLoss loss = Loss({kThreeClasses}, MatrixOf(logits_, 3), classes_, targets);
  for (size_t i = 0; i < targets.size(); ++i) {
    EXPECT_NEAR(loss.gradient.data()[i], loss.predictions[i] - targets[i], 1e-6);
  }
}

// The mixture of three normal densities in three dimensions, differentiated numerically.
TEST_F(TaskLossTest, NoisyTargetsOfClassesGiveTheGradientOfTheirLikelihood) {
  constexpr double kNoise = 1.3;
  const std::vector<float> targets = {1.5F, -0.75F, 0.25F, -2, 1, 3};
  const TaskLoss loss = Loss({kThreeClasses, kNoise}, MatrixOf(logits_, 3), classes_, targets);
  ExpectDerivatives(loss, logits_, 3, [&](const std::vector<double>& row, int64_t j) {
    const std::vector<double> prior = Softmax(row);
    double likelihood = 0;
    for (size_t label = 0; label < 3; ++label) {
      double squared = 0;
      for (size_t k = 0; k < 3; ++k) {
        squared += std::pow(targets[3 * j + k] - (k == label ? 1 : 0), 2);
      }
      likelihood += prior[label] * std::exp(-squared / (2 * kNoise * kNoise));
    }
    return -std::log(likelihood);
  });
}

TEST_F(TaskLossTest, OfNumbersIsHalfTheSquaredError) {
  const std::vector<float> outputs = {0.2F, 1.4F}, labels = {0.5F, 1};
  const TaskLoss loss = Loss({kNumber}, MatrixOf(outputs, 1), labels);
  ExpectDerivatives(loss, outputs, 1, [&](const std::vector<double>& row, int64_t j) {
    return (row[0] - labels[j]) * (row[0] - labels[j]) / 2;
  });
  EXPECT_NEAR(loss.mean, (0.09 + 0.16) / 4, 1e-6);
  EXPECT_THAT(loss.predictions, ElementsAre(0.2F, 1.4F));
  const TaskLoss noised = Loss({kNumber}, MatrixOf(outputs, 1), labels, {4, -3});
  EXPECT_THAT(std::vector<float>(noised.gradient.data(), noised.gradient.data() + 2),
              ElementsAre(FloatNear(-3.8F, 1e-6), FloatNear(4.4F, 1e-6)));
  EXPECT_EQ(noised.mean, loss.mean);  // Of the label.
}

TEST_F(TaskLossTest, LargeLogitsOverflowNowhere) {
  const TaskLoss loss = Loss({kThreeClasses}, MatrixOf({1e30F, -1e30F, 0, 800, 800, 800}, 3), {0, 2});
  EXPECT_NEAR(loss.mean, std::log(3) / 2, 1e-6);
  EXPECT_THAT(std::vector<float>(loss.predictions.begin() + 3, loss.predictions.end()),
              Each(FloatNear(1.0F / 3, 1e-6)));
}

TEST_F(TaskLossTest, RefusesWhatDoesNotFitTheTask) {
  const Matrix logits = MatrixOf(logits_, 3);
  const auto refused = [&](const Task& task, const Matrix& outputs, const std::vector<float>& labels,
                           const std::vector<float>& targets = {}) {
    return LossOf({task}, outputs, labels, targets).status().code() == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused(kThreeClasses, logits, {2, 3}));
  EXPECT_TRUE(refused(kThreeClasses, logits, {2, -1}));
  EXPECT_TRUE(refused(kThreeClasses, logits, {2, 0.5F}));
  EXPECT_TRUE(refused(kThreeClasses, logits, {2}));
  EXPECT_TRUE(refused(kThreeClasses, logits, classes_, {1, 2}));
  EXPECT_TRUE(refused(kThreeClasses, logits, classes_, {1, 2, 3, 4, 5, std::numeric_limits<float>::infinity()}));
  EXPECT_TRUE(refused({Task::Kind::kMultiClass, 4}, logits, classes_));
  EXPECT_TRUE(refused(kNumber, MatrixOf({1}, 1), {std::nanf("")}));
  EXPECT_TRUE(refused({}, MatrixOf({1}, 1), {2}));
}

// Whether it is one does not hang on the label: under noised labels a run that ends would tell of it.
TEST_F(TaskLossTest, OutputsThatAreNotFiniteAreAnErrorWhateverTheLabel) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float label : {0, 1, 2}) {
    for (const float value : {-kInfinity, kInfinity, std::nanf("")}) {
      EXPECT_EQ(LossOf({kThreeClasses}, MatrixOf({value, 0, 0}, 3), std::vector<float>{label}, {}).status().code(),
                absl::StatusCode::kInternal);
    }
  }
  for (const float label : {0, 1}) {
    EXPECT_EQ(LossOf({}, MatrixOf({-kInfinity}, 1), std::vector<float>{label}, {}).status().code(),
              absl::StatusCode::kInternal);
    EXPECT_EQ(LossOf({kNumber}, MatrixOf({std::nanf("")}, 1), std::vector<float>{label}, {}).status().code(),
              absl::StatusCode::kInternal);
  }
}

}  // namespace
}  // namespace splitveil
