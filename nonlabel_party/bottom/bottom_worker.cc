#include "nonlabel_party/bottom/bottom_worker.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/process/exit_code.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "nonlabel_party/bottom/gradient_exchange.h"
#include "nonlabel_party/bottom/worker_order.h"

namespace splitveil {
namespace {

constexpr int64_t kMostRows = int64_t{1} << 24;

// How a worker ends whose leader ended with this code.
absl::Status OutcomeOf(ExitCode code) {
  if (code == ExitCode::kDone) {
    return absl::OkStatus();
  }
  return code == ExitCode::kStopped
             ? StoppedOnRequest()
             : absl::CancelledError(absl::StrCat("workers: rank 0 has ended the run with exit code ",
                                                 static_cast<int>(code), ": see its log"));
}

// What a worker other than the leader does.
class BottomWorker {
 public:
  BottomWorker(const BottomModelOptions& options, WorkerGroup* group) : options_(options), group_(*group) {}

  absl::Status Run() {
    while (true) {
      WorkerOrder order;
      SPLITVEIL_RETURN_IF_ERROR(group_.AwaitLeader(&order, sizeof(order)));
      if (order.task == WorkerTask::kEnd) {
        return OutcomeOf(static_cast<ExitCode>(order.rows));
      }
      if (order.task == WorkerTask::kCreate) {
        SPLITVEIL_RETURN_IF_ERROR(Create(order));
        continue;
      }
      if (model_ == nullptr || order.rows < 0 || order.rows > kMostRows) {
        return absl::InternalError("workers: expected the leader to ask for what can be computed");
      }
      SPLITVEIL_RETURN_IF_ERROR(Do(order));
    }
  }

 private:
  absl::Status Create(const WorkerOrder& order) {
    options_.features = order.features;
    options_.seed = order.seed;
    exchange_ =
        std::make_unique<GradientExchange>(&group_, order.features.categorical, options_.spec.embedding().dimension());
    options_.exchange = exchange_.get();
    model_ = nullptr;  // Before the new one takes as much memory.
    with_rows_.clear();
    SPLITVEIL_ASSIGN_OR_RETURN(model_, BottomModel::Create(options_));
    return absl::OkStatus();
  }

  absl::Status Do(const WorkerOrder& order) {
    if ((order.task == WorkerTask::kBackward || order.task == WorkerTask::kDiscard) && with_rows_.empty()) {
      return absl::InternalError("workers: expected the leader to go back through a batch that was sent");
    }
    switch (order.task) {
      case WorkerTask::kForward:
        return Forward(order);
      case WorkerTask::kPredict:
        return Predict(order);
      case WorkerTask::kBackward:
        return Backward(order);
      case WorkerTask::kDiscard: {
        const bool has_rows = with_rows_.front();
        with_rows_.pop_front();
        return has_rows ? model_->Discard() : absl::OkStatus();
      }
      case WorkerTask::kUpdate:
        return Update();
      case WorkerTask::kHint:
        return Hint(order);
      case WorkerTask::kSetParameters:
        return Receive(model_->Parameters(), [this](const NamedParameters& all) { return model_->SetParameters(all); });
      default:
        return Receive(model_->TrainingState(),
                       [this](const NamedParameters& all) { return model_->SetTrainingState(all); });
    }
  }

  absl::StatusOr<FeatureBatch> ReceiveRows(const WorkerOrder& order) {
    FeatureBatch batch;
    batch.rows = ShareOf(order.rows, group_.rank(), group_.size()).rows;
    batch.numeric = Matrix::ToOverwrite(batch.rows, options_.features.numeric);
    batch.categories.resize(static_cast<size_t>(batch.rows * options_.features.categorical));
    group_.Receive(0, batch.numeric.data(), BytesOf(batch.numeric));
    group_.Receive(0, batch.categories.data(), batch.categories.size() * sizeof(int64_t));
    SPLITVEIL_RETURN_IF_ERROR(group_.Wait());
    return batch;
  }

  absl::Status Forward(const WorkerOrder& order) {
    SPLITVEIL_ASSIGN_OR_RETURN(FeatureBatch batch, ReceiveRows(order));
    with_rows_.push_back(batch.rows > 0);
    if (batch.rows == 0) {
      return absl::OkStatus();
    }
    SPLITVEIL_ASSIGN_OR_RETURN(const ConstMatrixView activations, model_->Forward(std::move(batch)));
    group_.Send(0, activations.data(), BytesOf(activations));
    return group_.Wait();
  }

  absl::Status Predict(const WorkerOrder& order) {
    SPLITVEIL_ASSIGN_OR_RETURN(const FeatureBatch batch, ReceiveRows(order));
    if (batch.rows == 0) {
      return absl::OkStatus();
    }
    SPLITVEIL_ASSIGN_OR_RETURN(const Matrix activations, model_->Predict(batch));
    group_.Send(0, activations.data(), BytesOf(activations));
    return group_.Wait();
  }

  absl::Status Backward(const WorkerOrder& order) {
    const bool has_rows = with_rows_.front();
    with_rows_.pop_front();
    if (!has_rows) {
      return absl::OkStatus();
    }
    // Until the Update, as the model's views of it may be.
    Matrix& gradient = gradients_.emplace_back(
        Matrix::ToOverwrite(ShareOf(order.rows, group_.rank(), group_.size()).rows, options_.cut_width));
    group_.Receive(0, gradient.data(), BytesOf(gradient));
    SPLITVEIL_RETURN_IF_ERROR(group_.Wait());
    SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<ConstMatrixView> at_layers,
                               model_->Backward(gradient, NamesOf(order.layers, model_->layer_names())));
    for (const ConstMatrixView& values : at_layers) {
      group_.Send(0, values.data(), BytesOf(values));
    }
    return group_.Wait();
  }

  absl::Status Update() {
    SPLITVEIL_RETURN_IF_ERROR(model_->Update());
    gradients_.clear();
    return absl::OkStatus();
  }

  absl::Status Hint(const WorkerOrder& order) {
    std::vector<float> clean(static_cast<size_t>(options_.cut_width));
    group_.Receive(0, clean.data(), clean.size() * sizeof(float));
    SPLITVEIL_RETURN_IF_ERROR(group_.Wait());
    SPLITVEIL_ASSIGN_OR_RETURN(
        const std::vector<std::vector<float>> found,
        model_->BackpropagateHint(order.rows, clean, NamesOf(order.layers, model_->layer_names())));
    std::vector<int64_t> sizes;
    for (const std::vector<float>& values : found) {
      sizes.push_back(static_cast<int64_t>(values.size()));
    }
    group_.Send(0, sizes.data(), sizes.size() * sizeof(int64_t));
    for (const std::vector<float>& values : found) {
      group_.Send(0, values.data(), values.size() * sizeof(float));
    }
    return group_.Wait();
  }

  // Overwrites `state`, this model's, with the leader's.
  absl::Status Receive(NamedParameters&& state, const std::function<absl::Status(const NamedParameters&)>& set) {
    for (auto& [name, values] : state) {
      group_.Receive(0, values.data(), values.size() * sizeof(float));
    }
    SPLITVEIL_RETURN_IF_ERROR(group_.Wait());
    return set(state);
  }

  BottomModelOptions options_;
  WorkerGroup& group_;
  std::unique_ptr<GradientExchange> exchange_;
  std::unique_ptr<BottomModel> model_;
  std::deque<bool> with_rows_;    // Of each pending Forward, whether this worker has rows of it.
  std::deque<Matrix> gradients_;  // Of the Backwards since the last Update.
};

}  // namespace

absl::Status ServeBottomWorker(const BottomModelOptions& options, WorkerGroup* group) {
  return BottomWorker(options, group).Run();
}

absl::Status EndBottomWorkers(WorkerGroup* group, const absl::Status& outcome) {
  const WorkerOrder order{WorkerTask::kEnd, static_cast<int64_t>(ExitCodeFor(outcome))};
  for (int rank = 1; rank < group->size(); ++rank) {
    group->Send(rank, &order, sizeof(order));
  }
  SPLITVEIL_RETURN_IF_ERROR(group->Wait());
  LogInfo("the other ", group->size() - 1, " workers are done; ", absl::StrFormat("%.1f s", group->exchange_seconds()),
          " went into exchanges with them and waits for them");
  return absl::OkStatus();
}

}  // namespace splitveil
