#include "nonlabel_party/session/nonlabel_step_recorder.h"

#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/privacy/gaussian_privacy.h"
#include "common/telemetry/log.h"

namespace splitveil {

void NonLabelStepRecorder::Begin(uint32_t epoch, uint32_t batch, int64_t examples, int64_t bytes_sent) {
  row_.epoch = epoch;
  row_.batch = batch;
  row_.examples = examples;
  row_.loss = std::numeric_limits<double>::quiet_NaN();  // Known to the label party alone.
  row_.bytes_sent = bytes_sent;
  row_.bytes_received = 0;
}

absl::Status NonLabelStepRecorder::Record(const std::string& leak) {
  if (!due_) {
    return absl::OkStatus();
  }
  // Once: the ledger must have one row for a step however the run ends.
  due_ = false;
  const StepTimeRow times = stopwatch_.Finish(row_);
  absl::Status status = ledger_->Record(row_);
  status.Update(ledger_->Record(times));
  status.Update(RecordProtection());
  // Counted when recorded, so that a resumed run continues where its ledger ends.
  ++row_.step;
  totals_.steps = row_.step;
  totals_.examples += row_.examples;
  totals_.seconds += row_.seconds;
  totals_.waited_seconds += times.wait;
  totals_.bytes_sent += row_.bytes_sent;
  totals_.bytes_received += row_.bytes_received;
  status_->Update([this](v1::GetStatusResponse& status) { status.set_turn_seconds(turn_seconds_); });
  progress_.Report(row_.step, totals_.examples, row_.loss, leak);
  stopwatch_.Lap(&StepTimeRow::attacks);
  return status;
}

absl::Status NonLabelStepRecorder::RecordProtection() {
  absl::Status status;
  for (const AttributeStep& attribute : protection_.attributes) {
    status.Update(ledger_->Record(PrivacyLossRow{row_.step, attribute.attribute, attribute.privacy_loss,
                                                 protection_.threshold, attribute.weight, protection_.utility_weight,
                                                 protection_.correction_steps, protection_.at_front}));
  }
  return status;
}

absl::Status NonLabelStepRecorder::RecordFrozen() {
  const std::string detail =
      absl::StrCat("from epoch ", row_.epoch + 1, ", batch ", row_.batch + 1,
                   " on no gradient is sent: the bottom model stays as it is, the top model continues to learn");
  LogInfo("the label party's release gate has frozen the bottom model: ", detail);
  return ledger_->RecordEvent("frozen", detail);
}

absl::Status RecordActivationProtection(const v1::ActivationProtection& protection, const ProtectedBottomModel& model,
                                        int64_t steps, int64_t releases, Ledger& ledger) {
  const std::string name = ActivationProtectionName(protection);
  if (name == "none") {
    return absl::OkStatus();
  }
  LogInfo("activations are protected by ", name, steps > 0 ? absl::StrCat(", after ", steps, " steps alone") : "");
  const double mu = model.Mu(releases);
  const std::string promise = std::isfinite(mu) ? absl::StrCat("; mu ", mu, " of this run alone") : "";
  return ledger.RecordEvent("activation_protection",
                            absl::StrCat(name, "; ", steps, " steps before anything was sent", promise));
}

absl::Status RecordActivationBound(const ProtectedBottomModel& model, int64_t releases, Ledger& ledger) {
  // Finite only with both clipping and noise: without either, nothing is promised, and nothing is recorded as a bound.
  const double mu = model.Mu(releases);
  return std::isfinite(mu) ? ledger.Record(ActivationBoundRow{releases, mu, GaussianPrivacy::FromMu(mu)->AucBound()})
                           : absl::OkStatus();
}

absl::Status RecordPrivacyLosses(ProtectedBottomModel& model, const char* examples, const std::string& when,
                                 Ledger& ledger) {
  const std::vector<AttributeStep> largest = model.TakePredicted();
  if (largest.empty()) {
    return absl::OkStatus();
  }
  const std::string figures = absl::StrJoin(largest, ", ", [](std::string* out, const AttributeStep& of) {
    absl::StrAppend(out, of.attribute, " ", of.privacy_loss);
  });
  return ledger.RecordEvent("privacy_loss",
                            absl::StrCat("largest of a batch of ", examples, " examples ", when, ", nats: ", figures));
}

}  // namespace splitveil
