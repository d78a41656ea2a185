// A trainer from a party's data, its configuration and the joint seed.
#ifndef SPLITVEIL_LABEL_PARTY_SESSION_TRAINER_FACTORY_H_
#define SPLITVEIL_LABEL_PARTY_SESSION_TRAINER_FACTORY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/checkpoint/checkpoint.h"
#include "common/dataset/dataset.h"
#include "label_party/protection/protection_factory.h"
#include "label_party/session/trainer.h"

#include "splitveil/v1/party.pb.h"

namespace splitveil {

struct TrainerInputs {
  const v1::RunAgreement& agreement;  // Canonical.
  const v1::LabelPartyConfig& config;
  std::shared_ptr<const Dataset> data;  // With labels.
  absl::Span<const uint32_t> rows;      // The party's row for each aligned position.
  JointSeed seed;
  std::string run_id;
  Protection protection;
  std::shared_ptr<const Checkpoint> continued;  // Null: fresh weights.
  LeakAuditor* auditor = nullptr;               // Not owned; must outlive the trainer.
  Ledger* ledger = nullptr;                     // Not owned; must outlive the trainer.
};

// The top model that the configuration describes, for own features of this shape.
TopModelOptions TopOptions(const v1::RunAgreement& agreement, const v1::LabelPartyConfig& config,
                           const FeatureShape& features);

// Splits, builds schedule and model. The trainer keeps the aligned labels and reads features as it goes. Errors:
// InvalidArgument where the model does not fit the data, the checkpoint not the model, the release policy not the
// protection, or too few examples are common.
absl::StatusOr<std::unique_ptr<Trainer>> MakeTrainer(TrainerInputs inputs);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SESSION_TRAINER_FACTORY_H_
