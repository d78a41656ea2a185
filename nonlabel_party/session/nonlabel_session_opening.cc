// How a run begins: agreement and checkpoint, alignment, joint seed, model.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/config/agreement.h"
#include "common/model/export.h"
#include "common/operations/alignment_progress.h"
#include "common/operations/run_facts.h"
#include "common/process/exit_code.h"
#include "common/process/runtime.h"
#include "common/process/version.h"
#include "common/schedule/party_seed.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "nonlabel_party/session/nonlabel_session.h"
#include "nonlabel_party/session/stoppable_alignment.h"

namespace splitveil {

absl::Status NonLabelSession::CheckModel() {
  if (const std::string& folder = options_.config.party().export_dir(); !folder.empty()) {
    SPLITVEIL_RETURN_IF_ERROR(PrepareExport({folder, "nonlabel_party"}));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<std::string> layers,
                             BottomModel::Check(BottomOptions(options_.data->features())));
  for (const std::string& audited : options_.agreement.audit().layers()) {
    if (std::find(layers.begin(), layers.end(), audited) == layers.end()) {
      return absl::InvalidArgumentError(absl::StrCat("audit.layers: expected layers of the bottom model, ",
                                                     absl::StrJoin(layers, ", "), ", found \"", audited, "\""));
    }
  }
  return absl::OkStatus();
}

absl::Status NonLabelSession::Open() {
  SPLITVEIL_ASSIGN_OR_RETURN(
      SeedExchange seed,
      SeedExchange::Create(SeedRole::kNonLabelParty,
                           SeedContribution(SeedRole::kNonLabelParty, options_.config.party().reproducible_seed())));
  const Digest digest = AgreementSha256(options_.agreement);
  v1::OpenRequest request;
  *request.mutable_agreement() = options_.agreement;
  request.set_agreement_sha256(std::string(AsBytes(digest)));
  request.set_seed_commitment(seed.commitment());
  request.set_version(Version());
  const Checkpoint* continued = options_.checkpoints.resumes() ? options_.checkpoints.initial.front().get() : nullptr;
  if (continued != nullptr) {
    request.set_resumed_from(continued->name());
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const v1::OpenResponse response, options_.peer->Open(request));
  if (response.run_id().empty() || response.run_id().size() > 256 ||
      response.seed_commitment().size() != sizeof(Digest)) {
    return AsRefusal(absl::InvalidArgumentError("Open: expected a run id and a seed commitment, found another answer"));
  }
  run_id_ = response.run_id();
  peer_commitment_ = response.seed_commitment();
  own_reveal_ = seed.reveal();

  RunRow run = DescribeRun(run_id_, "nonlabel_party", "", options_.agreement, response.version());
  if (continued != nullptr) {
    run.resumed_from = continued->header().run_id();
  }
  SPLITVEIL_ASSIGN_OR_RETURN(ledger_, BeginLedger(options_.ledger_path, run, options_.agreement.audit().disclosure()));
  if (continued != nullptr) {
    SPLITVEIL_RETURN_IF_ERROR(ledger_->RecordEvent("resumed_from", continued->name()));
  }
  options_.status->Update([&](v1::GetStatusResponse& status) { status.set_run_id(run_id_); });
  LogInfo("run ", run_id_, " opened; agreement ", run.agreement_sha256.substr(0, 16));
  return absl::OkStatus();
}

absl::Status NonLabelSession::Align() {
  AlignmentOptions options;
  options.run_id = run_id_;
  options.max_ids = static_cast<uint64_t>(options_.agreement.alignment().max_ids());
  options.chunk_ids = options_.agreement.alignment().chunk_ids();
  AlignmentProgress progress(options_.status);
  options.progress = [&](uint64_t masked, uint64_t total) { progress.Report(masked, total); };
  absl::StatusOr<std::optional<AlignedIds>> aligned =
      AlignUnlessStopped(*options_.peer, options_.data->ids(), options, options_.stop);
  progress.Finish();
  if (!aligned.ok()) {
    return aligned.status();
  }
  if (!aligned->has_value()) {
    stopped_ = true;
    return absl::OkStatus();
  }
  aligned_ = **std::move(aligned);
  LogInfo("aligned ", aligned_.rows.size(), " examples; own ids ", options_.data->rows(), ", the peer's ",
          aligned_.peer_ids);
  options_.status->Update([&](v1::GetStatusResponse& status) { status.set_aligned_examples(aligned_.rows.size()); });
  return ledger_->RecordEvent("aligned", absl::StrCat(aligned_.rows.size(), " common ids of ", options_.data->rows(),
                                                      " own and ", aligned_.peer_ids, " of the peer"));
}

absl::Status NonLabelSession::Start() {
  // Before the call: with many ids this takes a while, and after it the label party waits no longer than for a step.
  const v1::RunAgreement& agreement = options_.agreement;
  TrainTestSplit split =
      SplitRule(agreement.split_salt(), agreement.test_fraction()).Split(options_.data->ids(), aligned_.rows);
  features_ = std::make_unique<FeatureTable>(options_.data, aligned_.rows);
  options_.data->ReleaseMemory();  // Of the ids,
  ReturnFreeMemory();              // of the alignment.

  v1::StartRequest request;
  request.set_run_id(run_id_);
  request.set_aligned_examples(aligned_.rows.size());
  request.set_order_sha256(std::string(AsBytes(aligned_.order_sha256)));
  request.set_seed_reveal(own_reveal_);
  SPLITVEIL_ASSIGN_OR_RETURN(const v1::StartResponse response, options_.peer->Start(request));
  SPLITVEIL_ASSIGN_OR_RETURN(const SeedExchange seed, SeedExchange::Create(SeedRole::kNonLabelParty, own_reveal_));
  const absl::StatusOr<JointSeed> joint = seed.Combine(peer_commitment_, response.seed_reveal());
  if (!joint.ok()) {
    return AsRefusal(joint.status());
  }
  return BuildModel(*joint, std::move(split));
}

absl::Status NonLabelSession::BuildModel(const Digest& joint_seed, TrainTestSplit split) {
  const v1::RunAgreement& agreement = options_.agreement;
  SPLITVEIL_ASSIGN_OR_RETURN(Schedule schedule,
                             Schedule::Create(joint_seed, split.train,
                                              ScheduleOptions{agreement.batch_size(), agreement.minimum_batch_size()}));
  schedule_ = std::make_unique<Schedule>(std::move(schedule));
  train_ = std::move(split.train);

  SPLITVEIL_ASSIGN_OR_RETURN(model_, BottomModel::Create(BottomOptions(features_->shape())));
  SPLITVEIL_RETURN_IF_ERROR(ResumeFromCheckpoint());

  SPLITVEIL_ASSIGN_OR_RETURN(AttackRunner reporter,
                             AttackRunner::Create(agreement, run_id_, static_cast<int64_t>(aligned_.rows.size()),
                                                  options_.peer, model_.get(), ledger_.get()));
  reporter_ = std::make_unique<AttackRunner>(std::move(reporter));
  PrepareEvaluation(agreement.progressive_validation() ? train_ : std::move(split.test));
  progress_ = std::make_unique<TrainingProgress>(options_.status, agreement.epochs(), batches());
  return absl::OkStatus();
}

absl::Status NonLabelSession::ResumeFromCheckpoint() {
  if (!options_.checkpoints.resumes()) {
    return absl::OkStatus();
  }
  const absl::StatusOr<NamedParameters> state = options_.checkpoints.initial.front()->State();
  options_.checkpoints.initial.clear();
  return state.ok() ? model_->SetTrainingState(*state) : state.status();
}

void NonLabelSession::PrepareEvaluation(std::vector<uint32_t> test) {
  EpochEvaluator::Options options;
  options.peer = options_.peer;
  options.run_id = run_id_;
  options.batch_size = options_.agreement.batch_size();
  options.wire_dtype = options_.agreement.wire_dtype();
  options.model = model_.get();
  options.features = features_.get();
  options.test = std::move(test);
  options.stop = [this] { return StopAsked(); };
  evaluator_ = std::make_unique<EpochEvaluator>(std::move(options));
}

BottomModelOptions NonLabelSession::BottomOptions(const FeatureShape& features) const {
  BottomModelOptions options;
  options.spec = options_.config.model();
  options.cut_layer = options_.agreement.cut_layer();
  options.optimizer = options_.config.party().optimizer();
  options.features = features;
  options.cut_width = options_.agreement.cut_width();
  options.seed = WeightSeed(SeedRole::kNonLabelParty, options_.config.party().reproducible_seed());
  return options;
}

}  // namespace splitveil
