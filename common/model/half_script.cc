#include "common/model/half_script.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace splitveil {
namespace {

// What can stand in the name of an attribute in a TorchScript file; names in configurations are free.
std::string AttributeName(std::string name) {
  for (char& c : name) {
    c = absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-' ? c : '_';
  }
  return name;
}

// Source that reads parameter `name`. By getattr, since names may begin with a digit.
std::string Read(const std::string& name) {
  std::string source = "self";
  for (const absl::string_view part : absl::StrSplit(name, '.')) {
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
  if (!input.has_embedding()) {
    Add(absl::StrCat(variable, " = numeric"));
    return;
  }
  const ParameterView table = input.parameters(AttributeName(prefix)).front();
  const int64_t rows = static_cast<int64_t>(table.values.size()) / table.row_width;
  parameters_.push_back({table.name, {rows, table.row_width}, table.values});
  Add(absl::StrCat(variable, " = torch.cat([torch.flatten(torch.embedding(", Read(table.name),
                   ", categories), 1), numeric], 1)"));
}

void HalfScript::Apply(const std::string& variable, LayerStack& layers, const std::string& side) {
  const std::vector<ParameterView> views = layers.parameters("");  // Weight and bias of each layer.
  for (size_t l = 0; l < layers.plan().size(); ++l) {
    const PlannedLayer& layer = layers.plan()[l];
    const std::string weight = AttributeName(views[2 * l].name);
    const std::string bias = AttributeName(views[2 * l + 1].name);
    std::vector<int64_t> shape = {layer.units, layer.fan_in};
    std::string operation = "torch.linear(";
    std::string options;
    if (layer.is_convolution()) {
      shape = {layer.units, layer.channels, layer.kernel, layer.kernel};
      operation = "torch.conv2d(";
      options = absl::StrCat(", padding=[", layer.kernel / 2, ", ", layer.kernel / 2, "]");
      Add(absl::StrCat(variable, " = torch.reshape(", variable, ", [-1, ", layer.channels, ", ", layer.unpooled.height,
                       ", ", layer.unpooled.width, "])"));
    } else {
      Add(absl::StrCat(variable, " = torch.flatten(", variable, ", 1)"));
    }
    if (static_cast<int64_t>(l) == layers.side_layer()) {
      Add(absl::StrCat(variable, " = torch.cat([", variable, ", ", side, "], 1)"));
    }
    parameters_.push_back({weight, shape, views[2 * l].values});
    parameters_.push_back({bias, {layer.units}, views[2 * l + 1].values});
    const std::string sum = absl::StrCat(operation, variable, ", ", Read(weight), ", ", Read(bias), options, ")");
    Add(absl::StrCat(variable, " = ", Activate(sum, layer.activation)));
    if (layer.is_pooled()) {
      Add(absl::StrCat(variable, " = torch.max_pool2d(", variable, ", [", layer.max_pool, ", ", layer.max_pool, "])"));
    }
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
