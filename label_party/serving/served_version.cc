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
  drift = training.drifts == nullptr ? drift : training.drifts->Shared(checkpoint.name(), std::move(drift));
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

ServedVersion::Known ServedVersion::Find(const AskedIds& question) const {
  Known known;
  for (size_t i = 0; i < question.ids.size(); ++i) {
    if (const auto found = positions_.find(question.ids[i]);
        found != positions_.end() && !(question.terms->held_out && withheld_.value()[*found])) {
      known.positions.push_back(*found);
      known.asked.push_back(i);
    }
  }
  return known;
}

std::vector<absl::StatusOr<Answers>> ServedVersion::Answer(absl::Span<const AskedIds> questions) {
  const auto width = static_cast<size_t>(data().task().outputs());
  std::vector<absl::StatusOr<Answers>> answers;
  std::vector<Known> known;
  for (const AskedIds& question : questions) {
    const size_t ids = question.ids.size();
    answers.emplace_back(
        Answers{std::vector<float>(ids * width, std::numeric_limits<float>::quiet_NaN()), std::vector<bool>(ids)});
    known.push_back(Find(question));
  }
  const absl::StatusOr<Matrix> activations = Activations(known);
  int64_t first = 0;
  for (size_t begin = 0, end = 0; begin < questions.size(); begin = end) {
    // Together, but for columns that a request gives: a model that these make fail must not fail the others.
    int64_t rows = 0;
    do {
      rows += static_cast<int64_t>(known[end++].positions.size());
    } while (end < questions.size() && questions[begin].terms->replaced.empty() &&
             questions[end].terms->replaced.empty());
    if (rows == 0) {
      continue;  // None is known, which needs nobody.
    }
    const size_t count = end - begin;
    const absl::Status computed =
        activations.ok() ? Compute(questions.subspan(begin, count), absl::MakeConstSpan(known).subspan(begin, count),
                                   activations->block(first, rows), absl::MakeSpan(answers).subspan(begin, count))
                         : activations.status();
    for (size_t i = begin; i < end && !computed.ok(); ++i) {
      if (!known[i].positions.empty()) {
        answers[i] = computed;
      }
    }
    first += rows;
  }
  return answers;
}

absl::Status ServedVersion::Compute(absl::Span<const AskedIds> questions, absl::Span<const Known> known,
                                    ConstMatrixView activations, absl::Span<absl::StatusOr<Answers>> answers) {
  const auto width = static_cast<size_t>(data().task().outputs());
  std::vector<uint32_t> rows;  // This party's of each.
  for (const Known& each : known) {
    for (const uint32_t position : each.positions) {
      rows.push_back(stored_.rows[position]);
    }
  }
  FeatureBatch own = stored_.data->Gather(rows);
  questions[0].terms->replaced.Apply(known[0].asked, own);
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<float> outputs, model_->Predict(activations, own));
  std::vector<float> scores;
  size_t row = 0;
  for (size_t i = 0; i < questions.size(); ++i) {
    std::vector<float>& values_of = answers[i]->values;
    for (const size_t asked : known[i].asked) {
      const std::vector<double> values =
          PredictedValues(data(), absl::MakeConstSpan(outputs).subspan(width * row++, width));
      scores.push_back(WatchedScore(data(), values));
      std::copy(values.begin(), values.end(), values_of.begin() + static_cast<int64_t>(asked * width));
      answers[i]->found[asked] = true;
    }
    if (const std::optional<int> decimals = questions[i].terms->decimals; decimals.has_value()) {
      const double scale = std::pow(10, *decimals);
      for (float& value : values_of) {
        value = static_cast<float>(std::round(double{value} * scale) / scale);
      }
    }
  }
  drift_->Count(own, scores, DriftWatch::Today());
  return absl::OkStatus();
}

absl::StatusOr<Matrix> ServedVersion::Activations(std::vector<Known>& known) const {
  std::vector<uint32_t> positions;
  for (const Known& each : known) {
    positions.insert(positions.end(), each.positions.begin(), each.positions.end());
  }
  if (live_ != nullptr && !positions.empty()) {
    absl::StatusOr<LivePeer::Answer> live = live_->Ask(stored_.header, positions);
    if (live.ok()) {
      auto missing = live->missing.rbegin();  // Of all positions, from the last one.
      auto end = static_cast<int64_t>(positions.size());
      for (auto each = known.rbegin(); each != known.rend() && missing != live->missing.rend(); ++each) {
        const int64_t begin = end - static_cast<int64_t>(each->positions.size());
        for (; missing != live->missing.rend() && *missing >= begin; ++missing) {
          each->asked.erase(each->asked.begin() + (*missing - begin));
          each->positions.erase(each->positions.begin() + (*missing - begin));
        }
        end = begin;
      }
      return std::move(live->activations);
    }
    if (!live_->falls_back()) {
      return absl::UnavailableError("the other party, whose features are asked for live, does not answer: try again");
    }
  }
  Matrix activations = Matrix::ToOverwrite(static_cast<int64_t>(positions.size()), stored_.activations.cols());
  for (size_t i = 0; i < positions.size(); ++i) {
    activations.SetBlock(static_cast<int64_t>(i), stored_.activations.block(positions[i], 1));
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
