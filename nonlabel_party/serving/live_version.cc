#include "nonlabel_party/serving/live_version.h"

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "common/checkpoint/checkpoint_plan.h"
#include "common/crypto/digest.h"
#include "common/status/status_macros.h"

namespace splitveil {

absl::Status CheckAnswersLive(const v1::ActivationProtection& protection) {
  if (protection.noise_sigma() > 0) {
    return absl::InvalidArgumentError(
        "protection.noise_sigma: live answers would release a row's activations again with each request, each time "
        "with "
        "other noise, which nothing counts and which averages out: let the label party answer from stored activations");
  }
  if (protection.has_pareto()) {
    return absl::InvalidArgumentError(
        "protection.pareto: its threshold is of whole batches, and a live request may be for one row: let the label "
        "party answer from stored activations");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<LiveVersion>> LiveVersion::Open(const Training& training, const std::string& folder,
                                                               int64_t number) {
  SPLITVEIL_ASSIGN_OR_RETURN(const StoredVersion stored, OpenVersion(folder, number, "nonlabel_party"));
  v1::PartyCommon party = training.config.party();
  party.set_initial_checkpoint(stored.checkpoint_path);
  party.clear_checkpoint_path();
  SPLITVEIL_ASSIGN_OR_RETURN(CheckpointPlan plan,
                             PlanCheckpoints("nonlabel_party", party, training.config.model(), training.agreement));
  if (plan.initial.front()->name() != stored.header.checkpoint()) {
    return absl::InvalidArgumentError(absl::StrCat(folder, "/", number, ": expected checkpoint ",
                                                   stored.header.checkpoint(), ", found ",
                                                   plan.initial.front()->name()));
  }
  // Of the training, and of the activations that are stored, whatever the configuration says now.
  const v1::CheckpointHeader& trained = plan.initial.front()->header();
  if (!trained.has_activation_protection() || !stored.header.has_activation_protection()) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, "/", number,
                     ": does not say under which protection its activations were trained and stored, so an earlier "
                     "version of this program wrote it: train and store again to answer live"));
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckAnswersLive(trained.activation_protection()));
  SPLITVEIL_RETURN_IF_ERROR(CheckAnswersLive(stored.header.activation_protection()));
  SPLITVEIL_ASSIGN_OR_RETURN(
      const std::shared_ptr<const Dataset> data,
      Dataset::Open(party.dataset().path(), Dataset::kMaxResidentBytes, Dataset::Check::kRemembered));
  // What a run asks of data that a model has not seen: they are encoded as those that it was trained on.
  SPLITVEIL_RETURN_IF_ERROR(plan.UseData(*data, training.agreement));
  SPLITVEIL_ASSIGN_OR_RETURN(std::vector<uint32_t> rows, RowsNow(stored, *data));
  data->ReleaseMemory();  // Of the ids.
  const Checkpoint& checkpoint = *plan.initial.front();
  SPLITVEIL_ASSIGN_OR_RETURN(
      std::shared_ptr<DriftWatch> drift,
      DriftWatch::Create(*data, AsBytes(data->digest()) == checkpoint.header().dataset_sha256()));
  drift = training.drifts == nullptr ? drift : training.drifts->Shared(checkpoint.name(), std::move(drift));
  std::shared_ptr<LiveVersion> version(new LiveVersion(stored, data, std::move(rows), std::move(drift)));
  SPLITVEIL_RETURN_IF_ERROR(version->MakeModel(training, checkpoint));
  return version;
}

absl::StatusOr<std::vector<uint32_t>> LiveVersion::RowsNow(const StoredVersion& stored, const Dataset& data) {
  std::vector<uint32_t> rows(stored.rows.begin(), stored.rows.end());
  if (data.digest() == stored.data->digest()) {
    return rows;
  }
  // By ids: a later table may have its rows in any order.
  absl::flat_hash_map<absl::string_view, uint32_t> row_of;
  row_of.reserve(static_cast<size_t>(data.rows()));
  for (uint32_t row = 0; row < data.rows(); ++row) {
    if (!row_of.emplace(data.ids()[row], row).second) {
      return absl::InvalidArgumentError(absl::StrCat(data.path(), ": an id is there twice: prepare a table without"));
    }
  }
  for (uint32_t& row : rows) {
    const auto found = row_of.find(stored.data->ids()[row]);
    row = found == row_of.end() ? kMissing : found->second;
  }
  return rows;
}

absl::Status LiveVersion::MakeModel(const Training& training, const Checkpoint& checkpoint) {
  // As a prediction has it: the seed is of categories that the data have and the training had not.
  const BottomModelOptions bottom = BottomOptions(training.agreement, training.config, *data_);
  const absl::MutexLock lock(&mutex_);
  SPLITVEIL_ASSIGN_OR_RETURN(model_, BottomModel::Create(bottom));
  SPLITVEIL_ASSIGN_OR_RETURN(const NamedParameters state, checkpoint.State());
  SPLITVEIL_RETURN_IF_ERROR(model_->SetTrainingState(state));
  // Without attributes: what a method does in training is in the weights, and what remains is to clip.
  SPLITVEIL_ASSIGN_OR_RETURN(protected_model_,
                             ProtectedBottomModel::Create(model_.get(), checkpoint.header().activation_protection(),
                                                          /*attributes=*/{}, bottom.cut_width, bottom.seed));
  return absl::OkStatus();
}

absl::StatusOr<LiveVersion::Answer> LiveVersion::Activate(absl::Span<const uint32_t> positions) {
  Answer answer;
  std::vector<uint32_t> rows;
  for (size_t i = 0; i < positions.size(); ++i) {
    if (positions[i] >= rows_.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("positions: expected each below ", rows_.size(), ", the shared examples, found a larger one"));
    }
    if (const uint32_t row = rows_[positions[i]]; row == kMissing) {
      answer.missing.push_back(static_cast<uint32_t>(i));
    } else {
      rows.push_back(row);
    }
  }
  if (rows.empty()) {
    return answer;
  }
  const FeatureBatch features = data_->Gather(rows);
  {
    const absl::MutexLock lock(&mutex_);
    SPLITVEIL_ASSIGN_OR_RETURN(answer.activations, protected_model_->Predict(features));
  }
  drift_->Count(features, /*scores=*/{}, DriftWatch::Today());
  return answer;
}

}  // namespace splitveil
