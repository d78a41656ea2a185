#include "common/model/layer_network.h"

#include <torch/csrc/autograd/autograd.h>
#include <utility>

namespace splitveil {
namespace {

at::Tensor Activate(at::Tensor linear, v1::Activation activation) {
  // In place: the derivatives are taken from the output.
  switch (activation) {
    case v1::LINEAR:
      return linear;
    case v1::RELU:
      return linear.relu_();
    case v1::TANH:
      return linear.tanh_();
    case v1::SIGMOID:
      return linear.sigmoid_();
  }
  return linear;
}

}  // namespace

StackParameters::StackParameters(at::Tensor values, const std::vector<PlannedLayer>& layers) : flat(std::move(values)) {
  int64_t start = 0;
  for (const PlannedLayer& layer : layers) {
    const std::vector<int64_t> shape =
        layer.is_convolution() ? std::vector<int64_t>{layer.units, layer.channels, layer.kernel, layer.kernel}
                               : std::vector<int64_t>{layer.units, layer.fan_in};
    leaves.push_back(flat.narrow(0, start, layer.units * layer.fan_in).view(shape).requires_grad_());
    start += layer.units * layer.fan_in;
    leaves.push_back(flat.narrow(0, start, layer.units).requires_grad_());
    start += layer.units;
  }
}

int64_t ParameterCount(const std::vector<PlannedLayer>& layers) {
  int64_t count = 0;
  for (const PlannedLayer& layer : layers) {
    count += layer.units * (layer.fan_in + 1);
  }
  return count;
}

LayerNetwork::LayerNetwork(LayerChain chain, std::vector<PlannedLayer> layers)
    : chain_(std::move(chain)),
      layers_(std::move(layers)),
      outputs_(static_cast<int64_t>(OutputNames(chain_.layers).size())) {
  chain_.layers.clear();
}

void LayerNetwork::ApplyLayer(size_t l, at::Tensor values, const at::Tensor& side,
                              const std::vector<at::Tensor>& leaves, std::vector<at::Tensor>& results) const {
  const PlannedLayer& layer = layers_[l];
  if (layer.is_convolution()) {
    if (l == 0) {
      // Channels innermost in memory, all the way up: a fifth less work for convolutions and pooling.
      values = values.view({-1, layer.channels, layer.unpooled.height, layer.unpooled.width})
                   .contiguous(at::MemoryFormat::ChannelsLast);
    }
    values = Activate(at::conv2d(values, leaves[2 * l], leaves[2 * l + 1], /*stride=*/1, layer.kernel / 2),
                      layer.activation);
    if (layer.is_pooled()) {
      results.push_back(values);
      values = at::max_pool2d(values, layer.max_pool);
    }
  } else {
    values = values.flatten(1);
    if (reads_side(l)) {
      values = at::cat({values, side}, 1);
    }
    values = Activate(at::linear(values, leaves[2 * l], leaves[2 * l + 1]), layer.activation);
  }
  const bool last = l + 1 == layers_.size();
  results.push_back(last ? values.contiguous() : values);  // What leaves has the rows within the channels.
}

std::vector<at::Tensor> LayerNetwork::Apply(const at::Tensor& values, const at::Tensor& side,
                                            const std::vector<at::Tensor>& leaves) const {
  std::vector<at::Tensor> results;
  results.reserve(static_cast<size_t>(outputs_));
  for (size_t l = 0; l < layers_.size(); ++l) {
    ApplyLayer(l, l == 0 ? values : results.back(), side, leaves, results);
  }
  return results;
}

std::vector<at::Tensor> LayerNetwork::GradientsAt(absl::Span<const int64_t> outputs, const at::Tensor& gradient,
                                                  const at::Tensor& values, const at::Tensor& side,
                                                  const std::vector<at::Tensor>& leaves) const {
  const at::AutoGradMode grad(true);
  const std::vector<at::Tensor> computed = Apply(values, side, leaves);
  std::vector<at::Tensor> targets;
  for (const int64_t output : outputs) {
    targets.push_back(computed[output]);
  }
  if (targets.empty()) {
    return {};
  }
  const at::Tensor& last = computed.back();
  std::vector<at::Tensor> found = torch::autograd::grad({last}, targets, {gradient.view(last.sizes())});
  for (at::Tensor& values_there : found) {
    values_there = values_there.contiguous();
  }
  return found;
}

}  // namespace splitveil
