// Specifications and random batches for the tests of the model halves.
#ifndef SPLITVEIL_TESTS_UNIT_COMMON_MODEL_MODEL_FIXTURES_H_
#define SPLITVEIL_TESTS_UNIT_COMMON_MODEL_MODEL_FIXTURES_H_

#include <cstdint>
#include <random>
#include <string>

#include "common/dataset/feature_table.h"
#include "common/dataset/features.h"
#include "common/matrix/matrix.h"

#include "splitveil/v1/model.pb.h"
#include "splitveil/v1/optimizer.pb.h"

namespace splitveil {

inline v1::Layer MakeLayer(const std::string& name, int units, v1::Activation activation = v1::RELU) {
  v1::Layer layer;
  layer.set_name(name);
  layer.set_units(units);
  layer.set_activation(activation);
  return layer;
}

inline v1::Optimizer MakeAdam(double learning_rate = 1e-3) {
  v1::Optimizer optimizer;
  optimizer.set_learning_rate(learning_rate);
  optimizer.mutable_adam();
  return optimizer;
}

// Entries uniform in [-1, 1).
inline Matrix RandomMatrix(int64_t rows, int64_t cols, std::mt19937& generator) {
  Matrix matrix(rows, cols);
  for (int64_t i = 0; i < matrix.size(); ++i) {
    matrix.data()[i] = static_cast<float>(generator() >> 8) * 0x1p-23f - 1;
  }
  return matrix;
}

// Category indices are uniform over each column's share of the embedding rows.
inline FeatureBatch RandomFeatures(int64_t rows, const FeatureShape& shape, std::mt19937& generator) {
  FeatureBatch batch;
  batch.rows = rows;
  batch.numeric = RandomMatrix(rows, shape.numeric, generator);
  for (int64_t i = 0; i < rows * shape.categorical; ++i) {
    const int64_t vocabulary = shape.embedding_rows / shape.categorical;
    batch.categories.push_back(i % shape.categorical * vocabulary + generator() % vocabulary);
  }
  return batch;
}

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_UNIT_COMMON_MODEL_MODEL_FIXTURES_H_
