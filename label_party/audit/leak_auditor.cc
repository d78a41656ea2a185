#include "label_party/audit/leak_auditor.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/config/agreement.h"
#include "common/leakage/attack_traits.h"
#include "common/leakage/bounds.h"
#include "common/leakage/leak_auc.h"
#include "common/leakage/scores.h"
#include "common/status/status_macros.h"
#include "common/transport/tensor_codec.h"
#include "label_party/policy/disclosed_auc.h"

namespace splitveil {
namespace {

constexpr char kLabelParty[] = "label_party";
constexpr char kNonLabelParty[] = "nonlabel_party";

}  // namespace

double MeasuredLeak(ConstMatrixView gradients, const ReleasedBatch& batch) {
  const NormAndCosineScores scores = ScoreNormsAndCosines(gradients, batch.clean_positive);
  double leak = 0.5;
  for (const std::vector<float>* attack : {&scores.norms, &scores.cosines}) {
    if (attack->empty()) {
      continue;
    }
    if (const absl::StatusOr<double> auc = LeakAuc(*attack, batch.labels, RowsLeftOut(v1::COSINE, batch.hint_rows));
        auc.ok()) {
      leak = std::max(leak, 0.5 + std::abs(*auc - 0.5));
    }
  }
  return leak;
}

LeakAuditor::LeakAuditor(const v1::RunAgreement& agreement, const v1::LabelAudit& audit, int64_t examples,
                         Ledger* ledger)
    : agreement_(agreement.audit()),
      // Scores may trail the gradients by the window and one batch under way.
      cumulative_batches_(static_cast<size_t>(agreement.in_flight_batches()) + 1),
      ledger_(ledger),
      label_side_audit_(audit, examples) {}

void LeakAuditor::Remember(ReleasedBatch batch) {
  std::lock_guard<std::mutex> lock(mutex_);
  released_.push_back(std::move(batch));
  judged_.push_back(false);
  while (released_.size() > cumulative_batches_) {
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
  observers_[observer].series[{layer, AttackName(attack)}].push_back(auc);
  LeakRow row;
  row.step = batch.step;
  row.observer = observer;
  row.layer = layer;
  row.attack = AttackName(attack);
  row.auc = auc;
  row.examples = static_cast<int64_t>(batch.labels.size() - RowsLeftOut(attack, batch.hint_rows).size());
  SPLITVEIL_RETURN_IF_ERROR(ledger_->Record(row));
  return true;
}

absl::Status LeakAuditor::Record(const EpochLeakRow& row) {
  observers_[row.observer].epoch_leaks[{row.layer, row.attack}] = row;
  absl::Status status = ledger_->Record(row);
  // What the peer submits as an attack on gradients may be made of anything.
  const bool own = row.observer == kLabelParty;
  if (!status.ok() || !own || !ExceedsGaussianAucBound(row.auc_low, row.auc_high, row.gaussian_auc_bound)) {
    return status;
  }
  ++bound_exceeded_;
  if (attacks_beyond_.insert({row.layer, row.attack}).second) {
    status = ledger_->RecordEvent(
        "bound_exceeded",
        absl::StrFormat(
            "epoch %d: %s at %s: AUC at least %.4f (lower 95%% limit), Gaussian classes allow %.4f: the bounds "
            "do not hold for these gradients",
            row.epoch + 1, row.attack, row.layer, std::max(row.auc_low, 1 - row.auc_high), row.gaussian_auc_bound));
  }
  return status;
}

absl::Status LeakAuditor::RecordEpoch(uint32_t epoch, const std::string& observer) {
  absl::Status status;
  const auto bounds = bounds_.find(epoch);
  for (const EpochLeakRow& row :
       observers_[observer].pool.Finish(epoch, observer, bounds == bounds_.end() ? EpochBounds() : bounds->second)) {
    status.Update(Record(row));
  }
  return status;
}

absl::Status LeakAuditor::AuditRelease(const ReleaseEvidence& evidence) {
  // Unlocked, so that no judgement waits: only Remember changes what is read here, and it comes from this thread.
  if (released_.empty() || evidence.clean.rows() != released_.back().labels.size()) {
    return absl::InternalError("the audited gradients are not those of the latest released batch");
  }
  const ReleasedBatch& batch = released_.back();
  absl::StatusOr<std::vector<OwnScores>> all = label_side_audit_.Score(batch, evidence);
  if (!all.ok()) {
    return absl::InternalError(all.status().message());
  }
  std::lock_guard<std::mutex> lock(mutex_);
  bounds_[batch.epoch].Add(evidence.sum_kl, evidence.accumulated_sum_kl);
  if (label_side_audit_.Attacks(batch.step)) {
    histograms_.Add(batch, evidence, *all);
  }
  for (OwnScores& own : *all) {
    double auc = 0;
    if (absl::Status status = RecordLeak(batch, kLabelParty, "cut", own.attack, own.scores, auc).status();
        !status.ok()) {
      return status;
    }
    observers_[kLabelParty].pool.Add("cut", own.attack, std::move(own.scores), batch.labels,
                                     RowsLeftOut(own.attack, batch.hint_rows));
  }
  return absl::OkStatus();
}

absl::Status LeakAuditor::FinishEpoch(uint32_t epoch) {
  std::lock_guard<std::mutex> lock(mutex_);
  absl::Status status = RecordEpoch(epoch, kLabelParty);
  for (const DistributionRow& row : histograms_.Finish(epoch)) {
    status.Update(ledger_->Record(row));
  }
  // The peer's scores of the epoch its pool holds may still come, and no older ones.
  bounds_.erase(bounds_.begin(), bounds_.lower_bound(std::min(judged_epoch_, epoch)));
  return status;
}

absl::Status LeakAuditor::FinishRun() {
  std::lock_guard<std::mutex> lock(mutex_);
  absl::Status status = RecordEpoch(judged_epoch_, kNonLabelParty);
  if (!observers_[kLabelParty].pool.empty()) {  // The run ends within an epoch.
    status.Update(RecordEpoch(released_.back().epoch, kLabelParty));
  }
  return status;
}

absl::Status LeakAuditor::RecordRunScores(v1::Attack attack, uint32_t epoch, absl::Span<const float> scores,
                                          absl::Span<const uint8_t> labels) {
  std::lock_guard<std::mutex> lock(mutex_);
  EpochLeakRow row = MeasureEpochLeak(scores, labels);
  row.epoch = epoch;
  row.observer = kNonLabelParty;
  row.layer = "cut";
  row.attack = AttackName(attack);
  return Record(row);
}

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
  SPLITVEIL_RETURN_IF_ERROR(CheckScores(request));
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
    SPLITVEIL_ASSIGN_OR_RETURN(
        Matrix values,
        DecodeMatrix(scores.scores(), {"scores", v1::FLOAT32, 1, static_cast<int64_t>(found->labels.size())}));
    decoded.push_back(std::move(values));
  }
  judged = true;
  if (request.epoch() > judged_epoch_) {
    SPLITVEIL_RETURN_IF_ERROR(RecordEpoch(judged_epoch_, kNonLabelParty));
    judged_epoch_ = request.epoch();
  }
  v1::ScoreBatchResponse response;
  for (int i = 0; i < request.scores_size(); ++i) {
    const v1::ScoreBatchRequest::Scores& scores = request.scores(i);
    double auc = 0;
    SPLITVEIL_ASSIGN_OR_RETURN(const bool has_auc, RecordLeak(*found, kNonLabelParty, scores.layer(), scores.attack(),
                                                              decoded[i].row(0), auc));
    const absl::Span<const float> values = decoded[i].row(0);
    if (request.epoch() == judged_epoch_) {  // Scores that come after those of the next epoch are too late to pool.
      observers_[kNonLabelParty].pool.Add(scores.layer(), scores.attack(), {values.begin(), values.end()},
                                          found->labels, RowsLeftOut(scores.attack(), found->hint_rows));
    }
    const std::optional<double> granted = DisclosedAuc(
        agreement_.disclosure(), has_auc ? std::optional<double>(auc) : std::nullopt, /*answers_before=*/i);
    if (granted.has_value()) {
      v1::ScoreBatchResponse::LeakAuc* leak = response.add_leaks();
      leak->set_layer(scores.layer());
      leak->set_attack(scores.attack());
      leak->set_auc(*granted);
    }
  }
  return response;
}

template <typename Figures>
std::map<std::pair<std::string, std::string>, Figures> LeakAuditor::Merged(
    std::map<std::pair<std::string, std::string>, Figures> Observer::*figures) const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::map<std::pair<std::string, std::string>, Figures> merged;
  for (const char* observer : {kNonLabelParty, kLabelParty}) {
    const auto found = observers_.find(observer);
    if (found != observers_.end()) {
      merged.insert((found->second.*figures).begin(), (found->second.*figures).end());
    }
  }
  return merged;
}

BatchLeaks LeakAuditor::series() const { return Merged(&Observer::series); }
EpochLeaks LeakAuditor::epoch_leaks() const { return Merged(&Observer::epoch_leaks); }

int64_t LeakAuditor::bound_exceeded() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return bound_exceeded_;
}

std::string LeakAuditor::latest() const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto own = observers_.find(kLabelParty);
  if (own == observers_.end()) {
    return "";
  }
  std::string text;
  for (v1::Attack attack : kProgressAttacks) {
    const auto series = own->second.series.find({"cut", AttackName(attack)});
    if (series != own->second.series.end()) {
      absl::StrAppendFormat(&text, "%s %.2f ", AttackName(attack), series->second.back());
    }
  }
  return text.empty() ? text : absl::StrCat(text, "at cut");
}

}  // namespace splitveil
