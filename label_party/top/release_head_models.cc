#include "label_party/top/release_head_models.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"

#include "common/status/status_macros.h"
#include "common/telemetry/log.h"

namespace splitveil {
namespace {

constexpr char kOutputBias[] = "logit.bias";
constexpr char kReleasePrefix[] = "release_head.";

bool AreFinite(absl::Span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
}

bool AreFinite(const NamedParameters& state) {
  return std::all_of(state.begin(), state.end(), [](const auto& named) { return AreFinite(named.second); });
}

class TwoHeadedTopModel final : public TopModel {
 public:
  static absl::StatusOr<std::unique_ptr<TopModel>> Create(std::unique_ptr<TopModel> release_head,
                                                          std::unique_ptr<TopModel> prediction_head, int64_t outputs) {
    try {
      return absl::WrapUnique<TopModel>(
          new TwoHeadedTopModel(std::move(release_head), std::move(prediction_head), outputs));
    } catch (const std::system_error& error) {
      return absl::InternalError(absl::StrCat("the prediction head: no thread could be started: ", error.what()));
    }
  }

  ~TwoHeadedTopModel() override {
    {
      const absl::MutexLock lock(&mutex_);
      ends_ = true;
    }
    // Without the lock, which the trainer needs to see the end.
    trainer_.join();
  }
  TwoHeadedTopModel(const TwoHeadedTopModel&) = delete;
  TwoHeadedTopModel& operator=(const TwoHeadedTopModel&) = delete;

  bool needs_whole_batch() const override { return needs_whole_batch_; }

  absl::StatusOr<TopStep> ForwardBackward(ConstMatrixView activations, const FeatureBatch& own,
                                          absl::Span<const float> labels, const TrainingTargets& targets) override {
    // Fail closed: without targets the head would learn from the labels, and all that it sends would depend on them.
    if (targets.values.empty()) {
      return absl::InvalidArgumentError("release head: there are no noised labels to learn from");
    }
    absl::StatusOr<TopStep> head = release_->ForwardBackward(activations, own, labels, targets);
    if (head.ok()) {
      // The labels are copied now, as the caller keeps its span only for this call.
      // Both heads see the same batches in the same order; only what they learn from differs.
      awaiting_.push_back({activations, &own, {labels.begin(), labels.end()}});
    } else {
      awaiting_.clear();
    }
    return head;
  }

  absl::Status Update() override {
    std::vector<BorrowedSlice> slices = std::move(awaiting_);
    awaiting_.clear();
    // The release head first: the next batch waits for it alone.
    SPLITVEIL_RETURN_IF_ERROR(release_->Update());
    // What the slices borrow is gone once Update returns, so it is copied.
    std::vector<Slice> copies;
    copies.reserve(slices.size());
    for (BorrowedSlice& slice : slices) {
      copies.push_back({Matrix(slice.activations), *slice.own, std::move(slice.labels)});
    }
    // At most one batch waits for the prediction head, so its memory is bounded.
    const absl::MutexLock lock(&mutex_, absl::Condition(this, &TwoHeadedTopModel::IsIdle));
    if (!diverged_) {
      handed_over_ = std::move(copies);
    }
    if (needs_whole_batch_) {  // TorchScript draws from a generator that all threads of the process share.
      mutex_.Await(absl::Condition(this, &TwoHeadedTopModel::IsIdle));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Matrix> OutputDirections() const override { return release_->OutputDirections(); }

  absl::StatusOr<std::vector<float>> Predict(ConstMatrixView activations, const FeatureBatch& own) override {
    const absl::MutexLock lock(&mutex_, absl::Condition(this, &TwoHeadedTopModel::IsIdle));
    if (!diverged_) {
      absl::StatusOr<std::vector<float>> logits = prediction_->Predict(activations, own);
      // Caught here: the evaluation would end the run on such a logit, and the end of a run depends on labels then.
      if (logits.ok() && !AreFinite(*logits)) {
        logits = absl::InternalError("a logit is not finite");
      }
      Note(logits.status());
      if (!diverged_) {
        return logits;
      }
    }
    return std::vector<float>(static_cast<size_t>(activations.rows() * outputs_), 0);
  }

  NamedParameters Parameters() const override {
    const absl::MutexLock lock(&mutex_, absl::Condition(this, &TwoHeadedTopModel::IsIdle));
    // The prediction head is the model; the release head exists for the gradients and is never exported.
    return prediction_->Parameters();
  }

  absl::Status SetParameters(const NamedParameters& parameters) override {
    const absl::MutexLock lock(&mutex_, absl::Condition(this, &TwoHeadedTopModel::IsIdle));
    return prediction_->SetParameters(parameters);
  }

  NamedParameters TrainingState() const override {
    const absl::MutexLock lock(&mutex_, absl::Condition(this, &TwoHeadedTopModel::IsIdle));
    HeadStates heads;
    heads.releasing = release_->TrainingState();
    if (!diverged_) {
      heads.predicting = prediction_->TrainingState();
      if (!AreFinite(heads.predicting)) {  // Diverged in its latest step, and nothing has noticed yet.
        heads.predicting.clear();
      }
    }
    return JoinHeads(std::move(heads));
  }

  absl::Status SetTrainingState(const NamedParameters& state) override {
    SPLITVEIL_ASSIGN_OR_RETURN(const HeadStates heads, SplitHeads(state));
    const absl::MutexLock lock(&mutex_, absl::Condition(this, &TwoHeadedTopModel::IsIdle));
    // Both heads or none: half a state would release from one run and predict from another.
    const NamedParameters before = release_->TrainingState();
    SPLITVEIL_RETURN_IF_ERROR(release_->SetTrainingState(heads.releasing));
    if (heads.predicting.empty()) {
      LogWarning(
          "the checkpoint has no prediction head (it had diverged, or there was none): it starts from fresh weights");
      return absl::OkStatus();
    }
    absl::Status status = prediction_->SetTrainingState(heads.predicting);
    if (!status.ok()) {
      // The release head has taken its part already: it goes back.
      status.Update(release_->SetTrainingState(before));
    }
    return status;
  }

  absl::Status ExportTo(const std::string& folder) const override {
    const absl::MutexLock lock(&mutex_, absl::Condition(this, &TwoHeadedTopModel::IsIdle));
    return prediction_->ExportTo(folder);
  }

 private:
  // What the prediction head is to learn from: as the release head was given it, until Update,
  struct BorrowedSlice {
    ConstMatrixView activations;
    const FeatureBatch* own;
    std::vector<float> labels;
  };
  // and from there on.
  struct Slice {
    Matrix activations;
    FeatureBatch own;
    std::vector<float> labels;
  };

  TwoHeadedTopModel(std::unique_ptr<TopModel> release_head, std::unique_ptr<TopModel> prediction_head, int64_t outputs)
      : needs_whole_batch_(release_head->needs_whole_batch() || prediction_head->needs_whole_batch()),
        outputs_(outputs),
        release_(std::move(release_head)),
        prediction_(std::move(prediction_head)),
        trainer_([this] { TrainWhatIsHandedOver(); }) {}

  // The thread of the prediction head's training.
  void TrainWhatIsHandedOver() ABSL_LOCKS_EXCLUDED(mutex_) {
    while (true) {
      const absl::MutexLock lock(&mutex_, absl::Condition(this, &TwoHeadedTopModel::IsAwaited));
      if (ends_) {
        return;
      }
      Note(TrainPrediction());
      handed_over_.clear();
    }
  }

  absl::Status TrainPrediction() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    // Without targets, hence from the true labels: nothing that this head computes is sent.
    for (const Slice& slice : handed_over_) {
      SPLITVEIL_RETURN_IF_ERROR(
          prediction_->ForwardBackward(slice.activations, slice.own, slice.labels, /*targets=*/{}).status());
    }
    return prediction_->Update();
  }

  // Whether the prediction head has learned from all that it is to learn from.
  bool IsIdle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return handed_over_.empty(); }
  bool IsAwaited() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ends_ || !handed_over_.empty(); }

  // Whether a run ends must not reveal labels: this head's failures go to this party's log alone.
  void Note(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!status.ok()) {
      diverged_ = true;
      LogWarning("the prediction head diverged; training of it stops and it outputs 0 from now on: ", status.message());
    }
  }

  const bool needs_whole_batch_;
  const int64_t outputs_;  // Of one example.
  // The caller's thread's.
  const std::unique_ptr<TopModel> release_;
  std::vector<BorrowedSlice> awaiting_;  // Since the last Update.

  mutable absl::Mutex mutex_;  // The trainer holds it while it trains.
  const std::unique_ptr<TopModel> prediction_ ABSL_PT_GUARDED_BY(mutex_);
  bool diverged_ ABSL_GUARDED_BY(mutex_) = false;           // The prediction head.
  std::vector<Slice> handed_over_ ABSL_GUARDED_BY(mutex_);  // By the last Update; empty once it has learned from them.
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread trainer_;  // Last: uses all above.
};

class OneHeadedTopModel final : public TopModel {
 public:
  explicit OneHeadedTopModel(std::unique_ptr<TopModel> head) : head_(std::move(head)) {}

  bool needs_whole_batch() const override { return head_->needs_whole_batch(); }

  absl::StatusOr<TopStep> ForwardBackward(ConstMatrixView activations, const FeatureBatch& own,
                                          absl::Span<const float> labels, const TrainingTargets& targets) override {
    return targets.values.empty() ? absl::InvalidArgumentError("release head: there are no noised labels to learn from")
                                  : head_->ForwardBackward(activations, own, labels, targets);
  }

  absl::StatusOr<Matrix> OutputDirections() const override { return head_->OutputDirections(); }
  absl::Status Update() override { return head_->Update(); }
  absl::StatusOr<std::vector<float>> Predict(ConstMatrixView activations, const FeatureBatch& own) override {
    return head_->Predict(activations, own);
  }

  NamedParameters Parameters() const override { return head_->Parameters(); }
  absl::Status SetParameters(const NamedParameters& parameters) override { return head_->SetParameters(parameters); }
  NamedParameters TrainingState() const override { return JoinHeads({head_->TrainingState(), {}}); }
  absl::Status SetTrainingState(const NamedParameters& state) override {
    SPLITVEIL_ASSIGN_OR_RETURN(const HeadStates heads, SplitHeads(state));
    return head_->SetTrainingState(heads.releasing);
  }
  absl::Status ExportTo(const std::string& folder) const override { return head_->ExportTo(folder); }

 private:
  const std::unique_ptr<TopModel> head_;
};

}  // namespace

NamedParameters JoinHeads(HeadStates heads) {
  NamedParameters state = std::move(heads.predicting);
  for (auto& [name, values] : heads.releasing) {
    // One state with prefixes: a checkpoint cannot hold the one head and lack the other.
    state.emplace_back(absl::StrCat(kReleasePrefix, name), std::move(values));
  }
  return state;
}

absl::StatusOr<HeadStates> SplitHeads(const NamedParameters& state) {
  HeadStates heads;
  for (const auto& [name, values] : state) {
    absl::string_view bare = name;
    const bool releases = absl::ConsumePrefix(&bare, kReleasePrefix);
    (releases ? heads.releasing : heads.predicting).emplace_back(std::string(bare), values);
  }
  if (heads.releasing.empty()) {
    return absl::InvalidArgumentError(
        "checkpoint: expected the release head of a run with gaussian_label_dp, found a model with one head, which "
        "has learned from the labels themselves");
  }
  return heads;
}

NamedParameters PredictingHead(const NamedParameters& state) {
  absl::StatusOr<HeadStates> heads = SplitHeads(state);
  if (!heads.ok()) {
    return state;
  }
  return heads->predicting.empty() ? std::move(heads->releasing) : std::move(heads->predicting);
}

absl::StatusOr<std::unique_ptr<TopModel>> MakeTwoHeadedTopModel(std::unique_ptr<TopModel> release_head,
                                                                std::unique_ptr<TopModel> prediction_head,
                                                                int64_t outputs) {
  return TwoHeadedTopModel::Create(std::move(release_head), std::move(prediction_head), outputs);
}

std::unique_ptr<TopModel> MakeOneHeadedTopModel(std::unique_ptr<TopModel> head) {
  return std::make_unique<OneHeadedTopModel>(std::move(head));
}

absl::Status BeginWithOutputs(absl::Span<const float> outputs, TopModel& model) {
  NamedParameters state = model.TrainingState();
  for (auto& [name, values] : state) {
    // The bias alone: with all other weights as drawn, every example begins at the base rates.
    if (name == absl::StrCat(kReleasePrefix, kOutputBias) && values.size() == outputs.size()) {
      values.assign(outputs.begin(), outputs.end());
    }
  }
  return model.SetTrainingState(state);
}

}  // namespace splitveil
