#include "label_party/training/training_step.h"

#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "common/crypto/secure_random.h"
#include "common/crypto/seeded_stream.h"
#include "common/crypto/sha256.h"
#include "common/figures/run_figures.h"
#include "common/leakage/attack_traits.h"
#include "common/process/exit_code.h"
#include "common/status/status_macros.h"
#include "label_party/noise/noise_plan.h"
#include "label_party/noise/noise_planner.h"
#include "label_party/protection/gradient_preparation.h"

namespace splitveil {
namespace {

// Draws the rows that a hint may name. Secretly, whether or not they are disclosed: the measured leak needs one, too. A
// step that is repeated after a crash names the same ones.
void ChooseHints(const Digest& key, ReleasedBatch& batch) {
  SeededStream stream(HmacSha256(key, absl::StrCat("hints of ", batch.epoch, " ", batch.batch)));
  std::vector<uint32_t> positives;
  for (size_t j = 0; j < batch.labels.size(); ++j) {
    if (batch.labels[j] == 1) {
      positives.push_back(static_cast<uint32_t>(j));
    }
  }
  while (!positives.empty() && batch.hint_rows.size() < kMaxHints) {
    std::swap(positives[stream.UniformBelow(static_cast<uint32_t>(positives.size()))], positives.back());
    batch.hint_rows.push_back(positives.back());
    positives.pop_back();
  }
}

// Shapes are checked; what is left is our fault, or numbers that diverged.
absl::Status AsInternal(const absl::Status& status) {
  return status.ok() ? status : absl::InternalError(status.message());
}

}  // namespace

TrainingStep::TrainingStep(const TrainingStepOptions& options, BatchSource* source, TopTrainer* model,
                           ReleaseGuard* guard, LeakAuditor* auditor, StepRecorder* recorder)
    : options_(options),
      source_(source),
      model_(model),
      guard_(guard),
      auditor_(auditor),
      recorder_(recorder),
      hint_key_(SecretKey::Generate().bytes()) {}

Digest TrainingStep::AuxiliaryKey() const { return HmacSha256(hint_key_, "auxiliary labels"); }

absl::Status TrainingStep::Receive(const v1::CutActivations& slice) {
  if (!inbound_.has_value()) {
    // Only read here: a first slice that is refused must not use up the batch, which Begin takes.
    const LocalBatch& own = source_->Gathered(slice.epoch(), slice.batch());
    recorder_->Lap(&StepTimeRow::data);
    SliceAssembler activations({"activations", options_.wire_dtype, options_.cut_width}, own.cuts,
                               source_->needs_whole_batch());
    SPLITVEIL_RETURN_IF_ERROR(activations.Add(slice.first_row(), slice.activations()));
    inbound_.emplace(Begin(slice, std::move(activations)));
  } else {
    SPLITVEIL_RETURN_IF_ERROR(inbound_->activations.Add(slice.first_row(), slice.activations()));
  }
  inbound_->bytes += static_cast<int64_t>(slice.ByteSizeLong());
  recorder_->Lap(&StepTimeRow::serialise);
  return absl::OkStatus();
}

TrainingStep::InboundBatch TrainingStep::Begin(const v1::CutActivations& slice, SliceAssembler activations) {
  if (slice.batch() == 0) {
    recorder_->BeginEpoch();
  }
  LocalBatch own = source_->Take(slice.epoch(), slice.batch());
  own.released.step = recorder_->step();
  StepRow row;
  row.step = recorder_->step();
  row.epoch = slice.epoch();
  row.batch = slice.batch();
  row.examples = own.cuts.rows();
  return {row, std::move(own), std::move(activations), Matrix::ToOverwrite(row.examples, options_.cut_width)};
}

absl::StatusOr<SharedGradients> TrainingStep::Answer() {
  InboundBatch& batch = *inbound_;
  // Only what this slice adds is returned; earlier messages of the batch were answered with their own slices.
  const size_t sent_before = batch.sent.size();
  // Activations -> loss and clean gradients, of all rows that are here.
  while (const std::optional<RowRange> rows = batch.activations.NextReady()) {
    // Without noise a repeated step sends the same bytes anyway; the journal only says that something was released.
    if (rows->first == 0 && options_.journal != nullptr && guard_->is_passthrough()) {
      SPLITVEIL_RETURN_IF_ERROR(options_.journal->ReleaseUnprotected());
      recorder_->Lap(&StepTimeRow::protection);
    }
    SPLITVEIL_RETURN_IF_ERROR(Differentiate(*rows, batch));
    // Rows that nothing changes need not wait for the rest of the batch. The last slice waits for the gate.
    if (AnswersSliceBySlice() && rows->end() < batch.clean.rows()) {
      SPLITVEIL_RETURN_IF_ERROR(recorder_->RecordFirstSlice());
      SPLITVEIL_RETURN_IF_ERROR(Encode(batch.clean, rows->end(), batch));
      recorder_->Lap(&StepTimeRow::serialise);
    }
  }
  const SharedGradients* sent = &batch.sent;
  if (batch.activations.complete()) {
    ReleasedBatch& released = batch.own.released;
    released.is_disclosure_lowered =
        lowered_from_.has_value() && std::make_pair(released.epoch, released.batch) >= *lowered_from_;
    // On the disk before the batch is decided: after a crash, different activations are refused (rule 2).
    SPLITVEIL_RETURN_IF_ERROR(JournalActivations(batch));
    // Clean gradients -> what may leave -> bytes, of the whole batch.
    SPLITVEIL_RETURN_IF_ERROR(RegulariseAndClip(batch));
    ProtectionRow protection;
    if (recorder_->frozen()) {
      recorder_->CountFrozenStep();
    } else {
      SPLITVEIL_ASSIGN_OR_RETURN(protection, Release(batch));
      // The peer may take the answer and never let the step end, which alone would record it.
      SPLITVEIL_RETURN_IF_ERROR(recorder_->frozen() ? absl::OkStatus() : recorder_->RecordFirstSlice());
    }
    if (recorder_->frozen()) {  // By this release, or an earlier one.
      EncodeFrozen(batch);
      SPLITVEIL_RETURN_IF_ERROR(JournalAnswer(batch, /*answers_scores=*/false));
      const ProtectionReport none = EmptyReport("frozen");
      protection = recorder_->RowOf(none, v1::FREEZE_BOTTOM, none.sum_kl);
    }
    recorder_->Lap(&StepTimeRow::protection);
    answered_ = Answered(std::move(batch), std::move(protection));
    sent = &answered_->sent;
    inbound_.reset();
  }
  return SharedGradients(sent->begin() + static_cast<std::ptrdiff_t>(sent_before), sent->end());
}

absl::Status TrainingStep::Differentiate(const RowRange& rows, InboundBatch& batch) {
  const absl::StatusOr<TopStep> head = model_->ForwardBackward(
      batch.activations.block(rows), batch.own.features[batch.computed++],
      absl::MakeConstSpan(batch.own.labels).subspan(rows.first, rows.rows), TargetsOf(batch.own, rows));
  recorder_->Lap(&StepTimeRow::backward);
  if (!head.ok()) {
    return AsInternal(head.status());
  }
  recorder_->stopwatch().Move(head->forward_seconds, &StepTimeRow::backward, &StepTimeRow::forward);
  batch.clean.SetBlock(rows.first, head->cut_gradient);
  HeadOutputs& outputs = batch.head;
  // Kept for planner and audit: p and p - y are all they need of the head.
  outputs.predictions.insert(outputs.predictions.end(), head->predictions.begin(), head->predictions.end());
  outputs.residuals.insert(outputs.residuals.end(), head->residuals.begin(), head->residuals.end());
  batch.loss_sum += head->mean_loss * static_cast<double>(rows.rows);
  return absl::OkStatus();
}

TrainingTargets TrainingStep::TargetsOf(const LocalBatch& own, const RowRange& rows) const {
  if (own.targets.empty()) {
    return {};
  }
  const int64_t outputs = source_->task().outputs();
  return {absl::MakeConstSpan(own.targets).subspan(outputs * rows.first, outputs * rows.rows), own.target_noise};
}

// Only if nothing looks at the batch as a whole: the gate, the regulariser and clipping do.
bool TrainingStep::AnswersSliceBySlice() const {
  return !recorder_->frozen() && guard_->is_passthrough() && options_.distance_correlation_weight == 0 &&
         options_.clip_cut_gradients == 0;
}

absl::Status TrainingStep::RegulariseAndClip(InboundBatch& batch) const {
  if (options_.distance_correlation_weight > 0) {
    SPLITVEIL_RETURN_IF_ERROR(AsInternal(AddDistanceCorrelationGradient(
        options_.distance_correlation_weight, batch.activations.block({0, batch.clean.rows()}),
        batch.own.targets.empty() ? batch.own.labels : batch.own.targets, batch.clean)));
  }
  if (options_.clip_cut_gradients > 0) {
    // The audit divides by the residual to get label directions, which clipping would shorten.
    batch.head.unclipped = Matrix(batch.clean);
    ClipRows(options_.clip_cut_gradients, batch.clean);
  }
  return absl::OkStatus();
}

absl::StatusOr<ProtectionRow> TrainingStep::Release(InboundBatch& batch) {
  ReleasedBatch& released = batch.own.released;
  // Before the guard, whose measured leak plays the adversary that has the hints.
  ChooseHints(hint_key_, released);
  if (guard_->wants_head()) {
    // By their own pass, not from the clean gradients: dividing those by p - y would round by the label.
    SPLITVEIL_ASSIGN_OR_RETURN(batch.head.directions, model_->OutputDirections());
  }
  SPLITVEIL_ASSIGN_OR_RETURN(GuardedBatch guarded, guard_->Guard(batch.clean, released,
                                                                 {batch.head.directions, batch.head.predictions,
                                                                  options_.clip_cut_gradients}));
  const GateDecision& decision = guarded.decision;
  SPLITVEIL_RETURN_IF_ERROR(recorder_->RecordDecision(decision));
  ProtectionRow protection = recorder_->RowOf(guarded.plan.report, decision.action, decision.auc_bound);
  // The error that halts the run is the outcome; a ledger that fails now would only hide it.
  if (decision.action == v1::HALT) {
    (void)recorder_->RecordHalt(protection);
    return AsHalt(
        absl::ResourceExhaustedError(absl::StrCat("release gate: step ", batch.row.step, ": ", decision.reason)));
  }
  if (decision.action == v1::FREEZE_BOTTOM) {
    recorder_->Freeze(batch.row.epoch, batch.row.batch, decision);
    return protection;
  }
  recorder_->Lap(&StepTimeRow::protection);
  SPLITVEIL_RETURN_IF_ERROR(Encode(guarded.sends_clean ? batch.clean : guarded.gradients, batch.clean.rows(), batch));
  recorder_->Lap(&StepTimeRow::serialise);
  const bool answers_scores = guard_->IsAnswerDue(released);
  // The release counts, whether or not the peer gets the bytes, which may leave from then on.
  recorder_->SetCumulativeSumKl(guard_->Account(guarded.plan.report, released));
  // Last before the bytes may be sent: a crash from here on repeats exactly this answer, or ends the run.
  SPLITVEIL_RETURN_IF_ERROR(JournalAnswer(batch, answers_scores));
  if (options_.journal != nullptr && options_.journal->ScoresAnswered(released.epoch, released.batch)) {
    released.is_answered = false;  // Its noise would be another draw; the first one counts.
  }
  auditor_->Remember(std::move(released));
  batch.plan = std::move(guarded.plan);
  return protection;
}

// Passthrough methods repeat their bytes by themselves; only an answer to scores has noise that must not be drawn
// twice.
bool TrainingStep::IsJournalled(const InboundBatch& batch) const {
  return options_.journal != nullptr && (!guard_->is_passthrough() || guard_->IsAnswerDue(batch.own.released));
}

absl::Status TrainingStep::JournalActivations(const InboundBatch& batch) const {
  if (!IsJournalled(batch)) {
    return absl::OkStatus();
  }
  const ConstMatrixView activations = batch.activations.block({0, batch.clean.rows()});
  const ReleasedBatch& released = batch.own.released;
  return options_.journal->Take(released.epoch, released.batch,
                                Sha256({reinterpret_cast<const char*>(activations.data()),
                                        static_cast<size_t>(activations.size()) * sizeof(float)}));
}

absl::Status TrainingStep::JournalAnswer(const InboundBatch& batch, bool answers_scores) const {
  if (options_.journal == nullptr || (guard_->is_passthrough() && !answers_scores)) {
    return absl::OkStatus();
  }
  Sha256Hasher bytes;
  // Over the bytes that are sent, so that any difference in them is found.
  for (const auto& message : batch.sent) {
    bytes.Update(message->SerializeAsString());
  }
  const ReleasedBatch& released = batch.own.released;
  const RunResult& result = recorder_->result();
  return options_.journal->Answer(released.epoch, released.batch,
                                  {bytes.Finish(), result.earlier_sum_kl + result.cumulative_sum_kl, answers_scores});
}

absl::Status TrainingStep::Encode(ConstMatrixView gradients, int64_t end, InboundBatch& batch) const {
  const ReleasedBatch& released = batch.own.released;
  for (const RowRange& rows : batch.own.cuts.Within({batch.sent_rows, end - batch.sent_rows})) {
    auto message = std::make_shared<v1::CutGradients>();
    SPLITVEIL_RETURN_IF_ERROR(WriteGradients(gradients, rows, options_.wire_dtype, *message));
    message->set_epoch(static_cast<uint32_t>(batch.row.epoch));
    message->set_batch(static_cast<uint32_t>(batch.row.batch));
    // Hints go with the last slice: they are chosen once the whole batch is there.
    if (rows.end() == gradients.rows()) {
      message->set_disclosure_lowered(released.is_disclosure_lowered);
      if (options_.discloses_hints && !released.is_disclosure_lowered) {
        SPLITVEIL_RETURN_IF_ERROR(
            WriteHint(released.hint_rows, released.CleanPositive(batch.clean), options_.wire_dtype, *message));
      }
    }
    batch.sent.push_back(std::move(message));
  }
  batch.sent_rows = end;
  return absl::OkStatus();
}

void TrainingStep::EncodeFrozen(InboundBatch& batch) const {
  auto message = std::make_shared<v1::CutGradients>();
  message->set_epoch(static_cast<uint32_t>(batch.row.epoch));
  message->set_batch(static_cast<uint32_t>(batch.row.batch));
  // An answer without gradients of any kind, so that it says nothing of the batch.
  message->set_frozen(true);
  message->set_disclosure_lowered(batch.own.released.is_disclosure_lowered);
  batch.sent.push_back(std::move(message));
}

TrainingStep::AnsweredBatch TrainingStep::Answered(InboundBatch batch, ProtectionRow protection) {
  AnsweredBatch answered;
  answered.record.protection = std::move(protection);
  answered.record.released = batch.sent.front()->has_gradients();
  StepRow& row = answered.record.row;
  // After encoding, since the sizes in bytes are those of the wire.
  row = batch.row;
  row.loss = batch.loss_sum / static_cast<double>(row.examples);
  row.bytes_received = batch.bytes;
  for (const auto& message : batch.sent) {
    row.bytes_sent += static_cast<int64_t>(message->ByteSizeLong());
  }
  answered.sent = std::move(batch.sent);
  answered.clean = std::move(batch.clean);
  answered.head = std::move(batch.head);
  answered.plan = std::move(batch.plan);
  answered.activations = batch.activations.Take();
  answered.features = std::move(batch.own.features);
  return answered;
}

absl::StatusOr<bool> TrainingStep::Learn() {
  if (!answered_.has_value()) {
    return false;
  }
  AnsweredBatch batch = *std::move(answered_);
  answered_.reset();
  const StepRow& row = batch.record.row;
  const auto epoch = static_cast<uint32_t>(row.epoch);
  // Before the update, which overwrites the passes that directions are computed from.
  if (source_->task().outputs() > 1 && batch.record.released && auditor_->Reads(row.step)) {
    SPLITVEIL_ASSIGN_OR_RETURN(batch.head.directions, model_->OutputDirections());
    recorder_->Lap(&StepTimeRow::attacks);
  }
  // After the answer was sent: the peer works on its gradients while h learns.
  SPLITVEIL_RETURN_IF_ERROR(model_->Update());
  recorder_->Lap(&StepTimeRow::update);
  if (batch.record.released) {
    SPLITVEIL_RETURN_IF_ERROR(Audit(batch));
  }
  if (row.batch + 1 == source_->batches_per_epoch()) {
    SPLITVEIL_RETURN_IF_ERROR(auditor_->FinishEpoch(epoch));
  }
  recorder_->Lap(&StepTimeRow::attacks);
  const absl::Status status = recorder_->RecordStep(batch.record);
  recorder_->Lap(&StepTimeRow::attacks);
  return status.ok() ? absl::StatusOr<bool>(true) : status;
}

Matrix TrainingStep::LabelDirections(AnsweredBatch& batch) const {
  // With the regulariser a row is no multiple of its residual: there is no direction to state.
  if (options_.distance_correlation_weight > 0) {
    return {};
  }
  if (batch.head.directions.size() > 0) {
    return std::move(batch.head.directions);
  }
  const ConstMatrixView clean = batch.head.unclipped.size() > 0 ? batch.head.unclipped : batch.clean;
  Matrix directions(clean);
  for (int64_t j = 0; j < clean.rows(); ++j) {
    const float residual = batch.head.residuals[static_cast<size_t>(j)];
    for (float& component : directions.row(j)) {
      component = residual == 0 ? 0 : component / residual;  // Where the loss is flat, no label has moved anything.
    }
  }
  return directions;
}

absl::Status TrainingStep::Audit(AnsweredBatch& batch) {
  Matrix left;
  Matrix label_directions;
  if (auditor_->Reads(batch.record.row.step)) {
    // What is audited is decoded from the bytes that left, so that rounding on the wire is part of what is measured.
    left = Matrix::ToOverwrite(batch.record.row.examples, options_.cut_width);
    SPLITVEIL_RETURN_IF_ERROR(AsInternal(ReadGradients(batch.sent, options_.wire_dtype, left)));
    label_directions = LabelDirections(batch);
  }
  ReleaseEvidence evidence;
  // Everything that an adversary might know goes into one record; each attack takes what its threat model grants it.
  evidence.released = left;
  evidence.rounding = RoundingOf(options_.wire_dtype);
  evidence.clean = batch.clean;
  evidence.activations = batch.activations;
  const ProtectionReport& report = batch.plan.report;
  evidence.noise_negative = {report.lambda1_neg, report.lambda2_neg};
  evidence.noise_positive = {report.lambda1_pos, report.lambda2_pos};
  evidence.spread_negative = report.u;
  evidence.spread_positive = report.v;
  if (const auto* const noise = std::get_if<GaussianNoise>(&batch.plan.change); noise != nullptr) {
    evidence.noise_direction = noise->direction;
  } else if (const auto* const lengths = std::get_if<EvenLengths>(&batch.plan.change); lengths != nullptr) {
    evidence.longest = lengths->longest;
  }
  evidence.sum_kl = report.sum_kl;
  evidence.accumulated_sum_kl =
      std::isnan(report.sum_kl_so_far) ? recorder_->result().cumulative_sum_kl : report.sum_kl_so_far;
  evidence.label_directions = label_directions;
  evidence.probabilities = batch.head.predictions;
  evidence.clip_norm = options_.clip_cut_gradients;
  evidence.releases_repeat = report.releases_repeat;
  evidence.releases_posterior = options_.releases_posterior;
  evidence.has_label_noise = report.method == "gaussian_label_dp";
  evidence.has_flipped_labels = report.method == "label_dp";
  evidence.run_sum_kl = report.run_sum_kl;
  return auditor_->AuditRelease(evidence);
}

}  // namespace splitveil
