#include "nonlabel_party/attack/model_completion.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/model/adam_options.h"

namespace splitveil {
namespace {

constexpr size_t kBatch = 32;

// A linear layer of one unit on the cut activations.
absl::StatusOr<std::unique_ptr<DenseStack>> CreateHead(const BottomModelOptions& bottom) {
  const absl::StatusOr<AdamOptions> adam = ReadAdamOptions(bottom.optimizer);
  if (!adam.ok()) {
    return adam.status();
  }
  DenseStack::Options options;
  options.field = "inference head";
  options.input_width = bottom.cut_width;
  v1::DenseLayer& logit = options.layers.emplace_back();
  logit.set_name("logit");
  logit.set_units(1);
  logit.set_activation(v1::LINEAR);
  options.adam = *adam;
  options.seed = bottom.seed + 1;
  options.input_gradient = true;
  return DenseStack::Create(options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ModelCompletion>> ModelCompletion::Create(const Options& options,
                                                                         const NamedParameters* trained) {
  if (options.positions.empty() || options.positions.size() != options.labels.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model completion: expected known examples with a label each, found ", options.positions.size(),
                     " and ", options.labels.size()));
  }
  std::unique_ptr<ModelCompletion> completion(new ModelCompletion(options));
  absl::StatusOr<std::unique_ptr<BottomModel>> bottom = BottomModel::Create(options.bottom);
  if (!bottom.ok()) {
    return bottom.status();
  }
  completion->bottom_ = *std::move(bottom);
  if (trained != nullptr) {
    if (absl::Status status = completion->bottom_->SetParameters(*trained); !status.ok()) {
      return status;
    }
  }
  absl::StatusOr<std::unique_ptr<DenseStack>> head = CreateHead(options.bottom);
  if (!head.ok()) {
    return head.status();
  }
  completion->head_ = *std::move(head);
  return completion;
}

absl::Status ModelCompletion::TrainPass() {
  std::vector<uint32_t> ranks(options_.positions.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  std::shuffle(ranks.begin(), ranks.end(), random_);
  for (size_t first = 0; first < ranks.size(); first += kBatch) {
    if (absl::Status status = Learn(absl::MakeConstSpan(ranks).subspan(first, kBatch)); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status ModelCompletion::Learn(absl::Span<const uint32_t> ranks) {
  std::vector<uint32_t> positions;
  for (uint32_t rank : ranks) {
    positions.push_back(options_.positions[rank]);
  }
  const absl::StatusOr<Matrix> activations = bottom_->Forward(options_.features->Gather(positions));
  if (!activations.ok()) {
    return activations.status();
  }
  absl::StatusOr<DensePass> pass = head_->Forward(*activations);
  if (!pass.ok()) {
    return pass.status();
  }
  // The logistic loss of a logit z and a label y has the derivative sigmoid(z) - y.
  Matrix residuals(static_cast<int64_t>(ranks.size()), 1);
  for (size_t j = 0; j < ranks.size(); ++j) {
    const double logit = pass->output().data()[j];
    residuals.data()[j] = static_cast<float>(1 / (1 + std::exp(-logit)) - options_.labels[ranks[j]]);
  }
  const absl::StatusOr<DenseGradients> gradients = head_->Backward(*pass, residuals, {});
  if (!gradients.ok()) {
    return gradients.status();
  }
  absl::Status status = bottom_->Backward(gradients->input, {}).status();
  status.Update(head_->Update());
  if (status.ok()) {
    status = bottom_->Update();
  }
  return status;
}

absl::StatusOr<std::vector<float>> ModelCompletion::Score(absl::Span<const uint32_t> positions) {
  const absl::StatusOr<Matrix> activations = bottom_->Predict(options_.features->Gather(positions));
  if (!activations.ok()) {
    return activations.status();
  }
  const absl::StatusOr<Matrix> logits = head_->Predict(*activations);
  if (!logits.ok()) {
    return logits.status();
  }
  return std::vector<float>(logits->data(), logits->data() + logits->size());
}

}  // namespace splitveil
