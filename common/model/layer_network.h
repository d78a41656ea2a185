// The computation of a stack of layers. For .cc files only: it includes LibTorch.
#ifndef SPLITVEIL_COMMON_MODEL_LAYER_NETWORK_H_
#define SPLITVEIL_COMMON_MODEL_LAYER_NETWORK_H_

#include <ATen/ATen.h>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "common/architecture/layer_plan.h"

namespace splitveil {

// All parameters lie in one tensor, so that stashing them is one copy.
struct StackParameters {
  StackParameters(at::Tensor values, const std::vector<PlannedLayer>& layers);

  at::Tensor flat;                 // [parameters]
  std::vector<at::Tensor> leaves;  // Weight and bias of each layer, views of `flat`, leaves of a pass's graph.
};

// Numbers that the parameters of `layers` take.
int64_t ParameterCount(const std::vector<PlannedLayer>& layers);

// From inputs and parameters to outputs; holds no parameters. Throws what LibTorch throws. Thread-safe.
class LayerNetwork {
 public:
  LayerNetwork(LayerChain chain, std::vector<PlannedLayer> layers);

  const std::vector<PlannedLayer>& layers() const { return layers_; }
  const LayerChain& chain() const { return chain_; }
  // Gradients of so many outputs can be told apart (OutputNames).
  int64_t outputs() const { return outputs_; }
  bool has_side() const { return chain_.side_width > 0; }
  bool reads_side(size_t l) const { return has_side() && static_cast<int64_t>(l) == chain_.side_layer; }

  // Adds the outputs of layer `l`, as OutputNames, to `results`; the last is the layer's. `side`: undefined without
  // one.
  void ApplyLayer(size_t l, at::Tensor values, const at::Tensor& side, const std::vector<at::Tensor>& leaves,
                  std::vector<at::Tensor>& results) const;
  // Every output, as OutputNames, of one graph.
  std::vector<at::Tensor> Apply(const at::Tensor& values, const at::Tensor& side,
                                const std::vector<at::Tensor>& leaves) const;
  // Gradients at `outputs` (indices as OutputNames), where that at the last output is `gradient` [batch, its width],
  // contiguous.
  std::vector<at::Tensor> GradientsAt(absl::Span<const int64_t> outputs, const at::Tensor& gradient,
                                      const at::Tensor& values, const at::Tensor& side,
                                      const std::vector<at::Tensor>& leaves) const;

 private:
  LayerChain chain_;  // Without its layers.
  std::vector<PlannedLayer> layers_;
  int64_t outputs_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MODEL_LAYER_NETWORK_H_
