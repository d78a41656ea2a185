#include "tests/testing/centralized_baseline_model.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <utility>

namespace splitveil::testing {
namespace {

using torch::Tensor;

const std::vector<float>& Find(const NamedParameters& parameters, const std::string& name) {
  const auto found = std::find_if(parameters.begin(), parameters.end(),
                                  [&](const auto& parameter) { return parameter.first == name; });
  EXPECT_NE(found, parameters.end()) << name;
  return found->second;
}

// The schedule as the schema's comments have it.
double LearningRate(const v1::Optimizer& optimizer, int64_t step) {
  const v1::LearningRateSchedule& schedule = optimizer.schedule();
  const auto t = static_cast<double>(step);
  double rate = optimizer.learning_rate();
  if (schedule.warmup_steps() > 0) {
    rate *= std::min(1.0, (t + 1) / static_cast<double>(schedule.warmup_steps()));
  }
  if (schedule.has_decay()) {
    rate *= std::pow(schedule.decay().factor(), std::floor(t / static_cast<double>(schedule.decay().steps())));
  }
  if (schedule.has_cosine()) {
    const double angle = M_PI * std::min(1.0, t / static_cast<double>(schedule.cosine().steps()));
    const double floor = schedule.cosine().floor();
    rate *= floor + (1 - floor) * (1 + std::cos(angle)) / 2;
  }
  return rate;
}

std::unique_ptr<torch::optim::Optimizer> MakeOptimizer(const std::vector<Tensor>& parameters,
                                                       const v1::Optimizer& spec) {
  const double rate = spec.learning_rate();
  switch (spec.method_case()) {
    case v1::Optimizer::kAdamw:
      return std::make_unique<torch::optim::AdamW>(
          parameters, torch::optim::AdamWOptions(rate)
                          .betas(std::make_tuple(spec.adamw().beta1(), spec.adamw().beta2()))
                          .eps(spec.adamw().epsilon())
                          .weight_decay(spec.adamw().weight_decay()));
    case v1::Optimizer::kSgd:
      return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(rate)
                                                                 .momentum(spec.sgd().momentum())
                                                                 .nesterov(spec.sgd().nesterov())
                                                                 .weight_decay(spec.l2()));
    case v1::Optimizer::kAdagrad:
      return std::make_unique<torch::optim::Adagrad>(
          parameters, torch::optim::AdagradOptions(rate)
                          .eps(spec.adagrad().epsilon())
                          .initial_accumulator_value(spec.adagrad().initial_accumulator())
                          .weight_decay(spec.l2()));
    default:
      return std::make_unique<torch::optim::Adam>(parameters,
                                                  torch::optim::AdamOptions(rate)
                                                      .betas(std::make_tuple(spec.adam().beta1(), spec.adam().beta2()))
                                                      .eps(spec.adam().epsilon())
                                                      .weight_decay(spec.l2()));
  }
}

Tensor Activate(const Tensor& values, v1::Activation activation) {
  switch (activation) {
    case v1::RELU:
      return torch::relu(values);
    case v1::TANH:
      return torch::tanh(values);
    case v1::SIGMOID:
      return torch::sigmoid(values);
    case v1::LINEAR:
      break;
  }
  return values;
}

// The average after step `step`, from 0.
Tensor Averaged(const Tensor& average, const Tensor& values, const v1::Optimizer& optimizer, int64_t step) {
  const auto t = static_cast<double>(step);
  const double keep = std::min(optimizer.average_decay(), (1 + t) / (10 + t));
  return keep * average + (1 - keep) * values;
}

// Each number x as clamp(pieces x - i, 0, 1), i < pieces; with one piece as it is.
Tensor Numeric(const FeatureBatch& batch, int pieces) {
  const ConstMatrixView numeric = batch.numeric;
  const Tensor values = torch::from_blob(const_cast<float*>(numeric.data()), {batch.rows, numeric.cols()}).clone();
  return pieces == 1 ? values : (values.unsqueeze(2) * pieces - torch::arange(pieces)).clamp(0, 1).flatten(1);
}

}  // namespace

LazyEmbedding::LazyEmbedding(const std::vector<float>& values, int64_t dimension)
    : table_(torch::tensor(values).view({-1, dimension}).requires_grad_()),
      first_(torch::zeros_like(table_)),
      second_(torch::zeros_like(table_)),
      average_(table_.detach().clone()),
      own_steps_(torch::zeros({table_.size(0), 1})) {}

Tensor LazyEmbedding::Lookup(const FeatureBatch& batch) {
  const Tensor rows = torch::tensor(batch.categories);
  touched_ = torch::zeros({table_.size(0), 1}).index_fill_(0, rows, 1);
  return torch::embedding(table_, rows.view({batch.rows, -1})).flatten(1);
}

void LazyEmbedding::Step(const v1::Optimizer& optimizer, double rate, int64_t step) {
  const torch::NoGradGuard no_grad;
  const Tensor& g = table_.grad();
  Tensor change;
  if (optimizer.has_sgd()) {
    const double momentum = optimizer.sgd().momentum();
    first_.copy_(torch::where(touched_ > 0, momentum * first_ + g, first_));
    change = optimizer.sgd().nesterov() ? g + momentum * first_ : first_;
  } else if (optimizer.has_adagrad()) {
    if (step == 0) {
      first_.fill_(optimizer.adagrad().initial_accumulator());
    }
    first_.add_(g * g);
    change = g / (first_.sqrt() + optimizer.adagrad().epsilon());
  } else {
    const bool has_w = optimizer.has_adamw();
    const double beta1 = has_w ? optimizer.adamw().beta1() : optimizer.adam().beta1();
    const double beta2 = has_w ? optimizer.adamw().beta2() : optimizer.adam().beta2();
    const double epsilon = has_w ? optimizer.adamw().epsilon() : optimizer.adam().epsilon();
    first_.copy_(torch::where(touched_ > 0, beta1 * first_ + (1 - beta1) * g, first_));
    second_.copy_(torch::where(touched_ > 0, beta2 * second_ + (1 - beta2) * g * g, second_));
    const auto t = static_cast<double>(step + 1);
    const double correction = std::sqrt(1 - std::pow(beta2, t)) / (1 - std::pow(beta1, t));
    change = correction * first_ / (second_.sqrt() + epsilon);
  }
  table_.sub_(rate * touched_ * change);
  const Tensor keep = ((1 + own_steps_) / (10 + own_steps_)).clamp_max(optimizer.average_decay());
  average_.copy_(torch::where(touched_ > 0, keep * average_ + (1 - keep) * table_, average_));
  own_steps_.add_(touched_);
  table_.mutable_grad().reset();
}

CentralizedBaselineModel::CentralizedBaselineModel(const Options& options, const NamedParameters& bottom,
                                                   const NamedParameters& top)
    : options_(options) {
  const v1::ModelSpec& whole = options.whole;
  bottom_.options = options.bottom_optimizer;
  top_.options = options.top_optimizer;
  bool behind = options.cut_layer == "embedding";
  for (const v1::Layer& layer : whole.layers()) {
    AddLayer(layer, behind ? top : bottom, behind ? top_ : bottom_);
    behind = behind || layer.name() == options.cut_layer;
  }
  v1::Layer linear;
  linear.set_units(1);
  linear.set_name("logit");
  AddLayer(linear, top, top_);
  AddEmbedding("embedding", whole.embedding().dimension(), bottom, bottom_);
  if (whole.has_wide()) {
    linear.set_name("wide");
    AddLayer(linear, top, top_);
    AddEmbedding("wide.embedding", whole.wide().embedding().dimension(), top, top_);
  }
  AddEmbedding("own.embedding", whole.own_features().embedding().dimension(), top, top_);
  for (Party* party : {&bottom_, &top_}) {
    party->optimizer = MakeOptimizer(party->parameters, party->options);
  }
}

void CentralizedBaselineModel::AddLayer(const v1::Layer& layer, const NamedParameters& values, Party& party) {
  const Tensor weight = torch::tensor(Find(values, layer.name() + ".weight"));
  const Tensor bias = torch::tensor(Find(values, layer.name() + ".bias"));
  const int64_t outputs = bias.numel();
  const auto add = [&](auto module) {
    const torch::NoGradGuard no_grad;
    module->weight.copy_(weight.view_as(module->weight));
    module->bias.copy_(bias);
    for (const auto& [name, parameter] : {std::pair(".weight", module->weight), {".bias", module->bias}}) {
      averages_.emplace(layer.name() + name, parameter.detach().clone());
      party.parameters.push_back(parameter);
      party.names.push_back(layer.name() + name);
    }
    modules_.emplace(layer.name(), torch::nn::AnyModule(module));
  };
  if (layer.has_convolution()) {
    const int64_t kernel = layer.convolution().kernel();
    const int64_t inputs = weight.numel() / (outputs * kernel * kernel);
    add(torch::nn::Conv2d(torch::nn::Conv2dOptions(inputs, outputs, kernel).padding(kernel / 2)));
  } else {
    add(torch::nn::Linear(weight.numel() / outputs, outputs));
  }
}

void CentralizedBaselineModel::AddEmbedding(const std::string& name, int dimension, const NamedParameters& values,
                                            Party& party) {
  if (dimension > 0) {
    party.embeddings.emplace(name, LazyEmbedding(Find(values, name), dimension));
  }
}

Tensor CentralizedBaselineModel::Input(const std::string& embedding, const FeatureBatch& batch, Party& party) {
  const auto found = party.embeddings.find(embedding);
  const Tensor numbers = Numeric(batch, embedding == "wide.embedding" ? 1 : options_.whole.numeric_pieces());
  return found == party.embeddings.end() ? numbers : torch::cat({found->second.Lookup(batch), numbers}, 1);
}

Tensor CentralizedBaselineModel::Forward(const FeatureBatch& features, const FeatureBatch& own) {
  const v1::ModelSpec& whole = options_.whole;
  Tensor values = Input("embedding", features, bottom_);
  std::string reads_own = whole.own_features().before();
  bool behind = options_.cut_layer == "embedding";
  const auto take_own = [&](const std::string& name) {
    if (whole.has_own_features() && behind && (reads_own.empty() || reads_own == name)) {
      reads_own = name;
      values = torch::cat({values.flatten(1), Input("own.embedding", own, top_)}, 1);
      behind = false;  // Once.
    }
  };
  for (const v1::Layer& layer : whole.layers()) {
    if (layer.has_convolution()) {
      if (values.dim() == 2) {
        values = values.view({-1, options_.image.channels, options_.image.height, options_.image.width});
      }
      values = Activate(modules_.at(layer.name()).forward(values), layer.activation());
      const int pool = layer.convolution().max_pool();
      values = pool > 1 ? torch::nn::MaxPool2d(pool)->forward(values) : values;
    } else {
      take_own(layer.name());
      values = Activate(modules_.at(layer.name()).forward(values.flatten(1)), layer.activation());
    }
    behind = behind || layer.name() == options_.cut_layer;
  }
  take_own("logit");
  Tensor logits = modules_.at("logit").forward(values.flatten(1));
  if (whole.has_wide()) {
    logits = logits + modules_.at("wide").forward(Input("wide.embedding", own, top_));
  }
  return logits.flatten();
}

void CentralizedBaselineModel::Update(Party& party) {
  const double rate = LearningRate(party.options, step_);
  if (party.options.clip_norm() > 0) {
    torch::nn::utils::clip_grad_norm_(party.parameters, party.options.clip_norm());
  }
  party.optimizer->param_groups()[0].options().set_lr(rate);
  party.optimizer->step();
  for (size_t i = 0; i < party.names.size(); ++i) {
    const torch::NoGradGuard no_grad;
    Tensor& average = averages_.at(party.names[i]);
    average = Averaged(average, party.parameters[i], party.options, step_);
  }
  for (auto& [name, embedding] : party.embeddings) {
    embedding.Step(party.options, rate, step_);
  }
}

double CentralizedBaselineModel::Step(const FeatureBatch& features, const FeatureBatch& own,
                                      const std::vector<uint8_t>& labels) {
  bottom_.optimizer->zero_grad();
  top_.optimizer->zero_grad();
  const Tensor targets = torch::tensor(std::vector<float>(labels.begin(), labels.end()));
  const Tensor loss = torch::binary_cross_entropy_with_logits(Forward(features, own), targets);
  loss.backward();
  Update(bottom_);
  Update(top_);
  ++step_;
  return loss.item<double>();
}

Tensor CentralizedBaselineModel::Average(const std::string& name) const {
  for (const Party* party : {&bottom_, &top_}) {
    if (const auto found = party->embeddings.find(name); found != party->embeddings.end()) {
      return found->second.average();
    }
  }
  return averages_.at(name);
}

double CentralizedBaselineModel::Distance(const NamedParameters& half) const {
  double distance = 0;
  for (const auto& [name, values] : half) {
    const Tensor theirs = torch::tensor(values);
    const Tensor ours = Average(name).flatten();
    EXPECT_EQ(ours.numel(), theirs.numel()) << name;
    distance = std::max(distance, (ours - theirs).abs().max().item<double>());
  }
  return distance;
}

}  // namespace splitveil::testing
