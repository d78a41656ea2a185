#include "nonlabel_party/session/nonlabel_session.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"

#include "common/config/agreement.h"
#include "common/operations/run_facts.h"
#include "common/process/exit_code.h"
#include "common/process/version.h"
#include "common/schedule/party_seed.h"
#include "common/telemetry/log.h"
#include "common/transport/tensor_codec.h"
#include "nonlabel_party/session/activations_message.h"
#include "nonlabel_party/session/completion_reporter.h"
#include "nonlabel_party/session/stoppable_alignment.h"

namespace splitveil {

absl::Status NonLabelSession::Run() {
  absl::Status outcome = RunToEnd();
  if (progress_ != nullptr) {
    progress_->Finish();
  }
  if (!run_id_.empty() && (stopped_ || !outcome.ok())) {
    v1::CloseRequest request;
    request.set_run_id(run_id_);
    (void)options_.peer->Close(request);  // It may be gone already.
  }
  if (stopped_) {
    LogInfo("stopped on request");
  }
  options_.status->Update([](v1::GetStatusResponse& status) { status.set_phase("closed"); });
  if (ledger_ != nullptr) {
    absl::Status status = outcome.ok() ? absl::OkStatus() : ledger_->RecordEvent("ended", outcome.message());
    status.Update(ledger_->Finish(LedgerStatus(outcome)));
    outcome.Update(status);
  }
  return outcome;
}

const char* NonLabelSession::LedgerStatus(const absl::Status& outcome) const {
  if (stopped_) {
    return "stopped";
  }
  if (outcome.ok()) {
    return "completed";
  }
  return IsHalt(outcome) ? "halted" : "failed";
}

bool NonLabelSession::StopAsked() {
  stopped_ = stopped_ || options_.stop();
  return stopped_;
}

absl::Status NonLabelSession::RunToEnd() {
  for (absl::Status (NonLabelSession::*stage)() :
       {&NonLabelSession::CheckModel, &NonLabelSession::Open, &NonLabelSession::Align, &NonLabelSession::Start}) {
    if (StopAsked()) {
      return absl::OkStatus();
    }
    if (absl::Status status = (this->*stage)(); !status.ok() || stopped_) {
      return status;
    }
  }
  for (uint32_t epoch = 0; epoch < options_.agreement.epochs(); ++epoch) {
    if (StopAsked()) {
      return absl::OkStatus();
    }
    if (absl::Status status = TrainEpoch(epoch); !status.ok() || stopped_) {
      return status;
    }
    if (absl::Status status = evaluator_->Evaluate(epoch); !status.ok() || stopped_) {
      return status;
    }
  }
  if (absl::Status status = CompleteModel(); !status.ok() || stopped_) {
    return status;
  }
  v1::CloseRequest request;
  request.set_run_id(run_id_);
  request.set_completed(true);
  return options_.peer->Close(request);
}

absl::Status NonLabelSession::CheckModel() {
  FeatureShape features;
  features.numeric = static_cast<int64_t>(options_.data.numeric.size());
  features.categorical = static_cast<int64_t>(options_.data.categorical.size());
  const absl::StatusOr<std::vector<std::string>> layers = BottomModel::Check(BottomOptions(features));
  if (!layers.ok()) {
    return layers.status();
  }
  for (const std::string& audited : options_.agreement.audit().layers()) {
    if (std::find(layers->begin(), layers->end(), audited) == layers->end()) {
      return absl::InvalidArgumentError(absl::StrCat("audit.layers: expected layers of the bottom model, ",
                                                     absl::StrJoin(*layers, ", "), ", found \"", audited, "\""));
    }
  }
  return absl::OkStatus();
}

absl::Status NonLabelSession::Open() {
  absl::StatusOr<SeedExchange> seed =
      SeedExchange::Create(SeedRole::kNonLabelParty,
                           SeedContribution(SeedRole::kNonLabelParty, options_.config.party().reproducible_seed()));
  if (!seed.ok()) {
    return seed.status();
  }
  const Digest digest = AgreementSha256(options_.agreement);
  v1::OpenRequest request;
  *request.mutable_agreement() = options_.agreement;
  request.set_agreement_sha256(std::string(AsBytes(digest)));
  request.set_seed_commitment(seed->commitment());
  request.set_version(Version());
  const absl::StatusOr<v1::OpenResponse> response = options_.peer->Open(request);
  if (!response.ok()) {
    return response.status();
  }
  if (response->run_id().empty() || response->run_id().size() > 256 ||
      response->seed_commitment().size() != sizeof(Digest)) {
    return AsRefusal(absl::InvalidArgumentError("Open: expected a run id and a seed commitment, found another answer"));
  }
  run_id_ = response->run_id();
  peer_commitment_ = response->seed_commitment();
  own_reveal_ = seed->reveal();

  const RunRow run = DescribeRun(run_id_, "nonlabel_party", "", options_.agreement, response->version());
  absl::StatusOr<std::unique_ptr<Ledger>> ledger =
      BeginLedger(options_.ledger_path, run, options_.agreement.audit().grant());
  if (!ledger.ok()) {
    return ledger.status();
  }
  ledger_ = *std::move(ledger);
  options_.status->Update([&](v1::GetStatusResponse& status) {
    status.set_run_id(run_id_);
    status.set_phase("aligning");
  });
  LogInfo("run ", run_id_, " opened; agreement ", run.agreement_sha256.substr(0, 16));
  return absl::OkStatus();
}

absl::Status NonLabelSession::Align() {
  AlignmentOptions options;
  options.run_id = run_id_;
  options.max_ids = static_cast<uint64_t>(options_.agreement.alignment().max_ids());
  options.chunk_ids = options_.agreement.alignment().chunk_ids();
  absl::StatusOr<std::optional<AlignedIds>> aligned =
      AlignUnlessStopped(*options_.peer, options_.data.ids, options, options_.stop);
  if (!aligned.ok()) {
    return aligned.status();
  }
  if (!aligned->has_value()) {
    stopped_ = true;
    return absl::OkStatus();
  }
  aligned_ = **std::move(aligned);
  LogInfo("aligned ", aligned_.rows.size(), " examples; own ids ", options_.data.ids.size(), ", the peer's ",
          aligned_.peer_ids);
  options_.status->Update([&](v1::GetStatusResponse& status) { status.set_aligned_examples(aligned_.rows.size()); });
  return ledger_->RecordEvent("aligned", absl::StrCat(aligned_.rows.size(), " common ids of ", options_.data.ids.size(),
                                                      " own and ", aligned_.peer_ids, " of the peer"));
}

absl::Status NonLabelSession::Start() {
  v1::StartRequest request;
  request.set_run_id(run_id_);
  request.set_aligned_examples(aligned_.rows.size());
  request.set_order_sha256(std::string(AsBytes(aligned_.order_sha256)));
  request.set_seed_reveal(own_reveal_);
  const absl::StatusOr<v1::StartResponse> response = options_.peer->Start(request);
  if (!response.ok()) {
    return response.status();
  }
  const absl::StatusOr<SeedExchange> seed = SeedExchange::Create(SeedRole::kNonLabelParty, own_reveal_);
  if (!seed.ok()) {
    return seed.status();
  }
  const absl::StatusOr<JointSeed> joint = seed->Combine(peer_commitment_, response->seed_reveal());
  if (!joint.ok()) {
    return AsRefusal(joint.status());
  }
  return BuildModel(*joint);
}

absl::Status NonLabelSession::BuildModel(const Digest& joint_seed) {
  const v1::RunAgreement& agreement = options_.agreement;
  TrainTestSplit split = SplitTrainTest(joint_seed, options_.data.ids, aligned_.rows, agreement.test_fraction());
  absl::StatusOr<FeatureTable> features = BuildFeatures(options_.data, aligned_.rows, split.train);
  if (!features.ok()) {
    return features.status();
  }
  features_ = std::make_unique<FeatureTable>(*std::move(features));
  options_.data = PartyData();  // The table holds all that training needs.
  absl::StatusOr<Schedule> schedule = Schedule::Create(
      joint_seed, split.train, ScheduleOptions{agreement.batch_size(), agreement.minimum_batch_size()});
  if (!schedule.ok()) {
    return schedule.status();
  }
  schedule_ = std::make_unique<Schedule>(*std::move(schedule));
  train_ = std::move(split.train);

  absl::StatusOr<std::unique_ptr<BottomModel>> model = BottomModel::Create(BottomOptions(features_->shape()));
  if (!model.ok()) {
    return model.status();
  }
  model_ = *std::move(model);

  absl::StatusOr<LeakReporter> reporter = LeakReporter::Create(
      agreement, run_id_, static_cast<int64_t>(aligned_.rows.size()), options_.peer, model_.get(), ledger_.get());
  if (!reporter.ok()) {
    return reporter.status();
  }
  reporter_ = std::make_unique<LeakReporter>(*std::move(reporter));
  PrepareEvaluation(std::move(split.test));
  progress_ = std::make_unique<TrainingProgress>(options_.status, agreement.epochs(), batches());
  return absl::OkStatus();
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

absl::Status NonLabelSession::TrainEpoch(uint32_t epoch) {
  absl::StatusOr<std::unique_ptr<TrainingStream>> stream = options_.peer->Train();
  if (!stream.ok()) {
    return stream.status();
  }
  step_started_ = absl::Now();
  uint32_t sent = 0;
  for (uint32_t received = 0; received < batches(); ++received) {
    // Answers to batches under way are still taken, so that the run ends between steps.
    const uint32_t limit = StopAsked() ? sent : static_cast<uint32_t>(batches());
    absl::Status status;
    while (status.ok() && sent < limit && sent - received < options_.agreement.in_flight_batches()) {
      status = SendBatch(epoch, sent++, **stream);
    }
    if (status.ok() && received < sent) {
      status = LearnFromNext(epoch, received, **stream);
    }
    if (!status.ok()) {
      // A broken stream is only the consequence of what the label party decided.
      const absl::Status verdict = status.code() == absl::StatusCode::kUnavailable ? (*stream)->Finish() : status;
      return verdict.ok() ? status : verdict;
    }
    if (stopped_ && received + 1 >= sent) {
      break;
    }
  }
  return (*stream)->Finish();
}

absl::Status NonLabelSession::SendBatch(uint32_t epoch, uint32_t batch, TrainingStream& stream) {
  absl::StatusOr<Matrix> activations = model_->Forward(features_->Gather(schedule_->BatchRows(epoch, batch)));
  if (!activations.ok()) {
    return activations.status();
  }
  const absl::StatusOr<v1::CutActivations> message =
      ActivationsMessage(run_id_, epoch, batch, *activations, options_.agreement.wire_dtype());
  if (!message.ok()) {
    return message.status();
  }
  if (reporter_->needs_activations()) {
    activations_.push_back(*std::move(activations));
  }
  bytes_sent_ += static_cast<int64_t>(message->ByteSizeLong());
  return stream.Send(*message);
}

absl::Status NonLabelSession::LearnFromNext(uint32_t epoch, uint32_t batch, TrainingStream& stream) {
  const absl::StatusOr<v1::CutGradients> message = stream.Receive();
  if (!message.ok()) {
    return message.status();
  }
  if (message->epoch() != epoch || message->batch() != batch) {
    return AsRefusal(absl::InvalidArgumentError(
        absl::StrCat("gradients: expected those of epoch ", epoch, " batch ", batch, ", found others")));
  }
  row_.epoch = epoch;
  row_.batch = batch;
  row_.examples = schedule_->batch_rows(batch);
  row_.loss = std::numeric_limits<double>::quiet_NaN();  // Known to the label party alone.
  absl::Status status = frozen_ || message->frozen() ? StayFrozen(*message) : Learn(*message);
  if (!activations_.empty()) {
    activations_.pop_front();
  }
  if (!status.ok()) {
    return status;
  }
  const absl::Time now = absl::Now();
  row_.seconds = absl::ToDoubleSeconds(now - step_started_);
  row_.bytes_sent = bytes_sent_;
  row_.bytes_received = static_cast<int64_t>(message->ByteSizeLong());
  step_started_ = now;
  bytes_sent_ = 0;
  trained_examples_ += row_.examples;
  status = ledger_->Record(row_);
  ++row_.step;
  progress_->Report(row_.step, trained_examples_, row_.loss, reporter_->latest());
  return status;
}

absl::Status NonLabelSession::Learn(const v1::CutGradients& message) {
  const absl::StatusOr<Matrix> gradient =
      DecodeMatrix(message.gradients(),
                   {"gradients", options_.agreement.wire_dtype(), row_.examples, options_.agreement.cut_width()});
  if (!gradient.ok()) {
    return AsRefusal(gradient.status());
  }
  const absl::StatusOr<std::vector<LayerGradient>> layer_gradients =
      model_->Backward(*gradient, reporter_->Layers(row_.step));
  if (!layer_gradients.ok()) {
    return layer_gradients.status();
  }
  const ReceivedBatch received{row_.step, message, *layer_gradients,
                               schedule_->BatchRows(message.epoch(), message.batch()),
                               activations_.empty() ? ConstMatrixView() : ConstMatrixView(activations_.front())};
  if (absl::Status status = reporter_->Report(received); !status.ok()) {
    return status;
  }
  return model_->Update();
}

absl::Status NonLabelSession::StayFrozen(const v1::CutGradients& message) {
  if (!message.frozen() || message.has_gradients()) {
    return AsRefusal(
        absl::InvalidArgumentError("gradients: expected none, now and in every later answer, once frozen, found some"));
  }
  if (!frozen_) {
    frozen_ = true;
    const std::string since = absl::StrCat("epoch ", message.epoch(), " batch ", message.batch());
    LogInfo("the label party's budget is spent: the bottom model is frozen from ", since);
    if (absl::Status status = ledger_->RecordEvent("frozen", since); !status.ok()) {
      return status;
    }
  }
  return model_->Discard();
}

absl::Status NonLabelSession::CompleteModel() {
  if (options_.agreement.audit().auxiliary_labels() == 0) {
    return absl::OkStatus();
  }
  CompletionReporter::Options completion;
  completion.peer = options_.peer;
  completion.run_id = run_id_;
  completion.auxiliary_labels = options_.agreement.audit().auxiliary_labels();
  completion.batch_size = options_.agreement.batch_size();
  completion.bottom = BottomOptions(features_->shape());
  completion.features = features_.get();
  completion.train = train_;
  completion.stop = [this] { return StopAsked(); };
  const absl::StatusOr<int64_t> labels = CompletionReporter(std::move(completion)).Report(model_->Parameters());
  if (!labels.ok()) {
    return stopped_ ? absl::OkStatus() : labels.status();
  }
  return ledger_->RecordEvent("auxiliary_labels", absl::StrCat("completed the bottom model with ", *labels, " labels"));
}

}  // namespace splitveil
