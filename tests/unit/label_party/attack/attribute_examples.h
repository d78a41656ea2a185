// Activations that tell of an attribute as much as a test wants.
#ifndef SPLITVEIL_TESTS_UNIT_LABEL_PARTY_ATTACK_ATTRIBUTE_EXAMPLES_H_
#define SPLITVEIL_TESTS_UNIT_LABEL_PARTY_ATTACK_ATTRIBUTE_EXAMPLES_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "common/matrix/matrix.h"

#include "splitveil/v1/model.pb.h"

namespace splitveil {

struct AttributeSample {
  Matrix activations;
  std::vector<uint8_t> values;
};

// Standard normal rows around the centre of their value, which has the probability `priors` gives.
inline AttributeSample DrawGaussians(const std::vector<std::vector<float>>& centres, const std::vector<double>& priors,
                                     int64_t rows, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::discrete_distribution<int> value(priors.begin(), priors.end());
  AttributeSample sample;
  sample.activations = Matrix(rows, static_cast<int64_t>(centres[0].size()));
  for (int64_t j = 0; j < rows; ++j) {
    sample.values.push_back(static_cast<uint8_t>(value(random)));
    for (size_t k = 0; k < centres[0].size(); ++k) {
      sample.activations.row(j)[k] = centres[sample.values.back()][k] + normal(random);
    }
  }
  return sample;
}

// Fraction of rows whose largest score is that of their value.
inline double AccuracyOf(ConstMatrixView scores, absl::Span<const uint8_t> values) {
  int64_t right = 0;
  for (int64_t j = 0; j < scores.rows(); ++j) {
    const auto row = scores.row(j);
    right += std::max_element(row.begin(), row.end()) - row.begin() == values[j] ? 1 : 0;
  }
  return static_cast<double>(right) / static_cast<double>(scores.rows());
}

// Standard deviation of the fraction of `rows` draws that have a probability `p` each.
inline double FractionSpread(double p, int64_t rows) { return std::sqrt(p * (1 - p) / static_cast<double>(rows)); }

// Fully connected layers with a ReLU.
inline v1::ModelSpec DenseModel(const std::vector<int>& units, v1::Activation activation = v1::RELU) {
  v1::ModelSpec model;
  for (const int count : units) {
    v1::Layer& layer = *model.add_layers();
    layer.set_name("layer" + std::to_string(model.layers_size()));
    layer.set_units(count);
    layer.set_activation(activation);
  }
  return model;
}

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_UNIT_LABEL_PARTY_ATTACK_ATTRIBUTE_EXAMPLES_H_
