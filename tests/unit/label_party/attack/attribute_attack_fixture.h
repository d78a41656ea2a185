// A run's activations as the label party sees them, with one attribute to be read.
#ifndef SPLITVEIL_TESTS_UNIT_LABEL_PARTY_ATTACK_ATTRIBUTE_ATTACK_FIXTURE_H_
#define SPLITVEIL_TESTS_UNIT_LABEL_PARTY_ATTACK_ATTRIBUTE_ATTACK_FIXTURE_H_

#include <gtest/gtest.h>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "label_party/attack/attribute_attack_module.h"
#include "tests/testing/small_table.h"
#include "tests/unit/label_party/attack/attribute_examples.h"

namespace splitveil {

// 2000 aligned examples: of ten, six train (one of them marked), two test, two are auxiliary. Activations of width 3
// are Gaussians of each value, `distance` apart, their own in every epoch.
class AttributeAttackFixture : public ::testing::Test {
 protected:
  static constexpr uint32_t kAligned = 2000;
  static constexpr int64_t kWidth = 3;

  AttributeAttackFixture() {
    for (uint32_t position = 0; position < kAligned; ++position) {
      std::vector<std::vector<uint32_t>*> parts = {&examples_.test, &examples_.test, &examples_.auxiliary,
                                                   &examples_.auxiliary, &examples_.marked};
      parts.resize(10, &examples_.unmarked);
      parts[position % 10]->push_back(position);
    }
    values_ = Activations(0).values;
    options_.audit.add_attributes("sex");
    options_.audit.set_embed_auxiliary(true);
    options_.config.set_decoder_epochs(30);
    options_.top_half = DenseModel({16});
    options_.cut_width = kWidth;
    options_.examples = examples_;
    options_.known = {{"sex", 2, Known(values_), {}}};
  }

  // Of all aligned examples in `epoch`, and their true values, which are the same in all epochs.
  AttributeSample Activations(uint32_t epoch) const {
    AttributeSample sample = DrawGaussians({{-1, 0, 0}, {1, 0, 0}}, {1, 1}, kAligned, 1);
    const AttributeSample noise = DrawGaussians({{0, 0, 0}}, {1}, kAligned, 2 + epoch);
    for (int64_t i = 0; i < sample.activations.size(); ++i) {
      sample.activations.data()[i] += 0.1F * noise.activations.data()[i];
    }
    return sample;
  }

  // What the adversary knows of `values`: those of marked and auxiliary examples.
  std::vector<uint8_t> Known(const std::vector<uint8_t>& values) const {
    std::vector<uint8_t> known(values.size(), kUnknownAttribute);
    for (const auto* positions : {&examples_.marked, &examples_.auxiliary}) {
      for (const uint32_t position : *positions) {
        known[position] = values[position];
      }
    }
    return known;
  }

  std::unique_ptr<AttributeAttackModule> Make(std::initializer_list<v1::AttributeAttack> attacks) const {
    AttributeAttackModule::Options options = options_;
    for (const v1::AttributeAttack attack : attacks) {
      options.audit.add_attacks(attack);
    }
    auto module = AttributeAttackModule::Create(std::move(options));
    EXPECT_TRUE(module.ok()) << module.status();
    return *std::move(module);
  }

  static Matrix RowsAt(ConstMatrixView matrix, absl::Span<const uint32_t> positions) {
    Matrix rows(static_cast<int64_t>(positions.size()), matrix.cols());
    for (size_t j = 0; j < positions.size(); ++j) {
      rows.SetBlock(static_cast<int64_t>(j), matrix.block(positions[j], 1));
    }
    return rows;
  }

  std::vector<uint8_t> ValuesAt(absl::Span<const uint32_t> positions) const {
    std::vector<uint8_t> values;
    for (const uint32_t position : positions) {
      values.push_back(values_[position]);
    }
    return values;
  }

  void TakeTraining(AttributeAttackModule& module, uint32_t epoch, ConstMatrixView all) const {
    for (const auto* positions : {&examples_.unmarked, &examples_.marked}) {
      EXPECT_TRUE(module.TakeTraining(epoch, *positions, RowsAt(all, *positions)).ok());
    }
  }

  // In two messages.
  void TakeTest(AttributeAttackModule& module, uint32_t epoch, ConstMatrixView all) const {
    const Matrix rows = RowsAt(all, examples_.test);
    EXPECT_TRUE(module.TakeTest(epoch, 0, rows.block(0, 150)).ok());
    EXPECT_TRUE(module.TakeTest(epoch, 150, rows.block(150, rows.rows() - 150)).ok());
  }

  void TakeAuxiliary(AttributeAttackModule& module, uint32_t epoch, ConstMatrixView all) const {
    EXPECT_TRUE(module.TakeAuxiliary(epoch, 0, RowsAt(all, examples_.auxiliary)).ok());
  }

  void TakeAll(AttributeAttackModule& module, uint32_t epoch, ConstMatrixView all) const {
    TakeTraining(module, epoch, all);
    TakeTest(module, epoch, all);
    TakeAuxiliary(module, epoch, all);
  }

  static absl::Span<const AttributeGuess> Guess(AttributeAttackModule& module, uint32_t epoch) {
    const auto guesses = module.Guess(epoch);
    EXPECT_TRUE(guesses.ok()) << guesses.status();
    return guesses.ok() ? *guesses : absl::Span<const AttributeGuess>();
  }

  AttributeExamples examples_;
  std::vector<uint8_t> values_;  // By aligned position.
  AttributeAttackModule::Options options_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_UNIT_LABEL_PARTY_ATTACK_ATTRIBUTE_ATTACK_FIXTURE_H_
