#include "common/model/half_script.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace splitveil {
namespace {

// Only these characters may stand in an attribute name of a TorchScript file; names in configurations are free.
std::string AttributeName(std::string name) {
  for (char& c : name) {
    c = absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-' ? c : '_';
  }
  return name;
}

// Source that reads attribute `path`. By getattr, since a name may begin with a digit.
std::string Read(const std::string& path) {
  std::string source = "self";
  for (const absl::string_view part : absl::StrSplit(path, '.')) {
    source = absl::StrCat("getattr(", source, ", \"", part, "\")");
  }
  return source;
}

std::string Activate(const std::string& value, v1::Activation activation) {
  switch (activation) {
    case v1::LINEAR:
      return value;
    case v1::RELU:
      return absl::StrCat("torch.relu(", value, ")");
    case v1::TANH:
      return absl::StrCat("torch.tanh(", value, ")");
    case v1::SIGMOID:
      return absl::StrCat("torch.sigmoid(", value, ")");
  }
  return value;
}

// A layer's forward; its argument has the shape that the layer reads.
std::string LayerSource(const PlannedLayer& layer) {
  // Half the kernel, as LayerNetwork pads: the size stays, and only pooling shrinks it.
  const int64_t padding = layer.kernel / 2;
  std::string value = layer.is_convolution() ? absl::StrCat("torch.conv2d(x, self.weight, self.bias, padding=[",
                                                            padding, ", ", padding, "])")
                                             : "torch.linear(x, self.weight, self.bias)";
  value = Activate(value, layer.activation);
  if (layer.is_pooled()) {
    value = absl::StrCat("torch.max_pool2d(", value, ", [", layer.max_pool, ", ", layer.max_pool, "])");
  }
  return absl::StrCat("def forward(self, x):\n    return ", value, "\n");
}

}  // namespace

HalfScript::HalfScript(std::vector<std::string> leading, const FeatureShape* own_columns)
    : arguments_(std::move(leading)), has_categories_(own_columns != nullptr && own_columns->categorical > 0) {
  if (own_columns != nullptr) {
    arguments_.emplace_back("numeric");
  }
  if (has_categories_) {
    arguments_.emplace_back("categories");
  }
}

void HalfScript::Add(const std::string& line) { lines_.push_back(line); }

void HalfScript::Assemble(const std::string& variable, InputLayer& input, const std::string& prefix) {
  // The same formula as WritePieces in input_layer.cc, for a whole batch.
  const int64_t k = input.pieces();
  const std::string numbers = k == 1 ? "numeric"
                                     : absl::StrCat("torch.flatten(torch.clamp(torch.unsqueeze(numeric, 2) * ", k,
                                                    " - torch.arange(", k, ", device=numeric.device), 0, 1), 1)");
  if (!input.has_embedding()) {
    Add(absl::StrCat(variable, " = ", numbers));
    return;
  }
  // The averaged values if there are any: an export predicts.
  const ParameterView table = input.parameters(AttributeName(prefix), ParameterUse::kPrediction).front();
  parameters_.push_back({table.name, {table.values.rows, table.values.width}, table.values});
  Add(absl::StrCat(variable, " = torch.cat([torch.flatten(torch.embedding(", Read(table.name), ", categories), 1), ",
                   numbers, "], 1)"));
}

void HalfScript::Apply(const std::string& variable, LayerStack& layers, const std::string& side) {
  const std::vector<ParameterView> views =
      layers.parameters("", ParameterUse::kPrediction);  // Weight and bias of each layer.
  for (size_t l = 0; l < layers.plan().size(); ++l) {
    const PlannedLayer& layer = layers.plan()[l];
    std::string name = AttributeName(layer.name);
    // Names that differ in other characters alone ("a b", "a_b") must stay two layers.
    while (
        std::any_of(layers_.begin(), layers_.end(), [&](const ScriptedLayer& other) { return other.name == name; })) {
      name += '_';
    }
    std::vector<int64_t> shape = {layer.units, layer.fan_in};
    if (layer.is_convolution()) {
      shape = {layer.units, layer.channels, layer.kernel, layer.kernel};
      Add(absl::StrCat(variable, " = torch.reshape(", variable, ", [-1, ", layer.channels, ", ", layer.unpooled.height,
                       ", ", layer.unpooled.width, "])"));
    } else {
      Add(absl::StrCat(variable, " = torch.flatten(", variable, ", 1)"));
    }
    // Own features join before this layer, behind the cut's numbers.
    if (static_cast<int64_t>(l) == layers.side_layer()) {
      Add(absl::StrCat(variable, " = torch.cat([", variable, ", ", side, "], 1)"));
    }
    parameters_.push_back({name + ".weight", shape, views[2 * l].values});
    parameters_.push_back({name + ".bias", {layer.units}, views[2 * l + 1].values});
    layers_.push_back({name, LayerSource(layer)});
    Add(absl::StrCat(variable, " = ", Read(name), ".forward(", variable, ")"));
  }
  Add(absl::StrCat(variable, " = torch.flatten(", variable, ", 1)"));
}

std::string HalfScript::Source(const std::string& result) const {
  return absl::StrCat(
      "def forward(self, ", absl::StrJoin(arguments_, ", "), "):\n",
      absl::StrJoin(lines_, "",
                    [](std::string* out, const std::string& line) { absl::StrAppend(out, "    ", line, "\n"); }),
      "    return ", result, "\n");
}

}  // namespace splitveil
