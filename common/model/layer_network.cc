#include "common/model/layer_network.h"

#include <ATen/CPUGeneratorImpl.h>
#include <array>
#include <cmath>
#include <tuple>
#include <utility>

namespace splitveil {
namespace {

// In place, since every derivative is taken from the output.
at::Tensor Activate(at::Tensor linear, v1::Activation activation) {
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

// From the gradient after the activation function, whose value is `activated`, to the gradient before it.
at::Tensor BeforeActivation(const at::Tensor& gradient, const at::Tensor& activated, v1::Activation activation) {
  switch (activation) {
    case v1::LINEAR:
      return gradient;
    case v1::RELU:
      return at::threshold_backward(gradient, activated, 0);
    case v1::TANH:
      return at::tanh_backward(gradient, activated);
    case v1::SIGMOID:
      return at::sigmoid_backward(gradient, activated);
  }
  return gradient;
}

// Kernels are odd: height and width stay as they are.
int64_t Padding(const PlannedLayer& layer) { return layer.kernel / 2; }

// Values and places of the maxima.
std::tuple<at::Tensor, at::Tensor> Pool(const PlannedLayer& layer, const at::Tensor& values) {
  return at::max_pool2d_with_indices(values, layer.max_pool, layer.max_pool);
}

// From the gradient after the pooling to the gradient before it.
at::Tensor BeforePooling(const PlannedLayer& layer, const at::Tensor& gradient, const at::Tensor& values,
                         const at::Tensor& maxima) {
  return at::max_pool2d_with_indices_backward(gradient, values, layer.max_pool, layer.max_pool, /*padding=*/0,
                                              /*dilation=*/1, /*ceil_mode=*/false, maxima);
}

// Gradients at the input, the weight and the bias of a convolution; those not in `mask` are undefined.
std::tuple<at::Tensor, at::Tensor, at::Tensor> ConvolutionBackward(const PlannedLayer& layer, const at::Tensor& input,
                                                                   const at::Tensor& gradient, const at::Tensor& weight,
                                                                   std::array<bool, 3> mask) {
  return at::convolution_backward(gradient, input, weight, /*bias_sizes=*/at::IntArrayRef(layer.units),
                                  /*stride=*/{1, 1}, {Padding(layer), Padding(layer)}, /*dilation=*/{1, 1},
                                  /*transposed=*/false, /*output_padding=*/{0, 0}, /*groups=*/1, mask);
}

// From the gradient before a layer's activation function to the gradient at its input.
at::Tensor AtInput(const PlannedLayer& layer, const at::Tensor& input, const at::Tensor& gradient,
                   const at::Tensor& weight) {
  return layer.is_convolution() ? std::get<0>(ConvolutionBackward(layer, input, gradient, weight, {true, false, false}))
                                : at::mm(gradient, weight);
}

}  // namespace

StackParameters::StackParameters(at::Tensor values, const std::vector<PlannedLayer>& layers) : flat(std::move(values)) {
  // In the order of the names of exported parameters: weight, then bias, layer by layer.
  int64_t start = 0;
  for (const PlannedLayer& layer : layers) {
    const std::vector<int64_t> shape =
        layer.is_convolution() ? std::vector<int64_t>{layer.units, layer.channels, layer.kernel, layer.kernel}
                               : std::vector<int64_t>{layer.units, layer.fan_in};
    views.push_back(flat.narrow(0, start, layer.units * layer.fan_in).view(shape));
    start += layer.units * layer.fan_in;
    views.push_back(flat.narrow(0, start, layer.units));
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

StackParameters InitialParameters(const std::vector<PlannedLayer>& layers, v1::ModelSpec::Initialization initialization,
                                  uint64_t seed) {
  StackParameters parameters(at::empty({ParameterCount(layers)}, at::kFloat), layers);
  // Of its own and not LibTorch's global one, which the peer's half or a test may have moved.
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  for (size_t l = 0; l < layers.size(); ++l) {
    const at::Tensor &weight = parameters.views[2 * l], &bias = parameters.views[2 * l + 1];
    const auto fan_in = static_cast<double>(layers[l].fan_in);
    if (initialization == v1::ModelSpec::HE_UNIFORM) {
      // He et al., ICCV 2015: a ReLU halves the variance, so its weights have twice as much.
      const double bound = std::sqrt((layers[l].activation == v1::RELU ? 6 : 3) / fan_in);
      weight.uniform_(-bound, bound, generator);
      bias.zero_();
    } else {
      const double bound = 1 / std::sqrt(fan_in);
      weight.uniform_(-bound, bound, generator);
      bias.uniform_(-bound, bound, generator);
    }
  }
  return parameters;
}

LayerNetwork::LayerNetwork(LayerChain chain, std::vector<PlannedLayer> layers)
    : chain_(std::move(chain)),
      layers_(std::move(layers)),
      outputs_(static_cast<int64_t>(OutputNames(chain_.layers).size())) {
  // The plan holds all that is needed of them.
  chain_.layers.clear();
}

ComputedLayer LayerNetwork::Compute(size_t l, at::Tensor values, const at::Tensor& side,
                                    const std::vector<at::Tensor>& views) const {
  const PlannedLayer& layer = layers_[l];
  ComputedLayer computed;
  if (layer.is_convolution()) {
    if (l == 0) {
      // Channels innermost in memory, all the way up: a fifth less work for convolutions and pooling.
      values = values.view({-1, layer.channels, layer.unpooled.height, layer.unpooled.width})
                   .contiguous(at::MemoryFormat::ChannelsLast);
    }
    computed.input = values;
    computed.output = at::conv2d(values, views[2 * l], views[2 * l + 1], /*stride=*/1, Padding(layer));
    if (layer.is_pooled()) {
      computed.unpooled = computed.output;
      std::tie(computed.output, computed.maxima) = Pool(layer, computed.unpooled);
    }
  } else {
    values = values.flatten(1);
    computed.input = reads_side(l) ? at::cat({values, side}, 1) : values;
    computed.output = at::linear(computed.input, views[2 * l], views[2 * l + 1]);
  }
  // After the pooling, on fewer numbers: activation functions never decrease, so the maxima stay the same.
  computed.output = Activate(computed.output, layer.activation);
  if (l + 1 == layers_.size()) {
    computed.output = computed.output.contiguous();  // A view needs plain row order, not channels last.
  }
  return computed;
}

std::vector<ComputedLayer> LayerNetwork::ComputeAll(at::Tensor values, const at::Tensor& side,
                                                    const std::vector<at::Tensor>& views) const {
  std::vector<ComputedLayer> computed;
  computed.reserve(layers_.size());
  for (size_t l = 0; l < layers_.size(); ++l) {
    values = computed.emplace_back(Compute(l, values, side, views)).output;
  }
  return computed;
}

NetworkGradients LayerNetwork::Backward(const std::vector<ComputedLayer>& computed, at::Tensor gradient,
                                        const WantedGradients& wanted, const std::vector<at::Tensor>& views,
                                        const Visit& visit) const {
  NetworkGradients found;
  found.outputs.resize(wanted.outputs.size());
  size_t output = wanted.outputs.size();
  // Where the next output's gradient goes, last output first; null where it is not wanted.
  const auto next_wanted = [&] { return wanted.outputs[--output] ? &found.outputs[output] : nullptr; };
  for (size_t l = layers_.size(); l-- > 0;) {
    const PlannedLayer& layer = layers_[l];
    const ComputedLayer& here = computed[l];
    // A fully connected layer behind a convolution sees it flattened.
    gradient = gradient.reshape(here.output.sizes());
    if (at::Tensor* const kept = next_wanted()) {
      *kept = gradient;
    }
    at::Tensor linear = BeforeActivation(gradient, here.output, layer.activation);
    if (layer.is_pooled()) {
      if (at::Tensor* const kept = next_wanted()) {
        // Of equal numbers in a window (zeros after a ReLU), the maximum is the one that pooling of the activated
        // numbers picks: so it is found again there.
        const at::Tensor activated = Activate(here.unpooled.clone(), layer.activation);
        *kept = BeforePooling(layer, gradient, activated, std::get<1>(Pool(layer, activated)));
      }
      linear = BeforePooling(layer, linear, here.unpooled, here.maxima);
    }
    // The first layer's input gradient is a product as large as its forward: only on request.
    if (l > 0 || wanted.input || (wanted.side && reads_side(l))) {
      gradient = AtInput(layer, here.input, linear, views[2 * l]);
      if (reads_side(l)) {
        const int64_t before_side = layer.fan_in - chain_.side_width;
        found.side = wanted.side ? gradient.narrow(1, before_side, chain_.side_width) : at::Tensor();
        // Only the part that the layer below has made goes on down.
        gradient = gradient.narrow(1, 0, before_side);
      }
    }
    if (visit != nullptr) {
      visit(l, linear);
    }
  }
  if (wanted.input) {
    found.input = gradient;
  }
  return found;
}

void LayerNetwork::AddAtParameters(size_t l, const ComputedLayer& computed, const at::Tensor& gradient,
                                   const std::vector<at::Tensor>& views, at::Tensor& weight, at::Tensor& bias) const {
  const PlannedLayer& layer = layers_[l];
  at::Tensor at_weight, at_bias;
  if (layer.is_convolution()) {
    std::tie(std::ignore, at_weight, at_bias) =
        ConvolutionBackward(layer, computed.input, gradient, views[2 * l], {false, true, true});
  } else {
    // The sum over the rows of (gradient of a row) x (its input), in one product.
    at_weight = at::mm(gradient.t(), computed.input);
    at_bias = gradient.sum(0);
  }
  // Slices of a batch add up; the first one sets, which saves a pass over zeros.
  for (const auto& [sum, part] : {std::pair(&weight, &at_weight), std::pair(&bias, &at_bias)}) {
    *sum = sum->defined() ? sum->add_(*part) : part->contiguous();
  }
}

}  // namespace splitveil
