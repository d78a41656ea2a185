// Split training without noise against the same model trained in one process with plain LibTorch: same initial weights,
// same batches, 100 steps, and the weights still agree.
#include <gtest/gtest.h>
#include <map>
#include <string>
#include <torch/torch.h>
#include <utility>
#include <vector>

#include "common/schedule/party_seed.h"
#include "common/schedule/train_test_split.h"
#include "tests/testing/local_label_party.h"
#include "tests/testing/small_run.h"

namespace splitveil::testing {
namespace {

using torch::Tensor;

constexpr double kLearningRate = 1e-3;

// Rows of one party in aligned order as tensors.
struct Table {
  Tensor numeric;     // [rows, 2] float32
  Tensor categories;  // [rows, 2] int64
};

// An embedding table under Adam whose moments move only for the rows of a batch, written with whole-tensor operations.
struct LazyEmbedding {
  explicit LazyEmbedding(const Tensor& initial)
      : weight(initial.clone().set_requires_grad(true)), m(torch::zeros_like(weight)), v(torch::zeros_like(weight)) {}

  Tensor Lookup(const Tensor& categories) { return torch::embedding(weight, categories).flatten(1); }
  void Update(const Tensor& categories, int64_t step) {
    torch::NoGradGuard no_grad;
    const Tensor touched = torch::zeros({weight.size(0), 1}).index_fill_(0, categories.flatten(), 1);
    const Tensor g = weight.grad();
    m.copy_(torch::where(touched > 0, 0.9 * m + 0.1 * g, m));
    v.copy_(torch::where(touched > 0, 0.999 * v + 0.001 * g * g, v));
    const double size = kLearningRate * std::sqrt(1 - std::pow(0.999, step)) / (1 - std::pow(0.9, step));
    weight.sub_(touched * size * m / (v.sqrt() + 1e-8));
    weight.mutable_grad().reset();
  }

  Tensor weight, m, v;
};

// Wide & Deep of SmallRun as one module.
class OneProcessModel {
 public:
  OneProcessModel(const NamedParameters& bottom, const NamedParameters& top)
      : deep_(Find(bottom, "embedding", {-1, 4})), wide_(Find(top, "wide.embedding", {-1, 1})) {
    for (const auto& [name, units, inputs] :
         std::vector<std::tuple<std::string, int64_t, int64_t>>{{"first", 16, 10}, {"second", 8, 16}}) {
      AddLinear(bottom, name, units, inputs);
    }
    for (const auto& [name, units, inputs] :
         std::vector<std::tuple<std::string, int64_t, int64_t>>{{"top", 8, 8}, {"logit", 1, 8}, {"wide", 1, 4}}) {
      AddLinear(top, name, units, inputs);
    }
    std::vector<Tensor> parameters;
    for (auto& [name, linear] : linears_) {
      parameters.push_back(linear->weight);
      parameters.push_back(linear->bias);
    }
    adam_ = std::make_unique<torch::optim::Adam>(parameters, torch::optim::AdamOptions(kLearningRate));
  }

  void Step(const Table& own, const Table& labels_own, const Tensor& labels) {
    ++step_;
    adam_->zero_grad();
    Tensor z = torch::cat({deep_.Lookup(own.categories), own.numeric}, 1);
    for (const char* name : {"first", "second", "top"}) {
      z = linears_.at(name)->forward(z).relu();
    }
    const Tensor wide = torch::cat({wide_.Lookup(labels_own.categories), labels_own.numeric}, 1);
    const Tensor logit = linears_.at("logit")->forward(z) + linears_.at("wide")->forward(wide);
    torch::binary_cross_entropy_with_logits(logit.flatten(), labels).backward();
    adam_->step();
    deep_.Update(own.categories, step_);
    wide_.Update(labels_own.categories, step_);
  }

  // Largest difference between these weights and the split model's.
  double Distance(const NamedParameters& split) const {
    double distance = 0;
    for (const auto& [name, values] : split) {
      const Tensor theirs = torch::from_blob(const_cast<float*>(values.data()), {static_cast<int64_t>(values.size())});
      const Tensor ours = Parameter(name).detach().flatten();
      EXPECT_EQ(ours.size(0), theirs.size(0)) << name;
      distance = std::max(distance, (ours - theirs).abs().max().item<double>());
    }
    return distance;
  }

 private:
  static Tensor Find(const NamedParameters& parameters, const std::string& name, std::vector<int64_t> shape) {
    for (const auto& [found, values] : parameters) {
      if (found == name) {
        return torch::tensor(values).reshape(shape);
      }
    }
    ADD_FAILURE() << name;
    return {};
  }

  void AddLinear(const NamedParameters& parameters, const std::string& name, int64_t units, int64_t inputs) {
    torch::nn::Linear linear(inputs, units);
    torch::NoGradGuard no_grad;
    linear->weight.copy_(Find(parameters, name + ".weight", {units, inputs}));
    linear->bias.copy_(Find(parameters, name + ".bias", {units}));
    linears_.emplace(name, linear);
  }

  Tensor Parameter(const std::string& name) const {
    if (name == "embedding") {
      return deep_.weight;
    }
    if (name == "wide.embedding") {
      return wide_.weight;
    }
    const size_t dot = name.rfind('.');
    const torch::nn::Linear& linear = linears_.at(name.substr(0, dot));
    return name.substr(dot) == ".bias" ? linear->bias : linear->weight;
  }

  LazyEmbedding deep_, wide_;
  std::map<std::string, torch::nn::Linear> linears_;
  std::unique_ptr<torch::optim::Adam> adam_;
  int64_t step_ = 0;
};

Table Batch(const FeatureTable& features, absl::Span<const uint32_t> positions) {
  const FeatureBatch batch = features.Gather(positions);
  Table table;
  table.numeric =
      torch::from_blob(const_cast<float*>(batch.numeric.data()), {batch.rows, batch.numeric.cols()}).clone();
  table.categories = torch::tensor(batch.categories).reshape({batch.rows, -1});
  return table;
}

TEST(OneProcessTest, SplitTrainingEqualsOneProcessAfterAHundredSteps) {
  SmallRun run;
  run.agreement.set_epochs(15);
  absl::StatusOr<std::unique_ptr<LabelSession>> label = LabelSession::Create(run.LabelOptions());
  ASSERT_TRUE(label.ok()) << label.status();
  LocalLabelParty peer(label->get());
  NonLabelSession nonlabel(run.NonLabelOptions(&peer));
  const absl::Status status = nonlabel.Run();
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_TRUE((*label)->completed());

  // The schedule, rebuilt from what both parties contributed.
  const uint64_t label_seed = run.label_config.party().reproducible_seed();
  const uint64_t nonlabel_seed = run.nonlabel_config.party().reproducible_seed();
  const SeedExchange own =
      *SeedExchange::Create(SeedRole::kNonLabelParty, SeedContribution(SeedRole::kNonLabelParty, nonlabel_seed));
  const SeedExchange theirs =
      *SeedExchange::Create(SeedRole::kLabelParty, SeedContribution(SeedRole::kLabelParty, label_seed));
  const JointSeed joint = *own.Combine(theirs.commitment(), theirs.reveal());
  const std::vector<uint32_t>& rows = nonlabel.aligned().rows;
  TrainTestSplit split = SplitRule("", run.agreement.test_fraction()).Split(run.nonlabel_data.ids, rows);
  Schedule schedule = *Schedule::Create(joint, split.train, {64, run.agreement.minimum_batch_size()});
  ASSERT_GE(schedule.batches_per_epoch() * 15, 100);

  // The label party's rows of the same ids: SmallRun gives both parties the first 512 ids in the same order.
  for (uint32_t row : rows) {
    ASSERT_EQ(run.nonlabel_data.ids[row], run.label_data.ids[row]);
  }
  const FeatureTable deep(run.NonLabelDataset(), rows);
  const FeatureTable wide(run.LabelDataset(), rows);

  // The initial weights, from models made with the same seeds.
  BottomModelOptions bottom_options;
  bottom_options.spec = run.nonlabel_config.model();
  bottom_options.optimizer = run.nonlabel_config.party().optimizer();
  bottom_options.features = deep.shape();
  bottom_options.cut_width = 8;
  bottom_options.seed = WeightSeed(SeedRole::kNonLabelParty, nonlabel_seed);
  TopModelOptions top_options;
  top_options.spec = run.label_config.model();
  top_options.optimizer = run.label_config.party().optimizer();
  top_options.features = wide.shape();
  top_options.cut_width = 8;
  top_options.seed = WeightSeed(SeedRole::kLabelParty, label_seed);
  const NamedParameters bottom = (*BottomModel::Create(bottom_options))->Parameters();
  const NamedParameters top = (*TopModel::Create(top_options))->Parameters();
  OneProcessModel model(bottom, top);

  for (uint32_t epoch = 0; epoch < 15; ++epoch) {
    for (int64_t batch = 0; batch < schedule.batches_per_epoch(); ++batch) {
      const absl::Span<const uint32_t> positions = schedule.BatchRows(epoch, batch);
      std::vector<float> labels;
      for (uint32_t position : positions) {
        labels.push_back(run.label_data.labels[rows[position]]);
      }
      model.Step(Batch(deep, positions), Batch(wide, positions), torch::tensor(labels));
    }
  }
  EXPECT_GT(OneProcessModel(bottom, top).Distance(nonlabel.model()->Parameters()), 0.01) << "nothing was trained";
  EXPECT_LE(model.Distance(nonlabel.model()->Parameters()), 1e-6);
  EXPECT_LE(model.Distance((*label)->model()->Parameters()), 1e-6);
}

}  // namespace
}  // namespace splitveil::testing
