// Shapes of a chain of layers, from the specification and the shape of its input, before any memory is spent on them.
#ifndef SPLITVEIL_COMMON_ARCHITECTURE_LAYER_PLAN_H_
#define SPLITVEIL_COMMON_ARCHITECTURE_LAYER_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/dataset/features.h"

#include "splitveil/v1/model.pb.h"

namespace splitveil {

// What layers are stacked on, and the layers.
struct LayerChain {
  std::string field;        // Where `layers` stands in the configuration, for error messages: "model".
  int64_t input_width = 0;  // Numbers an example, >= 1.
  // Where the first layer is a convolution: how it reads the input; pixels() must be input_width.
  ImageShape input_image = {};
  std::vector<v1::Layer> layers;
  // Further inputs per example of the fully connected layer `side_layer`, after the outputs of the layer before it.
  int64_t side_width = 0;
  int64_t side_layer = 0;
  v1::ModelSpec::Initialization initialization = v1::ModelSpec::TORCH_DEFAULT;
};

// A layer whose shapes are known. Numbers are counted for one example.
struct PlannedLayer {
  std::string name;
  v1::Activation activation = v1::LINEAR;
  int64_t kernel = 0;  // Side of a convolution's filter; 0: fully connected.
  int64_t max_pool = 1;
  int64_t channels = 0;          // Of a convolution's input.
  int64_t fan_in = 0;            // Numbers that an output is a weighted sum of.
  int64_t units = 0;             // Outputs; of a convolution: channels.
  ImageShape unpooled = {};      // Of a convolution, before the pooling.
  ImageShape output_image = {};  // Of a convolution, after it.

  bool is_convolution() const { return kernel > 0; }
  bool is_pooled() const { return max_pool > 1; }
  int64_t width() const { return is_convolution() ? output_image.pixels() : units; }
};

// Checks what does not depend on the input: names (not empty, each once, not ending in ".unpooled"), sizes, and that no
// convolution stands behind a fully connected layer. Errors: InvalidArgument with field, expected and found.
absl::Status CheckLayers(const std::string& field, const std::vector<v1::Layer>& layers);

// Errors: as CheckLayers; InvalidArgument for no layers, an image that does not fit the input or is too small for the
// pooling, or side inputs at a convolution.
absl::StatusOr<std::vector<PlannedLayer>> PlanLayers(const LayerChain& chain);

// Names of the outputs whose gradients can be told apart, first to last: "NAME.unpooled" (before the pooling) and
// "NAME" of a pooled convolution, "NAME" of every other layer.
std::vector<std::string> OutputNames(const std::vector<v1::Layer>& layers);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_ARCHITECTURE_LAYER_PLAN_H_
