#include "nonlabel_party/session/nonlabel_step_recorder.h"

#include <limits>

#include "absl/strings/str_cat.h"

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
  due_ = false;
  const StepTimeRow times = stopwatch_.Finish(row_);
  absl::Status status = ledger_->Record(row_);
  status.Update(ledger_->Record(times));
  status.Update(RecordProtection());
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
                   " on no gradient comes: the bottom model stays as it is, the top model goes on learning");
  LogInfo("the label party's release gate has frozen the bottom model: ", detail);
  return ledger_->RecordEvent("frozen", detail);
}

}  // namespace splitveil
