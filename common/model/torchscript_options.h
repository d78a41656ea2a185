// What a TorchScript file is to be run with.
#ifndef SPLITVEIL_COMMON_MODEL_TORCHSCRIPT_OPTIONS_H_
#define SPLITVEIL_COMMON_MODEL_TORCHSCRIPT_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "common/matrix/matrix.h"
#include "common/model/optimizer_options.h"

namespace splitveil {

// An argument of forward: float32 [batch, shape...].
struct TorchScriptNumbers {
  std::vector<int64_t> shape;  // Of one example: {13}, or {3, 84, 84}.
  bool gradient = false;       // Whether Backward computes the gradient there.
};

struct TorchScriptOptions {
  std::string field;                        // Where the path stands in the configuration, for error messages.
  std::string path;                         // The file.
  std::vector<TorchScriptNumbers> numbers;  // The leading arguments of forward.
  int64_t category_columns = 0;             // Where positive, a last argument: int64 [batch, category_columns].
  int64_t output_width = 0;                 // forward gives [batch, output_width]; where that is 1, [batch] will do.
  OptimizerOptions optimizer;
  std::string name_prefix;  // Of the names of Values.
  uint64_t seed = 0;
};

// Arguments of a module's forward, read during the call only.
struct TorchScriptInput {
  std::vector<ConstMatrixView> numbers;  // One for each of TorchScriptOptions::numbers, [batch, values of its shape].
  absl::Span<const int64_t> categories;  // [batch * category_columns], row-major.
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MODEL_TORCHSCRIPT_OPTIONS_H_
