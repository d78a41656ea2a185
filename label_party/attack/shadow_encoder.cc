#include "label_party/attack/shadow_encoder.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

#include "common/architecture/model_spec.h"
#include "common/checkpoint/progress_archive.h"
#include "common/model/optimizer_options.h"
#include "common/process/exit_code.h"
#include "common/status/status_macros.h"
#include "label_party/top/task_loss.h"

namespace splitveil {
namespace {

constexpr char kField[] = "attribute_attack.shadow_model";
// Prefixes of parameter names: both networks are saved in one state.
constexpr char kEncoder[] = "encoder/";
constexpr char kDiscriminator[] = "discriminator/";
constexpr size_t kBatch = 256;
constexpr int kDiscriminatorUnits = 64;
constexpr int64_t kEncodedAtOnce = 4096;

OptimizerOptions AdversarialAdam() {
  OptimizerOptions optimizer;
  // Radford et al. (ICLR 2016): with 0.9 the two networks oscillate.
  optimizer.beta1 = 0.5;
  return optimizer;
}

v1::Layer MakeDense(const std::string& name, int units, v1::Activation activation) {
  v1::Layer layer;
  layer.set_name(name);
  layer.set_units(units);
  layer.set_activation(activation);
  return layer;
}

LayerChain DiscriminatorChain(int64_t cut_width) {
  LayerChain chain;
  chain.field = "discriminator";
  chain.input_width = cut_width;
  chain.layers = {MakeDense("first", kDiscriminatorUnits, v1::RELU), MakeDense("second", kDiscriminatorUnits, v1::RELU),
                  MakeDense(kLogitName, 1, v1::LINEAR)};
  return chain;
}

// Per-row gradient of the logistic loss for the target "sent" (1) or "made" (0).
absl::StatusOr<Matrix> LogitGradient(ConstMatrixView logits, bool sent) {
  const std::vector<float> labels(static_cast<size_t>(logits.rows()), sent ? 1 : 0);
  SPLITVEIL_ASSIGN_OR_RETURN(TaskLoss loss, LossOf({Task{Task::Kind::kBinary, 2}, 0}, logits, labels, {}));
  return std::move(loss.gradient);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ShadowEncoder>> ShadowEncoder::Create(const Options& options) {
  if (options.features == nullptr || options.features->rows() == 0) {
    return absl::InvalidArgumentError("attribute_attack.auxiliary: expected rows for SIMULATOR, found none");
  }
  if (options.model.layers_size() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(kField, ".layers: expected at least one, found none"));
  }
  std::unique_ptr<ShadowEncoder> encoder = absl::WrapUnique(new ShadowEncoder(options));
  SPLITVEIL_RETURN_IF_ERROR(encoder->Build());
  return encoder;
}

absl::Status ShadowEncoder::Build() {
  OptimizerOptions optimizer = AdversarialAdam();
  // Encoder and discriminator chase each other: the average of the encoder's parameters is steadier than the latest.
  optimizer.average_decay = 0.99;
  InputLayer::Options input;
  input.field = kField;
  input.features = options_.features->shape();
  input.embedding = options_.model.has_embedding() ? &options_.model.embedding() : nullptr;
  input.optimizer = optimizer;
  input.seed = random_();
  input.pieces = options_.model.numeric_pieces();
  SPLITVEIL_ASSIGN_OR_RETURN(input_, InputLayer::Create(input));

  LayerStack::Options stack;
  stack.chain.field = kField;
  stack.chain.input_width = input_->width();
  stack.chain.input_image = options_.features->shape().image;
  stack.chain.layers = LayersOf(options_.model);
  stack.chain.initialization = options_.model.initialization();
  stack.optimizer = optimizer;
  stack.seed = random_();
  stack.input_gradient = input_->has_embedding();
  SPLITVEIL_ASSIGN_OR_RETURN(layers_, LayerStack::Create(stack));
  if (layers_->output_width() != options_.cut_width) {
    return absl::InvalidArgumentError(absl::StrCat(kField, ".layers: expected ", options_.cut_width,
                                                   " outputs, the agreed cut width, found ", layers_->output_width()));
  }

  LayerStack::Options discriminator;
  discriminator.chain = DiscriminatorChain(options_.cut_width);
  discriminator.optimizer = AdversarialAdam();
  discriminator.seed = random_();
  SPLITVEIL_ASSIGN_OR_RETURN(discriminator_, LayerStack::Create(discriminator));
  return absl::OkStatus();
}

NamedParameters ShadowEncoder::TrainingState() const { return CopyTrainingState(StateViews(), layers_->steps()); }

void ShadowEncoder::Restore(const NamedParameters& state) {
  const absl::StatusOr<int64_t> steps = AssignTrainingState(state, StateViews());
  RefuseUnless(steps.ok());
  input_->set_steps(*steps);
  layers_->set_steps(*steps);
  discriminator_->set_steps(*steps);  // A step each in turn.
}

std::vector<ParameterView> ShadowEncoder::StateViews() const {
  return Joined({input_->parameters(kEncoder), input_->optimizer_state(kEncoder), layers_->parameters(kEncoder),
                 layers_->optimizer_state(kEncoder), discriminator_->parameters(kDiscriminator),
                 discriminator_->optimizer_state(kDiscriminator)});
}

absl::Status ShadowEncoder::Imitate(ConstMatrixView sent, bool (*stop)()) {
  // A new one for each epoch, since the scale of the bottom model drifts.
  standardiser_ = Standardiser(sent);
  std::vector<uint32_t> order(static_cast<size_t>(sent.rows()));
  std::iota(order.begin(), order.end(), 0);
  for (int pass = 0; pass < options_.passes; ++pass) {
    // Instance noise that fades to nothing: without it the discriminator soon tells every row apart, and the encoder
    // gets no gradient.
    const auto noise_spread = static_cast<float>(options_.passes - pass) / static_cast<float>(options_.passes);
    std::shuffle(order.begin(), order.end(), random_);
    for (size_t first = 0; first < order.size(); first += kBatch) {
      // Asked for each batch: an operator must not wait for a whole pass.
      if (stop != nullptr && stop()) {
        return StoppedOnRequest();
      }
      const auto rows = absl::MakeConstSpan(order).subspan(first, kBatch);
      Matrix batch = Matrix::ToOverwrite(static_cast<int64_t>(rows.size()), sent.cols());
      for (size_t j = 0; j < rows.size(); ++j) {
        batch.SetBlock(static_cast<int64_t>(j), sent.block(rows[j], 1));
      }
      SPLITVEIL_RETURN_IF_ERROR(Step(standardiser_.Apply(batch), noise_spread));
    }
  }
  return absl::OkStatus();
}

// As a generative adversarial network: the encoder has to make activations of the right distribution, without any pair
// of features and activations to learn from.
absl::Status ShadowEncoder::Step(Matrix sent, float noise_spread) {
  const FeatureBatch features = Draw(sent.rows());
  Matrix storage;
  SPLITVEIL_ASSIGN_OR_RETURN(const ConstMatrixView input, input_->Assemble(features, ParameterUse::kTraining, storage));
  SPLITVEIL_ASSIGN_OR_RETURN(LayerPass encoding, layers_->Forward(input));
  Matrix made = standardiser_.Apply(encoding.output());
  AddNoise(noise_spread, sent);
  AddNoise(noise_spread, made);

  // One step of the discriminator: rows that were sent against rows that were made.
  SPLITVEIL_RETURN_IF_ERROR(TeachDiscriminator(sent, true));
  SPLITVEIL_RETURN_IF_ERROR(TeachDiscriminator(made, false));
  SPLITVEIL_RETURN_IF_ERROR(LayerStack::Update({discriminator_.get()}));

  // One step of the encoder: towards rows that the discriminator takes for sent ones.
  SPLITVEIL_ASSIGN_OR_RETURN(const LayerPass judging, discriminator_->Forward(made));
  SPLITVEIL_ASSIGN_OR_RETURN(const Matrix at_logit, LogitGradient(judging.output(), true));
  // Through the discriminator as it is: only the encoder learns in this step.
  SPLITVEIL_ASSIGN_OR_RETURN(Matrix at_made, discriminator_->InputGradient(judging, at_logit));
  standardiser_.BackPropagate(at_made);
  SPLITVEIL_ASSIGN_OR_RETURN(const StackGradients gradients, layers_->Backward(encoding, at_made, {}));
  encoding = LayerPass();  // The parameters are free to change where they lie.
  SPLITVEIL_RETURN_IF_ERROR(LayerStack::Update({layers_.get()}));
  const LookupGradient at_input = {features.categories, gradients.input};
  return input_->Update({&at_input, 1});
}

void ShadowEncoder::AddNoise(float spread, Matrix& rows) {
  std::normal_distribution<float> noise(0, spread);
  for (float& value : rows.block_values(0, rows.rows())) {
    value += noise(random_);
  }
}

absl::Status ShadowEncoder::TeachDiscriminator(ConstMatrixView rows, bool are_sent) {
  SPLITVEIL_ASSIGN_OR_RETURN(LayerPass judging, discriminator_->Forward(rows));
  SPLITVEIL_ASSIGN_OR_RETURN(const Matrix gradient, LogitGradient(judging.output(), are_sent));
  return discriminator_->Backward(judging, gradient, {}).status();
}

// Drawn independently of the sent rows: which features belong to which row is what the adversary does not know.
FeatureBatch ShadowEncoder::Draw(int64_t count) {
  std::uniform_int_distribution<uint32_t> any(0, static_cast<uint32_t>(options_.features->rows() - 1));
  std::vector<uint32_t> rows(static_cast<size_t>(count));
  std::generate(rows.begin(), rows.end(), [&] { return any(random_); });
  return options_.features->Gather(rows);
}

absl::StatusOr<Matrix> ShadowEncoder::EncodeAll() const {
  Matrix encoded = Matrix::ToOverwrite(options_.features->rows(), options_.cut_width);
  for (int64_t first = 0; first < encoded.rows(); first += kEncodedAtOnce) {
    std::vector<uint32_t> rows(static_cast<size_t>(std::min(kEncodedAtOnce, encoded.rows() - first)));
    std::iota(rows.begin(), rows.end(), static_cast<uint32_t>(first));
    const FeatureBatch features = options_.features->Gather(rows);
    Matrix storage;
    SPLITVEIL_ASSIGN_OR_RETURN(const ConstMatrixView input,
                               input_->Assemble(features, ParameterUse::kPrediction, storage));
    SPLITVEIL_ASSIGN_OR_RETURN(const Matrix outputs, layers_->Predict(input));
    encoded.SetBlock(first, outputs);
  }
  return encoded;
}

}  // namespace splitveil
