// Batches and protections for the tests of this folder.
#ifndef SPLITVEIL_TESTS_UNIT_LABEL_PARTY_PROTECTION_PROTECTION_FIXTURE_H_
#define SPLITVEIL_TESTS_UNIT_LABEL_PARTY_PROTECTION_PROTECTION_FIXTURE_H_

#include <array>
#include <cstdint>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/crypto/secure_gaussian.h"
#include "common/matrix/matrix.h"
#include "label_party/protection/protection_factory.h"
#include "tests/unit/label_party/protection/head_behind.h"

#include "splitveil/v1/protection.pb.h"

namespace splitveil {

struct LabelledBatch {
  Matrix gradients;
  std::vector<uint8_t> labels;
};

// Rows of two Gaussian classes whose means are apart and whose spreads and norms differ; every fourth row is positive.
inline LabelledBatch MakeLabelledBatch(int64_t rows, int64_t cols, float scale = 1, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  LabelledBatch batch{Matrix(rows, cols), std::vector<uint8_t>(rows)};
  for (int64_t j = 0; j < rows; ++j) {
    batch.labels[j] = j % 4 == 2 ? 1 : 0;
    for (float& component : batch.gradients.row(j)) {
      component = scale * (batch.labels[j] == 1 ? 0.3f + 0.1f * normal(random) : -0.1f + 0.05f * normal(random));
    }
  }
  return batch;
}

inline std::unique_ptr<SecureGaussian> FixedGaussian(uint8_t key_byte = 7) {
  std::array<uint8_t, 32> key;
  key.fill(key_byte);
  return *SecureGaussian::Create(SecretKey(key));
}

inline v1::GradientProtection ProtectionConfig(const std::string& text) {
  v1::GradientProtection config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config)) << text;
  return config;
}

// Both sides of a protection as configured by `text`, its noise under a fixed key.
inline Protection MakeBothSides(const std::string& text, uint8_t key_byte = 7) {
  auto protection = MakeProtection(ProtectionConfig(text), FixedGaussian(key_byte));
  EXPECT_TRUE(protection.ok()) << protection.status();
  return *std::move(protection);
}

// The gradients' side alone.
inline std::unique_ptr<GradientProtection> MakeProtection(const std::string& text, uint8_t key_byte = 7) {
  return std::move(MakeBothSides(text, key_byte).gradients);
}

inline std::vector<float> ValuesOf(const Matrix& matrix) {
  return std::vector<float>(matrix.data(), matrix.data() + matrix.size());
}

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_UNIT_LABEL_PARTY_PROTECTION_PROTECTION_FIXTURE_H_
