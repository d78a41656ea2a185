#include "label_party/training/release_guard.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <iterator>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/leakage/bounds.h"
#include "label_party/protection/protection_factory.h"
#include "tests/unit/label_party/protection/head_behind.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRows = 64;
constexpr int64_t kCols = 8;

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

std::unique_ptr<GradientProtection> MakeGradientProtection(const std::string& text) {
  std::array<uint8_t, 32> key;
  key.fill(7);
  return std::move(
      MakeProtection(Parse<v1::GradientProtection>(text), *SecureGaussian::Create(SecretKey(key)))->gradients);
}

ReleasedBatch LabelledBatch(std::vector<uint8_t> labels, bool hinted) {
  ReleasedBatch batch;
  batch.labels = std::move(labels);
  if (hinted) {
    batch.hint_rows = {0};
  }
  return batch;
}

TEST(MeasuredLeakTest, IsTheStrongestAttackInEitherDirection) {
  const float values[] = {1, 0, 1, 0, -3, 0, -3, 0.5f};
  Matrix gradients(4, 2);
  std::copy(std::begin(values), std::end(values), gradients.data());
  // Negatives have the larger norm: an AUC of 0, which an adversary turns round.
  EXPECT_EQ(MeasuredLeak(gradients, gradients, LabelledBatch({1, 1, 0, 0}, false)), 1);
  EXPECT_EQ(MeasuredLeak(gradients, gradients, LabelledBatch({1, 1, 0, 0}, true)), 1);
}

TEST(MeasuredLeakTest, IsOneHalfWhereNothingCanBeTold) {
  EXPECT_EQ(MeasuredLeak(Matrix(4, 2), Matrix(4, 2), LabelledBatch({0, 0, 0, 0}, false)), 0.5);
  EXPECT_EQ(MeasuredLeak(Matrix(4, 2), Matrix(4, 2), LabelledBatch({1, 1, 0, 0}, false)), 0.5);
}

class ReleaseGuardTest : public ::testing::Test {
 protected:
  ReleaseGuardTest() : clean_(kRows, kCols) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    batch_.epoch = 1;
    batch_.batch = 2;
    batch_.positions.resize(kRows);
    std::iota(batch_.positions.begin(), batch_.positions.end(), 0);
    for (int64_t j = 0; j < kRows; ++j) {
      batch_.labels.push_back(j % 4 == 0 ? 1 : 0);
      for (float& component : clean_.row(j)) {
        component = (j % 4 == 0 ? 0.3f : -0.1f) + 0.05f * normal(random);
      }
    }
    batch_.hint_rows = {0};
  }

  ReleaseGuard Guard(const std::string& protection, const std::string& policy, double earlier_sum_kl = 0,
                     const std::string& audit = "") {
    const auto config = Parse<v1::GradientProtection>(protection);
    return ReleaseGuard(MakeGradientProtection(protection),
                        *ReleaseGate::Create(Parse<v1::ReleasePolicy>(policy), config), kRows, earlier_sum_kl,
                        RoundedAnswers(Parse<v1::AuditAgreement>(audit)));
  }

  HeadBehind Head() const { return {clean_, batch_.labels}; }

  // What the same protection draws where nothing else has been asked of it.
  std::vector<float> DrawnAtOnce(const std::string& protection, double max_sum_kl) {
    Matrix out;
    EXPECT_TRUE(PerturbRowsWithin(*MakeGradientProtection(protection), clean_, batch_.labels,
                                  {batch_.epoch, batch_.batch, 0}, max_sum_kl, out)
                    .ok());
    return std::vector<float>(out.data(), out.data() + out.size());
  }

  static std::vector<float> ValuesOf(const Matrix& matrix) {
    return std::vector<float>(matrix.data(), matrix.data() + matrix.size());
  }

  Matrix clean_;
  ReleasedBatch batch_;
};

TEST_F(ReleaseGuardTest, ReleasesWhatTheProtectionDrawsAsConfigured) {
  const auto guarded = Guard("marvell { s: 4 }", "").Guard(clean_, batch_, Head().label_free());
  ASSERT_TRUE(guarded.ok()) << guarded.status();
  EXPECT_EQ(guarded->decision.action, v1::RELEASE);
  EXPECT_EQ(guarded->decision.reason, "");
  EXPECT_EQ(ValuesOf(guarded->gradients), DrawnAtOnce("marvell { s: 4 }", GradientProtection::kAsConfigured));
}

TEST_F(ReleaseGuardTest, RaisesThePlanAndDrawsWhatMeetsTheBound) {
  const auto guarded = Guard("iso { t: 0.01 }", "max_step_auc_bound: 0.6 action: RAISE_NOISE")
                           .Guard(clean_, batch_, Head().label_free());
  ASSERT_TRUE(guarded.ok()) << guarded.status();
  EXPECT_EQ(guarded->decision.action, v1::RAISE_NOISE);
  EXPECT_THAT(guarded->decision.reason, HasSubstr("bound on the AUC of one step"));
  EXPECT_LE(guarded->decision.auc_bound, 0.6);
  EXPECT_EQ(ValuesOf(guarded->gradients), DrawnAtOnce("iso { t: 0.01 }", (1 + 1e-11) * guarded->plan.report.sum_kl));
}

TEST_F(ReleaseGuardTest, DrawsAgainWhereTheMeasuredLeakAsksForMore) {
  const auto guarded = Guard("iso { t: 0.0001 }", "max_measured_leak: 0.8 action: RAISE_NOISE")
                           .Guard(clean_, batch_, Head().label_free());
  ASSERT_TRUE(guarded.ok()) << guarded.status();
  EXPECT_EQ(guarded->decision.action, v1::RAISE_NOISE);
  EXPECT_THAT(guarded->decision.reason, HasSubstr("leak measured"));
  EXPECT_LE(MeasuredLeak(guarded->gradients, clean_, batch_), 0.8);
}

TEST_F(ReleaseGuardTest, DrawsNothingThatTheGateKeepsBack) {
  for (const char* action : {"FREEZE_BOTTOM", "HALT"}) {
    // The plan is far beyond a float: drawing it would be an error.
    const auto guarded =
        Guard("iso { t: 1e80 }", std::string("max_run_auc_bound: 0.6 action: ") + action, /*earlier_sum_kl=*/100)
            .Guard(clean_, batch_, Head().label_free());
    ASSERT_TRUE(guarded.ok()) << guarded.status();
    EXPECT_EQ(v1::GateAction_Name(guarded->decision.action), action);
    EXPECT_EQ(guarded->gradients.size(), 0);
  }
}

TEST_F(ReleaseGuardTest, FailsWhereAFloatCannotHoldTheNoiseAsConfigured) {
  EXPECT_EQ(Guard("iso { t: 1e80 }", "").Guard(clean_, batch_, Head().label_free()).status().code(),
            absl::StatusCode::kInternal);
}

TEST_F(ReleaseGuardTest, FreezesWhereNoNoiseKeepsTheLimit) {
  const auto guarded =
      Guard("marvell { s: 4 } distance_correlation { weight: 1 }", "max_step_auc_bound: 0.6 action: RAISE_NOISE")
          .Guard(clean_, batch_, Head().label_free());
  ASSERT_TRUE(guarded.ok()) << guarded.status();
  EXPECT_EQ(guarded->decision.action, v1::FREEZE_BOTTOM);
  EXPECT_THAT(guarded->decision.reason, HasSubstr("no noise keeps that"));
  EXPECT_EQ(guarded->gradients.size(), 0);
}

TEST_F(ReleaseGuardTest, AskingAgainGivesTheSameBytes) {
  for (const char* policy : {"", "max_step_auc_bound: 0.6 action: RAISE_NOISE"}) {
    ReleaseGuard guard = Guard("marvell { s: 4 }", policy);
    const auto first = guard.Guard(clean_, batch_, Head().label_free());
    const auto second = guard.Guard(clean_, batch_, Head().label_free());
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_EQ(ValuesOf(first->gradients), ValuesOf(second->gradients)) << policy;
  }
}

TEST_F(ReleaseGuardTest, SendsTheCleanRowsOfAMethodThatChangesNoneUnlessTheGateBlocksThem) {
  const auto released = Guard("none {}", "max_measured_leak: 0.6").Guard(clean_, batch_, Head().label_free());
  ASSERT_TRUE(released.ok()) << released.status();
  EXPECT_EQ(released->decision.action, v1::WARN);
  EXPECT_THAT(released->decision.reason, HasSubstr("leak measured"));
  EXPECT_TRUE(released->sends_clean);
  for (const char* limit : {"max_step_auc_bound: 0.9", "max_run_auc_bound: 0.9", "max_worst_case_auc_bound: 0.9"}) {
    const auto blocked =
        Guard("none {}", std::string(limit) + " action: FREEZE_BOTTOM").Guard(clean_, batch_, Head().label_free());
    ASSERT_TRUE(blocked.ok()) << blocked.status();
    EXPECT_EQ(blocked->decision.action, v1::FREEZE_BOTTOM) << limit;
    EXPECT_FALSE(blocked->sends_clean);
    EXPECT_EQ(blocked->gradients.size(), 0);
  }
}

TEST_F(ReleaseGuardTest, FreezesAMethodWithoutNoiseWhereTheOperatorHadRaisedIt) {
  ReleaseGuard guard = Guard("none {}", "");
  guard.RaiseNoise({{0, 0}, 0.5});
  const auto guarded = guard.Guard(clean_, batch_, Head().label_free());
  ASSERT_TRUE(guarded.ok()) << guarded.status();
  EXPECT_EQ(guarded->decision.action, v1::FREEZE_BOTTOM);
  EXPECT_FALSE(guarded->sends_clean);
}

TEST_F(ReleaseGuardTest, RefusesGradientsThatAreNotFinite) {
  clean_.row(5)[3] = std::nanf("");
  EXPECT_EQ(Guard("marvell { s: 4 }", "").Guard(clean_, batch_, Head().label_free()).status().code(),
            absl::StatusCode::kInternal);
}

// mu^2 of each answer is a release of its own of every example, counted before its gradients leave.
TEST_F(ReleaseGuardTest, AnswersToScoresAreCountedAndHeldAgainstTheRunsLimit) {
  const std::string audit = "disclosure: ROUNDED every_batches: 1 rounded { mu: 0.5 max_answers: 2 minimum_batch: 64 }";
  ReleaseGuard silent = Guard("iso { t: 4 }", "");
  ReleaseGuard guard = Guard("iso { t: 4 }", "", 0, audit);
  double gradients = 0;
  for (uint32_t number = 0; number < 3; ++number) {
    batch_.batch = number;
    batch_.is_answered = false;
    const absl::StatusOr<GuardedBatch> guarded = guard.Guard(clean_, batch_, Head().label_free());
    ASSERT_TRUE(guarded.ok()) << guarded.status();
    gradients = silent.Account(guarded->plan.report, batch_);
    EXPECT_FALSE(batch_.is_answered);
    const double all = guard.Account(guarded->plan.report, batch_);
    EXPECT_EQ(batch_.is_answered, number < 2);
    EXPECT_NEAR(all, gradients + 0.25 * std::min(number + 1, 2U), 1e-12);
  }
  // A limit that the gradients alone would keep.
  const double limit = GaussianAucBound(gradients / 3 + 0.1);
  const std::string policy = absl::StrCat("action: HALT max_run_auc_bound: ", limit);
  EXPECT_EQ(Guard("iso { t: 4 }", policy).Guard(clean_, batch_, Head().label_free())->decision.action, v1::RELEASE);
  EXPECT_EQ(Guard("iso { t: 4 }", policy, 0, audit).Guard(clean_, batch_, Head().label_free())->decision.action,
            v1::HALT);
}

}  // namespace
}  // namespace splitveil
