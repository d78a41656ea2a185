// A party's half of a model, from what its configuration says: a preset, a whole model to cut, or the half itself.
#ifndef SPLITVEIL_COMMON_ARCHITECTURE_MODEL_SPEC_H_
#define SPLITVEIL_COMMON_ARCHITECTURE_MODEL_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/architecture/layer_plan.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/model.pb.h"

namespace splitveil {

// Name of the last layer of the bottom model where gradients are audited, and of the top model's last layer.
inline constexpr char kCutName[] = "cut";
inline constexpr char kLogitName[] = "logit";
// RunAgreement.cut_layer of a model that is cut directly behind its embeddings, before its first layer.
inline constexpr char kEmbeddingCut[] = "embedding";
// RunAgreement.cut_layer of logistic regression, as `splitveil baseline` writes it: the layer with the bottom model's
// one output. By this name a report knows such a run.
inline constexpr char kLogisticCut[] = "logistic_regression";

// The bottom model f that `spec` describes, without preset: the layers up to `cut_layer` (RunAgreement.cut_layer;
// empty: `spec` is the half itself). A half that is a TorchScript file comes back as it is. Errors: InvalidArgument
// with field, expected and found: a preset beside layers or without a cut layer, a cut layer that is unknown or the
// model's last, a cut behind embeddings that there are none of, layers that CheckLayers refuses, parts that only the
// label party's half has.
absl::StatusOr<v1::ModelSpec> BottomHalf(const v1::ModelSpec& spec, const std::string& cut_layer);

// The top model h: the layers behind `cut_layer`, the wide part, own features. Where its first layer is a convolution,
// `input_image` is the shape of the cut activations, of `cut_width` numbers: derived from a whole model, required of a
// half. Errors: as BottomHalf; InvalidArgument where the cut activations are no such image.
absl::StatusOr<v1::ModelSpec> TopHalf(const v1::ModelSpec& spec, const std::string& cut_layer, int64_t cut_width);

// Names that a bottom half's layers have in audits, first to last; the last is "cut", which is all that a half without
// layers has. Empty for TorchScript, whose file knows them.
std::vector<std::string> AuditedNames(const v1::ModelSpec& bottom_half);

// The layers of `spec` as they stand there.
std::vector<v1::Layer> LayersOf(const v1::ModelSpec& spec);
ImageShape ImageOf(const v1::ModelSpec& spec);

// What can be said against a party's model before its data are read: that it has no half in it, or one that does not
// fit the agreement's cut width or has no layer of a name that is to be audited. How wide embeddings are, only the data
// tell. Errors: InvalidArgument.
absl::Status CheckBottomSpec(const v1::ModelSpec& spec, const v1::RunAgreement& agreement);
absl::Status CheckTopSpec(const v1::ModelSpec& spec, const v1::RunAgreement& agreement);

// Whole models known by name.

// `embedding`, `layers` and `wide` of a preset (ModelSpec.Preset says what each is and where it comes from); empty for
// PRESET_NONE.
v1::ModelSpec PresetModel(v1::ModelSpec::Preset preset);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_ARCHITECTURE_MODEL_SPEC_H_
