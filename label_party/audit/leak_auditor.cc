#include "label_party/audit/leak_auditor.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/config/agreement.h"
#include "common/leakage/attack_traits.h"
#include "common/leakage/leak_auc.h"
#include "common/leakage/scores.h"
#include "common/transport/tensor_codec.h"
#include "label_party/policy/audit_grant.h"

namespace splitveil {
namespace {

constexpr char kLabelParty[] = "label_party";
constexpr char kNonLabelParty[] = "nonlabel_party";

}  // namespace

double MeasuredLeak(ConstMatrixView gradients, const ReleasedBatch& batch) {
  std::vector<std::vector<float>> scores = {NormScores(gradients)};
  if (!batch.hint_rows.empty()) {
    scores.push_back(CosineScores(gradients, batch.clean_positive));
  }
  double leak = 0.5;
  for (const std::vector<float>& attack : scores) {
    if (const absl::StatusOr<double> auc = LeakAuc(attack, batch.labels, RowsLeftOut(v1::COSINE, batch.hint_rows));
        auc.ok()) {
      leak = std::max(leak, 0.5 + std::abs(*auc - 0.5));
    }
  }
  return leak;
}

LeakAuditor::LeakAuditor(const v1::RunAgreement& agreement, Ledger* ledger)
    : agreement_(agreement.audit()),
      // Scores may trail the gradients by the window and one batch under way.
      remembered_batches_(static_cast<size_t>(agreement.in_flight_batches()) + 1),
      ledger_(ledger) {}

void LeakAuditor::Remember(ReleasedBatch batch) {
  std::lock_guard<std::mutex> lock(mutex_);
  released_.push_back(std::move(batch));
  judged_.push_back(false);
  while (released_.size() > remembered_batches_) {
    released_.pop_front();
    judged_.pop_front();
  }
}

absl::StatusOr<bool> LeakAuditor::RecordLeak(const ReleasedBatch& batch, const std::string& observer,
                                             const std::string& layer, v1::Attack attack,
                                             absl::Span<const float> scores, double& auc) {
  absl::StatusOr<double> leak = LeakAuc(scores, batch.labels, RowsLeftOut(attack, batch.hint_rows));
  if (leak.status().code() == absl::StatusCode::kFailedPrecondition) {
    return false;
  }
  if (!leak.ok()) {
    return leak.status();
  }
  auc = *leak;
  series_by_observer_[observer][{layer, AttackName(attack)}].push_back(auc);
  LeakRow row;
  row.step = batch.step;
  row.observer = observer;
  row.layer = layer;
  row.attack = AttackName(attack);
  row.auc = auc;
  row.examples = static_cast<int64_t>(batch.labels.size() - RowsLeftOut(attack, batch.hint_rows).size());
  if (absl::Status status = ledger_->Record(row); !status.ok()) {
    return status;
  }
  return true;
}

absl::Status LeakAuditor::AuditRelease(const ReleaseEvidence& evidence) {
  const ConstMatrixView released = evidence.released;
  std::lock_guard<std::mutex> lock(mutex_);
  if (released_.empty() || released.rows() != released_.back().labels.size()) {
    return absl::InternalError("the audited gradients are not those of the latest released batch");
  }
  const ReleasedBatch& batch = released_.back();
  double auc = 0;
  absl::Status status = RecordLeak(batch, kLabelParty, "cut", v1::NORM, NormScores(released), auc).status();
  if (status.ok() && !batch.hint_rows.empty()) {
    status =
        RecordLeak(batch, kLabelParty, "cut", v1::COSINE, CosineScores(released, batch.clean_positive), auc).status();
  }
  return status;
}

absl::Status LeakAuditor::FinishEpoch(uint32_t /*epoch*/) { return absl::OkStatus(); }

absl::Status LeakAuditor::CheckScores(const v1::ScoreBatchRequest& request) const {
  const std::vector<AgreedScore> agreed = AgreedScores(agreement_);
  const int expected = static_cast<int>(agreed.size());
  if (request.scores_size() != expected) {
    return absl::InvalidArgumentError(absl::StrCat(
        "scores: expected ", expected, " (agreed attacks at the agreed layers), found ", request.scores_size()));
  }
  for (int i = 0; i < expected; ++i) {
    const auto& [layer, attack] = agreed[i];
    if (request.scores(i).layer() != layer || request.scores(i).attack() != attack) {
      return absl::InvalidArgumentError(
          absl::StrCat("scores[", i, "]: expected ", AttackName(attack), " at layer ", layer, ", found another"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::ScoreBatchResponse> LeakAuditor::Judge(const v1::ScoreBatchRequest& request) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (absl::Status status = CheckScores(request); !status.ok()) {
    return status;
  }
  const auto found = std::find_if(released_.begin(), released_.end(), [&](const ReleasedBatch& batch) {
    return batch.epoch == request.epoch() && batch.batch == request.batch();
  });
  if (found == released_.end()) {
    return absl::NotFoundError(absl::StrCat("scores: expected those of a batch released lately, found epoch ",
                                            request.epoch(), " batch ", request.batch()));
  }
  bool& judged = judged_[found - released_.begin()];
  if (judged) {
    return absl::AlreadyExistsError("scores: this batch has been judged; one answer a batch");
  }
  // Everything is decoded before anything is recorded, so that a malformed request changes nothing.
  std::vector<Matrix> decoded;
  for (const v1::ScoreBatchRequest::Scores& scores : request.scores()) {
    absl::StatusOr<Matrix> values =
        DecodeMatrix(scores.scores(), {"scores", v1::FLOAT32, 1, static_cast<int64_t>(found->labels.size())});
    if (!values.ok()) {
      return values.status();
    }
    decoded.push_back(*std::move(values));
  }
  judged = true;
  v1::ScoreBatchResponse response;
  for (int i = 0; i < request.scores_size(); ++i) {
    const v1::ScoreBatchRequest::Scores& scores = request.scores(i);
    double auc = 0;
    const absl::StatusOr<bool> has_auc =
        RecordLeak(*found, kNonLabelParty, scores.layer(), scores.attack(), decoded[i].row(0), auc);
    if (!has_auc.ok()) {
      return has_auc.status();
    }
    const std::optional<double> granted =
        GrantedAuc(agreement_.grant(), *has_auc ? std::optional<double>(auc) : std::nullopt, /*answers_before=*/i);
    if (granted.has_value()) {
      v1::ScoreBatchResponse::LeakAuc* leak = response.add_leaks();
      leak->set_layer(scores.layer());
      leak->set_attack(scores.attack());
      leak->set_auc(*granted);
    }
  }
  return response;
}

LeakSeries LeakAuditor::series() const {
  std::lock_guard<std::mutex> lock(mutex_);
  LeakSeries merged;
  for (const char* observer : {kNonLabelParty, kLabelParty}) {
    const auto found = series_by_observer_.find(observer);
    if (found != series_by_observer_.end()) {
      merged.insert(found->second.begin(), found->second.end());
    }
  }
  return merged;
}

std::string LeakAuditor::latest() const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto own = series_by_observer_.find(kLabelParty);
  if (own == series_by_observer_.end()) {
    return "";
  }
  std::string text;
  for (const auto& [key, aucs] : own->second) {
    absl::StrAppendFormat(&text, "%s %.2f ", key.second, aucs.back());
  }
  return absl::StrCat(text, "at cut");
}

}  // namespace splitveil
