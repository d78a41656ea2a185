#include "nonlabel_party/session/completion_attack_runner.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/process/exit_code.h"
#include "common/status/status_macros.h"
#include "common/transport/tensor_codec.h"

namespace splitveil {

absl::Status CompletionAttackRunner::CheckAuxiliary(const v1::AuxiliaryLabelsResponse& auxiliary) const {
  const auto refuse = [](absl::string_view text) {
    return AsRefusal(absl::InvalidArgumentError(absl::StrCat("auxiliary labels: ", text)));
  };
  const auto& positions = auxiliary.positions();
  // The agreement bounds what the label party may be asked for, and what this party accepts.
  if (positions.empty() || positions.size() > options_.auxiliary_labels) {
    return refuse(absl::StrCat("expected 1 to ", options_.auxiliary_labels, ", found ", positions.size()));
  }
  // A label for each position, or the attack would train on shifted labels and report a leak that is too small.
  if (auxiliary.labels().size() != static_cast<size_t>(positions.size())) {
    return refuse(absl::StrCat("expected ", positions.size(), " labels, found ", auxiliary.labels().size()));
  }
  if (std::any_of(auxiliary.labels().begin(), auxiliary.labels().end(),
                  [](char label) { return label != 0 && label != 1; })) {
    return refuse("a label is neither 0 nor 1");
  }
  if (std::adjacent_find(positions.begin(), positions.end(), std::greater_equal<>()) != positions.end()) {
    return refuse("the positions must ascend strictly");
  }
  if (!std::includes(options_.train.begin(), options_.train.end(), positions.begin(), positions.end())) {
    return refuse("a position is not that of a training example");
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::AuxiliaryLabelsResponse> CompletionAttackRunner::Ask() {
  v1::AuxiliaryLabelsRequest request;
  request.set_run_id(options_.run_id);
  return options_.peer->AuxiliaryLabels(request);
}

absl::Status CompletionAttackRunner::AskAgain() {
  SPLITVEIL_ASSIGN_OR_RETURN(const v1::AuxiliaryLabelsResponse again, Ask());
  const auto& positions = auxiliary_.positions();
  const bool same = again.labels() == auxiliary_.labels() &&
                    std::equal(positions.begin(), positions.end(), again.positions().begin(), again.positions().end());
  return same ? absl::OkStatus()
              : AsRefusal(absl::InvalidArgumentError(
                    "auxiliary labels: the label party answered the same question differently than before"));
}

absl::StatusOr<int64_t> CompletionAttackRunner::Report(const NamedParameters& trained) {
  SPLITVEIL_ASSIGN_OR_RETURN(v1::AuxiliaryLabelsResponse auxiliary, Ask());
  // An answer with nothing is how the operator withholds them.
  if (auxiliary.positions().empty() && auxiliary.labels().empty()) {
    return 0;
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckAuxiliary(auxiliary));
  auxiliary_ = std::move(auxiliary);
  ModelCompletion::Options known;
  known.bottom = options_.bottom;
  known.features = options_.features;
  known.positions.assign(auxiliary_.positions().begin(), auxiliary_.positions().end());
  known.labels.assign(auxiliary_.labels().begin(), auxiliary_.labels().end());
  // Twice on the same labels: the second model never saw a gradient, so the difference is what training has leaked.
  for (v1::Attack attack : {v1::MODEL_COMPLETION, v1::FEATURES_ONLY}) {
    const bool completes = attack == v1::MODEL_COMPLETION;
    SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<ModelCompletion> completion,
                               ModelCompletion::Create(known, completes ? &trained : nullptr));
    absl::Status status = Train(*completion, completion->Steps(completes ? kCompletionPasses : kFeaturesOnlyPasses));
    if (status.ok()) {
      status = SubmitAll(attack, *completion);
    }
    if (!status.ok()) {
      return status;
    }
  }
  return auxiliary_.positions().size();
}

absl::Status CompletionAttackRunner::Train(ModelCompletion& completion, int64_t steps) {
  for (int64_t done = 0; done < steps; done += kStepsBetweenCalls) {
    SPLITVEIL_RETURN_IF_ERROR(options_.stop->Check());
    // Before the steps, since making the model took its time, too.
    SPLITVEIL_RETURN_IF_ERROR(AskAgain());
    SPLITVEIL_RETURN_IF_ERROR(completion.Train(std::min(kStepsBetweenCalls, steps - done)));
  }
  return absl::OkStatus();
}

absl::Status CompletionAttackRunner::SubmitAll(v1::Attack attack, ModelCompletion& completion) {
  const absl::Span<const uint32_t> train = options_.train;
  for (size_t first = 0; first < train.size(); first += static_cast<size_t>(options_.batch_size)) {
    SPLITVEIL_RETURN_IF_ERROR(options_.stop->Check());
    SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<float> scores,
                               completion.Score(train.subspan(first, static_cast<size_t>(options_.batch_size))));
    SPLITVEIL_RETURN_IF_ERROR(Submit(attack, static_cast<int64_t>(first), scores));
  }
  return absl::OkStatus();
}

absl::Status CompletionAttackRunner::Submit(v1::Attack attack, int64_t first, const std::vector<float>& scores) {
  v1::ScoreExamplesRequest request;
  request.set_run_id(options_.run_id);
  request.set_attack(attack);
  request.set_first(static_cast<uint64_t>(first));
  // In chunks, as one message of all training examples may be too large for gRPC.
  const ConstMatrixView values(scores.data(), 1, static_cast<int64_t>(scores.size()));
  if (absl::Status status = EncodeMatrix(values, v1::FLOAT32, *request.mutable_scores()); !status.ok()) {
    return absl::InternalError(absl::StrCat("model completion: ", status.message()));
  }
  return options_.peer->ScoreExamples(request).status();
}

}  // namespace splitveil
