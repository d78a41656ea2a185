// A classifier that reads an attribute from activations, and the columns of mean 0 and spread 1 that it learns from.
#ifndef SPLITVEIL_LABEL_PARTY_ATTACK_ATTRIBUTE_DECODER_H_
#define SPLITVEIL_LABEL_PARTY_ATTACK_ATTRIBUTE_DECODER_H_

#include <cereal/access.hpp>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/matrix/matrix.h"
#include "common/model/layer_stack.h"
#include "common/model/parameters.h"

#include "splitveil/v1/model.pb.h"

namespace splitveil {

// x -> (x - mean) / spread, column by column, with mean and standard deviation of the rows it was made from. A column
// that does not vary there, to the precision of its numbers, keeps its scale. Thread-safe.
class Standardiser {
 public:
  // Changes nothing.
  Standardiser() = default;
  // `rows` [>= 1, width].
  explicit Standardiser(ConstMatrixView rows);

  // `rows` [any, width].
  Matrix Apply(ConstMatrixView rows) const;
  // Gradients at Apply's result become those at its argument: divides by the spread, in place.
  void BackPropagate(Matrix& gradient) const;

 private:
  std::vector<float> means_;
  std::vector<float> inverse_spreads_;
};

// h_psi of Yu et al., section 4: layers and a softmax over the attribute's values, which learn by cross-entropy with
// Adam in batches of 256, of few examples smaller ones. The learning rate is 0.001 (section 6.1); one layer alone,
// whose loss is convex, takes 0.01 to be there within a few passes. Inputs are standardised by mean and spread of the
// examples it learns from, or of those it guesses where they are many: the bottom model goes on learning between the
// two, and what moves all activations alike would move every guess across the threshold. A tenth of those is held out,
// always the same: of the weights after each pass, and before the first, those remain with the least loss there, so
// that a decoder that learns its examples by heart does not understate the attack. Not thread-safe.
class AttributeDecoder {
 public:
  struct Options {
    int64_t input_width = 0;
    int64_t values = 0;    // 2 to 254.
    v1::ModelSpec hidden;  // Layers before the last, linear one: `layers`, `input_image` and `initialization` are read.
    int passes = 20;       // Over the examples, in each Learn.
    uint64_t seed = 0;
  };

  // Errors: InvalidArgument as PlanLayers, or for values out of range.
  static absl::StatusOr<std::unique_ptr<AttributeDecoder>> Create(const Options& options);

  // Learns from the rows of `activations` [rows, input_width] whose value is known: `values` [rows], each below
  // Options::values or kUnknownAttribute. Goes on from where an earlier Learn ended. With fewer than ten known ones
  // nothing is held out. `stop`: asked before each batch; null: nobody asks. Errors: InvalidArgument for another shape,
  // a value that there is not, or none known; Internal where activations are not finite; StoppedOnRequest, half-way.
  absl::Status Learn(ConstMatrixView activations, absl::Span<const uint8_t> values, bool (*stop)() = nullptr);

  // log p(value | activations): [rows, values]. 256 rows or more are brought to the scale of the learnt ones by their
  // own mean and spread, and so should be a fair sample. Before the first Learn: of random weights. Errors:
  // InvalidArgument for another width; Internal where activations are not finite.
  absl::StatusOr<Matrix> Guess(ConstMatrixView activations) const;

 private:
  friend class cereal::access;
  // What the next Learn goes on from.
  template <typename Archive>
  void save(Archive& archive) const {
    archive(TrainingState(), random_);
  }
  template <typename Archive>
  void load(Archive& archive) {
    NamedParameters state;
    archive(state, random_);
    Restore(state);
  }
  NamedParameters TrainingState() const;
  // Throws, as cereal does, unless `state` is that of such layers.
  void Restore(const NamedParameters& state);

  // Examples that a decoder learns from, or is tried on: standardised, and a value for each.
  struct Examples {
    Matrix inputs;
    std::vector<float> values;
  };

  AttributeDecoder(const Options& options, std::unique_ptr<LayerStack> layers);

  absl::Status CheckWidth(ConstMatrixView activations) const;
  absl::StatusOr<std::vector<uint32_t>> KnownRows(int64_t rows, absl::Span<const uint8_t> values) const;
  Examples Pick(ConstMatrixView activations, absl::Span<const uint8_t> values, absl::Span<const uint32_t> rows) const;
  // One pass.
  absl::Status Pass(const Examples& examples, bool (*stop)());
  // One step of the optimiser.
  absl::Status Step(const Examples& examples, absl::Span<const uint32_t> rows);
  std::vector<ParameterView> StateViews() const;
  // Mean cross-entropy, nats.
  absl::StatusOr<double> LossOn(const Examples& examples) const;

  int64_t input_width_;
  int64_t values_;
  int passes_;
  uint64_t seed_;
  std::unique_ptr<LayerStack> layers_;
  Standardiser standardiser_;
  std::mt19937_64 random_;  // The order of examples.
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_ATTACK_ATTRIBUTE_DECODER_H_
