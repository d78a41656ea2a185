// Dense layers in double precision and plain loops: the independent truth that models are compared with.
#ifndef SPLITVEIL_TESTS_UNIT_COMMON_MODEL_REFERENCE_NETWORK_H_
#define SPLITVEIL_TESTS_UNIT_COMMON_MODEL_REFERENCE_NETWORK_H_

#include <cmath>
#include <cstddef>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "common/model/parameters.h"

#include "splitveil/v1/model.pb.h"

namespace splitveil {

inline const std::vector<float>& FindParameter(const NamedParameters& parameters, const std::string& name) {
  for (const auto& [found, values] : parameters) {
    if (found == name) {
      return values;
    }
  }
  ADD_FAILURE() << "no parameter " << name;
  static const std::vector<float> none;
  return none;
}

class ReferenceNetwork {
 public:
  // Takes "NAME.weight" and "NAME.bias" of each of `layers`.
  ReferenceNetwork(const NamedParameters& parameters, const std::vector<v1::Layer>& layers) {
    for (const v1::Layer& layer : layers) {
      layers_.push_back({FindParameter(parameters, layer.name() + ".weight"),
                         FindParameter(parameters, layer.name() + ".bias"), layer.activation()});
    }
  }

  // Output of the last layer for `values` entering layer `first`.
  std::vector<double> Apply(std::vector<double> values, size_t first = 0) const {
    for (size_t l = first; l < layers_.size(); ++l) {
      values = ApplyOne(values, l);
    }
    return values;
  }
  std::vector<double> ApplyOne(const std::vector<double>& values, size_t l) const {
    const Layer& layer = layers_[l];
    std::vector<double> result;
    for (size_t u = 0; u < layer.bias.size(); ++u) {
      double sum = layer.bias[u];
      for (size_t i = 0; i < values.size(); ++i) {
        sum += layer.weight[u * values.size() + i] * values[i];
      }
      result.push_back(Activate(sum, layer.activation));
    }
    return result;
  }

  // Derivative of `function` at `values`, by central differences.
  template <typename Function>
  static std::vector<double> Differentiate(std::vector<double> values, const Function& function) {
    constexpr double kStep = 1e-6;
    std::vector<double> gradient;
    for (double& value : values) {
      const double kept = value;
      value = kept + kStep;
      const double above = function(values);
      value = kept - kStep;
      const double below = function(values);
      value = kept;
      gradient.push_back((above - below) / (2 * kStep));
    }
    return gradient;
  }

 private:
  struct Layer {
    std::vector<float> weight;
    std::vector<float> bias;
    v1::Activation activation;
  };

  static double Activate(double value, v1::Activation activation) {
    switch (activation) {
      case v1::LINEAR:
        return value;
      case v1::RELU:
        return value > 0 ? value : 0;
      case v1::TANH:
        return std::tanh(value);
      case v1::SIGMOID:
        return 1 / (1 + std::exp(-value));
    }
    return value;
  }

  std::vector<Layer> layers_;
};

inline std::vector<double> ToDouble(absl::Span<const float> values) { return {values.begin(), values.end()}; }

inline double Dot(const std::vector<double>& a, absl::Span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

inline void ExpectNear(absl::Span<const float> found, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], tolerance) << "at " << i;
  }
}

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_UNIT_COMMON_MODEL_REFERENCE_NETWORK_H_
