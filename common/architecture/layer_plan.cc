#include "common/architecture/layer_plan.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr int64_t kMaxUnits = 1048576;
constexpr int64_t kMaxChannels = 65536;
constexpr int64_t kMaxKernel = 31;
constexpr int64_t kMaxPool = 64;
constexpr char kUnpooled[] = ".unpooled";

std::string LayerField(const std::string& field, size_t index) { return absl::StrCat(field, ".layers[", index, "]"); }

absl::Status CheckRange(const std::string& field, int64_t value, int64_t max) {
  if (value < 1 || value > max) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": expected 1 to ", max, ", found ", value));
  }
  return absl::OkStatus();
}

absl::Status CheckConvolution(const std::string& field, const v1::Convolution& convolution) {
  absl::Status status = CheckRange(absl::StrCat(field, ".channels"), convolution.channels(), kMaxChannels);
  status.Update(CheckRange(absl::StrCat(field, ".kernel"), convolution.kernel(), kMaxKernel));
  status.Update(CheckRange(absl::StrCat(field, ".max_pool"), convolution.max_pool(), kMaxPool));
  // Padding is half the kernel on each side, which keeps the size only for odd kernels.
  if (status.ok() && convolution.kernel() % 2 == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".kernel: expected an odd number, found ", convolution.kernel()));
  }
  return status;
}

absl::Status CheckName(const std::string& field, const std::string& name, absl::flat_hash_set<std::string>& names) {
  // Names are keys: of exported parameters, of audits and of the cut.
  if (name.empty() || !names.insert(name).second) {
    return absl::InvalidArgumentError(absl::StrCat(field, ".name: expected a name of its own, found \"", name, "\""));
  }
  // OutputNames gives that name to the output before a pooling.
  if (absl::EndsWith(name, kUnpooled)) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".name: expected a name that does not end in ", kUnpooled, ", found \"", name, "\""));
  }
  return absl::OkStatus();
}

std::string ShapeText(const ImageShape& shape) {
  return absl::StrCat(shape.channels, " x ", shape.height, " x ", shape.width);
}

absl::StatusOr<PlannedLayer> PlanConvolution(const std::string& field, const v1::Layer& spec, const ImageShape& input) {
  const v1::Convolution& convolution = spec.convolution();
  PlannedLayer layer;
  layer.kernel = convolution.kernel();
  layer.max_pool = convolution.max_pool();
  layer.channels = input.channels;
  layer.fan_in = input.channels * layer.kernel * layer.kernel;
  layer.units = convolution.channels();
  layer.unpooled = {layer.units, input.height, input.width};
  // A larger window would leave no output.
  const int64_t side = std::min(input.height, input.width);
  if (layer.max_pool > side) {
    return absl::InvalidArgumentError(absl::StrCat(field, ".convolution.max_pool: expected at most ", side,
                                                   ", as the images are ", input.height, " x ", input.width,
                                                   " pixels there, found ", layer.max_pool));
  }
  // Pooling drops what is left over at the edges.
  layer.output_image = {layer.units, input.height / layer.max_pool, input.width / layer.max_pool};
  return layer;
}

absl::Status CheckInput(const LayerChain& chain) {
  if (chain.input_width < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(chain.field, " input width: expected at least 1, found ", chain.input_width));
  }
  if (chain.layers.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(chain.field, ".layers: expected at least one, found none"));
  }
  if (!chain.layers.front().has_convolution()) {
    return absl::OkStatus();
  }
  const ImageShape& image = chain.input_image;
  if (image.channels < 1 || image.height < 1 || image.width < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(LayerField(chain.field, 0), ".convolution: expected images as its input, found none"));
  }
  // Other numbers beside the pixels have no place in an image.
  if (image.pixels() != chain.input_width) {
    return absl::InvalidArgumentError(absl::StrCat(LayerField(chain.field, 0),
                                                   ".convolution: expected only the numbers of the ", ShapeText(image),
                                                   " image as its input, found ", chain.input_width, " numbers"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckLayers(const std::string& field, const std::vector<v1::Layer>& layers) {
  absl::flat_hash_set<std::string> names;
  for (size_t l = 0; l < layers.size(); ++l) {
    const v1::Layer& layer = layers[l];
    const std::string own = LayerField(field, l);
    absl::Status status = CheckName(own, layer.name(), names);
    if (status.ok()) {
      status = layer.has_convolution() ? CheckConvolution(own + ".convolution", layer.convolution())
                                       : CheckRange(own + ".units", layer.units(), kMaxUnits);
    }
    if (!status.ok()) {
      return status;
    }
    if (l > 0 && layer.has_convolution() && !layers[l - 1].has_convolution()) {
      return absl::InvalidArgumentError(absl::StrCat(own, ".convolution: expected a fully connected layer behind \"",
                                                     layers[l - 1].name(), "\", which is one, found a convolution"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<PlannedLayer>> PlanLayers(const LayerChain& chain) {
  absl::Status status = CheckInput(chain);
  if (status.ok()) {
    status = CheckLayers(chain.field, chain.layers);
  }
  if (!status.ok()) {
    return status;
  }
  std::vector<PlannedLayer> plan;
  ImageShape image = chain.input_image;
  int64_t width = chain.input_width;
  for (const v1::Layer& spec : chain.layers) {
    const std::string field = LayerField(chain.field, plan.size());
    // Own features of the label party join one fully connected layer.
    const bool takes_side = chain.side_width > 0 && static_cast<int64_t>(plan.size()) == chain.side_layer;
    PlannedLayer layer;
    if (spec.has_convolution()) {
      if (takes_side) {
        return absl::InvalidArgumentError(
            absl::StrCat(field, ": expected a fully connected layer to read own features, found a convolution"));
      }
      SPLITVEIL_ASSIGN_OR_RETURN(layer, PlanConvolution(field, spec, image));
      image = layer.output_image;
    } else {
      layer.fan_in = width + (takes_side ? chain.side_width : 0);
      layer.units = spec.units();
    }
    layer.name = spec.name();
    layer.activation = spec.activation();
    width = layer.width();
    plan.push_back(std::move(layer));
  }
  return plan;
}

std::vector<std::string> OutputNames(const std::vector<v1::Layer>& layers) {
  std::vector<std::string> names;
  for (const v1::Layer& layer : layers) {
    if (layer.has_convolution() && layer.convolution().max_pool() > 1) {
      names.push_back(layer.name() + kUnpooled);
    }
    names.push_back(layer.name());
  }
  return names;
}

}  // namespace splitveil
