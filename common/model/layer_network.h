// The computation of a stack of layers, forwards and backwards. For .cc files only: it includes LibTorch.
#ifndef SPLITVEIL_COMMON_MODEL_LAYER_NETWORK_H_
#define SPLITVEIL_COMMON_MODEL_LAYER_NETWORK_H_

#include <ATen/ATen.h>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "common/architecture/layer_plan.h"

namespace splitveil {

// All parameters lie in one tensor, so that stashing them is one copy.
struct StackParameters {
  StackParameters(at::Tensor values, const std::vector<PlannedLayer>& layers);

  at::Tensor flat;                // [parameters]
  std::vector<at::Tensor> views;  // Weight and bias of each layer, views of `flat`.
};

// Numbers that the parameters of `layers` take.
int64_t ParameterCount(const std::vector<PlannedLayer>& layers);

// Where a model of `layers` starts: drawn from `seed`, equal seeds give equal parameters.
StackParameters InitialParameters(const std::vector<PlannedLayer>& layers, v1::ModelSpec::Initialization initialization,
                                  uint64_t seed);

// What a layer has computed, as far as its back-propagation needs it.
struct ComputedLayer {
  at::Tensor input;     // What the weights were applied to: [batch, fan_in], or images.
  at::Tensor unpooled;  // Of a pooled layer, before pooling and activation function;
  at::Tensor maxima;    // where the pooling found them.
  at::Tensor output;    // Behind the activation function. The last layer's is contiguous.
};

// Which gradients a back-propagation is for.
struct WantedGradients {
  std::vector<bool> outputs;  // See OutputNames.
  bool input = false;
  bool side = false;
};

// Undefined if not wanted.
struct NetworkGradients {
  std::vector<at::Tensor> outputs;  // See OutputNames.
  at::Tensor input;
  at::Tensor side;
};

// From inputs and parameters to outputs, and gradients back; holds no parameters. Each layer's derivative is written
// out instead of left to autograd, whose graph and engine took a tenth of a Wide & Deep step and which computes an
// activation function's derivative twice if the parameters' gradients are put off. Throws what LibTorch throws.
// Thread-safe. `views`: as those of StackParameters.
class LayerNetwork {
 public:
  LayerNetwork(LayerChain chain, std::vector<PlannedLayer> layers);

  const std::vector<PlannedLayer>& layers() const { return layers_; }
  const LayerChain& chain() const { return chain_; }
  // Gradients of so many outputs can be told apart (OutputNames).
  int64_t outputs() const { return outputs_; }
  bool has_side() const { return chain_.side_width > 0; }

  // Layer `l` of `values`, the output of the one before it. `side`: undefined without one.
  ComputedLayer Compute(size_t l, at::Tensor values, const at::Tensor& side,
                        const std::vector<at::Tensor>& views) const;

  // Every layer.
  std::vector<ComputedLayer> ComputeAll(at::Tensor values, const at::Tensor& side,
                                        const std::vector<at::Tensor>& views) const;

  // Back-propagates `gradient`, as the last layer's output. Calls `visit` with each layer, last to first, and the
  // gradient before its activation function, unless null.
  using Visit = std::function<void(size_t l, const at::Tensor& gradient)>;
  NetworkGradients Backward(const std::vector<ComputedLayer>& computed, at::Tensor gradient,
                            const WantedGradients& wanted, const std::vector<at::Tensor>& views,
                            const Visit& visit) const;

  // Adds to, or if they are undefined sets, the gradients at the weight and bias of layer `l`, sums over the rows.
  // `gradient`: before its activation function.
  void AddAtParameters(size_t l, const ComputedLayer& computed, const at::Tensor& gradient,
                       const std::vector<at::Tensor>& views, at::Tensor& weight, at::Tensor& bias) const;

 private:
  bool reads_side(size_t l) const { return has_side() && static_cast<int64_t>(l) == chain_.side_layer; }

  LayerChain chain_;  // Without its layers.
  std::vector<PlannedLayer> layers_;
  int64_t outputs_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MODEL_LAYER_NETWORK_H_
