#include "label_party/attack/attribute_decoder.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

#include "common/architecture/model_spec.h"
#include "common/checkpoint/progress_archive.h"
#include "common/dataset/features.h"
#include "common/model/optimizer_options.h"
#include "common/process/exit_code.h"
#include "common/status/status_macros.h"
#include "label_party/top/task_loss.h"

namespace splitveil {
namespace {

// See the header: section 6.1 of the paper; a single layer is convex and may go faster.
constexpr double kLearningRate = 1e-3;
constexpr double kLinearLearningRate = 1e-2;
constexpr size_t kLargestBatch = 256;
// Batches in a pass, at least: with few examples, one step a pass would not get far.
constexpr size_t kLeastBatches = 8;
constexpr size_t kHeldOutFraction = 10;  // One of ten.
constexpr int64_t kGuessedAtOnce = 8192;
constexpr int64_t kEnoughForTheirOwnSpread = 256;  // Their mean is then known to 1/16 of their spread.

LayerChain ChainOf(const AttributeDecoder::Options& options) {
  LayerChain chain;
  chain.field = "attribute decoder";
  chain.input_width = options.input_width;
  chain.input_image = ImageOf(options.hidden);
  chain.layers = LayersOf(options.hidden);
  chain.initialization = options.hidden.initialization();
  v1::Layer& last = chain.layers.emplace_back();
  last.set_name(kLogitName);
  last.set_activation(v1::LINEAR);
  last.set_units(static_cast<int32_t>(options.values));
  return chain;
}

LossOptions LossFor(int64_t values) { return {Task{Task::Kind::kMultiClass, values}, 0}; }

Matrix RowsOf(ConstMatrixView matrix, absl::Span<const uint32_t> rows) {
  Matrix picked = Matrix::ToOverwrite(static_cast<int64_t>(rows.size()), matrix.cols());
  for (size_t j = 0; j < rows.size(); ++j) {
    picked.SetBlock(static_cast<int64_t>(j), matrix.block(rows[j], 1));
  }
  return picked;
}

// Logits to log probabilities, in place.
absl::Status Normalise(absl::Span<float> logits) {
  // The largest is taken off first, so that no exponential overflows.
  const float largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) {
    sum += std::exp(static_cast<double>(logit) - largest);
  }
  const double normaliser = largest + std::log(sum);
  if (!std::isfinite(normaliser)) {
    return absl::InternalError("attribute decoder: an activation is not finite");
  }
  for (float& logit : logits) {
    logit = static_cast<float>(logit - normaliser);
  }
  return absl::OkStatus();
}

// Share of the mean: a column that varies less than this varies by float32 rounding only.
constexpr double kLeastSpread = 1e-6;

}  // namespace

absl::StatusOr<std::unique_ptr<AttributeDecoder>> AttributeDecoder::Create(const Options& options) {
  if (options.values < 2 || options.values >= kUnknownAttribute) {
    return absl::InvalidArgumentError(
        absl::StrCat("attribute values: expected 2 to ", kUnknownAttribute - 1, ", found ", options.values));
  }
  LayerStack::Options stack;
  stack.chain = ChainOf(options);
  stack.seed = options.seed;
  stack.optimizer.learning_rate = options.hidden.layers().empty() ? kLinearLearningRate : kLearningRate;
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<LayerStack> layers, LayerStack::Create(stack));
  return absl::WrapUnique(new AttributeDecoder(options, std::move(layers)));
}

AttributeDecoder::AttributeDecoder(const Options& options, std::unique_ptr<LayerStack> layers)
    : input_width_(options.input_width),
      values_(options.values),
      passes_(options.passes),
      seed_(options.seed),
      layers_(std::move(layers)),
      random_(options.seed) {}

NamedParameters AttributeDecoder::TrainingState() const { return CopyTrainingState(StateViews(), layers_->steps()); }

void AttributeDecoder::Restore(const NamedParameters& state) {
  const absl::StatusOr<int64_t> steps = AssignTrainingState(state, StateViews());
  RefuseUnless(steps.ok());
  layers_->set_steps(*steps);
}

std::vector<ParameterView> AttributeDecoder::StateViews() const {
  return Joined({layers_->parameters(""), layers_->optimizer_state("")});
}

absl::Status AttributeDecoder::CheckWidth(ConstMatrixView activations) const {
  if (activations.cols() != input_width_) {
    return absl::InvalidArgumentError(
        absl::StrCat("activations: expected ", input_width_, " numbers each, found ", activations.cols()));
  }
  return absl::OkStatus();
}

absl::Status AttributeDecoder::Learn(ConstMatrixView activations, absl::Span<const uint8_t> values, bool (*stop)()) {
  SPLITVEIL_RETURN_IF_ERROR(CheckWidth(activations));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<uint32_t> known, KnownRows(activations.rows(), values));
  const absl::Span<const uint32_t> rows = known;
  const size_t held_out_count = rows.size() / kHeldOutFraction;
  // Held-out rows included: the standardiser uses no attribute, so nothing is learnt from them by it.
  standardiser_ = Standardiser(RowsOf(activations, rows));
  const Examples held_out = Pick(activations, values, rows.first(held_out_count));
  const Examples learnt = Pick(activations, values, rows.subspan(held_out_count));

  NamedParameters best;
  double best_loss = std::numeric_limits<double>::infinity();
  // Pass 0 only measures: a decoder from an earlier epoch may already be at its best.
  for (int pass = 0; pass <= passes_; ++pass) {
    if (pass > 0) {
      SPLITVEIL_RETURN_IF_ERROR(Pass(learnt, stop));
    }
    // With fewer than ten known examples the last pass is kept: none can be spared to choose another one.
    if (held_out_count == 0) {
      continue;
    }
    SPLITVEIL_ASSIGN_OR_RETURN(const double loss, LossOn(held_out));
    // The pass with the least loss on examples held out: with few known ones a decoder overfits quickly.
    if (loss < best_loss) {
      best_loss = loss;
      best = CopyParameters(layers_->parameters(""));
    }
  }
  return best.empty() ? absl::OkStatus() : AssignParameters(best, layers_->parameters(""));
}

// The rows whose value is known, in an order that depends on the seed alone: the same ones come first in every Learn.
absl::StatusOr<std::vector<uint32_t>> AttributeDecoder::KnownRows(int64_t rows,
                                                                  absl::Span<const uint8_t> values) const {
  if (rows != static_cast<int64_t>(values.size())) {
    return absl::InvalidArgumentError(absl::StrCat("attribute values: expected ", rows, ", found ", values.size()));
  }
  std::vector<uint32_t> known;
  for (size_t j = 0; j < values.size(); ++j) {
    if (values[j] == kUnknownAttribute) {
      continue;
    }
    if (values[j] >= values_) {
      return absl::InvalidArgumentError(absl::StrCat("attribute values: expected numbers below ", values_));
    }
    known.push_back(static_cast<uint32_t>(j));
  }
  if (known.empty()) {
    return absl::InvalidArgumentError("attribute values: expected one that is known, found none");
  }
  // Not random_, which moves on with each pass.
  std::mt19937_64 chooser(seed_);
  std::shuffle(known.begin(), known.end(), chooser);
  return known;
}

AttributeDecoder::Examples AttributeDecoder::Pick(ConstMatrixView activations, absl::Span<const uint8_t> values,
                                                  absl::Span<const uint32_t> rows) const {
  Examples examples;
  examples.inputs = standardiser_.Apply(RowsOf(activations, rows));
  for (const uint32_t row : rows) {
    examples.values.push_back(values[row]);
  }
  return examples;
}

absl::Status AttributeDecoder::Pass(const Examples& examples, bool (*stop)()) {
  std::vector<uint32_t> order(examples.values.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random_);
  const size_t batch = std::clamp<size_t>(order.size() / kLeastBatches, 1, kLargestBatch);
  for (size_t first = 0; first < order.size(); first += batch) {
    if (stop != nullptr && stop()) {
      return StoppedOnRequest();
    }
    SPLITVEIL_RETURN_IF_ERROR(Step(examples, absl::MakeConstSpan(order).subspan(first, batch)));
  }
  return absl::OkStatus();
}

absl::Status AttributeDecoder::Step(const Examples& examples, absl::Span<const uint32_t> rows) {
  const Matrix inputs = RowsOf(examples.inputs, rows);
  std::vector<float> values;
  for (const uint32_t row : rows) {
    values.push_back(examples.values[row]);
  }
  SPLITVEIL_ASSIGN_OR_RETURN(LayerPass pass, layers_->Forward(inputs));
  SPLITVEIL_ASSIGN_OR_RETURN(const TaskLoss loss, LossOf(LossFor(values_), pass.output(), values, {}));
  SPLITVEIL_RETURN_IF_ERROR(layers_->Backward(pass, loss.gradient, {}).status());
  pass = LayerPass();  // The parameters are free to change where they lie.
  return LayerStack::Update({layers_.get()});
}

absl::StatusOr<double> AttributeDecoder::LossOn(const Examples& examples) const {
  SPLITVEIL_ASSIGN_OR_RETURN(const Matrix outputs, layers_->Predict(examples.inputs));
  SPLITVEIL_ASSIGN_OR_RETURN(const TaskLoss loss, LossOf(LossFor(values_), outputs, examples.values, {}));
  return loss.mean;
}

absl::StatusOr<Matrix> AttributeDecoder::Guess(ConstMatrixView activations) const {
  SPLITVEIL_RETURN_IF_ERROR(CheckWidth(activations));
  Matrix scores = Matrix::ToOverwrite(activations.rows(), values_);
  // The bottom model has drifted since the decoder learnt: enough rows show their own mean and spread.
  const Standardiser standardiser =
      activations.rows() >= kEnoughForTheirOwnSpread ? Standardiser(activations) : standardiser_;
  for (int64_t first = 0; first < activations.rows(); first += kGuessedAtOnce) {
    const int64_t rows = std::min(kGuessedAtOnce, activations.rows() - first);
    SPLITVEIL_ASSIGN_OR_RETURN(const Matrix logits,
                               layers_->Predict(standardiser.Apply(activations.block(first, rows))));
    scores.SetBlock(first, logits);
  }
  for (int64_t j = 0; j < scores.rows(); ++j) {
    SPLITVEIL_RETURN_IF_ERROR(Normalise(scores.row(j)));
  }
  return scores;
}

// Cut layers differ in scale by orders of magnitude; one learning rate has to serve them all.
Standardiser::Standardiser(ConstMatrixView rows) {
  const auto width = static_cast<size_t>(rows.cols());
  const auto count = static_cast<double>(rows.rows());
  std::vector<double> means(width);
  std::vector<double> variances(width);
  for (int64_t j = 0; j < rows.rows(); ++j) {
    for (size_t k = 0; k < width; ++k) {
      means[k] += rows.row(j)[k] / count;
    }
  }
  // Two passes in double: the difference of squares would lose all digits of a column far from zero.
  for (int64_t j = 0; j < rows.rows(); ++j) {
    for (size_t k = 0; k < width; ++k) {
      const double difference = rows.row(j)[k] - means[k];
      variances[k] += difference * difference / count;
    }
  }
  for (size_t k = 0; k < width; ++k) {
    const double spread = std::sqrt(variances[k]);
    means_.push_back(static_cast<float>(means[k]));
    inverse_spreads_.push_back(spread > kLeastSpread * std::abs(means[k]) ? static_cast<float>(1 / spread) : 1);
  }
}

Matrix Standardiser::Apply(ConstMatrixView rows) const {
  // Nothing learnt yet: the weights are random anyway.
  if (means_.empty()) {
    return Matrix(rows);
  }
  Matrix result = Matrix::ToOverwrite(rows.rows(), rows.cols());
  for (int64_t j = 0; j < rows.rows(); ++j) {
    for (size_t k = 0; k < means_.size(); ++k) {
      result.row(j)[k] = (rows.row(j)[k] - means_[k]) * inverse_spreads_[k];
    }
  }
  return result;
}

// The derivative of Apply; the means do not enter.
void Standardiser::BackPropagate(Matrix& gradient) const {
  for (int64_t j = 0; j < gradient.rows(); ++j) {
    for (size_t k = 0; k < inverse_spreads_.size(); ++k) {
      gradient.row(j)[k] *= inverse_spreads_[k];
    }
  }
}

namespace {

// The mean moves from `mean` to `rows` by `share` of the way.
void Move(float share, ConstMatrixView rows, Matrix& mean) {
  std::transform(rows.data(), rows.data() + rows.size(), mean.data(), mean.data(),
                 [share](float value, float so_far) { return so_far + share * (value - so_far); });
}

}  // namespace

void EpochHistory::Add(ConstMatrixView rows) {
  // Memory is bounded: when all columns are full, neighbours are merged and each then holds twice as many epochs.
  if (epochs_ == kSlots * epochs_per_slot_) {
    Halve();
  }
  const int64_t in_slot = epochs_ % epochs_per_slot_;
  if (in_slot == 0) {
    slots_.emplace_back(rows);
  } else {
    // A running mean needs no memory of the single epochs.
    Move(1.0F / static_cast<float>(in_slot + 1), rows, slots_.back());
  }
  ++epochs_;
}

void EpochHistory::Halve() {
  for (size_t pair = 0; 2 * pair + 1 < slots_.size(); ++pair) {
    Matrix& mean = slots_[2 * pair];
    Move(0.5F, slots_[2 * pair + 1], mean);
    // Swapped, not copied: a column may have hundreds of megabytes.
    std::swap(slots_[pair], mean);
  }
  // Even: Add calls this only when all kSlots columns are full.
  slots_.resize(slots_.size() / 2);
  epochs_per_slot_ *= 2;
}

void EpochHistory::CheckLoaded() const {
  // A damaged checkpoint must not lead to reads outside a column.
  RefuseUnless(epochs_ >= 0 && epochs_per_slot_ >= 1 && epochs_ <= kSlots * epochs_per_slot_ &&
               static_cast<int64_t>(slots_.size()) == (epochs_ + epochs_per_slot_ - 1) / epochs_per_slot_ &&
               std::all_of(slots_.begin(), slots_.end(),
                           [&](const Matrix& slot) { return slot.rows() == examples_ && slot.cols() == width_; }));
}

// Epochs side by side: what an attribute does to an activation in all of them together tells more than any one.
Matrix EpochHistory::Rows(int64_t first, int64_t count) const {
  Matrix rows = Matrix::ToOverwrite(count, width());
  for (int64_t j = 0; j < count; ++j) {
    float* to = rows.row(j).data();
    for (const Matrix& slot : slots_) {
      to = std::copy_n(slot.row(first + j).data(), width_, to);
    }
  }
  return rows;
}

void EpochRows::Set(uint32_t epoch, int64_t rank, absl::Span<const float> row) {
  if (has_come_.empty()) {
    rows_ = Matrix(examples_, width_);
  }
  // The first row of a new epoch drops the old one: half of one epoch and half of the next is no picture of either.
  if (has_come_.empty() || epoch != epoch_) {
    epoch_ = epoch;
    has_come_.assign(static_cast<size_t>(examples_), false);
    missing_ = examples_;
  }
  rows_.SetBlock(rank, {row.data(), 1, width_});
  if (!has_come_[rank]) {
    has_come_[rank] = true;
    --missing_;
  }
}

void EpochRows::CheckLoaded() const {
  const int64_t examples = has_come_.empty() ? 0 : examples_;
  RefuseUnless(static_cast<int64_t>(has_come_.size()) == examples && rows_.rows() == examples &&
               (examples == 0 || rows_.cols() == width_) &&
               missing_ == std::count(has_come_.begin(), has_come_.end(), false));
}

}  // namespace splitveil
