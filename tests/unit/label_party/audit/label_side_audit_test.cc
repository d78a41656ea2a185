#include "label_party/audit/label_side_audit.h"

#include <cstdint>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vector>

namespace splitveil {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// One batch of rows of these lengths, all along one direction; every other one positive.
class LabelSideAuditTest : public ::testing::Test {
 protected:
  std::vector<double> LongestOthers(const std::vector<float>& lengths, bool has_noise_along_rows) {
    const auto rows = static_cast<int64_t>(lengths.size());
    Matrix clean(rows, 2), directions(rows, 2);
    ReleasedBatch batch;
    for (int64_t j = 0; j < rows; ++j) {
      clean.row(j)[0] = 0.6F * lengths[j];
      clean.row(j)[1] = -0.8F * lengths[j];
      directions.row(j)[0] = 1;
      batch.labels.push_back(j % 2);
      batch.positions.push_back(static_cast<uint32_t>(j));
    }
    const std::vector<float> probabilities(lengths.size(), 0.5F);
    ReleaseEvidence evidence = {clean, clean, clean};
    evidence.label_directions = directions;
    evidence.probabilities = probabilities;
    evidence.has_noise_along_rows = has_noise_along_rows;
    v1::LabelSideAudit config;
    config.add_attacks(v1::CONDITIONAL_LIKELIHOOD_RATIO);
    LabelSideAudit audit(config, rows);
    const auto scores = audit.Score(batch, evidence);
    EXPECT_TRUE(scores.ok()) << scores.status();
    EXPECT_EQ(scores->size(), 1u);
    const auto head = audit.HeadOf(evidence);
    EXPECT_TRUE(head.has_value());
    return {head->longest_others.begin(), head->longest_others.end()};
  }
};

TEST_F(LabelSideAuditTest, TellsMaxNormsLawTheLongestOfTheOtherRows) {
  EXPECT_THAT(LongestOthers({1, 4, 2, 0}, true),
              ElementsAre(DoubleNear(4, 1e-6), DoubleNear(2, 1e-6), DoubleNear(4, 1e-6), DoubleNear(4, 1e-6)));
  EXPECT_THAT(LongestOthers({4, 1, 4}, true), Each(DoubleNear(4, 1e-6)));
}

TEST_F(LabelSideAuditTest, TellsNothingOfItWhereTheNoiseIsAnother) {
  EXPECT_THAT(LongestOthers({1, 4, 2, 0}, false), IsEmpty());
}

}  // namespace
}  // namespace splitveil
