// Attribute inference attacks: what each needs and is called, and what they find out.
#ifndef SPLITVEIL_COMMON_LEAKAGE_ATTRIBUTE_LEAK_H_
#define SPLITVEIL_COMMON_LEAKAGE_ATTRIBUTE_LEAK_H_

#include <cstdint>
#include <limits>
#include <optional>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "splitveil/v1/attribute_attack.pb.h"

namespace splitveil {

// What an attack's decoder learns from, besides the attribute of each example.
enum class DecoderSource {
  kAuxiliaryActivations,  // Of auxiliary examples, which the non-label party embeds when the epoch is over.
  kMarkedActivations,     // Of marked training examples, as they were sent in that epoch,
  kMarkedHistory,         // or in all epochs so far.
  kAuxiliaryFeatures,     // Features, and what a shadow encoder makes of them that imitates what was sent.
};

struct AttributeAttackTraits {
  v1::AttributeAttack attack = v1::ATTRIBUTE_ATTACK_UNSPECIFIED;
  absl::string_view name;  // In ledgers and reports.
  DecoderSource source = DecoderSource::kAuxiliaryActivations;
  bool linear = false;  // Whether the decoder is one linear layer; else it has the layers of the top model.

  // Needs the grant AttributeAuditAgreement.embed_auxiliary.
  constexpr bool needs_auxiliary_activations() const { return source == DecoderSource::kAuxiliaryActivations; }
  // Reads whole epochs' activations of the training: it is tried on the training examples that are not marked as well
  // as on the test examples.
  constexpr bool reads_training() const { return source != DecoderSource::kAuxiliaryActivations; }
  // Reads the epochs before as well, so far as they have come.
  constexpr bool remembers() const { return source == DecoderSource::kMarkedHistory; }
  // Needs features as the bottom model takes them.
  constexpr bool needs_features() const { return source == DecoderSource::kAuxiliaryFeatures; }
};

// An unknown attack has no name and needs everything.
AttributeAttackTraits TraitsOf(v1::AttributeAttack attack);

// The attack of that name; nullopt if there is none.
std::optional<v1::AttributeAttack> AttributeAttackOfName(absl::string_view name);

class ConstMatrixView;

// Figures over the examples whose value is known. NaN if there are none.
struct AttributeLeak {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  static constexpr int64_t kLeastOfValue = 10;

  int64_t examples = 0;
  double accuracy = kNone;  // Share whose highest score is that of the true value; of equal scores the first counts.
  // Ends of its 95% interval (Clopper and Pearson).
  double accuracy_low = kNone, accuracy_high = kNone;
  // Share of the most common value: what guessing it always would reach.
  double floor = kNone;
  // Of two values the leak AUC of the difference of their scores, as measured; of several the mean AUC of each value's
  // score against the rest, inverted if it is below 0.5, over the values of at least kLeastOfValue examples. NaN if
  // there is none, or only one value occurs.
  double auc = kNone;
};

// `scores`: [examples, values], finite; larger means "this value". `truth`: as many, each below values or
// kUnknownAttribute. Thread-safe.
AttributeLeak MeasureAttributeLeak(ConstMatrixView scores, absl::Span<const uint8_t> truth);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_ATTRIBUTE_LEAK_H_
