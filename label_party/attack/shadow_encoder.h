// An encoder of the adversary's own that learns to imitate the bottom model from its output alone.
#ifndef SPLITVEIL_LABEL_PARTY_ATTACK_SHADOW_ENCODER_H_
#define SPLITVEIL_LABEL_PARTY_ATTACK_SHADOW_ENCODER_H_

#include <cereal/access.hpp>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/dataset/feature_table.h"
#include "common/matrix/matrix.h"
#include "common/model/input_layer.h"
#include "common/model/layer_stack.h"
#include "common/model/parameters.h"
#include "label_party/attack/attribute_decoder.h"

#include "splitveil/v1/model.pb.h"

namespace splitveil {

// The shadow encoder and the discriminator of the decoding simulator attack (Yu et al., section 4, after their [21]):
// a generative adversarial network (Goodfellow et al., NeurIPS 2014). Its true examples are activations that were sent;
// its made ones are what the shadow encoder makes of the adversary's features. The discriminator's logit D has two
// layers of 64 units before it and minimises -log sigmoid(D(sent)) - log(1 - sigmoid(D(made))), the encoder
// -log sigmoid(D(made)) (section 3 there), a step each in turn. Adam, learning rate 0.001, beta1 0.5 (Radford et al.,
// ICLR 2016); of the encoder's parameters an average is used (decay 0.99).
//
// D sees both through Gaussian noise that fades from one standard deviation of what was sent to none within each
// Imitate (instance noise: Soenderby et al., ICLR 2017). Without it the encoder settles on the largest
// cloud of activations and never finds the others.
//
// It cannot tell two encoders apart that make the same distribution. If it finds the wrong one, a decoder is
// confidently wrong. Not thread-safe.
class ShadowEncoder {
 public:
  struct Options {
    v1::ModelSpec model;                     // A bottom half of layers, to width `cut_width`.
    const FeatureTable* features = nullptr;  // Not owned; must outlive this.
    int64_t cut_width = 0;
    int passes = 20;  // Over the activations, in each Imitate.
    uint64_t seed = 0;
  };

  // Errors: InvalidArgument for a model that is none of layers, or does not fit the features or the cut width.
  static absl::StatusOr<std::unique_ptr<ShadowEncoder>> Create(const Options& options);

  // Learns from `sent` [>= 1, cut_width]. Resumes where an earlier Imitate ended. `stop`: called before each batch, may
  // be null. Errors: Internal if numbers are not finite; StoppedOnRequest, half-way.
  absl::Status Imitate(ConstMatrixView sent, bool (*stop)() = nullptr);

  // What it makes of all features: [features' rows, cut_width].
  absl::StatusOr<Matrix> EncodeAll() const;

 private:
  friend class cereal::access;
  // What the next Imitate resumes from.
  template <typename Archive>
  void serialize(Archive& archive) {
    NamedParameters state = TrainingState();
    archive(state, random_);
    if (Archive::is_loading::value) {
      Restore(state);
    }
  }
  NamedParameters TrainingState() const;
  // Throws, as cereal does, unless `state` is that of such an encoder.
  void Restore(const NamedParameters& state);
  std::vector<ParameterView> StateViews() const;

  explicit ShadowEncoder(const Options& options) : options_(options), random_(options.seed) {}

  absl::Status Build();
  // One step of the discriminator, then one of the encoder. `sent`: standardised; `noise_spread`: in its unit.
  absl::Status Step(Matrix sent, float noise_spread);
  void AddNoise(float spread, Matrix& rows);
  // Features of `count` examples drawn at random.
  FeatureBatch Draw(int64_t count);
  // Takes one discriminator step's gradients on `rows` that it should call sent, or made.
  absl::Status TeachDiscriminator(ConstMatrixView rows, bool are_sent);

  Options options_;
  std::mt19937_64 random_;
  std::unique_ptr<InputLayer> input_;
  std::unique_ptr<LayerStack> layers_;
  std::unique_ptr<LayerStack> discriminator_;
  Standardiser standardiser_;  // Of the activations that were sent.
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_ATTACK_SHADOW_ENCODER_H_
