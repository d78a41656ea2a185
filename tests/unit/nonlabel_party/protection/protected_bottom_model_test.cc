#include "nonlabel_party/protection/protected_bottom_model.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/checkpoint/progress_archive.h"
#include "common/process/exit_code.h"
#include "nonlabel_party/protection/privacy_loss.h"
#include "tests/unit/common/model/model_fixtures.h"

namespace splitveil {
namespace {

using v1::ActivationProtection;

constexpr int64_t kRows = 64;
constexpr int64_t kWidth = 3;

// Numeric features of which the first is the attribute, blurred.
class ProtectedBottomModelTest : public testing::Test {
 protected:
  ProtectedBottomModelTest() {
    options_.features = {/*numeric=*/4, /*categorical=*/0, /*embedding_rows=*/0};
    *options_.spec.add_layers() = MakeLayer("first", 8, v1::TANH);
    *options_.spec.add_layers() = MakeLayer("second", kWidth, v1::LINEAR);
    options_.optimizer.set_learning_rate(0.1);
    options_.optimizer.mutable_sgd();
    options_.cut_width = kWidth;
    options_.seed = 3;
    protection_.set_noise_sigma(1);
    protection_.add_attributes("sex");
  }

  FeatureBatch MakeBatch() {
    std::normal_distribution<float> normal;
    FeatureBatch batch;
    batch.rows = kRows;
    batch.numeric = Matrix(kRows, 4);
    for (int64_t i = 0; i < kRows; ++i) {
      batch.attributes.push_back(static_cast<uint8_t>(random_() % 2));
      for (int64_t k = 0; k < 4; ++k) {
        batch.numeric.row(i)[k] = normal(random_) + (k == 0 && batch.attributes.back() == 1 ? 2.0f : 0.0f);
      }
    }
    return batch;
  }
  std::unique_ptr<BottomModel> MakeModel() const {
    absl::StatusOr<std::unique_ptr<BottomModel>> model = BottomModel::Create(options_);
    EXPECT_TRUE(model.ok()) << model.status();
    return *std::move(model);
  }
  std::unique_ptr<ProtectedBottomModel> Protect(BottomModel* model) const {
    absl::StatusOr<std::unique_ptr<ProtectedBottomModel>> result =
        ProtectedBottomModel::Create(model, protection_, {{"sex", 0, 2}}, kWidth, 5);
    EXPECT_TRUE(result.ok()) << result.status();
    return *std::move(result);
  }
  Matrix MakeGradient() {
    std::normal_distribution<float> normal;
    Matrix gradient(kRows, kWidth);
    std::generate_n(gradient.data(), gradient.size(), [&] { return normal(random_); });
    return gradient;
  }

  BottomModelOptions options_;
  ActivationProtection protection_;
  std::mt19937_64 random_{7};
};

void ExpectNear(const NamedParameters& found, const NamedParameters& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t p = 0; p < found.size(); ++p) {
    for (size_t k = 0; k < found[p].second.size(); ++k) {
      EXPECT_NEAR(found[p].second[k], expected[p].second[k], 1e-5) << found[p].first;
    }
  }
}

// Both directions compose: the label party's gradients, whatever noise they have, count as they came.
TEST_F(ProtectedBottomModelTest, LinearStepIsThatOfTheSumOfBothGradients) {
  protection_.mutable_linear()->set_lambda(2.5);
  const std::unique_ptr<BottomModel> model = MakeModel(), plain = MakeModel();
  const std::unique_ptr<ProtectedBottomModel> guarded = Protect(model.get());
  const FeatureBatch batch = MakeBatch();
  Matrix gradient = MakeGradient();
  ASSERT_TRUE(guarded->Forward(batch).ok());
  ASSERT_TRUE(guarded->Backward(gradient, {}).ok());
  ASSERT_TRUE(guarded->Update().ok());

  const Matrix activations(*plain->Forward(batch));
  const ActivationLoss privacy = GaussianPrivacyLoss(activations, {batch.attributes, 2}, 1);
  for (int64_t k = 0; k < gradient.size(); ++k) {
    gradient.data()[k] += static_cast<float>(2.5 * kRows * privacy.gradient.data()[k]);
  }
  ASSERT_TRUE(plain->Backward(gradient, {}).ok());
  ASSERT_TRUE(plain->Update().ok());
  ExpectNear(model->Parameters(), plain->Parameters());
  ASSERT_EQ(guarded->latest().attributes.size(), 1);
  EXPECT_NEAR(guarded->latest().attributes[0].privacy_loss, privacy.value, 1e-12);
  EXPECT_EQ(guarded->latest().attributes[0].weight, 2.5);
}

TEST_F(ProtectedBottomModelTest, ParetoKeepsEveryBatchWithinTheThresholdAndItsSlack) {
  ActivationProtection::Pareto& pareto = *protection_.mutable_pareto();
  pareto.set_threshold(0.1);
  pareto.set_slack(0.5);
  pareto.set_max_correction_steps(500);
  const std::unique_ptr<BottomModel> model = MakeModel();
  const std::unique_ptr<ProtectedBottomModel> guarded = Protect(model.get());
  ASSERT_GT(GaussianPrivacyLoss(*model->Predict(MakeBatch()), {MakeBatch().attributes, 2}, 1).value, 0);
  const absl::StatusOr<int64_t> steps = guarded->Pretrain([&] { return MakeBatch(); });
  ASSERT_TRUE(steps.ok()) << steps.status();
  int64_t corrections = 0;
  for (int step = 0; step < 100; ++step) {
    const FeatureBatch batch = MakeBatch();
    ASSERT_TRUE(guarded->Forward(batch).ok());
    corrections += guarded->latest().correction_steps;
    // What really leaves: the model's own activations, measured anew.
    const Matrix activations = *model->Predict(batch);
    EXPECT_LE(GaussianPrivacyLoss(activations, {batch.attributes, 2}, 1).value, 0.15 + 1e-6);
    // Gradients that pull the attribute into the activations.
    Matrix gradient(kRows, kWidth);
    for (int64_t i = 0; i < kRows; ++i) {
      gradient.row(i)[0] = batch.attributes[i] == 1 ? -1.0f : 1.0f;
    }
    ASSERT_TRUE(guarded->Backward(gradient, {}).ok());
    ASSERT_TRUE(guarded->Update().ok());
  }
  EXPECT_GT(corrections, 0);  // Else nothing was tried.
}

TEST_F(ProtectedBottomModelTest, ABatchThatCannotBeCorrectedDoesNotLeave) {
  protection_.mutable_pareto()->set_threshold(1e-6);
  protection_.mutable_pareto()->set_max_correction_steps(2);
  const std::unique_ptr<BottomModel> model = MakeModel();
  const std::unique_ptr<ProtectedBottomModel> guarded = Protect(model.get());
  const absl::Status status = guarded->Forward(MakeBatch()).status();
  EXPECT_TRUE(IsHalt(status)) << status;
  protection_.mutable_pareto()->set_max_pretraining_steps(3);
  EXPECT_TRUE(IsHalt(Protect(model.get())->Pretrain([&] { return MakeBatch(); }).status()));
}

TEST_F(ProtectedBottomModelTest, EveryMethodTakesItsSteps) {
  const FeatureBatch batch = MakeBatch();
  for (int method = 0; method < 4; ++method) {
    switch (method) {
      case 0:
        protection_.mutable_adversarial()->set_omega(1);
        break;
      case 1:
        protection_.mutable_adversarial_label_flip()->set_omega(1);
        break;
      case 2:
        protection_.mutable_infocensor()->set_lambda(1);
        break;
      default:
        protection_.mutable_pareto()->set_threshold(100);
    }
    const std::unique_ptr<BottomModel> model = MakeModel();
    const NamedParameters before = model->Parameters();
    const std::unique_ptr<ProtectedBottomModel> guarded = Protect(model.get());
    ASSERT_TRUE(guarded->Forward(batch).ok()) << method;
    ASSERT_TRUE(guarded->Backward(MakeGradient(), {}).ok()) << method;
    ASSERT_TRUE(guarded->Update().ok()) << method;
    EXPECT_NE(model->Parameters(), before) << method;
  }
}

// Lowering L_p alone takes it to the threshold: what pre-training rests on, for the kernel loss, too.
TEST_F(ProtectedBottomModelTest, PretrainingLowersTheKernelLoss) {
  protection_.mutable_pareto()->set_threshold(0.004);
  protection_.set_pca_width(2);
  const std::unique_ptr<BottomModel> model = MakeModel();
  const std::unique_ptr<ProtectedBottomModel> guarded = Protect(model.get());
  const absl::StatusOr<int64_t> steps = guarded->Pretrain([&] { return MakeBatch(); });
  ASSERT_TRUE(steps.ok()) << steps.status();
  EXPECT_GT(*steps, 0);
}

TEST_F(ProtectedBottomModelTest, WithoutProtectionIsTheModelItself) {
  protection_.clear_attributes();
  protection_.set_noise_sigma(0);
  protection_.mutable_none();
  const std::unique_ptr<BottomModel> model = MakeModel(), plain = MakeModel();
  absl::StatusOr<std::unique_ptr<ProtectedBottomModel>> guarded =
      ProtectedBottomModel::Create(model.get(), protection_, {}, kWidth, 5);
  ASSERT_TRUE(guarded.ok());
  EXPECT_FALSE((*guarded)->needs_whole_batch());
  const FeatureBatch batch = MakeBatch();
  const Matrix gradient = MakeGradient();
  for (BottomTrainer* each : {static_cast<BottomTrainer*>(guarded->get()), static_cast<BottomTrainer*>(plain.get())}) {
    ASSERT_TRUE(each->Forward(batch).ok());
    ASSERT_TRUE(each->Backward(gradient, {}).ok());
    ASSERT_TRUE(each->Update().ok());
  }
  EXPECT_EQ(model->Parameters(), plain->Parameters());
}

TEST_F(ProtectedBottomModelTest, GoesOnFromACheckpointWithTheSameNoiseAndAdversary) {
  protection_.mutable_adversarial()->set_omega(1);
  const std::unique_ptr<BottomModel> model = MakeModel(), again = MakeModel();
  const std::unique_ptr<ProtectedBottomModel> guarded = Protect(model.get()), continued = Protect(again.get());
  const Matrix gradient = MakeGradient();
  ASSERT_TRUE(guarded->Forward(MakeBatch()).ok());
  ASSERT_TRUE(guarded->Backward(gradient, {}).ok());
  ASSERT_TRUE(guarded->Update().ok());
  ASSERT_TRUE(again->SetTrainingState(model->TrainingState()).ok());
  ASSERT_TRUE(LoadProgress(SaveProgress(*guarded), *continued).ok());
  const FeatureBatch next = MakeBatch();
  const Matrix expected(*guarded->Forward(next)), found(*continued->Forward(next));
  EXPECT_TRUE(std::equal(expected.data(), expected.data() + expected.size(), found.data()));
  for (ProtectedBottomModel* each : {guarded.get(), continued.get()}) {
    ASSERT_TRUE(each->Backward(gradient, {}).ok());
    ASSERT_TRUE(each->Update().ok());
  }
  EXPECT_EQ(model->Parameters(), again->Parameters());
}

}  // namespace
}  // namespace splitveil
