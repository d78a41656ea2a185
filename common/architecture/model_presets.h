// Whole models known by name.
#ifndef SPLITVEIL_COMMON_ARCHITECTURE_MODEL_PRESETS_H_
#define SPLITVEIL_COMMON_ARCHITECTURE_MODEL_PRESETS_H_

#include "splitveil/v1/model.pb.h"

namespace splitveil {

// `embedding`, `layers` and `wide` of a preset (ModelSpec.Preset says what each is and where it comes from); empty for
// PRESET_NONE.
v1::ModelSpec PresetModel(v1::ModelSpec::Preset preset);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_ARCHITECTURE_MODEL_PRESETS_H_
