// The one place that knows which top models there are: the interface (top_model.h) does not, so that they may include
// it.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/architecture/model_spec.h"
#include "common/status/status_macros.h"
#include "label_party/top/layered_top_model.h"
#include "label_party/top/top_model.h"
#include "label_party/top/torchscript_top_model.h"

namespace splitveil {
namespace {

// `options` with the top half for specification.
absl::StatusOr<TopModelOptions> Resolve(const TopModelOptions& options) {
  if (options.cut_width < 1) {
    return absl::InvalidArgumentError(absl::StrCat("cut width: expected at least 1, found ", options.cut_width));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(v1::ModelSpec half, TopHalf(options.spec, options.cut_layer, options.cut_width));
  TopModelOptions resolved = options;
  resolved.spec = std::move(half);
  return resolved;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TopModel>> TopModel::Create(const TopModelOptions& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(const TopModelOptions resolved, Resolve(options));
  return resolved.spec.torchscript_path().empty() ? CreateLayeredTopModel(resolved)
                                                  : CreateTorchScriptTopModel(resolved);
}

absl::Status TopModel::Check(const TopModelOptions& options) {
  const absl::StatusOr<TopModelOptions> resolved = Resolve(options);
  if (!resolved.ok() || resolved->spec.torchscript_path().empty()) {
    return resolved.status();
  }
  return CheckTorchScriptTopModel(*resolved);
}

}  // namespace splitveil
