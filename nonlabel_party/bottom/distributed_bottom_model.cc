#include "nonlabel_party/bottom/distributed_bottom_model.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "common/status/status_macros.h"
#include "nonlabel_party/bottom/gradient_exchange.h"
#include "nonlabel_party/bottom/worker_order.h"

namespace splitveil {
namespace {

// The rows of `batch` that `share` names, without attributes, which no bottom model reads.
FeatureBatch PartOf(const FeatureBatch& batch, RowShare share, const FeatureShape& shape) {
  FeatureBatch part;
  part.rows = share.rows;
  if (batch.numeric.size() > 0) {
    part.numeric = Matrix(batch.numeric.block(share.first, share.rows));
  }
  const auto begin = batch.categories.begin() + share.first * shape.categorical;
  part.categories.assign(begin, begin + share.rows * shape.categorical);
  return part;
}

// All of `state` as the leader has it.
void SendAll(const NamedParameters& state, int rank, WorkerGroup& group) {
  for (const auto& [name, values] : state) {
    group.Send(rank, values.data(), values.size() * sizeof(float));
  }
}

// A slice of a batch whose activations or gradients are under way.
struct SharedSlice {
  int64_t rows = 0;
  Matrix activations;
  std::vector<Matrix> at_layers;  // Per-example gradients that were asked for.
};

class DistributedBottomModel final : public BottomModel {
 public:
  DistributedBottomModel(const BottomModelOptions& options, WorkerGroup* group)
      : shape_(options.features),
        cut_width_(options.cut_width),
        group_(group),
        exchange_(group, options.features.categorical, options.spec.embedding().dimension()) {}

  absl::Status Start(BottomModelOptions options) {
    options.exchange = &exchange_;
    SPLITVEIL_ASSIGN_OR_RETURN(own_, BottomModel::Create(options));
    if (own_->layer_names().size() > kMostSharedLayers) {
      return absl::InvalidArgumentError(absl::StrCat("model.layers: expected at most ", kMostSharedLayers,
                                                     " with `workers`, found ", own_->layer_names().size()));
    }
    WorkerOrder order{WorkerTask::kCreate};
    order.features = options.features;
    order.seed = options.seed;
    return Tell(order);
  }

  bool needs_whole_batch() const override { return false; }

  absl::StatusOr<ConstMatrixView> Forward(FeatureBatch batch) override {
    auto slice = std::make_unique<SharedSlice>();
    slice->rows = batch.rows;
    SPLITVEIL_ASSIGN_OR_RETURN(slice->activations, Compute(WorkerTask::kForward, batch, [this](FeatureBatch part) {
                                 return own_->Forward(std::move(part));
                               }));
    pending_.push_back(std::move(slice));
    return ConstMatrixView(pending_.back()->activations);
  }

  absl::StatusOr<Matrix> Predict(const FeatureBatch& batch) override {
    Matrix predicted;
    return Compute(WorkerTask::kPredict, batch, [&](const FeatureBatch& part) -> absl::StatusOr<ConstMatrixView> {
      SPLITVEIL_ASSIGN_OR_RETURN(predicted, own_->Predict(part));
      return ConstMatrixView(predicted);
    });
  }

  absl::StatusOr<std::vector<ConstMatrixView>> Backward(ConstMatrixView cut_gradient,
                                                        absl::Span<const std::string> layers) override {
    if (pending_.empty()) {
      return absl::FailedPreconditionError("bottom model: expected a pending forward, found none");
    }
    SharedSlice& slice = *pending_.front();
    SPLITVEIL_ASSIGN_OR_RETURN(WorkerOrder order, OrderFor(WorkerTask::kBackward, slice.rows, layers));
    if (cut_gradient.rows() != slice.rows || cut_gradient.cols() != cut_width_) {
      return absl::InvalidArgumentError(absl::StrCat("output gradient: expected ", slice.rows, " x ", cut_width_,
                                                     ", found ", cut_gradient.rows(), " x ", cut_gradient.cols()));
    }
    Ask(order);
    for (int rank = 1; rank < group_->size(); ++rank) {
      const RowShare share = ShareOf(slice.rows, rank, group_->size());
      group_->Send(rank, cut_gradient.data() + share.first * cut_width_,
                   static_cast<size_t>(share.rows * cut_width_) * sizeof(float));
    }
    const std::vector<std::string> below = NamesOf(order.layers, own_->layer_names());
    const RowShare own = ShareOf(slice.rows, 0, group_->size());
    // Meanwhile the others compute theirs.
    const absl::StatusOr<std::vector<ConstMatrixView>> computed =
        own_->Backward(cut_gradient.block(0, own.rows), below);
    slice.at_layers.resize(computed.ok() ? below.size() : 0);
    for (size_t i = 0; i < slice.at_layers.size(); ++i) {
      Collect((*computed)[i], slice.rows, slice.at_layers[i]);
    }
    SPLITVEIL_RETURN_IF_ERROR(Finish(computed.status()));
    std::vector<ConstMatrixView> result;
    for (const std::string& layer : layers) {
      const auto found = std::find(below.begin(), below.end(), layer);
      result.push_back(found == below.end() ? cut_gradient : ConstMatrixView(slice.at_layers[found - below.begin()]));
    }
    current_.push_back(std::move(pending_.front()));
    pending_.pop_front();
    return result;
  }

  absl::Status Discard() override {
    if (pending_.empty()) {
      return absl::FailedPreconditionError("bottom model: expected a pending forward to discard, found none");
    }
    SPLITVEIL_RETURN_IF_ERROR(Tell({WorkerTask::kDiscard}));
    pending_.pop_front();
    return own_->Discard();
  }

  absl::Status Update() override {
    if (current_.empty()) {
      return absl::FailedPreconditionError("bottom model: expected a Backward since the last Update, found none");
    }
    current_.clear();
    SPLITVEIL_RETURN_IF_ERROR(Tell({WorkerTask::kUpdate}));
    return own_->Update();
  }

  absl::StatusOr<std::vector<double>> GradientProducts(absl::Span<const ConstMatrixView>) override {
    return absl::UnimplementedError("bottom model with workers: a protection with an objective needs one process");
  }
  absl::Status AddGradient(ConstMatrixView) override {
    return absl::UnimplementedError("bottom model with workers: a protection with an objective needs one process");
  }

  std::vector<std::string> layer_names() const override { return own_->layer_names(); }

  absl::StatusOr<std::vector<std::vector<float>>> BackpropagateHint(int64_t row, absl::Span<const float> clean_gradient,
                                                                    absl::Span<const std::string> layers) override {
    // Which worker has the row, and which of its own rows since the last Update that is.
    std::vector<int64_t> before(static_cast<size_t>(group_->size()));
    for (const std::unique_ptr<SharedSlice>& slice : current_) {
      for (int rank = 0; rank < group_->size(); ++rank) {
        const RowShare share = ShareOf(slice->rows, rank, group_->size());
        if (row >= share.first && row < share.first + share.rows) {
          return HintAt(rank, before[rank] + row - share.first, clean_gradient, layers);
        }
        before[rank] += share.rows;
      }
      row -= slice->rows;
    }
    return absl::InvalidArgumentError(absl::StrCat("row: expected a row of the batch, found ", row));
  }

  NamedParameters Parameters() const override { return own_->Parameters(); }
  NamedParameters TrainingState() const override { return own_->TrainingState(); }

  absl::Status SetParameters(const NamedParameters& parameters) override {
    SPLITVEIL_RETURN_IF_ERROR(own_->SetParameters(parameters));
    return Copy(WorkerTask::kSetParameters, own_->Parameters());
  }

  absl::Status SetTrainingState(const NamedParameters& state) override {
    SPLITVEIL_RETURN_IF_ERROR(own_->SetTrainingState(state));
    return Copy(WorkerTask::kSetTrainingState, own_->TrainingState());
  }

  absl::Status ExportTo(const std::string& folder) const override { return own_->ExportTo(folder); }

 private:
  // Sends `order` to each worker; the caller waits.
  void Ask(const WorkerOrder& order) {
    for (int rank = 1; rank < group_->size(); ++rank) {
      group_->Send(rank, &order, sizeof(order));
    }
  }
  absl::Status Tell(const WorkerOrder& order) {
    Ask(order);
    return group_->Wait();
  }

  // Refuses names that the model does not have.
  absl::StatusOr<WorkerOrder> OrderFor(WorkerTask task, int64_t rows, absl::Span<const std::string> layers) const {
    const std::vector<std::string> names = own_->layer_names();
    WorkerOrder order{task, rows};
    for (const std::string& layer : layers) {
      const auto found = std::find(names.begin(), names.end(), layer);
      if (found == names.end()) {
        return absl::InvalidArgumentError(absl::StrCat("layer: expected one of the model, found \"", layer, "\""));
      }
      // The last is the cut, whose gradients this party has.
      order.layers |= found + 1 == names.end() ? 0 : int64_t{1} << (found - names.begin());
    }
    return order;
  }

  // Puts the leader's own rows, and those that the others send, into `all` [rows, own.cols()]; the caller waits.
  void Collect(ConstMatrixView own, int64_t rows, Matrix& all) {
    all = Matrix::ToOverwrite(rows, own.cols());
    all.SetBlock(0, own);
    for (int rank = 1; rank < group_->size(); ++rank) {
      const RowShare share = ShareOf(rows, rank, group_->size());
      const absl::Span<float> values = all.block_values(share.first, share.rows);
      group_->Receive(rank, values.data(), values.size() * sizeof(float));
    }
  }

  // Waits for what is under way, also after an error of this process: its memory is in use until then.
  absl::Status Finish(absl::Status own) {
    own.Update(group_->Wait());
    return own;
  }

  // Activations of `batch`, [rows, cut_width]: the leader's by `own`.
  absl::StatusOr<Matrix> Compute(WorkerTask task, const FeatureBatch& batch,
                                 const std::function<absl::StatusOr<ConstMatrixView>(FeatureBatch)>& own) {
    const WorkerOrder order{task, batch.rows};
    Ask(order);
    for (int rank = 1; rank < group_->size(); ++rank) {
      const RowShare share = ShareOf(batch.rows, rank, group_->size());
      group_->Send(rank, batch.numeric.data() + share.first * batch.numeric.cols(),
                   static_cast<size_t>(share.rows * batch.numeric.cols()) * sizeof(float));
      group_->Send(rank, batch.categories.data() + share.first * shape_.categorical,
                   static_cast<size_t>(share.rows * shape_.categorical) * sizeof(int64_t));
    }
    // Meanwhile the others compute theirs.
    const absl::StatusOr<ConstMatrixView> part = own(PartOf(batch, ShareOf(batch.rows, 0, group_->size()), shape_));
    Matrix all;
    if (part.ok()) {
      Collect(*part, batch.rows, all);
    }
    SPLITVEIL_RETURN_IF_ERROR(Finish(part.status()));
    return all;
  }

  absl::StatusOr<std::vector<std::vector<float>>> HintAt(int rank, int64_t row, absl::Span<const float> clean_gradient,
                                                         absl::Span<const std::string> layers) {
    if (rank == 0) {
      return own_->BackpropagateHint(row, clean_gradient, layers);
    }
    SPLITVEIL_ASSIGN_OR_RETURN(const WorkerOrder order, OrderFor(WorkerTask::kHint, row, layers));
    const std::vector<std::string> below = NamesOf(order.layers, own_->layer_names());
    std::vector<int64_t> sizes(below.size());
    group_->Send(rank, &order, sizeof(order));
    group_->Send(rank, clean_gradient.data(), clean_gradient.size() * sizeof(float));
    group_->Receive(rank, sizes.data(), sizes.size() * sizeof(int64_t));
    SPLITVEIL_RETURN_IF_ERROR(group_->Wait());
    std::vector<std::vector<float>> found;
    for (const int64_t size : sizes) {
      std::vector<float>& values = found.emplace_back(static_cast<size_t>(size));
      group_->Receive(rank, values.data(), values.size() * sizeof(float));
    }
    SPLITVEIL_RETURN_IF_ERROR(group_->Wait());
    std::vector<std::vector<float>> result;
    for (const std::string& layer : layers) {
      const auto at = std::find(below.begin(), below.end(), layer);
      result.push_back(at == below.end() ? std::vector<float>(clean_gradient.begin(), clean_gradient.end())
                                         : found[at - below.begin()]);
    }
    return result;
  }

  absl::Status Copy(WorkerTask task, const NamedParameters& state) {
    const WorkerOrder order{task};  // Until Wait.
    Ask(order);
    for (int rank = 1; rank < group_->size(); ++rank) {
      SendAll(state, rank, *group_);
    }
    return group_->Wait();
  }

  const FeatureShape shape_;
  const int64_t cut_width_;
  WorkerGroup* const group_;
  GradientExchange exchange_;
  std::unique_ptr<BottomModel> own_;  // Of the leader's rows, with all of the parameters.
  std::deque<std::unique_ptr<SharedSlice>> pending_;
  std::vector<std::unique_ptr<SharedSlice>> current_;  // Between Backward and Update.
};

}  // namespace

absl::StatusOr<std::unique_ptr<BottomModel>> CreateBottomModel(const BottomModelOptions& options, WorkerGroup* group) {
  if (group == nullptr) {
    return BottomModel::Create(options);
  }
  if (!options.spec.torchscript_path().empty()) {
    return absl::InvalidArgumentError(
        "model.torchscript_path: one process alone computes a TorchScript half: remove workers");
  }
  auto model = std::make_unique<DistributedBottomModel>(options, group);
  SPLITVEIL_RETURN_IF_ERROR(model->Start(options));
  return model;
}

}  // namespace splitveil
