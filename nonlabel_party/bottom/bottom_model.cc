#include "nonlabel_party/bottom/bottom_model.h"

#include <utility>

#include "common/architecture/model_spec.h"
#include "nonlabel_party/bottom/layered_bottom_model.h"
#include "nonlabel_party/bottom/torchscript_bottom_model.h"

namespace splitveil {

namespace {

// `options` with the bottom half for specification.
absl::StatusOr<BottomModelOptions> Resolve(const BottomModelOptions& options) {
  absl::StatusOr<v1::ModelSpec> half = BottomHalf(options.spec, options.cut_layer);
  if (!half.ok()) {
    return half.status();
  }
  BottomModelOptions resolved = options;
  resolved.spec = *std::move(half);
  return resolved;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BottomModel>> BottomModel::Create(const BottomModelOptions& options) {
  const absl::StatusOr<BottomModelOptions> resolved = Resolve(options);
  if (!resolved.ok()) {
    return resolved.status();
  }
  return resolved->spec.torchscript_path().empty() ? CreateLayeredBottomModel(*resolved)
                                                   : CreateTorchScriptBottomModel(*resolved);
}

absl::StatusOr<std::vector<std::string>> BottomModel::Check(const BottomModelOptions& options) {
  const absl::StatusOr<BottomModelOptions> resolved = Resolve(options);
  if (!resolved.ok()) {
    return resolved.status();
  }
  return resolved->spec.torchscript_path().empty() ? AuditedNames(resolved->spec)
                                                   : CheckTorchScriptBottomModel(*resolved);
}

}  // namespace splitveil
