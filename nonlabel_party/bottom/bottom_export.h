// A trained bottom model of ours as files that Python reads.
#ifndef SPLITVEIL_NONLABEL_PARTY_BOTTOM_BOTTOM_EXPORT_H_
#define SPLITVEIL_NONLABEL_PARTY_BOTTOM_BOTTOM_EXPORT_H_

#include <string>

#include "absl/status/status.h"

#include "common/dataset/feature_shape.h"
#include "common/model/input_layer.h"
#include "common/model/layer_stack.h"

namespace splitveil {

// Nothing of them is changed. `layers`: null where the model is cut behind its embeddings. Errors: as ExportHalf.
absl::Status ExportBottomModel(const FeatureShape& features, InputLayer& input, LayerStack* layers,
                               const std::string& folder);

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_BOTTOM_BOTTOM_EXPORT_H_
