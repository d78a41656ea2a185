#include "label_party/attack/attribute_attack_module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/label_party/attack/attribute_attack_fixture.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class AttributeAttackModuleTest : public AttributeAttackFixture {
 protected:
  // Phi(1 / sqrt(1.01)), what the best classifier of these activations reaches, less four standard deviations of 400
  // trials and 0.02 for few examples to learn from.
  static constexpr double kRead = 0.84 - 4 * 0.0183 - 0.02;

  static std::vector<std::string> NamesOf(absl::Span<const AttributeGuess> guesses) {
    std::vector<std::string> names;
    for (const AttributeGuess& guess : guesses) {
      names.push_back(std::string(TraitsOf(guess.attack).name) + " " + guess.attribute + " " +
                      v1::AttributeGuesses::Examples_Name(guess.examples));
    }
    return names;
  }
};

TEST_F(AttributeAttackModuleTest, ReadsTheAttributeByEveryAttackWhereItIsTried) {
  const auto module = Make({v1::BASIC, v1::LINEAR_PROBE, v1::POISON});
  TakeAll(*module, 0, Activations(0).activations);
  const auto guesses = Guess(*module, 0);
  ASSERT_THAT(NamesOf(guesses),
              ElementsAre("basic sex TEST", "linear_probe sex TEST", "poison sex TEST", "poison sex TRAINING"));
  for (const AttributeGuess& guess : guesses) {
    const bool test = guess.examples == v1::AttributeGuesses::TEST;
    EXPECT_GT(AccuracyOf(guess.scores, ValuesAt(test ? examples_.test : examples_.unmarked)), kRead)
        << TraitsOf(guess.attack).name;
  }
}

TEST_F(AttributeAttackModuleTest, GuessesEveryAttributeForItself) {
  // The second has three values that no activation tells of.
  options_.audit.add_attributes("colour");
  std::vector<uint8_t> colours(kAligned);
  for (uint32_t position = 0; position < kAligned; ++position) {
    colours[position] = position / 10 % 3;
  }
  options_.known.insert(options_.known.begin(), {"colour", 3, Known(colours), {}});
  const auto module = Make({v1::BASIC});
  TakeAll(*module, 0, Activations(0).activations);
  const auto guesses = Guess(*module, 0);
  ASSERT_THAT(NamesOf(guesses), ElementsAre("basic sex TEST", "basic colour TEST"));
  EXPECT_EQ(guesses[1].scores.cols(), 3);
  std::vector<uint8_t> true_colours;
  for (const uint32_t position : examples_.test) {
    true_colours.push_back(colours[position]);
  }
  EXPECT_LT(AccuracyOf(guesses[1].scores, true_colours), 1 / 3. + 4 * FractionSpread(1 / 3., 400));
}

TEST_F(AttributeAttackModuleTest, PoisonLearnsFromMarkedExamplesAlone) {
  const Matrix all = Activations(0).activations;
  const auto scores = [&](const std::vector<uint8_t>& by_position, ConstMatrixView activations) {
    options_.known[0].by_position = by_position;
    const auto module = Make({v1::POISON});
    TakeTraining(*module, 0, activations);
    TakeTest(*module, 0, all);
    const auto guesses = Guess(*module, 0);
    return guesses.empty() ? Matrix() : guesses[0].scores;
  };
  const std::vector<uint8_t> known = Known(values_);
  const Matrix expected = scores(known, all);
  // All other values wrong, all other activations changed.
  std::vector<uint8_t> flipped = values_;
  Matrix changed = all;
  for (uint32_t position = 0; position < kAligned; ++position) {
    flipped[position] = position % 10 == 4 ? values_[position] : 1 - values_[position];
    changed.row(position)[0] += position % 10 == 4 ? 0.F : 3.F;
  }
  EXPECT_EQ(ConstMatrixView(scores(flipped, changed)).values(), ConstMatrixView(expected).values());
  // One marked value is enough to be told.
  flipped[4] = 1 - flipped[4];
  EXPECT_NE(ConstMatrixView(scores(flipped, changed)).values(), ConstMatrixView(expected).values());
}

TEST_F(AttributeAttackModuleTest, BasicLearnsFromAuxiliaryExamplesAlone) {
  const auto scores = [&](const std::vector<uint8_t>& by_position) {
    options_.known[0].by_position = by_position;
    const auto module = Make({v1::BASIC});
    EXPECT_FALSE(module->needs_training());
    TakeAll(*module, 0, Activations(0).activations);
    return Guess(*module, 0)[0].scores;
  };
  std::vector<uint8_t> flipped = values_;
  for (uint32_t position = 0; position < kAligned; ++position) {
    const bool auxiliary = position % 10 == 2 || position % 10 == 3;
    flipped[position] = auxiliary ? values_[position] : 1 - values_[position];
  }
  EXPECT_EQ(ConstMatrixView(scores(flipped)).values(), ConstMatrixView(scores(Known(values_))).values());
}

TEST_F(AttributeAttackModuleTest, GuessesAreThoseOfTheSeed) {
  std::vector<std::vector<float>> found;
  for (const uint64_t seed : {1, 1, 2}) {
    options_.config.set_seed(seed);
    const auto module = Make({v1::POISON, v1::BASIC});
    for (const uint32_t epoch : {0, 1}) {
      TakeAll(*module, epoch, Activations(epoch).activations);
      EXPECT_THAT(NamesOf(Guess(*module, epoch)), ::testing::SizeIs(3));
    }
    std::vector<float>& all = found.emplace_back();
    for (const AttributeGuess& guess : Guess(*module, 1)) {
      all.insert(all.end(), guess.scores.data(), guess.scores.data() + guess.scores.size());
    }
  }
  EXPECT_EQ(found[0], found[1]);
  EXPECT_NE(found[0], found[2]);
}

TEST_F(AttributeAttackModuleTest, TheSameEpochHasTheSameGuesses) {
  const auto module = Make({v1::POISON});
  TakeAll(*module, 0, Activations(0).activations);
  const Matrix first = Guess(*module, 0)[0].scores;
  EXPECT_EQ(ConstMatrixView(Guess(*module, 0)[0].scores).values(), ConstMatrixView(first).values());
}

TEST_F(AttributeAttackModuleTest, DecodersOfTheTrainingStayFromEpochToEpochAndOthersDoNot) {
  options_.config.set_decoder_epochs(1);
  const Matrix all = Activations(0).activations;
  for (const v1::AttributeAttack attack : {v1::POISON, v1::BASIC}) {
    const auto module = Make({attack});
    TakeAll(*module, 0, all);
    const Matrix first = Guess(*module, 0)[0].scores;
    TakeAll(*module, 1, all);
    const Matrix second = Guess(*module, 1)[0].scores;
    EXPECT_EQ(ConstMatrixView(first).values() == ConstMatrixView(second).values(), attack == v1::BASIC);
  }
}

// Noise that is drawn again in each epoch, three times as wide as the values are apart: one epoch alone tells little,
// Phi(1 / 3) = 0.63 at most, sixteen together Phi(4 / 3) = 0.91.
TEST_F(AttributeAttackModuleTest, OneThatRemembersReadsWhatNoSingleEpochShows) {
  constexpr uint32_t kEpochs = 16;
  options_.audit.set_every_epochs(kEpochs);
  const auto module = Make({v1::POISON, v1::CUMULATIVE_POISON});
  for (uint32_t epoch = 0; epoch < kEpochs; ++epoch) {
    Matrix all = DrawGaussians({{0, 0, 0}}, {1}, kAligned, 100 + epoch).activations;
    for (uint32_t position = 0; position < kAligned; ++position) {
      for (float& value : all.row(position)) {
        value *= 3;
      }
      all.row(position)[0] += values_[position] == 1 ? 1.F : -1.F;
    }
    TakeTraining(*module, epoch, all);
    TakeTest(*module, epoch, all);
  }
  const auto guesses = Guess(*module, kEpochs - 1);
  ASSERT_THAT(NamesOf(guesses), ElementsAre("poison sex TEST", "poison sex TRAINING", "cumulative_poison sex TEST",
                                            "cumulative_poison sex TRAINING"));
  EXPECT_LT(AccuracyOf(guesses[0].scores, ValuesAt(examples_.test)), 0.63 + 4 * FractionSpread(0.63, 400));
  EXPECT_GT(AccuracyOf(guesses[2].scores, ValuesAt(examples_.test)), 0.74);
  EXPECT_GT(AccuracyOf(guesses[3].scores, ValuesAt(examples_.unmarked)), 0.74);
}

// Training and test examples are remembered of the same epochs, or the columns would not be the same.
TEST_F(AttributeAttackModuleTest, OneThatRemembersLeavesOutEpochsThatAreNotWhole) {
  const auto module = Make({v1::CUMULATIVE_POISON});
  const Matrix all = Activations(0).activations;
  TakeTest(*module, 0, all);
  EXPECT_THAT(Guess(*module, 0), IsEmpty());
  TakeTraining(*module, 1, all);
  EXPECT_THAT(Guess(*module, 1), IsEmpty());
  TakeAll(*module, 2, all);
  TakeAll(*module, 2, all);  // Again, where an answer was lost: counts once.
  const auto guesses = Guess(*module, 2);
  ASSERT_THAT(NamesOf(guesses), ElementsAre("cumulative_poison sex TEST", "cumulative_poison sex TRAINING"));
  EXPECT_GT(AccuracyOf(guesses[0].scores, ValuesAt(examples_.test)), kRead);
}

TEST_F(AttributeAttackModuleTest, ForATorchScriptTopTheDecoderHasLayersOfItsOwn) {
  options_.top_half.clear_layers();
  options_.top_half.set_torchscript_path("top.pt");
  const auto module = Make({v1::BASIC});
  TakeAll(*module, 0, Activations(0).activations);
  EXPECT_GT(AccuracyOf(Guess(*module, 0)[0].scores, ValuesAt(examples_.test)), kRead);
}

TEST_F(AttributeAttackModuleTest, AnAttackOfWhichNotAllHasComeMakesNoGuess) {
  const auto module = Make({v1::BASIC, v1::POISON});
  const Matrix all = Activations(0).activations;
  EXPECT_THAT(Guess(*module, 0), IsEmpty());
  TakeTraining(*module, 1, all);
  TakeTest(*module, 1, all);
  EXPECT_THAT(NamesOf(Guess(*module, 1)), ElementsAre("poison sex TEST", "poison sex TRAINING"));
  // Epoch 2 lacks a training example, and the test examples of epoch 1 do not stand in for its own.
  TakeAuxiliary(*module, 2, all);
  EXPECT_TRUE(module->TakeTraining(2, examples_.marked, RowsAt(all, examples_.marked)).ok());
  EXPECT_THAT(Guess(*module, 2), IsEmpty());
  TakeTraining(*module, 3, all);
  EXPECT_THAT(NamesOf(Guess(*module, 3)), ElementsAre("poison sex TRAINING"));
}

// As of a run with more examples than are kept: those left out come among the others, and change nothing.
TEST_F(AttributeAttackModuleTest, ExamplesThatAreLeftOutAreNotWaitedForAndNotKept) {
  const AttributeExamples whole = examples_;
  const Matrix all = Activations(0).activations;
  Matrix other = all;
  for (const auto* positions : {&whole.marked, &whole.unmarked}) {
    for (const uint32_t position : absl::MakeConstSpan(*positions).subspan(positions->size() / 2)) {
      other.row(position)[0] = 100;
    }
  }
  options_.examples.marked.resize(whole.marked.size() / 2);
  options_.examples.unmarked.resize(whole.unmarked.size() / 2);
  std::vector<std::vector<float>> found;
  for (const Matrix& activations : {all, other}) {
    const auto module = Make({v1::POISON});
    TakeAll(*module, 0, activations);
    const auto guesses = Guess(*module, 0);
    ASSERT_EQ(guesses.size(), 2);
    EXPECT_EQ(guesses[1].scores.rows(), options_.examples.unmarked.size());
    EXPECT_GT(AccuracyOf(guesses[1].scores, ValuesAt(options_.examples.unmarked)), kRead);
    const auto scores = ConstMatrixView(guesses[1].scores).values();
    found.emplace_back(scores.begin(), scores.end());
  }
  EXPECT_EQ(found[0], found[1]);
}

TEST_F(AttributeAttackModuleTest, SaysWhatItNeedsAndWhen) {
  EXPECT_FALSE(Make({})->needs_test());
  EXPECT_FALSE(Make({})->IsDue(0, true));
  EXPECT_TRUE(Make({v1::LINEAR_PROBE})->needs_auxiliary());
  EXPECT_FALSE(Make({v1::LINEAR_PROBE})->needs_training());
  EXPECT_FALSE(Make({v1::POISON})->needs_auxiliary());
  EXPECT_TRUE(Make({v1::POISON})->needs_training());
  options_.audit.set_every_epochs(3);
  const auto module = Make({v1::POISON});
  EXPECT_TRUE(module->needs_test());
  EXPECT_FALSE(module->IsDue(0, false));
  EXPECT_TRUE(module->IsDue(0, true));
  EXPECT_TRUE(module->IsDue(2, false));
  EXPECT_FALSE(module->IsDue(3, false));
}

}  // namespace
}  // namespace splitveil
