// A whole model trained in one process by plain LibTorch: the independent truth that split training is compared with.
#ifndef SPLITVEIL_TESTS_TESTING_CENTRALIZED_BASELINE_MODEL_H_
#define SPLITVEIL_TESTS_TESTING_CENTRALIZED_BASELINE_MODEL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <torch/torch.h>
#include <vector>

#include "common/dataset/features.h"
#include "common/model/parameters.h"

#include "splitveil/v1/model.pb.h"
#include "splitveil/v1/optimizer.pb.h"

namespace splitveil::testing {

// An embedding whose optimiser is written with operations on the whole table: rows that do not occur are masked out.
class LazyEmbedding {
 public:
  LazyEmbedding(const std::vector<float>& values, int64_t dimension);

  torch::Tensor Lookup(const FeatureBatch& batch);  // [rows, columns * dimension]
  // Step `step`, from 0, at this learning rate, of the latest Lookup's rows.
  void Step(const v1::Optimizer& optimizer, double learning_rate, int64_t step);
  // Its average over the steps, which without v1::Optimizer.average_decay is the table.
  const torch::Tensor& average() const { return average_; }

 private:
  torch::Tensor table_, first_, second_, touched_, average_, own_steps_;
};

// Layers as torch::nn::Linear and Conv2d, trained by torch::optim; each party's parameters have its own optimiser.
class CentralizedBaselineModel {
 public:
  struct Options {
    v1::ModelSpec whole;    // Layers written out.
    std::string cut_layer;  // After it, or after the embeddings for "embedding", come the label party's parameters.
    v1::Optimizer bottom_optimizer;
    v1::Optimizer top_optimizer;
    ImageShape image;  // Of the features, where the first layer is a convolution.
  };

  // Starts from the halves' parameters.
  CentralizedBaselineModel(const Options& options, const NamedParameters& bottom, const NamedParameters& top);

  // One step on a batch; the mean loss before it.
  double Step(const FeatureBatch& features, const FeatureBatch& own, const std::vector<uint8_t>& labels);
  // Largest difference between these parameters, averaged where v1::Optimizer.average_decay says so, and a half's of
  // the same names.
  double Distance(const NamedParameters& half) const;

 private:
  struct Party {
    v1::Optimizer options;
    std::vector<torch::Tensor> parameters;
    std::vector<std::string> names;  // Of `parameters`.
    std::unique_ptr<torch::optim::Optimizer> optimizer;
    std::map<std::string, LazyEmbedding> embeddings;
  };

  void AddLayer(const v1::Layer& layer, const NamedParameters& values, Party& party);
  void AddEmbedding(const std::string& name, int dimension, const NamedParameters& values, Party& party);
  torch::Tensor Input(const std::string& embedding, const FeatureBatch& batch, Party& party);
  torch::Tensor Forward(const FeatureBatch& features, const FeatureBatch& own);
  void Update(Party& party);
  torch::Tensor Average(const std::string& name) const;

  Options options_;
  Party bottom_, top_;
  std::map<std::string, torch::nn::AnyModule> modules_;  // By the layer's name.
  std::map<std::string, torch::Tensor> averages_;        // By the parameter's name; an embedding has its own.
  int64_t step_ = 0;
};

}  // namespace splitveil::testing

#endif  // SPLITVEIL_TESTS_TESTING_CENTRALIZED_BASELINE_MODEL_H_
