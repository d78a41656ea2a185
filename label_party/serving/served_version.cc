#include "label_party/serving/served_version.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

#include "common/checkpoint/checkpoint_plan.h"
#include "common/crypto/digest.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "label_party/serving/withheld_rows.h"
#include "label_party/top/predicted_values.h"
#include "label_party/top/release_head_models.h"
#include "label_party/training/training.h"

namespace splitveil {
namespace {

// By what the checkpoint itself holds, not by a configuration that may have changed since: no head but the release
// head, whose training refuses a state that has learned from true labels, and the noise that its labels had.
bool LearnedFromNoisedLabels(const Checkpoint& checkpoint, const NamedParameters& state) {
  const v1::LabelReleases& releases = checkpoint.header().label_releases();
  const absl::StatusOr<HeadStates> heads = SplitHeads(state);
  return releases.noise_size() > 0 && releases.release_head_predicts() && heads.ok() && heads->predicting.empty();
}

}  // namespace

absl::StatusOr<std::shared_ptr<ServedVersion>> ServedVersion::Open(const Training& training, const std::string& folder,
                                                                   int64_t number) {
  SPLITVEIL_ASSIGN_OR_RETURN(StoredVersion stored, OpenVersion(folder, number));
  const v1::RunAgreement& agreement = training.agreement;
  v1::PartyCommon party = training.config.party();
  party.set_initial_checkpoint(stored.checkpoint_path);
  party.clear_checkpoint_path();
  // What a run asks of a checkpoint to start from: it fits role, model, cut and optimiser, and the data extend those
  // that it was trained on.
  SPLITVEIL_ASSIGN_OR_RETURN(CheckpointPlan plan,
                             PlanCheckpoints("label_party", party, training.config.model(), agreement));
  SPLITVEIL_RETURN_IF_ERROR(plan.UseData(*stored.data, agreement));
  const Checkpoint& checkpoint = *plan.initial.front();
  if (checkpoint.name() != stored.header.checkpoint() || stored.header.cut_width() != agreement.cut_width()) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, "/", number, ": expected activations [", agreement.cut_width(), "] of checkpoint ",
                     checkpoint.name(), ", found [", stored.header.cut_width(), "] of ", stored.header.checkpoint()));
  }
  TopModelOptions options = TopOptions(agreement, training.config, *stored.data);
  options.cut_gradient = false;
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<TopModel> model, TopModel::Create(options));
  SPLITVEIL_ASSIGN_OR_RETURN(const NamedParameters state, checkpoint.State());
  SPLITVEIL_RETURN_IF_ERROR(model->SetTrainingState(PredictingHead(state)));
  const bool noised = LearnedFromNoisedLabels(checkpoint, state);
  SPLITVEIL_ASSIGN_OR_RETURN(
      std::shared_ptr<DriftWatch> drift,
      DriftWatch::Create(*stored.data, AsBytes(stored.data->digest()) == checkpoint.header().dataset_sha256(),
                         stored.scores));
  drift = training.drifts == nullptr ? drift : training.drifts->Shared(std::move(drift));
  std::shared_ptr<ServedVersion> version(new ServedVersion(
      std::move(stored), std::move(model), checkpoint.header().run_id(), noised, training.live, std::move(drift)));
  if (training.answers_unproved && !noised) {
    version->withheld_ = WithheldRows(training.config, checkpoint, version->stored_);
    // The own callers get their answers whatever this comes to.
    if (version->withheld_.ok()) {
      LogInfo("version ", number, ": outside callers get answers for ",
              std::count(version->withheld_->begin(), version->withheld_->end(), false), " of ", version->rows(),
              " examples, which the model has not learned from");
    } else {
      LogWarning("version ", number, ": outside callers get no answers: ", version->withheld_.status().message());
    }
  }
  return version;
}

ServedVersion::ServedVersion(StoredVersion stored, std::unique_ptr<TopModel> model, std::string trained_by,
                             bool has_learned_from_noised_labels, std::shared_ptr<LivePeer> live,
                             std::shared_ptr<DriftWatch> drift)
    : stored_(std::move(stored)),
      live_(std::move(live)),
      model_(std::move(model)),
      trained_by_(std::move(trained_by)),
      has_learned_from_noised_labels_(has_learned_from_noised_labels),
      drift_(std::move(drift)),
      withheld_(absl::FailedPreconditionError("unproved_answers is not set")),
      positions_(static_cast<size_t>(stored_.rows.size()), Hash{{&stored_}}, Equal{{&stored_}}) {
  for (uint32_t position = 0; position < stored_.rows.size(); ++position) {
    positions_.insert(position);
  }
  stored_.data->ReleaseMemory();
}

absl::StatusOr<Answers> ServedVersion::Answer(absl::Span<const absl::string_view> ids, const AnswerTerms& terms) {
  const auto width = static_cast<size_t>(data().task().outputs());
  Answers answers;
  answers.values.assign(ids.size() * width, std::numeric_limits<float>::quiet_NaN());
  answers.found.resize(ids.size());
  Known known;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (const auto found = positions_.find(ids[i]);
        found != positions_.end() && !(terms.held_out && withheld_.value()[*found])) {
      known.positions.push_back(*found);
      known.asked.push_back(i);
    }
  }
  if (known.asked.empty()) {
    return answers;
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const Matrix activations, Activations(known));
  std::vector<uint32_t> rows;  // This party's of each.
  for (const uint32_t position : known.positions) {
    rows.push_back(stored_.rows[position]);
  }
  if (rows.empty()) {
    return answers;
  }
  FeatureBatch own = stored_.data->Gather(rows);
  terms.replaced.Apply(known.asked, own);
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<float> outputs, model_->Predict(activations, own));
  std::vector<float> scores;
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::vector<double> values = PredictedValues(data(), absl::MakeConstSpan(outputs).subspan(i * width, width));
    scores.push_back(WatchedScore(data(), values));
    std::copy(values.begin(), values.end(), answers.values.begin() + static_cast<int64_t>(known.asked[i] * width));
    answers.found[known.asked[i]] = true;
  }
  drift_->Count(own, scores, DriftWatch::Today());
  if (terms.decimals.has_value()) {
    const double scale = std::pow(10, *terms.decimals);
    for (float& value : answers.values) {
      value = static_cast<float>(std::round(double{value} * scale) / scale);
    }
  }
  return answers;
}

absl::StatusOr<Matrix> ServedVersion::Activations(Known& known) const {
  if (live_ != nullptr) {
    absl::StatusOr<LivePeer::Answer> live = live_->Ask(stored_.header, known.positions);
    if (live.ok()) {
      for (auto missing = live->missing.rbegin(); missing != live->missing.rend(); ++missing) {
        known.asked.erase(known.asked.begin() + *missing);
        known.positions.erase(known.positions.begin() + *missing);
      }
      return std::move(live->activations);
    }
    if (!live_->falls_back()) {
      return absl::UnavailableError("the other party, whose features are asked for live, does not answer: try again");
    }
  }
  Matrix activations = Matrix::ToOverwrite(static_cast<int64_t>(known.positions.size()), stored_.activations.cols());
  for (size_t i = 0; i < known.positions.size(); ++i) {
    activations.SetBlock(static_cast<int64_t>(i), stored_.activations.block(known.positions[i], 1));
  }
  return activations;
}

ServedVersions::Options VersionsIn(const ServedVersion::Training& training, const std::string& folder) {
  ServedVersions::Options options;
  options.folder = folder;
  options.open = [=](int64_t number) { return ServedVersion::Open(training, folder, number); };
  options.waits = [](const ServedVersion& version) { return version.WaitsForPeer(); };
  return options;
}

absl::StatusOr<ReplacedColumns> ServedVersion::Replace(const std::vector<RequestColumn>& columns) {
  ReplacedColumns replaced;
  if (columns.empty()) {
    return replaced;
  }
  const absl::MutexLock lock(&mutex_);
  if (!columns_.has_value()) {
    SPLITVEIL_ASSIGN_OR_RETURN(columns_, OwnColumns::Of(data()));
  }
  for (const RequestColumn& column : columns) {
    if (!(column.is_number ? columns_->AddNumbers(column.name, column.numbers, replaced)
                           : columns_->AddCategories(column.name, column.values, replaced))) {
      return absl::InvalidArgumentError(
          "inputs: one beside \"id\" is no column of the label party's own, or has the other datatype: name columns "
          "as its table does, numbers as FP64 or FP32, categories as BYTES");
    }
  }
  return replaced;
}

}  // namespace splitveil
