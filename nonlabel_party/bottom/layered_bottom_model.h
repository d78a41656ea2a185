// The bottom model of embeddings and layers.
#ifndef SPLITVEIL_NONLABEL_PARTY_BOTTOM_LAYERED_BOTTOM_MODEL_H_
#define SPLITVEIL_NONLABEL_PARTY_BOTTOM_LAYERED_BOTTOM_MODEL_H_

#include <memory>

#include "absl/status/statusor.h"

#include "nonlabel_party/bottom/bottom_model.h"

namespace splitveil {

// `options.spec` is a bottom half (BottomHalf). Errors: as BottomModel::Create.
absl::StatusOr<std::unique_ptr<BottomModel>> CreateLayeredBottomModel(const BottomModelOptions& options);

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_BOTTOM_LAYERED_BOTTOM_MODEL_H_
