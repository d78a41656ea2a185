// All that a run trains with, from a party's data, its configuration and the joint seed.
#ifndef SPLITVEIL_LABEL_PARTY_TRAINING_TRAINING_H_
#define SPLITVEIL_LABEL_PARTY_TRAINING_TRAINING_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/release_journal.h"
#include "common/dataset/dataset.h"
#include "common/figures/all_runs.h"
#include "common/ledger/ledger.h"
#include "common/schedule/schedule.h"
#include "label_party/audit/leak_auditor.h"
#include "label_party/protection/protection_factory.h"
#include "label_party/storage/run_records.h"
#include "label_party/top/top_model.h"
#include "label_party/training/attribute_audit.h"
#include "label_party/training/batch_source.h"
#include "label_party/training/release_guard.h"
#include "label_party/training/step_recorder.h"
#include "label_party/training/training_order.h"
#include "label_party/training/training_step.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {

struct TrainingInputs {
  const v1::RunAgreement& agreement;  // Canonical.
  const v1::LabelPartyConfig& config;
  std::shared_ptr<const Dataset> data;              // With labels.
  std::shared_ptr<const Dataset> known_attributes;  // Null: no attacks on attributes are agreed.
  absl::Span<const uint32_t> rows;                  // Own row of each aligned position; must outlive the training.
  JointSeed seed;
  std::string run_id;
  Protection protection;
  std::shared_ptr<const Checkpoint> resumed;  // Null: fresh weights.
  LeakAuditor* auditor = nullptr;             // Not owned; must outlive the training.
  Ledger* ledger = nullptr;                   // Not owned; must outlive the training.
  ReleaseJournal* journal = nullptr;          // Not owned, likewise; null: the run writes no checkpoints.
  bool is_continued = false;                  // The run of `resumed`, and not only from its weights.
  double counted_sum_kl = 0;                  // The largest sum that any checkpoint at hand has counted.
  int64_t in_flight_batches = 1;              // StartRequest's.
  LabelRun planned = {};                      // RunRecords::planned.
};

// The parts, each borrowing from those above it. Not thread-safe.
struct Training {
  std::unique_ptr<BatchSource> source;
  std::unique_ptr<TopModel> model;
  std::unique_ptr<ReleaseGuard> guard;
  std::unique_ptr<StepRecorder> recorder;
  std::unique_ptr<TrainingStep> step;
  std::unique_ptr<TestEvaluator> evaluator;
  std::unique_ptr<TrainingOrder> order;
  std::unique_ptr<AttributeAudit> attribute_audit;  // Null: no attacks on attributes are agreed.
  std::string privacy_account;                      // LabelState::privacy_account.

  const RunResult& result() const { return recorder->result(); }
  // What the next run takes from a checkpoint beside the model, as of the latest step learnt from.
  LabelState state() const { return {result().earlier_sum_kl + result().cumulative_sum_kl, privacy_account}; }
  // What this run itself would go on with.
  std::string Progress(const LeakAuditor& auditor) const;
  // Puts the parts and the auditor where `progress` left them. Errors: as LoadProgress.
  absl::Status Restore(absl::string_view progress, LeakAuditor& auditor);
};

// The top model that the configuration describes, for own features and labels like those of `data`.
TopModelOptions TopOptions(const v1::RunAgreement& agreement, const v1::LabelPartyConfig& config, const Dataset& data);

// Splits, builds schedule and model. Labels and features are read as it goes, by `rows`. Errors:
// InvalidArgument where the model does not fit the data, the checkpoint not the model, the release policy not the
// protection, or too few examples are common.
absl::StatusOr<Training> MakeTraining(TrainingInputs inputs);

// For the attacks that score every training example, once all epochs are trained.
CompletionAudit::Options CompletionOptions(const v1::RunAgreement& agreement, const Training& training);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_TRAINING_TRAINING_H_
