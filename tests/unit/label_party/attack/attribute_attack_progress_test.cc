// What the attacks on attributes carry over a checkpoint.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "common/checkpoint/progress_archive.h"
#include "common/process/exit_code.h"
#include "tests/unit/label_party/attack/attribute_attack_fixture.h"

namespace splitveil {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class AttributeAttackProgressTest : public AttributeAttackFixture {
 protected:
  // A second attribute, of three values, and features for SIMULATOR.
  AttributeAttackProgressTest() {
    std::vector<uint8_t> colours(kAligned);
    for (uint32_t position = 0; position < kAligned; ++position) {
      colours[position] = position / 10 % 3;
    }
    const AttributeSample own = DrawGaussians({{-1, 0}, {1, 0}}, {1, 1}, 500, 9);
    splitveil::testing::SmallTable table;
    std::vector<uint32_t> rows;
    std::vector<uint8_t> own_colours;
    for (uint32_t row = 0; row < own.values.size(); ++row) {
      const auto features = own.activations.row(row);
      table.ids.push_back(std::to_string(row));
      table.numeric.emplace_back(features.begin(), features.end());
      rows.push_back(row);
      own_colours.push_back(row % 3);
    }
    options_.features = std::make_shared<FeatureTable>(table.Store(), rows);
    *options_.config.mutable_shadow_model() = DenseModel({kWidth});
    options_.config.set_decoder_epochs(2);  // So that what was learnt before counts.
    options_.known[0].by_feature_row = own.values;
    options_.known.push_back({"colour", 3, Known(colours), own_colours});
    options_.audit.add_attributes("colour");
  }

  std::unique_ptr<AttributeAttackModule> MakeAll() const {
    return Make({v1::BASIC, v1::LINEAR_PROBE, v1::POISON, v1::CUMULATIVE_POISON, v1::SIMULATOR});
  }

  // An epoch from its first batch to its guesses.
  std::vector<std::vector<float>> Attack(AttributeAttackModule& module, uint32_t epoch) const {
    TakeAll(module, epoch, Activations(epoch).activations);
    return ScoresOf(Guess(module, epoch));
  }

  static std::vector<std::vector<float>> ScoresOf(absl::Span<const AttributeGuess> guesses) {
    std::vector<std::vector<float>> scores;
    for (const AttributeGuess& guess : guesses) {
      scores.emplace_back(guess.scores.data(), guess.scores.data() + guess.scores.size());
    }
    return scores;
  }

  // Of two attributes: two attacks on test examples, three on test and training examples.
  static constexpr int kSeries = 2 * (2 + 2 * 3);
};

TEST_F(AttributeAttackProgressTest, ARunThatGoesOnWithinAnEpochMakesTheSameGuesses) {
  const auto undisturbed = MakeAll();
  for (const uint32_t epoch : {0, 1, 2}) {
    Attack(*undisturbed, epoch);
  }
  const std::vector<std::vector<float>> expected = Attack(*undisturbed, 3);
  ASSERT_THAT(expected, SizeIs(kSeries));

  const auto broken = MakeAll();
  for (const uint32_t epoch : {0, 1}) {
    Attack(*broken, epoch);
  }
  const Matrix all = Activations(2).activations;
  ASSERT_TRUE(broken->TakeTraining(2, examples_.marked, RowsAt(all, examples_.marked)).ok());
  const std::string progress = SaveProgress(*broken);

  const auto continued = MakeAll();
  ASSERT_TRUE(LoadProgress(progress, *continued).ok());
  ASSERT_TRUE(continued->TakeTraining(2, examples_.unmarked, RowsAt(all, examples_.unmarked)).ok());
  TakeTest(*continued, 2, all);
  TakeAuxiliary(*continued, 2, all);
  ASSERT_THAT(Guess(*continued, 2), SizeIs(kSeries));
  EXPECT_EQ(Attack(*continued, 3), expected);

  const auto forgetful = MakeAll();
  Attack(*forgetful, 2);
  EXPECT_NE(Attack(*forgetful, 3), expected);
}

TEST_F(AttributeAttackProgressTest, ARunThatGoesOnAfterItsGuessesMakesTheNextOnesAndNoneTwice) {
  const auto undisturbed = MakeAll();
  Attack(*undisturbed, 0);
  const std::string progress = SaveProgress(*undisturbed);
  const std::vector<std::vector<float>> expected = Attack(*undisturbed, 1);

  const auto continued = MakeAll();
  ASSERT_TRUE(LoadProgress(progress, *continued).ok());
  EXPECT_THAT(Guess(*continued, 0), IsEmpty());
  EXPECT_EQ(Attack(*continued, 1), expected);
}

TEST_F(AttributeAttackProgressTest, ProgressThatDoesNotFitIsRefused) {
  const auto expect_refused = [](absl::string_view progress, AttributeAttackModule& module) {
    EXPECT_EQ(LoadProgress(progress, module).code(), absl::StatusCode::kInvalidArgument) << progress.size();
  };
  const auto module = MakeAll();
  Attack(*module, 0);
  const std::string progress = SaveProgress(*module);
  const absl::string_view bytes = progress;
  for (const size_t part : {0, 1, 2, 4, 6, 7}) {
    expect_refused(bytes.substr(0, bytes.size() * part / 8), *MakeAll());
  }
  const AttributeAttackModule::Options fitting = options_;
  options_.top_half = DenseModel({17});
  expect_refused(bytes, *MakeAll());
  options_ = fitting;
  options_.config.mutable_shadow_model()->mutable_layers(0)->set_name("other");
  expect_refused(bytes, *MakeAll());
  options_ = fitting;
  options_.examples.test.pop_back();
  expect_refused(bytes, *MakeAll());
  options_ = fitting;
  options_.examples.unmarked.pop_back();
  expect_refused(bytes, *MakeAll());
}

TEST_F(AttributeAttackProgressTest, DecodersLeaveOffOnRequest) {
  for (const v1::AttributeAttack attack : {v1::BASIC, v1::POISON, v1::CUMULATIVE_POISON, v1::SIMULATOR}) {
    const auto module = Make({attack});
    TakeAll(*module, 0, Activations(0).activations);
    static int asked;
    asked = 0;
    EXPECT_TRUE(IsStoppedOnRequest(module->Guess(0, [] { return ++asked == 3; }).status()));
    EXPECT_EQ(asked, 3);
  }
}

}  // namespace
}  // namespace splitveil
