// Which of its implementations a BottomModel is: apart from bottom_model.h, so that only this source sees them all.
#include <utility>

#include "common/architecture/model_spec.h"
#include "common/status/status_macros.h"
#include "nonlabel_party/bottom/bottom_model.h"
#include "nonlabel_party/bottom/embedding_bottom_model.h"
#include "nonlabel_party/bottom/layered_bottom_model.h"
#include "nonlabel_party/bottom/torchscript_bottom_model.h"

namespace splitveil {

namespace {

// `options` with the bottom half for specification.
absl::StatusOr<BottomModelOptions> Resolve(const BottomModelOptions& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(v1::ModelSpec half, BottomHalf(options.spec, options.cut_layer));
  BottomModelOptions resolved = options;
  resolved.spec = std::move(half);
  return resolved;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BottomModel>> BottomModel::Create(const BottomModelOptions& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(const BottomModelOptions resolved, Resolve(options));
  if (!resolved.spec.torchscript_path().empty()) {
    return CreateTorchScriptBottomModel(resolved);
  }
  return resolved.spec.layers_size() == 0 ? CreateEmbeddingBottomModel(resolved) : CreateLayeredBottomModel(resolved);
}

absl::StatusOr<std::vector<std::string>> BottomModel::Check(const BottomModelOptions& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(const BottomModelOptions resolved, Resolve(options));
  if (!resolved.spec.torchscript_path().empty()) {
    return CheckTorchScriptBottomModel(resolved);
  }
  if (resolved.spec.layers_size() == 0) {
    SPLITVEIL_RETURN_IF_ERROR(CheckEmbeddingBottomModel(resolved));
  }
  return AuditedNames(resolved.spec);
}

}  // namespace splitveil
