// The one place that knows which top models there are: the interface (top_model.h) does not, so that they may include
// it.
#include "label_party/top/built_in_models.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/architecture/model_spec.h"
#include "common/model/torchscript_module.h"
#include "common/status/status_macros.h"
#include "label_party/top/top_model.h"

namespace splitveil {
namespace {

// `options`, with the top half as its specification.
absl::StatusOr<TopModelOptions> Resolve(const TopModelOptions& options) {
  if (options.cut_width < 1) {
    return absl::InvalidArgumentError(absl::StrCat("cut width: expected at least 1, found ", options.cut_width));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(v1::ModelSpec half, TopHalf(options.spec, options.cut_layer, options.cut_width));
  TopModelOptions resolved = options;
  resolved.spec = std::move(half);
  return resolved;
}

// Without this check, own features that no layer reads would be ignored silently.
absl::Status CheckReadsFeatures(const TopModelOptions& options) {
  const FeatureShape& features = options.features;
  const v1::ModelSpec& spec = options.spec;
  if ((features.numeric == 0 && features.categorical == 0) || spec.has_wide() || spec.has_own_features()) {
    return absl::OkStatus();
  }
  if (!spec.torchscript_path().empty()) {
    SPLITVEIL_ASSIGN_OR_RETURN(const int arguments,
                               CountTorchScriptArguments("model.torchscript_path", spec.torchscript_path()));
    if (arguments > 1) {
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "model: expected own_features, wide or a file of further arguments, as the label party's data have ",
      features.numeric, " numeric and ", features.categorical,
      " categorical columns, found none that would read them; columns that are not to be used have kind: IGNORE, or "
      "holder: NONLABEL_PARTY, in the schema of `splitveil prepare`"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TopModel>> TopModel::Create(const TopModelOptions& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(const TopModelOptions resolved, Resolve(options));
  // Both take the top half alone: layers below the cut belong to the other party, and are not made here.
  return resolved.spec.torchscript_path().empty() ? CreateLayeredTopModel(resolved)
                                                  : CreateTorchScriptTopModel(resolved);
}

absl::Status TopModel::Check(const TopModelOptions& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(const TopModelOptions resolved, Resolve(options));
  if (!resolved.spec.torchscript_path().empty()) {
    SPLITVEIL_RETURN_IF_ERROR(CheckTorchScriptTopModel(resolved));
  }
  return CheckReadsFeatures(resolved);
}

absl::StatusOr<Matrix> DirectionsOfOutputs(int64_t rows, int64_t outputs,
                                           absl::FunctionRef<absl::StatusOr<Matrix>(ConstMatrixView)> input_gradient) {
  Matrix directions;
  for (int64_t k = 0; k < outputs; ++k) {
    // A gradient of 1 at output k of every row: row j of the result is d output_k / dz_j, as no row depends on another
    // one (batch normalisation in a TorchScript file apart).
    Matrix only_this(rows, outputs);
    for (int64_t j = 0; j < rows; ++j) {
      only_this.row(j)[static_cast<size_t>(k)] = 1;
    }
    SPLITVEIL_ASSIGN_OR_RETURN(const Matrix of_this, input_gradient(only_this));
    const int64_t width = of_this.cols();
    if (k == 0) {
      directions = Matrix::ToOverwrite(rows, outputs * width);
    }
    for (int64_t j = 0; j < rows; ++j) {
      std::copy_n(of_this.row(j).data(), width, directions.row(j).data() + k * width);
    }
  }
  return directions;
}

}  // namespace splitveil
