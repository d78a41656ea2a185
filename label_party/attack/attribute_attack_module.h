// The honest-but-curious label party: reads sensitive attributes from the activations it is sent.
#ifndef SPLITVEIL_LABEL_PARTY_ATTACK_ATTRIBUTE_ATTACK_MODULE_H_
#define SPLITVEIL_LABEL_PARTY_ATTACK_ATTRIBUTE_ATTACK_MODULE_H_

#include <cereal/access.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/dataset/feature_table.h"
#include "common/leakage/attribute_leak.h"
#include "common/matrix/matrix.h"
#include "common/schedule/train_test_split.h"
#include "label_party/attack/attribute_decoder.h"
#include "label_party/attack/shadow_encoder.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/attribute_attack.pb.h"
#include "splitveil/v1/attribute_audit.pb.h"
#include "splitveil/v1/model.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {

// An attribute as the adversary knows it.
struct KnownAttribute {
  std::string name;
  int64_t values = 0;  // 2 to 254. A value is below, or kUnknownAttribute.
  // By aligned position, one for each aligned example. Read at marked and auxiliary positions only.
  std::vector<uint8_t> by_position;
  // By row of Options::features; empty without it.
  std::vector<uint8_t> by_feature_row;
};

// Guesses of one attack at one attribute for all examples of a kind.
struct AttributeGuess {
  v1::AttributeAttack attack = v1::ATTRIBUTE_ATTACK_UNSPECIFIED;
  std::string attribute;
  v1::AttributeGuesses::Examples examples = v1::AttributeGuesses::EXAMPLES_UNSPECIFIED;
  // [examples, values]: log p(value | activations) as the decoder has it. Row r: AttributeExamples::test[r], or
  // unmarked[r].
  Matrix scores;
};

// Every agreed attack on every agreed attribute, once for each epoch that is due:
//
//   TakeTraining(epoch, ...)   each batch as it was sent        needs_training()
//   TakeTest(epoch, ...)       as evaluated after the epoch     needs_test()
//   TakeAuxiliary(epoch, ...)  as EmbedAuxiliary brings them    needs_auxiliary()
//   Guess(epoch)               decoders learn, then guess
//
// What a decoder learns from and on which examples it is tried: common/leakage/attribute_leak.h. All attacks but
// CUMULATIVE_POISON come from Yu et al., "Privacy-preserving split learning via Pareto optimal search", section 4.
// Attacks that read one epoch of the training keep their decoder from epoch to epoch, and so does the shadow encoder.
// CUMULATIVE_POISON keeps the activations of epochs (EpochHistory) in place of a decoder; it skips an epoch of which
// not all training and test examples have come. All other decoders start afresh in each epoch. Equal seeds and
// activations give equal guesses on one machine, also across a checkpoint between two batches of an epoch or after its
// Guess.
//
// Memory: cut_width float32 numbers for each of `examples`, at most AttributeExamples::kMost of a kind, that an agreed
// attack reads; with CUMULATIVE_POISON up to EpochHistory::kSlots times as many more for training and test examples.
// Each checkpoint has all of them but the latest rows of test and auxiliary examples, and holds them in memory once
// more while it is written. Not thread-safe.
class AttributeAttackModule {
 public:
  struct Options {
    v1::AttributeAuditAgreement audit;  // Canonical.
    v1::AttributeAttackConfig config;   // Canonical; its data are read by the caller.
    v1::ModelSpec top_half;             // TopHalf of the label party's model: the layers that decoders take after.
    int64_t cut_width = 0;
    AttributeExamples examples;
    std::vector<KnownAttribute> known;  // Of every agreed attribute, in any order.
    // For SIMULATOR: features as the bottom model takes them, of examples that are neither trained on nor tested. Null
    // if it is not agreed.
    std::shared_ptr<const FeatureTable> features;
  };

  // Errors: InvalidArgument with field, expected and found: an agreed attribute that is not known or known of no
  // example, an attack without what it learns from (AttributeAttackTraits), layers that do not fit.
  static absl::StatusOr<std::unique_ptr<AttributeAttackModule>> Create(Options options);

  // Whether an agreed attack reads activations of this kind. Taking unneeded ones is no error: they are dropped.
  bool needs_training() const;
  bool needs_auxiliary() const;
  bool needs_test() const;
  // Whether guesses are due after `epoch`, from 0; `last`: it is the run's last.
  bool IsDue(uint32_t epoch, bool last) const;

  // Rows of a training batch, or of a slice of one, as they were sent: `positions` are their aligned positions,
  // `activations` [positions, cut_width]. Copies the rows of marked and unmarked examples; others are not kept. The
  // first rows of a new epoch drop what was kept of the epoch before. Errors: InvalidArgument for a wrong shape.
  absl::Status TakeTraining(uint32_t epoch, absl::Span<const uint32_t> positions, ConstMatrixView activations);
  // Rows [first_rank, first_rank + activations.rows()) of the test, or auxiliary, examples. Errors: InvalidArgument for
  // a wrong width, or ranks beyond the last example.
  absl::Status TakeTest(uint32_t epoch, int64_t first_rank, ConstMatrixView activations);
  absl::Status TakeAuxiliary(uint32_t epoch, int64_t first_rank, ConstMatrixView activations);

  // Guesses by attack, attribute and examples (TEST, then TRAINING), attacks and attributes in the agreed order. An
  // attack that lacks part of its activations in this epoch makes none, and none are made for examples that have not
  // all come. Takes as long as the decoders learn, seconds to minutes. `stop` (may be null) is called many times a
  // second; once it is true they stop learning. A second call for the same epoch returns the same guesses, or none in a
  // run that was continued since, whose peer has them. They are valid until the call for a different epoch. Errors:
  // Internal if activations are not finite or LibTorch fails; StoppedOnRequest: what was partly learnt is useless.
  absl::StatusOr<absl::Span<const AttributeGuess>> Guess(uint32_t epoch, bool (*stop)() = nullptr);

 private:
  friend class cereal::access;
  // Test and auxiliary examples come between the batches of two epochs, and the next checkpoint has no more use for
  // them: they have been guessed at, and added to the history.
  template <typename Archive>
  void serialize(Archive& archive) {
    for (Attempt& attempt : attempts_) {
      if (attempt.keeps_decoder()) {
        archive(*attempt.decoder);
      }
    }
    if (shadow_ != nullptr) {
      archive(*shadow_);
    }
    archive(training_, training_history_, test_history_, remembered_epoch_, guessed_epoch_);
  }

  // An attack on an attribute.
  struct Attempt {
    // Whether one decoder keeps learning from epoch to epoch; else a new one is made for each.
    bool keeps_decoder() const { return attack.reads_training() && !attack.remembers(); }

    AttributeAttackTraits attack;
    std::string attribute;
    std::vector<uint8_t> values;  // Of the examples that the decoder learns from, in the order of their rows.
    AttributeDecoder::Options decoder_options;
    std::unique_ptr<AttributeDecoder> decoder;
  };

  explicit AttributeAttackModule(Options options);

  absl::Status Build();
  // Row of training_ of the example at this position; nullopt: it is not kept.
  std::optional<int64_t> TrainingRankOf(uint32_t position) const;
  absl::Status CheckSources(const AttributeAttackTraits& attack) const;
  absl::Status CheckAttribute(const KnownAttribute& attribute) const;
  absl::Status AddAttempt(const AttributeAttackTraits& attack, const KnownAttribute& attribute, uint64_t seed);
  // `imitated`: what the shadow encoder makes of all features, if the attack takes that.
  absl::Status Learn(Attempt& attempt, ConstMatrixView imitated, bool (*stop)());
  bool remembers() const;
  // Adds `epoch` to the histories once all of it has come.
  void Remember(uint32_t epoch);
  // Whether all that the attack reads of `epoch` has come.
  bool IsReady(const AttributeAttackTraits& attack, uint32_t epoch) const;
  // Scores of `count` examples from `first` on.
  static absl::StatusOr<Matrix> GuessFrom(const EpochHistory& history, int64_t first, int64_t count,
                                          const AttributeDecoder& decoder);
  // Adds guesses for every kind of examples that the attack can be tried on.
  absl::Status Try(const Attempt& attempt, uint32_t epoch);

  Options options_;
  std::vector<Attempt> attempts_;
  std::unique_ptr<ShadowEncoder> shadow_;  // Null if SIMULATOR is not agreed.
  EpochRows training_;                     // Marked ones, then unmarked ones.
  EpochRows test_;
  EpochRows auxiliary_;
  EpochHistory training_history_;  // Of the same epochs both.
  EpochHistory test_history_;
  std::optional<uint32_t> remembered_epoch_;  // The latest of these.
  std::optional<uint32_t> guessed_epoch_;     // guesses_ are those of this epoch.
  std::vector<AttributeGuess> guesses_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_ATTACK_ATTRIBUTE_ATTACK_MODULE_H_
