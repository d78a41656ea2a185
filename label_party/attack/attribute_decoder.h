// A classifier that reads an attribute from activations, and the epochs of activations that it learns from.
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

// h_psi of Yu et al., section 4: layers and a softmax over the attribute's values. They learn by cross-entropy with
// Adam in batches of 256, smaller ones if there are few examples. The learning rate is 0.001 (section 6.1); a single
// layer, whose loss is convex, takes 0.01 to converge within a few passes. Inputs are standardised by mean and spread
// of the examples that it learns from, or of those that it guesses if they are many: the bottom model keeps learning
// between the two, and a shift of all activations would move every guess across the threshold. A tenth of the examples
// that it learns from is held out, always the same. It keeps the weights with the least loss there, of those before the
// first pass and after each: a decoder that learns its examples by heart would understate the attack. Not thread-safe.
class AttributeDecoder {
 public:
  struct Options {
    int64_t input_width = 0;
    int64_t values = 0;    // 2 to 254.
    v1::ModelSpec hidden;  // Layers before the last, linear one: `layers`, `input_image` and `initialization` are read.
    int passes = 20;       // Over the examples, in each Learn.
    uint64_t seed = 0;
  };

  // Errors: InvalidArgument, see PlanLayers, or for values out of range.
  static absl::StatusOr<std::unique_ptr<AttributeDecoder>> Create(const Options& options);

  // Learns from the rows of `activations` [rows, input_width] whose value is known: `values` [rows], each below
  // Options::values or kUnknownAttribute. Resumes where an earlier Learn ended. With fewer than ten known ones
  // nothing is held out. `stop`: called before each batch, may be null. Errors: InvalidArgument for a wrong shape,
  // a value out of range, or none known; Internal if activations are not finite; StoppedOnRequest, half-way.
  absl::Status Learn(ConstMatrixView activations, absl::Span<const uint8_t> values, bool (*stop)() = nullptr);

  // log p(value | activations): [rows, values]. 256 rows or more are standardised by their own mean and spread, so they
  // should be a fair sample. Before the first Learn the weights are random. Errors: InvalidArgument for a wrong width;
  // Internal if activations are not finite.
  absl::StatusOr<Matrix> Guess(ConstMatrixView activations) const;

 private:
  friend class cereal::access;
  // What the next Learn resumes from.
  template <typename Archive>
  void serialize(Archive& archive) {
    NamedParameters state = TrainingState();
    archive(state, random_);
    if (Archive::is_loading::value) {
      Restore(state);
    }
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

// What came in each epoch side by side, in at most kSlots columns of `width` numbers for each of `examples` examples:
// beyond kSlots epochs each column is the mean over 2, 4, ... neighbouring ones, so that none is forgotten. Not
// thread-safe.
class EpochHistory {
 public:
  static constexpr int64_t kSlots = 32;

  EpochHistory(int64_t examples, int64_t width) : examples_(examples), width_(width) {}

  // `rows` [examples, width]: of the epoch after those so far.
  void Add(ConstMatrixView rows);
  // Numbers of an example: columns times width. The latest column may be a mean of fewer epochs.
  int64_t width() const { return static_cast<int64_t>(slots_.size()) * width_; }
  // Of the examples [first, first + count): [count, width()].
  Matrix Rows(int64_t first, int64_t count) const;

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(epochs_, epochs_per_slot_, slots_);
    if (Archive::is_loading::value) {
      CheckLoaded();
    }
  }
  // Throws, as cereal does, unless it is one of as many examples and of this width.
  void CheckLoaded() const;
  // Neighbouring columns become one.
  void Halve();

  int64_t examples_;
  int64_t width_;
  int64_t epochs_ = 0;
  int64_t epochs_per_slot_ = 1;
  std::vector<Matrix> slots_;  // [examples, width] each.
};

// A row of `width` numbers for each of `examples` examples, of one epoch: the first row of another drops those before.
// Memory is taken with the first row. Not thread-safe.
class EpochRows {
 public:
  EpochRows(int64_t examples, int64_t width) : examples_(examples), width_(width) {}

  int64_t examples() const { return examples_; }
  int64_t width() const { return width_; }
  // The row of example `rank` < examples(), [width]. A row that has come already is replaced.
  void Set(uint32_t epoch, int64_t rank, absl::Span<const float> row);
  // Whether there are examples and every one's row of `epoch` has come.
  bool IsComplete(uint32_t epoch) const { return missing_ == 0 && epoch == epoch_ && !has_come_.empty(); }
  // [examples, width], once complete.
  ConstMatrixView rows() const { return rows_; }

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(epoch_, rows_, has_come_, missing_);
    if (Archive::is_loading::value) {
      CheckLoaded();
    }
  }
  // Throws, as cereal does, unless they are rows of as many examples and of this width.
  void CheckLoaded() const;

  int64_t examples_;
  int64_t width_;
  uint32_t epoch_ = 0;
  Matrix rows_;
  std::vector<bool> has_come_;  // Empty before the first row.
  int64_t missing_ = 0;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_ATTACK_ATTRIBUTE_DECODER_H_
