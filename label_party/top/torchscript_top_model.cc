#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/model/export.h"
#include "common/model/half_script.h"
#include "common/model/input_layer.h"
#include "common/model/optimizer_options.h"
#include "common/model/torchscript_module.h"
#include "common/model/torchscript_state.h"
#include "common/process/steady_time.h"
#include "common/status/status_macros.h"
#include "label_party/top/built_in_models.h"
#include "label_party/top/task_loss.h"

namespace splitveil {
namespace {

constexpr char kField[] = "model";
constexpr char kFileField[] = "model.torchscript_path";
constexpr char kOwnPrefix[] = "own.";
using Part = TorchScriptModule::Part;

// What of the party's own features the module gets beside the cut activations.
struct OwnArguments {
  std::unique_ptr<InputLayer> assembled;  // One argument: embeddings and numbers. Null without own_features;
  bool numbers = false;                   // then the numeric columns as they are,
  bool categories = false;                // and the categories.
};

class TorchScriptTopModel final : public TopModel {
 public:
  TorchScriptTopModel(const TopModelOptions& options, OwnArguments own, std::unique_ptr<TorchScriptModule> module)
      : features_(options.features), task_(options.task), own_(std::move(own)), module_(std::move(module)) {}

  // A file may normalise over the batch, which cannot be seen from outside.
  bool needs_whole_batch() const override { return true; }

  absl::StatusOr<TopStep> ForwardBackward(ConstMatrixView activations, const FeatureBatch& own,
                                          absl::Span<const float> labels, const TrainingTargets& targets) override {
    const SteadyTime started = SteadyNow();
    // A file may normalise over the batch, so a batch comes in one piece, and one piece at a time.
    if (has_gradients_) {
      return absl::FailedPreconditionError("top model: expected an Update since the last ForwardBackward, found none");
    }
    Matrix storage;
    SPLITVEIL_ASSIGN_OR_RETURN(const TorchScriptInput input,
                               InputOf(activations, own, ParameterUse::kTraining, storage));
    // Kept until Update, so that OutputDirections can go back through the same graph.
    SPLITVEIL_ASSIGN_OR_RETURN(pass_, module_->Forward(input));
    SPLITVEIL_ASSIGN_OR_RETURN(loss_, LossOf({task_, targets.noise_stddev}, pass_.output(), labels, targets.values));
    const double forward_seconds = SecondsSince(started);
    SPLITVEIL_ASSIGN_OR_RETURN(gradients_, module_->Backward(pass_, loss_.gradient, {}));
    categories_ = own.categories;
    has_gradients_ = true;
    return TopStep{loss_.mean, gradients_.inputs[0], forward_seconds, loss_.predictions,
                   static_cast<ConstMatrixView>(loss_.gradient).values()};
  }

  absl::Status Update() override {
    if (!has_gradients_) {
      return absl::FailedPreconditionError("top model: expected a ForwardBackward since the last Update, found none");
    }
    // The graph of the pass holds the parameters as they were: freed before they change.
    has_gradients_ = false;
    pass_ = TorchScriptPass();
    const absl::Status status = module_->Update();
    // inputs[1] is the gradient at the assembled own features: inputs[0] belongs to the activations (ModuleOptions).
    return status.ok() && has_embedding() ? own_.assembled->Update({{categories_, gradients_.inputs[1]}}) : status;
  }

  absl::StatusOr<Matrix> OutputDirections() const override {
    if (!has_gradients_) {
      return absl::FailedPreconditionError("top model: expected a ForwardBackward since the last Update, found none");
    }
    // A pass back for each output, since a file offers no other way to its derivatives.
    return DirectionsOfOutputs(loss_.gradient.rows(), task_.outputs(),
                               [&](ConstMatrixView gradient) { return module_->InputGradient(pass_, gradient); });
  }

  absl::StatusOr<std::vector<float>> Predict(ConstMatrixView activations, const FeatureBatch& own) override {
    Matrix storage;
    SPLITVEIL_ASSIGN_OR_RETURN(const TorchScriptInput input,
                               InputOf(activations, own, ParameterUse::kPrediction, storage));
    SPLITVEIL_ASSIGN_OR_RETURN(const Matrix logits, module_->Predict(input));
    return std::vector<float>(logits.data(), logits.data() + logits.size());
  }

  NamedParameters Parameters() const override { return state().Parameters(); }
  absl::Status SetParameters(const NamedParameters& parameters) override { return state().SetParameters(parameters); }
  NamedParameters TrainingState() const override { return state().TrainingState(); }
  absl::Status SetTrainingState(const NamedParameters& state) override { return this->state().SetTrainingState(state); }

  absl::Status ExportTo(const std::string& folder) const override {
    const ExportTarget target = {folder, "label_party"};
    if (!has_embedding()) {
      return ExportModule(*module_, target);
    }
    HalfScript script({"z"}, &features_);
    script.Assemble("own", *own_.assembled, kOwnPrefix);
    return ExportModuleWithin(script, "self.module.forward(z, own)", *module_, target);
  }

 private:
  bool has_embedding() const { return own_.assembled != nullptr && own_.assembled->has_embedding(); }

  // The module's arguments: views of what is given.
  absl::StatusOr<TorchScriptInput> InputOf(ConstMatrixView activations, const FeatureBatch& own, ParameterUse use,
                                           Matrix& storage) const {
    TorchScriptInput input;
    input.numbers.push_back(activations);
    if ((own_.assembled != nullptr || own_.numbers) && own.rows != activations.rows()) {
      return absl::InvalidArgumentError(
          absl::StrCat("own features: expected ", activations.rows(), " rows, found ", own.rows));
    }
    // With own_features, one tensor of embeddings and numbers; else numbers and categories as arguments of their own.
    if (own_.assembled != nullptr) {
      SPLITVEIL_ASSIGN_OR_RETURN(const ConstMatrixView assembled, own_.assembled->Assemble(own, use, storage));
      input.numbers.push_back(assembled);
    } else if (own_.numbers) {
      if (own.numeric.size() != own.rows * features_.numeric) {
        return absl::InvalidArgumentError(absl::StrCat("own features, numeric: expected ", own.rows, " x ",
                                                       features_.numeric, ", found ", own.numeric.rows(), " x ",
                                                       own.numeric.cols()));
      }
      input.numbers.emplace_back(own.numeric.data(), own.rows, features_.numeric);
    }
    if (own_.categories) {
      input.categories = own.categories;
    }
    return input;
  }

  TorchScriptState state() const { return {own_.assembled.get(), kOwnPrefix, module_.get()}; }

  FeatureShape features_;
  const Task task_;
  OwnArguments own_;
  std::unique_ptr<TorchScriptModule> module_;
  // Of the latest ForwardBackward.
  absl::Span<const int64_t> categories_;
  TorchScriptPass pass_;
  TorchScriptGradients gradients_;
  TaskLoss loss_;
  bool has_gradients_ = false;
};

bool HasEmbedding(const TopModelOptions& options) {
  return options.spec.own_features().has_embedding() && options.features.categorical > 0;
}

// Whether a module without own_features has arguments for the party's own columns.
absl::StatusOr<bool> TakesOwnColumns(const TopModelOptions& options) {
  if (options.spec.has_own_features()) {
    return false;
  }
  const absl::StatusOr<int> arguments = CountTorchScriptArguments(kFileField, options.spec.torchscript_path());
  return arguments.ok() ? absl::StatusOr<bool>(*arguments > 1) : arguments.status();
}

TorchScriptModule::Options ModuleOptions(const TopModelOptions& options, const OptimizerOptions& optimizer,
                                         bool takes_own_columns, uint64_t seed) {
  const bool embeds = HasEmbedding(options);
  TorchScriptModule::Options module;
  module.field = kFileField;
  module.path = options.spec.torchscript_path();
  // The first argument is always the activations: its gradient is what the peer gets.
  module.numbers = {{{options.cut_width}, /*gradient=*/true}};
  if (options.spec.has_own_features() || takes_own_columns) {
    const int64_t embedded =
        embeds ? options.features.categorical * options.spec.own_features().embedding().dimension() : 0;
    module.numbers.push_back({{embedded + options.features.numeric}, /*gradient=*/embeds});
  }
  module.category_columns = takes_own_columns ? options.features.categorical : 0;
  module.output_width = options.task.outputs();
  module.optimizer = optimizer;
  // Names must not clash with those of the embedding ("own.embedding").
  module.name_prefix = embeds ? "module." : "";
  module.seed = seed;
  module.rows_apart = options.rows_apart;
  return module;
}

// The parts that both Check and Create need.
struct Plan {
  OptimizerOptions optimizer;
  bool takes_own_columns = false;
};

absl::StatusOr<Plan> MakePlan(const TopModelOptions& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(const OptimizerOptions optimizer, ReadOptimizerOptions(options.optimizer));
  // A category as it is would be taken for a number.
  if (options.spec.has_own_features() && options.features.categorical > 0 && !HasEmbedding(options)) {
    return absl::InvalidArgumentError(absl::StrCat(kField, ".own_features.embedding is missing: the data have ",
                                                   options.features.categorical,
                                                   " categorical columns. Add embedding { ... }"));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const bool takes_own_columns, TakesOwnColumns(options));
  return Plan{optimizer, takes_own_columns};
}

}  // namespace

absl::Status CheckTorchScriptTopModel(const TopModelOptions& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(const Plan plan, MakePlan(options));
  return TorchScriptModule::Create(ModuleOptions(options, plan.optimizer, plan.takes_own_columns, options.seed))
      .status();
}

absl::StatusOr<std::unique_ptr<TopModel>> CreateTorchScriptTopModel(const TopModelOptions& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(const Plan plan, MakePlan(options));
  // A seed each, in a fixed order: the module's draws do not depend on whether there is an embedding.
  std::mt19937_64 seeds(options.seed);
  SPLITVEIL_ASSIGN_OR_RETURN(
      std::unique_ptr<TorchScriptModule> module,
      TorchScriptModule::Create(ModuleOptions(options, plan.optimizer, plan.takes_own_columns, seeds())));
  OwnArguments own;
  own.numbers = plan.takes_own_columns;
  own.categories = plan.takes_own_columns && options.features.categorical > 0;
  if (options.spec.has_own_features()) {
    const v1::OwnFeatures& spec = options.spec.own_features();
    SPLITVEIL_ASSIGN_OR_RETURN(
        own.assembled,
        InputLayer::Create({absl::StrCat(kField, ".own_features"), options.features,
                            spec.has_embedding() ? &spec.embedding() : nullptr, plan.optimizer, seeds()}));
  }
  return std::make_unique<TorchScriptTopModel>(options, std::move(own), std::move(module));
}

}  // namespace splitveil
