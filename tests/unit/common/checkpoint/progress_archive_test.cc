// What a run has gathered comes back as it was.
#include "common/checkpoint/progress_archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "common/leakage/attack_scorer.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

TEST(ProgressArchiveTest, MatricesAndNumbersComeBackToTheBit) {
  Matrix matrix(2, 3);
  for (int64_t i = 0; i < matrix.size(); ++i) {
    matrix.data()[i] = 0.1F * static_cast<float>(i);
  }
  const std::map<std::string, std::vector<double>> series = {
      {"norm", {0.5, std::numeric_limits<double>::infinity(), -0.0}}, {"", {}}};
  const std::string bytes = SaveProgress(matrix, Matrix(), series);
  Matrix read, none(4, 4);
  std::map<std::string, std::vector<double>> read_series;
  ASSERT_TRUE(LoadProgress(bytes, read, none, read_series).ok());
  EXPECT_EQ(read.cols(), 3);
  EXPECT_EQ(ConstMatrixView(read).values(), ConstMatrixView(matrix).values());
  EXPECT_EQ(none.size(), 0);
  EXPECT_EQ(read_series, series);
}

// Attacks that learn go on with what they have learnt: the same scores of the batches to come.
TEST(ProgressArchiveTest, AnAttackerGoesOnWhereItStopped) {
  constexpr int64_t kRows = 64, kWidth = 6;
  std::vector<uint32_t> positions(kRows);
  for (uint32_t i = 0; i < kRows; ++i) {
    positions[i] = i;
  }
  const auto batch = [&](int number) {
    Matrix rows(kRows, kWidth);
    for (int64_t i = 0; i < rows.size(); ++i) {
      rows.data()[i] = static_cast<float>(((i + 1) * (number + 3) * 2654435761U) % 1000) / 1000 - 0.5F +
                       (i / kWidth % 4 == 0 ? 0.3F : 0.0F);
    }
    return rows;
  };
  const std::vector<AttackVariant> attacks = {
      v1::SPECTRAL,        v1::CUMULATIVE_SPECTRAL,       v1::SURROGATE_HEAD,   v1::UNSPLIT,
      v1::FACTOR_ANALYSIS, v1::CUMULATIVE_SURROGATE_HEAD, v1::GRADIENT_CLUSTERS};
  const auto scores = [&](AttackScorer& scorer, int number) {
    const Matrix gradients = batch(number), activations = batch(number + 100);
    AttackInput input;
    input.gradients = gradients;
    input.positions = positions;
    input.activations = activations;
    EXPECT_TRUE(scorer.Begin(input).ok());
    std::vector<std::vector<float>> all;
    for (const AttackVariant& attack : attacks) {
      all.push_back(*scorer.Score(attack));
    }
    return all;
  };
  const ExampleSample all(kRows);
  AttackScorer undisturbed(all), broken(all), continued(all);
  for (int number = 0; number < 5; ++number) {
    EXPECT_EQ(scores(undisturbed, number), scores(broken, number));
  }
  ASSERT_TRUE(LoadProgress(SaveProgress(broken), continued).ok());
  for (int number = 5; number < 8; ++number) {
    const std::vector<std::vector<float>> expected = scores(undisturbed, number), found = scores(continued, number);
    for (size_t i = 0; i < attacks.size(); ++i) {
      EXPECT_EQ(found[i], expected[i]) << v1::Attack_Name(attacks[i].attack) << " of batch " << number;
    }
  }
}

TEST(ProgressArchiveTest, OtherBytesAreRefused) {
  int64_t number = 0;
  std::vector<double> series;
  for (const std::string& bytes : {std::string(), std::string("abc"), SaveProgress(std::vector<double>(9, 1.0))}) {
    EXPECT_EQ(LoadProgress(bytes.substr(0, bytes.size() / 2), series, number).code(),
              absl::StatusCode::kInvalidArgument);
  }
  std::string other = SaveProgress(number);
  other[8] ^= 1;  // Within the version's text.
  EXPECT_THAT(std::string(LoadProgress(other, number).message()), HasSubstr("resume it with that version"));
}

}  // namespace
}  // namespace splitveil::testing
