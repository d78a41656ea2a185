// The label party as an adversary that reads sensitive attributes: what it is shown in a run, and what it guesses.
#ifndef SPLITVEIL_LABEL_PARTY_TRAINING_ATTRIBUTE_AUDIT_H_
#define SPLITVEIL_LABEL_PARTY_TRAINING_ATTRIBUTE_AUDIT_H_

#include <cereal/access.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/dataset/dataset.h"
#include "common/ledger/ledger.h"
#include "common/matrix/matrix.h"
#include "label_party/attack/attribute_attack_module.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/attribute_audit.pb.h"
#include "splitveil/v1/party.pb.h"
#include "splitveil/v1/split_training.pb.h"

namespace splitveil {

// One EmbedAuxiliary stream, before it counts.
struct AuxiliaryEmbedding {
  uint32_t epoch = 0;
  uint32_t next_batch = 0;
  int64_t examples = 0;
  bool repeated = false;  // The epoch's auxiliary activations have come before; these are counted, not looked at.
};

// The messages of an answer to GuessAttributes. The same ones if asked again.
using SharedGuesses = std::shared_ptr<const std::vector<v1::AttributeGuesses>>;

// Feeds AttributeAttackModule with what the peer sends, and puts its guesses into messages. Nothing here depends on a
// label: activations and the attributes that this party knows from elsewhere are all there is. Which call may come when
// is checked by the session (TrainingOrder::CheckAudit) but for what an epoch's calls are among themselves:
//
//   EmbedAuxiliary (where it is granted), then GuessAttributes, each once for an epoch that is due
//
// Not thread-safe.
class AttributeAudit {
 public:
  struct Options {
    const v1::RunAgreement& agreement;  // Canonical; must outlive the audit.
    const v1::LabelPartyConfig& config;
    std::shared_ptr<const Dataset> known;  // LabelPartyConfig.attribute_attack.auxiliary, opened.
    const Dataset& data;                   // The party's own, whose ids they are.
    absl::Span<const uint32_t> rows;       // Its row for each aligned position.
    Ledger* ledger = nullptr;              // Not owned; must outlive the audit.
  };

  // Checks that `known` is there if attacks are agreed, and only then, and that it has the agreed attributes and, if an
  // attack takes them, features. Error: InvalidArgument with field, expected and found.
  static absl::Status Check(const v1::RunAgreement& agreement, const v1::LabelPartyConfig& config,
                            const Dataset* known);
  // Errors: as Check and AttributeAttackModule::Create.
  static absl::StatusOr<std::unique_ptr<AttributeAudit>> Create(const Options& options);

  // A slice of training activations that has been checked; `positions`: those of the whole batch. Errors: Internal.
  absl::Status TakeTraining(const v1::CutActivations& slice, absl::Span<const uint32_t> positions);
  // A batch of an evaluation's activations that has been checked; those behind the test part are of no use here.
  // Errors: those of the module.
  absl::Status TakeTest(uint32_t epoch, uint32_t batch, ConstMatrixView activations);

  // Whether guesses are due after `epoch`; `last`: no other one follows. Error: FailedPrecondition. `call`: named in
  // it.
  absl::Status CheckDue(const char* call, uint32_t epoch, bool last) const;

  // The next message of an EmbedAuxiliary stream of a due epoch. Errors: FailedPrecondition out of turn; those of
  // DecodeMatrix.
  absl::Status Embed(const v1::CutActivations& request, AuxiliaryEmbedding& embedding);
  // It counts, if it is whole. Errors: FailedPrecondition; those of the ledger.
  absl::StatusOr<v1::EmbedAuxiliaryResponse> FinishEmbedding(const AuxiliaryEmbedding& embedding);

  // That all has come that the attacks on `epoch` were granted. Error: FailedPrecondition.
  absl::Status CheckGuess(uint32_t epoch) const;
  // Of all attacks, in messages of kGuessRows. Takes as long as the decoders learn; `stop`, errors: as
  // AttributeAttackModule::Guess.
  absl::StatusOr<SharedGuesses> Guess(uint32_t epoch, bool (*stop)() = nullptr);

 private:
  friend class cereal::access;
  // Without the guesses: a peer goes on from a checkpoint that follows them only where it has got them.
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(embedded_epoch_, *module_);
  }

  struct Counts {
    int64_t auxiliary = 0, test = 0;
  };
  AttributeAudit(const Options& options, const Counts& examples, std::unique_ptr<AttributeAttackModule> module);
  bool HasEmbedded(uint32_t epoch) const { return embedded_epoch_ == epoch; }

  const v1::RunAgreement& agreement_;
  Ledger* const ledger_;
  const int64_t auxiliary_examples_, test_examples_;
  const std::unique_ptr<AttributeAttackModule> module_;
  std::optional<uint32_t> embedded_epoch_;  // The latest whose auxiliary activations have come.
  std::optional<uint32_t> guessed_epoch_;
  SharedGuesses guesses_;  // Of it.
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_TRAINING_ATTRIBUTE_AUDIT_H_
