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
class ProtectedBottomModelTest : public ::testing::Test {
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
    // What is really sent: the model's own activations, measured here.
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

// Back through the clipping they would show f(x), and scores of them are sent.
TEST_F(ProtectedBottomModelTest, AttacksAtTheCutReadTheGradientsThatWereReceived) {
  protection_.clear_attributes();
  protection_.mutable_gaussian();
  protection_.set_clip_norm(0.01);
  const std::unique_ptr<BottomModel> model = MakeModel();
  absl::StatusOr<std::unique_ptr<ProtectedBottomModel>> guarded =
      ProtectedBottomModel::Create(model.get(), protection_, {}, kWidth, 5);
  ASSERT_TRUE(guarded.ok()) << guarded.status();
  EXPECT_TRUE((*guarded)->needs_whole_batch());
  const Matrix gradient = MakeGradient();
  ASSERT_TRUE((*guarded)->Forward(MakeBatch()).ok());
  const std::vector<std::string> layers = {"first", "cut"};
  const absl::StatusOr<std::vector<ConstMatrixView>> seen = (*guarded)->Backward(gradient, layers);
  ASSERT_TRUE(seen.ok()) << seen.status();
  for (int64_t k = 0; k < gradient.size(); ++k) {
    EXPECT_EQ((*seen)[1].data()[k], gradient.data()[k]);
  }
}

// The gate and the gradients are of what leaves: here the model's activations lie beyond the norm.
TEST_F(ProtectedBottomModelTest, PrivacyLossIsThatOfTheClippedActivations) {
  protection_.mutable_linear()->set_lambda(2.5);
  protection_.set_clip_norm(0.2);
  protection_.set_noise_sigma(0.05);
  const std::unique_ptr<BottomModel> model = MakeModel(), plain = MakeModel();
  const std::unique_ptr<ProtectedBottomModel> guarded = Protect(model.get());
  const FeatureBatch batch = MakeBatch();
  const Matrix zero(kRows, kWidth);
  const NamedParameters before = model->Parameters();
  ASSERT_TRUE(guarded->Forward(batch).ok());
  ASSERT_TRUE(guarded->Backward(zero, {}).ok());
  ASSERT_TRUE(guarded->Update().ok());

  // L_p of clipped rows, and its derivative by differences at the activations before.
  const Matrix activations(*plain->Forward(batch));
  const auto loss_of = [&](Matrix rows) {
    for (int64_t i = 0; i < rows.rows(); ++i) {
      double norm = 0;
      for (const float value : rows.row(i)) {
        norm += static_cast<double>(value) * value;
      }
      norm = std::sqrt(norm);
      for (float& value : rows.row(i)) {
        value = static_cast<float>(norm > 0.2 ? value * 0.2 / norm : value);
      }
    }
    return GaussianPrivacyLoss(rows, {batch.attributes, 2}, 0.05).value;
  };
  Matrix gradient(kRows, kWidth);
  for (int64_t k = 0; k < gradient.size(); ++k) {
    Matrix above = activations, below = activations;
    const float step = 1e-2f;
    above.data()[k] += step;
    below.data()[k] -= step;
    gradient.data()[k] = static_cast<float>(2.5 * kRows * (loss_of(above) - loss_of(below)) / (2 * step));
  }
  ASSERT_TRUE(plain->Backward(gradient, {}).ok());
  ASSERT_TRUE(plain->Update().ok());
  EXPECT_NEAR(guarded->latest().attributes[0].privacy_loss, loss_of(activations), 1e-4);
  const NamedParameters found = model->Parameters(), expected = plain->Parameters();
  double apart = 0, moved = 0;
  for (size_t p = 0; p < found.size(); ++p) {
    for (size_t k = 0; k < found[p].second.size(); ++k) {
      apart += std::pow(found[p].second[k] - expected[p].second[k], 2);
      moved += std::pow(expected[p].second[k] - before[p].second[k], 2);
    }
  }
  EXPECT_LT(std::sqrt(apart / moved), 0.01);
}

TEST_F(ProtectedBottomModelTest, TheGateJudgesWhatLeavesAfterClipping) {
  protection_.mutable_pareto()->set_max_correction_steps(0);
  protection_.set_clip_norm(0.01);
  const std::unique_ptr<BottomModel> model = MakeModel();
  const FeatureBatch batch = MakeBatch();
  const double unclipped = GaussianPrivacyLoss(*model->Predict(batch), {batch.attributes, 2}, 1).value;
  // Clipped to so little, a release tells next to nothing: it may leave although f(x) may not.
  protection_.mutable_pareto()->set_threshold(unclipped / 10);
  EXPECT_TRUE(Protect(model.get())->Forward(batch).ok());
  protection_.set_clip_norm(0);
  EXPECT_TRUE(IsHalt(Protect(model.get())->Forward(batch).status()));
}

TEST_F(ProtectedBottomModelTest, WhatIsPredictedPassesTheSameGate) {
  const std::unique_ptr<BottomModel> model = MakeModel();
  const FeatureBatch batch = MakeBatch();
  const double loss = GaussianPrivacyLoss(*model->Predict(batch), {batch.attributes, 2}, 1).value;
  protection_.mutable_pareto()->set_slack(0);
  protection_.mutable_pareto()->set_threshold(loss * 0.99);
  EXPECT_TRUE(IsHalt(Protect(model.get())->Predict(batch).status()));

  protection_.mutable_pareto()->set_threshold(loss * 1.01);
  const std::unique_ptr<ProtectedBottomModel> guarded = Protect(model.get());
  EXPECT_TRUE(guarded->TakePredicted().empty());
  ASSERT_TRUE(guarded->Predict(batch).ok());
  const std::vector<AttributeStep> largest = guarded->TakePredicted();
  ASSERT_EQ(largest.size(), 1);
  EXPECT_EQ(largest[0].attribute, "sex");
  EXPECT_NEAR(largest[0].privacy_loss, loss, 1e-9);
  EXPECT_TRUE(guarded->TakePredicted().empty());
}

TEST_F(ProtectedBottomModelTest, ASmallerLastBatchIsJudgedWithTheOneBeforeIt) {
  const std::unique_ptr<BottomModel> model = MakeModel();
  const FeatureBatch batch = MakeBatch();
  FeatureBatch rest;  // One example of each value.
  for (int64_t i = 0; i < kRows && rest.rows < 2; ++i) {
    if (batch.attributes[static_cast<size_t>(i)] == rest.rows) {
      rest.attributes.push_back(batch.attributes[static_cast<size_t>(i)]);
      Matrix numeric(rest.rows + 1, 4);
      numeric.SetBlock(0, rest.numeric);
      numeric.SetBlock(rest.rows, batch.numeric.block(i, 1));
      rest.numeric = numeric;
      ++rest.rows;
    }
  }
  ASSERT_EQ(rest.rows, 2);
  const double loss = GaussianPrivacyLoss(*model->Predict(batch), {batch.attributes, 2}, 1).value;
  const double alone = GaussianPrivacyLoss(*model->Predict(rest), {rest.attributes, 2}, 1).value;
  FeatureBatch all = rest;
  all.rows += kRows;
  all.attributes.insert(all.attributes.end(), batch.attributes.begin(), batch.attributes.end());
  all.numeric = Matrix(all.rows, 4);
  all.numeric.SetBlock(0, rest.numeric);
  all.numeric.SetBlock(2, batch.numeric);
  const double together = GaussianPrivacyLoss(*model->Predict(all), {all.attributes, 2}, 1).value;
  protection_.mutable_pareto()->set_threshold(100);
  const std::unique_ptr<ProtectedBottomModel> guarded = Protect(model.get());
  ASSERT_TRUE(guarded->Predict(batch).ok());
  guarded->TakePredicted();
  ASSERT_TRUE(guarded->Predict(rest).ok());
  EXPECT_NEAR(guarded->TakePredicted()[0].privacy_loss, together, 1e-6);
  EXPECT_GT(std::abs(alone - together), 1e-3);
  EXPECT_GT(std::abs(loss - together), 1e-6);
  // Not with what another model made.
  ASSERT_TRUE(guarded->Forward(batch).ok());
  ASSERT_TRUE(guarded->Discard().ok());
  ASSERT_TRUE(guarded->Predict(rest).ok());
  EXPECT_NEAR(guarded->TakePredicted()[0].privacy_loss, alone, 1e-9);
}

TEST_F(ProtectedBottomModelTest, ALossThatIsNoNumberHalts) {
  FeatureBatch batch = MakeBatch();
  batch.numeric.row(3)[1] = std::nanf("");
  for (const bool pareto : {true, false}) {
    if (pareto) {
      protection_.mutable_pareto()->set_threshold(0.1);
    } else {
      protection_.mutable_linear()->set_lambda(1);
    }
    const std::unique_ptr<BottomModel> model = MakeModel();
    const absl::Status status = Protect(model.get())->Forward(batch).status();
    EXPECT_FALSE(status.ok());  // Activations that are no numbers end any run.
    if (pareto) {
      EXPECT_TRUE(IsHalt(status)) << status;
      EXPECT_TRUE(IsHalt(Protect(model.get())->Predict(batch).status()));
      EXPECT_TRUE(IsHalt(Protect(model.get())->Pretrain([&] { return batch; }).status()));
    }
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
