#include "deploy/operator/tune/search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"

#include "common/architecture/model_spec.h"

namespace splitveil {
namespace {

constexpr int kThird = 3;
constexpr size_t kMaxRungs = 4;

// The model with its preset written out.
v1::ModelSpec WrittenOut(const v1::ModelSpec& spec) {
  if (spec.preset() == v1::ModelSpec::PRESET_NONE) {
    return spec;
  }
  v1::ModelSpec written = spec;
  written.clear_preset();
  v1::ModelSpec preset = PresetModel(spec.preset());
  preset.MergeFrom(written);
  return preset;
}

bool HasPlainLayers(const v1::ModelSpec& spec) {
  const v1::ModelSpec written = WrittenOut(spec);
  return spec.torchscript_path().empty() && written.layers_size() > 1 && !spec.has_input_image() &&
         absl::c_all_of(written.layers(), [](const v1::Layer& layer) { return layer.has_units(); });
}

template <typename Value>
Value OneOf(std::initializer_list<Value> values, std::mt19937_64& random) {
  return values.begin()[std::uniform_int_distribution<size_t>(0, values.size() - 1)(random)];
}

// From low to high, alike on a logarithmic scale.
double LogUniform(double low, double high, std::mt19937_64& random) {
  return std::exp(std::uniform_real_distribution<double>(std::log(low), std::log(high))(random));
}

// As presets name them.
constexpr const char* kLayerNames[] = {"first", "second", "third", "fourth", "fifth", "sixth"};

void SetLayers(const TuneSettings::Layers& layers, v1::ModelSpec& model) {
  model = WrittenOut(model);
  model.clear_layers();
  for (int i = 0; i < layers.before_cut + layers.behind_cut; ++i) {
    v1::Layer& layer = *model.add_layers();
    layer.set_name(kLayerNames[i]);
    layer.set_units(i == layers.before_cut - 1 ? layers.cut_width : layers.width);
  }
  if (model.own_features().has_before()) {  // It names a layer that is gone.
    model.mutable_own_features()->clear_before();
  }
}

void SetEmbedding(int dimension, v1::ModelSpec& model) {
  model = WrittenOut(model);
  if (model.has_embedding()) {
    model.mutable_embedding()->set_dimension(dimension);
  }
  if (model.own_features().has_embedding()) {
    model.mutable_own_features()->mutable_embedding()->set_dimension(dimension);
  }
}

void SetNumericPieces(int pieces, v1::ModelSpec& model) {
  model = WrittenOut(model);
  model.set_numeric_pieces(pieces);
}

void ApplyToParty(const TuneSettings& settings, v1::Optimizer& optimizer, v1::ModelSpec& model) {
  if (settings.learning_rate) {
    optimizer.set_learning_rate(optimizer.learning_rate() * *settings.learning_rate);
  }
  if (settings.weight_decay) {
    const v1::Optimizer::Adam adam = optimizer.adam();
    v1::Optimizer::AdamW& decayed = *optimizer.mutable_adamw();  // Takes the place of adam.
    if (adam.ByteSizeLong() > 0) {
      decayed.set_beta1(adam.beta1());
      decayed.set_beta2(adam.beta2());
      decayed.set_epsilon(adam.epsilon());
    }
    decayed.set_weight_decay(*settings.weight_decay);
  }
  if (settings.layers) {
    SetLayers(*settings.layers, model);
  }
  if (settings.embedding) {
    SetEmbedding(*settings.embedding, model);
  }
  if (settings.numeric_pieces) {
    SetNumericPieces(*settings.numeric_pieces, model);
  }
}

// Its few weights need larger steps than layers do; those of Adagrad shrink besides. A slower one would make every
// model look good: with 5 for Adagrad it stays 0.015 below scikit-learn's on mammography, with 20 it is level.
constexpr double kLinearRate = 5, kLinearAdagradRate = 20;

// A number of the other party's columns, which is all that is sent, and a logit of it and of the own ones.
void SetLinear(v1::Optimizer& optimizer, v1::ModelSpec& model) {
  optimizer.set_learning_rate(optimizer.learning_rate() * (optimizer.has_adagrad() ? kLinearAdagradRate : kLinearRate));
  const v1::ModelSpec configured = WrittenOut(model);
  model.Clear();
  if (configured.has_embedding()) {
    *model.mutable_embedding() = configured.embedding();
  }
  for (const char* const name : {kLogisticCut, kLayerNames[1]}) {
    v1::Layer& layer = *model.add_layers();
    layer.set_name(name);
    layer.set_units(1);
    layer.set_activation(v1::LINEAR);
  }
  if (configured.has_wide()) {
    *model.mutable_wide() = configured.wide();
  }
  if (configured.has_own_features()) {
    *model.mutable_own_features() = configured.own_features();
    model.mutable_own_features()->clear_before();
  }
}

// `cut`: what the agreement says of the layers from now on; `kept`: those before the cut that are still there.
void SetCut(const std::string& cut, int32_t width, absl::Span<const char* const> kept, v1::RunAgreement& agreement) {
  agreement.set_cut_layer(cut);
  agreement.set_cut_width(width);
  // The last one before the cut is audited as "cut".
  const std::vector<std::string> audited = {agreement.audit().layers().begin(), agreement.audit().layers().end()};
  agreement.mutable_audit()->clear_layers();
  for (const std::string& name : audited) {
    if (name == kCutName || absl::c_linear_search(kept, name)) {
      agreement.mutable_audit()->add_layers(name);
    }
  }
}

bool UsesAdam(const v1::Optimizer& optimizer) { return optimizer.has_adam() || optimizer.has_adamw(); }

}  // namespace

SearchSpace SpaceOf(const RunFiles& files) {
  SearchSpace space;
  const v1::PartyCommon& label = files.label_config.party();
  const v1::PartyCommon& nonlabel = files.nonlabel_config.party();
  space.weight_decay = UsesAdam(label.optimizer()) && UsesAdam(nonlabel.optimizer());
  space.epochs = !files.label_config.protection().has_gaussian_label_dp();
  const bool whole = !files.agreement.cut_layer().empty() && files.agreement.cut_layer() != kEmbeddingCut;
  space.layers = whole && HasPlainLayers(files.label_config.model()) && HasPlainLayers(files.nonlabel_config.model());
  space.embedding = whole && WrittenOut(files.nonlabel_config.model()).has_embedding();
  return space;
}

TuneSettings LinearSettings() {
  TuneSettings settings;
  settings.is_linear = true;
  return settings;
}

TuneSettings DrawSettings(const SearchSpace& space, std::mt19937_64& random) {
  TuneSettings settings;
  settings.learning_rate = LogUniform(0.25, 4, random);
  if (space.weight_decay) {
    settings.weight_decay = LogUniform(1e-4, 1, random);
  }
  if (space.epochs) {
    settings.epochs = OneOf({0.5, 1.0, 2.0}, random);
  }
  if (space.layers) {
    TuneSettings::Layers layers;
    layers.before_cut = OneOf({1, 2, 3}, random);
    layers.behind_cut = OneOf({1, 2, 3}, random);
    layers.width = OneOf({32, 64, 128, 256}, random);
    layers.cut_width = OneOf({8, 16, 32, 64}, random);
    settings.layers = layers;
    settings.numeric_pieces = OneOf({1, 8, 32, 64}, random);
  }
  if (space.embedding) {
    settings.embedding = OneOf({2, 4, 8, 16}, random);
  }
  return settings;
}

void Apply(const TuneSettings& settings, RunFiles& files) {
  v1::RunAgreement& agreement = files.agreement;
  if (settings.epochs) {
    agreement.set_epochs(std::max(1, static_cast<int32_t>(std::lround(agreement.epochs() * *settings.epochs))));
  }
  ApplyToParty(settings, *files.label_config.mutable_party()->mutable_optimizer(), *files.label_config.mutable_model());
  ApplyToParty(settings, *files.nonlabel_config.mutable_party()->mutable_optimizer(),
               *files.nonlabel_config.mutable_model());
  if (settings.layers) {
    const int before_cut = settings.layers->before_cut;
    SetCut(kLayerNames[before_cut - 1], settings.layers->cut_width,
           absl::MakeConstSpan(kLayerNames, static_cast<size_t>(before_cut - 1)), agreement);
  }
  if (settings.is_linear) {
    SetLinear(*files.label_config.mutable_party()->mutable_optimizer(), *files.label_config.mutable_model());
    SetLinear(*files.nonlabel_config.mutable_party()->mutable_optimizer(), *files.nonlabel_config.mutable_model());
    SetCut(kLogisticCut, 1, {}, agreement);
  }
}

std::string SettingsText(const TuneSettings& settings) {
  if (settings.is_linear) {
    return "logistic regression on the same columns";
  }
  std::vector<std::string> parts;
  if (settings.learning_rate) {
    parts.push_back(absl::StrFormat("learning rate x %.3g", *settings.learning_rate));
  }
  if (settings.weight_decay) {
    parts.push_back(absl::StrFormat("weight decay %.2g", *settings.weight_decay));
  }
  if (settings.epochs) {
    parts.push_back(absl::StrFormat("epochs x %g", *settings.epochs));
  }
  if (settings.layers) {
    parts.push_back(absl::StrFormat("%d + %d layers of %d, cut %d", settings.layers->before_cut,
                                    settings.layers->behind_cut, settings.layers->width, settings.layers->cut_width));
  }
  if (settings.embedding) {
    parts.push_back(absl::StrCat("embeddings of ", *settings.embedding));
  }
  if (settings.numeric_pieces) {
    parts.push_back(
        absl::StrCat("numbers in ", *settings.numeric_pieces, *settings.numeric_pieces == 1 ? " piece" : " pieces"));
  }
  return parts.empty() ? "as configured" : absl::StrJoin(parts, ", ");
}

std::vector<Rung> PlanRungs(int64_t trials, int64_t epochs) {
  std::vector<Rung> rungs = {{1, 1.0}};
  // Backwards: as long as a third of the time is an epoch, and there are trials for it.
  while (rungs.size() < kMaxRungs && rungs.front().trials * kThird <= trials &&
         rungs.front().epochs / kThird * static_cast<double>(epochs) >= 1) {
    rungs.insert(rungs.begin(), {rungs.front().trials * kThird, rungs.front().epochs / kThird});
  }
  // From the first on, each a third of the one before, rounded up.
  int64_t left = trials;
  for (Rung& rung : rungs) {
    rung.trials = left;
    left = (left + kThird - 1) / kThird;
  }
  return rungs;
}

std::vector<size_t> Survivors(absl::Span<const std::optional<double>> quality, int64_t count, size_t always) {
  std::vector<size_t> order(quality.size());
  std::iota(order.begin(), order.end(), size_t{0});
  order.erase(std::remove_if(order.begin(), order.end(), [&](size_t i) { return !quality[i].has_value(); }),
              order.end());
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return *quality[a] > *quality[b]; });
  std::vector<size_t> survivors;
  for (size_t place = 0; place < order.size(); ++place) {
    if (place < static_cast<size_t>(count) || order[place] < always) {
      survivors.push_back(order[place]);
    }
  }
  return survivors;
}

}  // namespace splitveil
