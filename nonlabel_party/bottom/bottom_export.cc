#include "nonlabel_party/bottom/bottom_export.h"

#include "common/model/export.h"
#include "common/model/half_script.h"

namespace splitveil {

absl::Status ExportBottomModel(const FeatureShape& features, InputLayer& input, LayerStack* layers,
                               const std::string& folder) {
  HalfScript script({}, &features);
  script.Assemble("x", input, "");
  if (layers != nullptr) {
    script.Apply("x", *layers);
  }
  return ExportHalf(script, "x", {folder, "nonlabel_party"});
}

}  // namespace splitveil
