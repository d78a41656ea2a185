#include "common/architecture/model_spec.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/status/status_macros.h"

namespace splitveil {

namespace {

constexpr const char* kOrdinals[] = {"first",   "second", "third", "fourth", "fifth",   "sixth",
                                     "seventh", "eighth", "ninth", "tenth",  "eleventh"};

// More cost more than they gain (deploy/EXPERIMENTS.md).
constexpr int kTabularPieces = 32;

void AddFullyConnected(int count, int units, v1::ModelSpec& model) {
  for (int i = 0; i < count; ++i) {
    const char* name = kOrdinals[model.layers_size()];
    v1::Layer& layer = *model.add_layers();
    layer.set_name(name);
    layer.set_units(units);
  }
}

// Li et al., ICLR 2022, A.6.2 [Criteo, Avazu], with so many layers in the deep part.
v1::ModelSpec WideAndDeep(int layers) {
  v1::ModelSpec model;
  model.mutable_embedding()->set_dimension(4);
  model.mutable_wide()->mutable_embedding()->set_dimension(1);
  AddFullyConnected(layers, 128, model);
  return model;
}

// Li et al., ICLR 2022, A.6.2 [ISIC].
v1::ModelSpec IsicConvolutional() {
  v1::ModelSpec model;
  for (int i = 0; i < 6; ++i) {
    v1::Layer& layer = *model.add_layers();
    layer.set_name(kOrdinals[i]);
    layer.mutable_convolution()->set_channels(64);
    layer.mutable_convolution()->set_max_pool(2);
  }
  AddFullyConnected(1, 64, model);
  return model;
}

}  // namespace

v1::ModelSpec PresetModel(v1::ModelSpec::Preset preset) {
  switch (preset) {
    case v1::ModelSpec::WIDE_AND_DEEP:
      return WideAndDeep(6);
    case v1::ModelSpec::WIDE_AND_DEEP_8:
      return WideAndDeep(11);
    case v1::ModelSpec::ISIC_CONVOLUTIONAL:
      return IsicConvolutional();
    case v1::ModelSpec::MULTILAYER_PERCEPTRON:
    case v1::ModelSpec::TABULAR: {
      v1::ModelSpec model;
      model.mutable_embedding()->set_dimension(4);
      AddFullyConnected(4, 64, model);
      if (preset == v1::ModelSpec::TABULAR) {
        model.set_numeric_pieces(kTabularPieces);
      }
      return model;
    }
    case v1::ModelSpec::PRESET_NONE:
      break;
  }
  return {};
}

namespace {

// The field of either party's configuration that holds its model.
constexpr char kModel[] = "model";
constexpr char kWideName[] = "wide";

absl::Status Mismatch(absl::string_view field, absl::string_view expected, absl::string_view found) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": expected ", expected, ", found ", found));
}

std::string Quoted(absl::string_view name) { return absl::StrCat("\"", name, "\""); }

// `spec` with its preset written out, and its layers checked.
absl::StatusOr<v1::ModelSpec> Expand(const v1::ModelSpec& spec, const std::string& field,
                                     const std::string& cut_layer) {
  // A file or preset is a whole description: what stands beside it would be ignored.
  const bool is_preset = spec.preset() != v1::ModelSpec::PRESET_NONE;
  const std::string preset = v1::ModelSpec::Preset_Name(spec.preset());
  if (!spec.torchscript_path().empty() && (is_preset || spec.layers_size() > 0 || spec.has_wide())) {
    return Mismatch(absl::StrCat(field, ".torchscript_path"), "none beside a preset, layers or a wide part",
                    Quoted(spec.torchscript_path()));
  }
  if (!spec.torchscript_path().empty() && spec.has_initialization()) {
    return Mismatch(absl::StrCat(field, ".initialization"),
                    "none beside torchscript_path, which brings its own weights",
                    v1::ModelSpec::Initialization_Name(spec.initialization()));
  }
  if (!spec.torchscript_path().empty() && spec.numeric_pieces() > 1) {
    return Mismatch(absl::StrCat(field, ".numeric_pieces"), "1 beside torchscript_path, which gets numbers as they are",
                    absl::StrCat(spec.numeric_pieces()));
  }
  if (!is_preset) {
    SPLITVEIL_RETURN_IF_ERROR(CheckLayers(field, LayersOf(spec)));
    return spec;
  }
  if (spec.layers_size() > 0 || spec.has_embedding() || spec.has_wide()) {
    return Mismatch(absl::StrCat(field, ".preset"), "none beside an embedding, layers or a wide part", preset);
  }
  // A preset is a whole model: each party takes its half, so both must know where it is cut.
  if (cut_layer.empty()) {
    return Mismatch(absl::StrCat(field, ".preset"), "none where the agreement has no cut_layer", preset);
  }
  // What depends on the data or the party is the user's also with a preset.
  v1::ModelSpec expanded = PresetModel(spec.preset());
  if (spec.has_own_features()) {
    *expanded.mutable_own_features() = spec.own_features();
  }
  if (spec.has_input_image()) {
    *expanded.mutable_input_image() = spec.input_image();
  }
  expanded.set_initialization(spec.initialization());
  if (spec.has_numeric_pieces()) {
    expanded.set_numeric_pieces(spec.numeric_pieces());
  }
  return expanded;
}

// Number of layers of the bottom half.
absl::StatusOr<int> CutIndex(const v1::ModelSpec& whole, const std::string& field, const std::string& cut_layer) {
  std::vector<std::string> names;
  for (const v1::Layer& layer : whole.layers()) {
    names.push_back(layer.name());
  }
  const auto found = std::find(names.begin(), names.end(), cut_layer);
  // A layer may be named so, and then is meant.
  if (found == names.end() && cut_layer == kEmbeddingCut) {
    return whole.has_embedding() ? absl::StatusOr<int>(0)
                                 : Mismatch(absl::StrCat(field, ".embedding"),
                                            absl::StrCat("one, as cut_layer is ", Quoted(cut_layer)), "none");
  }
  if (found == names.end()) {
    return Mismatch(absl::StrCat(field, ".layers"),
                    absl::StrCat("one named ", Quoted(cut_layer), ", the agreement's cut_layer"),
                    names.empty() ? "none" : absl::StrJoin(names, ", "));
  }
  // The label party must have a layer to train.
  if (found + 1 == names.end()) {
    return Mismatch("cut_layer", "a layer with at least one behind it, for the label party",
                    absl::StrCat(Quoted(cut_layer), ", the last one of ", field));
  }
  return static_cast<int>(found - names.begin()) + 1;
}

absl::Status CheckNames(const std::string& field, const v1::ModelSpec& half, int allowed_cut) {
  for (int l = 0; l < half.layers_size(); ++l) {
    const std::string& name = half.layers(l).name();
    // In audits and ledgers these names have a meaning of their own.
    if ((name == kCutName && l != allowed_cut) || name == kLogitName || name == kWideName) {
      return absl::InvalidArgumentError(absl::StrCat(field, ".layers[", l, "].name: ", Quoted(name), " is reserved"));
    }
  }
  return absl::OkStatus();
}

v1::ImageInput ToProto(const ImageShape& shape) {
  v1::ImageInput image;
  image.set_channels(static_cast<int32_t>(shape.channels));
  image.set_height(static_cast<int32_t>(shape.height));
  image.set_width(static_cast<int32_t>(shape.width));
  return image;
}

absl::StatusOr<std::vector<PlannedLayer>> PlanFromImage(const std::string& field, const v1::ModelSpec& spec) {
  const ImageShape image = ImageOf(spec);
  return PlanLayers({field, image.pixels(), image, LayersOf(spec)});
}

// Shape of the cut activations of a whole model whose `cut`-th layer (from 1) is a convolution.
absl::StatusOr<ImageShape> CutImage(const v1::ModelSpec& whole, int cut, int64_t cut_width) {
  if (whole.has_input_image()) {
    SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<PlannedLayer> plan, PlanFromImage(kModel, whole));
    return plan[cut - 1].output_image;
  }
  // The label party has no images: without an explicit shape it takes them for square.
  const int64_t channels = whole.layers(cut - 1).convolution().channels();
  const int64_t pixels = cut_width / channels;
  const auto side = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(pixels))));
  if (channels * side * side != cut_width) {
    return Mismatch(
        absl::StrCat(kModel, ".input_image"),
        absl::StrCat("the images' shape, as cut_width ", cut_width, " is not ", channels, " channels of square images"),
        "none");
  }
  return ImageShape{channels, side, side};
}

// Makes the top half of `model`, whose `cut`-th layer is the bottom's last; 0: whose bottom has none.
absl::Status DropBottom(int cut, int64_t cut_width, v1::ModelSpec& model) {
  ImageShape image;
  if (cut < model.layers_size() && model.layers(cut).has_convolution()) {
    if (cut == 0) {
      return Mismatch(absl::StrCat(kModel, ".layers[0]"), "a fully connected layer behind the embeddings",
                      "a convolution");
    }
    SPLITVEIL_ASSIGN_OR_RETURN(image, CutImage(model, cut, cut_width));
  }
  model.mutable_layers()->DeleteSubrange(0, cut);
  // They belong to the bottom half.
  model.clear_embedding();
  model.clear_input_image();
  if (image.channels > 0) {
    *model.mutable_input_image() = ToProto(image);
  }
  return absl::OkStatus();
}

absl::Status CheckCutImage(const v1::ModelSpec& half, int64_t cut_width) {
  if (half.layers_size() == 0 || !half.layers(0).has_convolution()) {
    return absl::OkStatus();
  }
  // Only a convolution reads the cut activations as images.
  const std::string field = absl::StrCat(kModel, ".input_image");
  if (!half.has_input_image()) {
    return Mismatch(field, "the shape of the cut activations, as the first layer is a convolution", "none");
  }
  const ImageShape image = ImageOf(half);
  if (image.pixels() != cut_width) {
    return Mismatch(
        field, absl::StrCat(cut_width, " numbers, the agreed cut width"),
        absl::StrCat(image.channels, " x ", image.height, " x ", image.width, " = ", image.pixels(), " numbers"));
  }
  return absl::OkStatus();
}

absl::Status CheckOwnFeatures(const v1::ModelSpec& half) {
  const std::string& before = half.own_features().before();
  if (before.empty() || before == kLogitName) {
    return absl::OkStatus();
  }
  const auto found = std::find_if(half.layers().begin(), half.layers().end(),
                                  [&](const v1::Layer& layer) { return layer.name() == before; });
  if (found == half.layers().end()) {
    return Mismatch(absl::StrCat(kModel, ".own_features.before"), "a layer of the label party's or \"logit\"",
                    Quoted(before));
  }
  return absl::OkStatus();
}

// Where the width of the last bottom layer is known without data: that it is the cut's.
absl::Status CheckCutWidth(const v1::ModelSpec& half, int64_t cut_width) {
  const v1::Layer& last = half.layers(half.layers_size() - 1);
  const std::string field = absl::StrCat(kModel, ".layers[", half.layers_size() - 1, "]");
  const std::string expected = absl::StrCat(cut_width, ", the agreed cut width");
  if (!last.has_convolution()) {
    return last.units() == cut_width ? absl::OkStatus()
                                     : Mismatch(field + ".units", expected, absl::StrCat(last.units()));
  }
  if (half.has_input_image()) {
    SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<PlannedLayer> plan, PlanFromImage(kModel, half));
    const ImageShape& cut = plan.back().output_image;
    return cut.pixels() == cut_width
               ? absl::OkStatus()
               : Mismatch(field + " output", expected,
                          absl::StrCat(cut.channels, " x ", cut.height, " x ", cut.width, " = ", cut.pixels()));
  }
  // Without an image shape only divisibility can be checked before the data are read.
  const int64_t channels = last.convolution().channels();
  return cut_width % channels == 0 ? absl::OkStatus()
                                   : Mismatch(field + ".convolution.channels", absl::StrCat("a divisor of ", expected),
                                              absl::StrCat(channels));
}

}  // namespace

std::vector<v1::Layer> LayersOf(const v1::ModelSpec& spec) { return {spec.layers().begin(), spec.layers().end()}; }

ImageShape ImageOf(const v1::ModelSpec& spec) {
  return {spec.input_image().channels(), spec.input_image().height(), spec.input_image().width()};
}

absl::StatusOr<v1::ModelSpec> BottomHalf(const v1::ModelSpec& spec, const std::string& cut_layer) {
  absl::StatusOr<v1::ModelSpec> half = Expand(spec, kModel, cut_layer);
  if (!half.ok() || !half->torchscript_path().empty()) {
    return half;
  }
  // Without a cut_layer each party's file describes its own half.
  if (cut_layer.empty()) {
    if (half->has_wide() || half->has_own_features()) {
      return Mismatch(absl::StrCat(kModel, half->has_wide() ? ".wide" : ".own_features"),
                      "none, or a cut_layer in the agreement", "one");
    }
  } else {
    SPLITVEIL_ASSIGN_OR_RETURN(const int cut, CutIndex(*half, kModel, cut_layer));
    half->mutable_layers()->DeleteSubrange(cut, half->layers_size() - cut);
    // The label party's: the bottom half has no use for them.
    half->clear_wide();
    half->clear_own_features();
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckNames(kModel, *half, half->layers_size() - 1));
  return half;
}

absl::StatusOr<v1::ModelSpec> TopHalf(const v1::ModelSpec& spec, const std::string& cut_layer, int64_t cut_width) {
  absl::StatusOr<v1::ModelSpec> half = Expand(spec, kModel, cut_layer);
  if (!half.ok() || !half->torchscript_path().empty()) {
    return half;
  }
  if (cut_layer.empty()) {
    if (half->has_embedding()) {
      return Mismatch(absl::StrCat(kModel, ".embedding"),
                      "none: set that of own features in own_features or wide, or set a cut_layer in the agreement",
                      "one");
    }
  } else {
    SPLITVEIL_ASSIGN_OR_RETURN(const int cut, CutIndex(*half, kModel, cut_layer));
    SPLITVEIL_RETURN_IF_ERROR(DropBottom(cut, cut_width, *half));
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckNames(kModel, *half, -1));
  SPLITVEIL_RETURN_IF_ERROR(CheckCutImage(*half, cut_width));
  SPLITVEIL_RETURN_IF_ERROR(CheckOwnFeatures(*half));
  return half;
}

std::vector<std::string> AuditedNames(const v1::ModelSpec& bottom_half) {
  std::vector<std::string> names = OutputNames(LayersOf(bottom_half));
  if (!names.empty()) {
    names.back() = kCutName;
  } else if (bottom_half.torchscript_path().empty()) {
    names.emplace_back(kCutName);
  }
  return names;
}

absl::Status CheckBottomSpec(const v1::ModelSpec& spec, const v1::RunAgreement& agreement) {
  const absl::StatusOr<v1::ModelSpec> half = BottomHalf(spec, agreement.cut_layer());
  if (!half.ok() || !half->torchscript_path().empty()) {
    return half.status();
  }
  // Embeddings alone are a bottom half, too: their width is known with the data.
  if (half->layers_size() > 0) {
    SPLITVEIL_RETURN_IF_ERROR(CheckCutWidth(*half, agreement.cut_width()));
  } else if (!half->has_embedding()) {
    return Mismatch(absl::StrCat(kModel, ".layers"), "at least one, or an embedding", "none");
  }
  // Before the data are read, so that a mistyped layer costs no time.
  const std::vector<std::string> names = AuditedNames(*half);
  for (const std::string& audited : agreement.audit().layers()) {
    if (std::find(names.begin(), names.end(), audited) == names.end()) {
      return Mismatch(absl::StrCat(kModel, ".layers"),
                      absl::StrCat("one named ", Quoted(audited), ", which the agreement audits"),
                      half->layers_size() == 0 ? "none, as the model is cut behind its embeddings: audit \"cut\""
                                               : absl::StrJoin(names, ", "));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTopSpec(const v1::ModelSpec& spec, const v1::RunAgreement& agreement) {
  const absl::StatusOr<v1::ModelSpec> half = TopHalf(spec, agreement.cut_layer(), agreement.cut_width());
  if (!half.ok() || !half->torchscript_path().empty() || half->layers_size() == 0) {
    return half.status();
  }
  return PlanLayers({kModel, agreement.cut_width(), ImageOf(*half), LayersOf(*half)}).status();
}

}  // namespace splitveil
