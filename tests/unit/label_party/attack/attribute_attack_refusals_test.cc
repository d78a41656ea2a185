#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

#include "tests/unit/label_party/attack/attribute_attack_fixture.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;

class AttributeAttackRefusalsTest : public AttributeAttackFixture {
 protected:
  // Expects Create with one change to refuse it, and to name `what`.
  void ExpectRefused(v1::AttributeAttack attack, const std::string& what,
                     const std::function<void(AttributeAttackModule::Options&)>& change) {
    AttributeAttackModule::Options options = options_;
    options.audit.add_attacks(attack);
    change(options);
    const absl::Status status = AttributeAttackModule::Create(std::move(options)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << what;
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
  }
};

TEST_F(AttributeAttackRefusalsTest, AnAttackNeedsWhatItLearnsFrom) {
  ExpectRefused(v1::BASIC, "embed_auxiliary", [](auto& options) { options.audit.set_embed_auxiliary(false); });
  ExpectRefused(v1::LINEAR_PROBE, "auxiliary examples", [](auto& options) { options.examples.auxiliary.clear(); });
  ExpectRefused(v1::POISON, "marked", [](auto& options) { options.examples.marked.clear(); });
  ExpectRefused(v1::SIMULATOR, "shadow_model", [](auto&) {});
  ExpectRefused(v1::ATTRIBUTE_ATTACK_UNSPECIFIED, "attacks", [](auto&) {});
}

TEST_F(AttributeAttackRefusalsTest, AnAttributeMustBeKnown) {
  ExpectRefused(v1::BASIC, "sex", [](auto& options) { options.known.clear(); });
  ExpectRefused(v1::BASIC, "no known one", [](auto& options) {
    for (const uint32_t position : options.examples.auxiliary) {
      options.known[0].by_position[position] = kUnknownAttribute;
    }
  });
  ExpectRefused(v1::BASIC, "below 2",
                [](auto& options) { options.known[0].by_position[options.examples.auxiliary[5]] = 2; });
  ExpectRefused(v1::BASIC, "below 1", [](auto& options) { options.known[0].values = 1; });
  ExpectRefused(v1::BASIC, "2 to 254", [](auto& options) { options.known[0].values = 255; });
  ExpectRefused(v1::BASIC, "rows of features", [](auto& options) { options.known[0].by_feature_row = {1}; });
}

TEST_F(AttributeAttackRefusalsTest, PositionsAscendWithinTheAlignedExamples) {
  ExpectRefused(v1::BASIC, "auxiliary examples", [](auto& options) { options.examples.auxiliary.back() = kAligned; });
  ExpectRefused(v1::BASIC, "test examples", [](auto& options) { options.examples.test[1] = options.examples.test[0]; });
  ExpectRefused(v1::POISON, "unmarked examples", [](auto& options) { options.examples.unmarked.back() = kAligned; });
  ExpectRefused(v1::POISON, "marked examples", [](auto& options) {
    options.examples.unmarked.insert(options.examples.unmarked.begin(), options.examples.marked[0]);
  });
  ExpectRefused(v1::POISON, "both need one for each aligned example", [](auto& options) {
    options.audit.add_attributes("other");
    options.known.push_back({"other", 2, {0, 1}, {}});
  });
}

TEST_F(AttributeAttackRefusalsTest, ActivationsFitTheRun) {
  const auto module = Make({v1::BASIC, v1::POISON});
  const auto expect_refused = [](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  };
  const Matrix row(1, kWidth);
  const Matrix wide(1, kWidth + 1);
  const std::vector<uint32_t> trained = {examples_.unmarked[0]};
  EXPECT_TRUE(module->TakeTraining(0, trained, row).ok());
  expect_refused(module->TakeTraining(0, trained, wide));
  expect_refused(module->TakeTraining(0, trained, Matrix(2, kWidth)));
  const auto test = static_cast<int64_t>(examples_.test.size());
  EXPECT_TRUE(module->TakeTest(0, test - 1, row).ok());
  expect_refused(module->TakeTest(0, test, row));
  expect_refused(module->TakeTest(0, -1, row));
  expect_refused(module->TakeTest(0, std::numeric_limits<int64_t>::max(), row));
  expect_refused(module->TakeTest(0, 0, wide));
  expect_refused(module->TakeAuxiliary(0, static_cast<int64_t>(examples_.auxiliary.size()), row));
  expect_refused(module->TakeAuxiliary(0, 0, wide));
}

TEST_F(AttributeAttackRefusalsTest, ActivationsThatAreNotFiniteEndTheAttack) {
  const auto module = Make({v1::BASIC});
  Matrix all = Activations(0).activations;
  all.row(examples_.test[7])[0] = std::numeric_limits<float>::infinity();
  TakeAll(*module, 0, all);
  EXPECT_EQ(module->Guess(0).status().code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace splitveil
