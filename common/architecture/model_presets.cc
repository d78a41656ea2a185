#include "common/architecture/model_presets.h"

namespace splitveil {
namespace {

constexpr const char* kOrdinals[] = {"first",   "second", "third", "fourth", "fifth",   "sixth",
                                     "seventh", "eighth", "ninth", "tenth",  "eleventh"};

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
    case v1::ModelSpec::MULTILAYER_PERCEPTRON: {
      v1::ModelSpec model;
      model.mutable_embedding()->set_dimension(4);
      AddFullyConnected(4, 64, model);
      return model;
    }
    case v1::ModelSpec::PRESET_NONE:
      break;
  }
  return {};
}

}  // namespace splitveil
