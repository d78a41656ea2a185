// The top model of layers, with own features and a wide part where it has them.
#ifndef SPLITVEIL_LABEL_PARTY_TOP_LAYERED_TOP_MODEL_H_
#define SPLITVEIL_LABEL_PARTY_TOP_LAYERED_TOP_MODEL_H_

#include <memory>

#include "absl/status/statusor.h"

#include "label_party/top/top_model.h"

namespace splitveil {

// `options.spec` is a top half (TopHalf). Errors: as TopModel::Create.
absl::StatusOr<std::unique_ptr<TopModel>> CreateLayeredTopModel(const TopModelOptions& options);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_TOP_LAYERED_TOP_MODEL_H_
