// A model half of ours as TorchScript source: what its files for Python compute.
#ifndef SPLITVEIL_COMMON_MODEL_HALF_SCRIPT_H_
#define SPLITVEIL_COMMON_MODEL_HALF_SCRIPT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/dataset/feature_table.h"
#include "common/model/input_layer.h"
#include "common/model/layer_stack.h"
#include "common/model/parameters.h"

namespace splitveil {

// A parameter where it lives, under its name in the state dict: "first.weight", "wide.embedding".
struct ScriptedParameter {
  std::string name;
  std::vector<int64_t> shape;
  StridedRows values;  // The numbers of `shape`, row by row.
};

// A module within the half, and the source of its own forward.
struct ScriptedLayer {
  std::string name;  // "first"
  std::string source;
};

// Writes the body of forward line by line and gathers the parameters it names. Variables: the arguments of forward and
// what the lines assign. Parts must outlive what is made of them, and must not be trained meanwhile.
class HalfScript {
 public:
  // forward takes `leading` (may be empty), then, if `own_columns` is not null, "numeric" and, if it has
  // categorical columns, "categories".
  HalfScript(std::vector<std::string> leading, const FeatureShape* own_columns);

  // `variable` = [embeddings of the categories, numeric]. `prefix`: of the embedding's name.
  void Assemble(const std::string& variable, InputLayer& input, const std::string& prefix);
  // `variable` = layers(`variable`), flattened; each layer becomes a module with a forward of its own. `side`: the
  // variable of the stack's side input, if it has one.
  void Apply(const std::string& variable, LayerStack& layers, const std::string& side = "");
  // Adds `line` to the body of forward, as it is and without its newline.
  void Add(const std::string& line);

  // `def forward`, returning `result`.
  std::string Source(const std::string& result) const;
  const std::vector<ScriptedParameter>& parameters() const { return parameters_; }
  const std::vector<ScriptedLayer>& layers() const { return layers_; }

 private:
  std::vector<std::string> arguments_;
  bool has_categories_;
  std::vector<std::string> lines_;
  std::vector<ScriptedParameter> parameters_;
  std::vector<ScriptedLayer> layers_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MODEL_HALF_SCRIPT_H_
