#include "nonlabel_party/session/leak_reporter.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/leakage/attack_traits.h"
#include "common/process/exit_code.h"
#include "common/transport/tensor_codec.h"
#include "nonlabel_party/attack/attack_module.h"

namespace splitveil {

absl::StatusOr<LeakReporter> LeakReporter::Create(const v1::RunAgreement& agreement, const std::string& run_id,
                                                  LabelPartyPeer* peer, BottomModel* model, Ledger* ledger) {
  LeakReporter reporter;
  reporter.agreement_ = agreement.audit();
  reporter.wire_dtype_ = agreement.wire_dtype();
  reporter.cut_width_ = agreement.cut_width();
  reporter.run_id_ = run_id;
  reporter.layers_.assign(agreement.audit().layers().begin(), agreement.audit().layers().end());
  for (int attack : agreement.audit().attacks()) {
    reporter.attacks_.push_back(static_cast<v1::Attack>(attack));
  }
  reporter.peer_ = peer;
  reporter.model_ = model;
  reporter.ledger_ = ledger;
  const std::vector<std::string> names = model->layer_names();
  for (const std::string& layer : reporter.layers_) {
    if (std::find(names.begin(), names.end(), layer) == names.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("audit.layers: expected \"cut\" or a layer of the bottom model, found \"", layer, "\""));
    }
  }
  return reporter;
}

absl::Span<const std::string> LeakReporter::Layers(int64_t step) const {
  const bool audited = !attacks_.empty() && step % agreement_.every_batches() == 0;
  return audited ? absl::MakeConstSpan(layers_) : absl::Span<const std::string>();
}

absl::StatusOr<std::vector<std::vector<float>>> LeakReporter::BackpropagateHint(const v1::Hint& hint, int64_t rows) {
  if (hint.row() >= rows) {
    return AsRefusal(absl::InvalidArgumentError("hint: expected a row of the batch, found one outside"));
  }
  const absl::StatusOr<Matrix> clean = DecodeMatrix(hint.gradient(), {"hint", wire_dtype_, 1, cut_width_});
  if (!clean.ok()) {
    return AsRefusal(clean.status());
  }
  return model_->BackpropagateHint(hint.row(), clean->row(0), layers_);
}

absl::Status LeakReporter::Report(int64_t step, const std::vector<LayerGradient>& gradients,
                                  const v1::CutGradients& message) {
  if (gradients.empty()) {
    return absl::OkStatus();
  }
  const int64_t rows = gradients.front().gradient.rows();
  absl::StatusOr<std::vector<std::vector<float>>> hints = std::vector<std::vector<float>>();
  if (message.has_hint()) {
    hints = BackpropagateHint(message.hint(), rows);
    if (!hints.ok()) {
      return hints.status();
    }
  } else if (std::find(attacks_.begin(), attacks_.end(), v1::COSINE) != attacks_.end()) {
    return absl::OkStatus();  // A batch without positives has no clean positive gradient, and no leak AUC either.
  }
  const absl::StatusOr<std::vector<AttackScores>> all = RunAttacks(gradients, *hints, attacks_);
  if (!all.ok()) {
    return all.status();
  }
  v1::ScoreBatchRequest request;
  request.set_run_id(run_id_);
  request.set_epoch(message.epoch());
  request.set_batch(message.batch());
  for (const AttackScores& scores : *all) {
    v1::ScoreBatchRequest::Scores* entry = request.add_scores();
    entry->set_layer(scores.layer);
    entry->set_attack(scores.attack);
    const ConstMatrixView values(scores.scores.data(), 1, static_cast<int64_t>(scores.scores.size()));
    if (absl::Status status = EncodeMatrix(values, v1::FLOAT32, *entry->mutable_scores()); !status.ok()) {
      return absl::InternalError(status.message());
    }
  }
  const absl::StatusOr<v1::ScoreBatchResponse> response = peer_->ScoreBatch(request);
  return response.ok() ? Record(step, rows, *response) : response.status();
}

absl::Status LeakReporter::Record(int64_t step, int64_t examples, const v1::ScoreBatchResponse& response) {
  std::string text;
  for (const v1::ScoreBatchResponse::LeakAuc& leak : response.leaks()) {
    LeakRow row;
    row.step = step;
    row.observer = "nonlabel_party";
    row.layer = leak.layer();
    row.attack = AttackName(leak.attack());
    row.auc = leak.auc();
    row.examples = examples;
    if (absl::Status status = ledger_->Record(row); !status.ok()) {
      return status;
    }
    if (leak.layer() == "cut") {
      absl::StrAppendFormat(&text, "%s %.2f ", row.attack, row.auc);
    }
  }
  latest_ = text.empty() ? text : absl::StrCat(text, "at cut");
  return absl::OkStatus();
}

}  // namespace splitveil
