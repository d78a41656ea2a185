#include "nonlabel_party/session/attack_runner.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/config/agreement.h"
#include "common/leakage/attack_traits.h"
#include "common/leakage/summary.h"
#include "common/process/exit_code.h"
#include "common/process/steady_time.h"
#include "common/status/status_macros.h"
#include "common/transport/tensor_codec.h"

namespace splitveil {
namespace {

AttackVariant VariantOf(const v1::ScoreBatchResponse::LeakAuc& leak) {
  return {leak.attack(), static_cast<int>(leak.hint_count())};
}

// The submitted scores whose AUCs the disclosure lets this party read: none, the first, or all.
std::vector<AgreedScore> DisclosedScores(const v1::AuditAgreement& audit) {
  std::vector<AgreedScore> scores = AgreedScores(audit);
  if (audit.disclosure() != v1::ORACLE) {
    // Under ROUNDED one noised figure per step, of the first agreed score.
    scores.resize(std::min<size_t>(scores.size(), audit.disclosure() == v1::ROUNDED ? 1 : 0));
  }
  return scores;
}

}  // namespace

absl::StatusOr<AttackRunner> AttackRunner::Create(const v1::RunAgreement& agreement, const std::string& run_id,
                                                  int64_t examples, AuditPeer* peer, BottomProbe* model,
                                                  Ledger* ledger) {
  AttackRunner runner(agreement, run_id, examples);
  runner.layers_.assign(agreement.audit().layers().begin(), agreement.audit().layers().end());
  runner.peer_ = peer;
  runner.model_ = model;
  runner.ledger_ = ledger;
  const std::vector<std::string> names = model->layer_names();
  for (const std::string& layer : runner.layers_) {
    if (std::find(names.begin(), names.end(), layer) == names.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("audit.layers: expected \"cut\" or a layer of the bottom model, found \"", layer, "\""));
    }
  }
  return runner;
}

bool AttackRunner::Audited(int64_t step) const { return step % agreement_.audit().every_batches() == 0; }

absl::Span<const std::string> AttackRunner::Layers(int64_t step) const {
  // Gradients at inner layers cost time and memory: only what an attack reads is kept.
  const bool read = !attacks_.empty() && (Audited(step) || attacks_.remembers());
  return read ? absl::MakeConstSpan(layers_) : absl::Span<const std::string>();
}

absl::Status AttackRunner::CheckHints(const v1::CutGradients& message, int64_t rows) const {
  const auto refuse = [](absl::string_view text) { return AsRefusal(absl::InvalidArgumentError(text)); };
  const auto& hint_rows = message.hint_rows();
  if (message.has_hint() != !hint_rows.empty()) {
    return refuse("hint: a clean gradient and hint_rows must come together");
  }
  if (hint_rows.empty()) {
    return absl::OkStatus();
  }
  if (agreement_.audit().disclosure() != v1::ORACLE) {
    return refuse("hint: the label party sent one, but the agreed disclosure is not ORACLE");
  }
  if (message.disclosure_lowered()) {
    return refuse("hint: the label party sent one after it had lowered the disclosure");
  }
  // Bounded before a set of them is made: the peer chooses how many it sends.
  if (hint_rows.size() > kMaxHints) {
    return refuse(absl::StrCat("hint: expected at most ", kMaxHints, " rows, found ", hint_rows.size()));
  }
  if (std::any_of(hint_rows.begin(), hint_rows.end(), [rows](uint32_t row) { return row >= rows; })) {
    return refuse("hint: a row is outside the batch");
  }
  if (std::set<uint32_t>(hint_rows.begin(), hint_rows.end()).size() != static_cast<size_t>(hint_rows.size())) {
    return refuse("hint: a row is listed twice");
  }
  if (hint_rows.Get(0) != message.hint().row()) {
    return refuse("hint: the clean gradient must be that of the first of hint_rows");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::vector<float>>> AttackRunner::BackpropagateHint(const v1::Hint& hint) {
  // One row, of the agreed width and bounded: the peer's numbers go through this party's model.
  const absl::StatusOr<Matrix> clean =
      DecodeMatrix(hint.gradient(), {"hint", agreement_.wire_dtype(), 1, agreement_.cut_width(), kCutMagnitudeLimit});
  if (!clean.ok()) {
    return AsRefusal(clean.status());
  }
  return model_->BackpropagateHint(hint.row(), clean->row(0), layers_);
}

absl::Status AttackRunner::TakeDisclosure(const v1::CutGradients& message) {
  if (message.disclosure_lowered() && agreement_.audit().disclosure() == v1::LABEL_SIDE_ONLY) {
    return AsRefusal(absl::InvalidArgumentError("disclosure_lowered: no level is below the agreed LABEL_SIDE_ONLY"));
  }
  if (!message.disclosure_lowered()) {
    return lowered_ ? AsRefusal(absl::InvalidArgumentError(
                          "disclosure_lowered: it must be in every answer after the first one that has it"))
                    : absl::OkStatus();
  }
  return RecordLowered(absl::StrCat("from epoch ", message.epoch(), " batch ", message.batch(), " on"));
}

absl::Status AttackRunner::RecordLowered(const std::string& when) {
  // Every later answer says it again.
  if (std::exchange(lowered_, true)) {
    return absl::OkStatus();
  }
  return ledger_->RecordEvent("disclosure_lowered",
                              absl::StrCat("attack module reads ", when, ": LABEL_SIDE_ONLY; agreed: ",
                                           v1::DisclosureLevel_Name(agreement_.audit().disclosure())));
}

absl::Status AttackRunner::TakeHint(ReceivedBatch& batch) {
  const int64_t rows = static_cast<int64_t>(batch.positions.size());
  SPLITVEIL_RETURN_IF_ERROR(CheckHints(batch.message, rows));
  if (batch.gradients.empty() || !batch.message.has_hint()) {
    return absl::OkStatus();
  }
  SPLITVEIL_ASSIGN_OR_RETURN(batch.clean_positives, BackpropagateHint(batch.message.hint()));
  return absl::OkStatus();
}

absl::Status AttackRunner::Report(const ReceivedBatch& batch) {
  waited_seconds_ = 0;
  if (batch.gradients.empty()) {
    return absl::OkStatus();
  }
  AttackedBatch attacked;
  attacked.gradients = batch.gradients;
  attacked.positions = batch.positions;
  attacked.activations = batch.activations;
  attacked.hint_rows = batch.message.hint_rows();
  attacked.clean_positives = batch.clean_positives;
  // A batch without positives has no hints, and no leak AUC either.
  // The agreed scores come all or none (LeakAuditor::CheckScores), so a batch without a hint is only remembered.
  const bool complete = batch.message.has_hint() || !attacks_.needs_oracle();
  // Cumulative and learning attacks need every batch, also those that are not scored.
  if (!Audited(batch.step) || !complete) {
    return attacks_.Remember(attacked);
  }
  // All attacks read the same gradients, before any of their AUCs is known: no attack learns from an answer.
  const absl::StatusOr<std::vector<AttackScores>> scores = attacks_.Score(attacked);
  return scores.ok() ? Submit(batch, *scores) : scores.status();
}

absl::Status AttackRunner::Submit(const ReceivedBatch& batch, const std::vector<AttackScores>& scores) {
  v1::ScoreBatchRequest request;
  request.set_run_id(run_id_);
  request.set_epoch(batch.message.epoch());
  request.set_batch(batch.message.batch());
  for (const AttackScores& own : scores) {
    v1::ScoreBatchRequest::Scores* entry = request.add_scores();
    entry->set_layer(own.layer);
    entry->set_attack(own.attack.attack);
    entry->set_hint_count(own.attack.hint_count);
    const ConstMatrixView values(own.scores.data(), 1, static_cast<int64_t>(own.scores.size()));
    if (absl::Status status = EncodeMatrix(values, v1::FLOAT32, *entry->mutable_scores()); !status.ok()) {
      return absl::InternalError(status.message());
    }
  }
  // The wait is told apart from this party's own work in the times of the step.
  const SteadyTime asked = SteadyNow();
  const absl::StatusOr<v1::ScoreBatchResponse> response = peer_->ScoreBatch(request);
  waited_seconds_ = SecondsSince(asked);
  return response.ok() ? Record(batch, *response) : response.status();
}

absl::Status AttackRunner::CheckLeaks(const ReceivedBatch& batch, const v1::ScoreBatchResponse& response) const {
  const auto refuse = [](absl::string_view text) { return AsRefusal(absl::InvalidArgumentError(text)); };
  const std::vector<AgreedScore> disclosed = DisclosedScores(agreement_.audit());
  if (batch.message.disclosure_lowered() && response.leaks_size() > 0) {
    return refuse(
        absl::StrCat("leaks: the label party sent ", response.leaks_size(), " after it had lowered the disclosure"));
  }
  if (static_cast<size_t>(response.leaks_size()) > disclosed.size()) {
    return refuse(absl::StrCat("leaks: expected at most ", disclosed.size(), " under disclosure ",
                               v1::DisclosureLevel_Name(agreement_.audit().disclosure()), ", found ",
                               response.leaks_size()));
  }
  // An AUC that was not agreed would be a disclosure that neither ledger expects (architecture rule 5).
  std::set<std::pair<std::string, AttackVariant>> seen;
  for (int i = 0; i < response.leaks_size(); ++i) {
    const v1::ScoreBatchResponse::LeakAuc& leak = response.leaks(i);
    if (std::none_of(disclosed.begin(), disclosed.end(), [&](const AgreedScore& own) {
          return own.layer == leak.layer() && own.attack == VariantOf(leak);
        })) {
      return refuse(absl::StrCat("leaks[", i, "]: its layer and attack are not agreed and disclosed"));
    }
    if (!seen.emplace(leak.layer(), VariantOf(leak)).second) {
      return refuse(absl::StrCat("leaks[", i, "]: its layer and attack came before"));
    }
    if (!(leak.auc() >= 0 && leak.auc() <= 1)) {  // Nor a NaN.
      return refuse(absl::StrCat("leaks[", i, "].auc: expected 0 to 1, found ", leak.auc()));
    }
  }
  return absl::OkStatus();
}

absl::Status AttackRunner::Record(const ReceivedBatch& batch, const v1::ScoreBatchResponse& response) {
  // All of it first: of a malformed answer nothing is recorded.
  SPLITVEIL_RETURN_IF_ERROR(CheckLeaks(batch, response));
  std::string text;
  for (const v1::ScoreBatchResponse::LeakAuc& leak : response.leaks()) {
    LeakRow row;
    row.step = batch.step;
    row.observer = "nonlabel_party";
    row.layer = leak.layer();
    row.attack = AttackName(VariantOf(leak));
    row.auc = leak.auc();
    row.examples = attacks_.MeasuredOver(VariantOf(leak), batch.positions, batch.message.hint_rows());
    SPLITVEIL_RETURN_IF_ERROR(ledger_->Record(row));
    disclosed_[{row.layer, row.attack}].Add(row.auc);
    const auto* shown = std::find(std::begin(kProgressAttacks), std::end(kProgressAttacks), leak.attack());
    // The progress line has room for a few figures; all of them are in the ledger.
    if (leak.layer() == "cut" && shown != std::end(kProgressAttacks)) {
      absl::StrAppend(&text, ProgressFigure(row.attack, row.auc), " ");
    }
  }
  latest_ = text.empty() ? text : absl::StrCat(text, "at cut");
  return absl::OkStatus();
}

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
  // The label party waits meanwhile: a call now and then shows that this party is alive.
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
