// What each attack needs, when it runs and what it is called: one table for everybody who asks. What each attack does:
// proto/splitveil/v1/leak_audit.proto.
#ifndef SPLITVEIL_COMMON_LEAKAGE_ATTACK_TRAITS_H_
#define SPLITVEIL_COMMON_LEAKAGE_ATTACK_TRAITS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "splitveil/v1/leak_audit.pb.h"

namespace splitveil {

// Positives of a batch whose rows are disclosed under disclosure ORACLE, at most.
inline constexpr int kMaxHints = 5;

// What an adversary must know besides the gradients it receives.
enum class SideInformation {
  kNone,
  kActivations,           // The cut activations, which the non-label party computes itself; no gradient is read.
  kActivationsToo,        // Them beside the gradients.
  kCleanPositive,         // The clean gradient of one positive of the batch.
  kHintRows,              // Which rows of the batch are k of its positives.
  kAuxiliaryLabels,       // Labels of some training examples; no gradient is read.
  kClassMeans,            // The true means of both classes' gradients,
  kClassMoments,          // with their variances as the paper models them,
  kMeasuredClassMoments,  // or as they are measured.
  kReleasingHead          // What the gradients are made of, but the labels and the draw of the noise.
};

enum class AttackOccasion {
  kEachBatch,   // A batch's scores concern that batch alone.
  kCumulative,  // Scores sum an example's evidence over all epochs so far: the attack takes every batch in.
  kOncePerRun   // All training examples are scored once, after the last epoch.
};

struct AttackTraits {
  v1::Attack attack = v1::ATTACK_UNSPECIFIED;
  absl::string_view name;  // In ledgers and reports; "_k" is appended for an attack that takes k hints.
  SideInformation needs = SideInformation::kNone;
  AttackOccasion occasion = AttackOccasion::kEachBatch;

  // Needs disclosure ORACLE when the non-label party runs it.
  constexpr bool needs_oracle() const {
    return needs == SideInformation::kCleanPositive || needs == SideInformation::kHintRows ||
           needs == SideInformation::kAuxiliaryLabels;
  }
  // Runs once for each configured k.
  constexpr bool takes_hint_count() const { return needs == SideInformation::kHintRows; }
  // Takes what the label party alone knows.
  constexpr bool label_side_only() const { return needs >= SideInformation::kClassMeans; }
  // The classes' true moments.
  constexpr bool takes_population() const { return label_side_only() && needs != SideInformation::kReleasingHead; }
  // Scored at layer "cut" only.
  constexpr bool cut_only() const { return needs_activations(); }
  constexpr bool needs_activations() const {
    return needs == SideInformation::kActivations || needs == SideInformation::kActivationsToo;
  }
  // Whether noise on a gradient answers for what it reads: activations learn the label from all gradients together.
  constexpr bool reads_gradients() const {
    return needs != SideInformation::kActivations && needs != SideInformation::kAuxiliaryLabels;
  }
  // Learns from batches how to score later ones: it takes every batch in.
  constexpr bool learns() const { return needs == SideInformation::kActivationsToo; }
  constexpr bool cumulative() const { return occasion == AttackOccasion::kCumulative; }
  constexpr bool once_per_run() const { return occasion == AttackOccasion::kOncePerRun; }
};

// Every attack, in the order of the tables that list them.
absl::Span<const AttackTraits> AllAttackTraits();

// An unknown attack has no name and is label_side_only: nobody else may run it.
AttackTraits TraitsOf(v1::Attack attack);

// An attack as it runs: with k hints if it takes hints.
struct AttackVariant {
  AttackVariant() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): an attack that takes no hints is its only variant.
  AttackVariant(v1::Attack attack, int hint_count = 0) : attack(attack), hint_count(hint_count) {}

  v1::Attack attack = v1::ATTACK_UNSPECIFIED;
  int hint_count = 0;  // 1 to kMaxHints if the attack takes hints, else 0.

  friend bool operator==(const AttackVariant& a, const AttackVariant& b) {
    return a.attack == b.attack && a.hint_count == b.hint_count;
  }
  friend bool operator<(const AttackVariant& a, const AttackVariant& b) {
    return std::pair(a.attack, a.hint_count) < std::pair(b.attack, b.hint_count);
  }

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(attack, hint_count);
  }
};

// `attack` once, or once for each of `hint_counts` if it takes hints, in that order.
std::vector<AttackVariant> VariantsOf(v1::Attack attack, absl::Span<const int> hint_counts);

// The hint counts that a configuration asks for: `configured`, or 1, 3 and 5 if that is empty.
std::vector<int> HintCounts(absl::Span<const int32_t> configured);

// The variant's name in ledgers and reports: "norm", "hint_distance_3". Empty for an unknown attack.
std::string AttackName(AttackVariant variant);

// The variant of that name; nullopt if there is none. "hint_distance" alone names the attack with hint_count 0.
std::optional<AttackVariant> AttackOfName(absl::string_view name);

// Those that a progress line has room for.
inline constexpr v1::Attack kProgressAttacks[] = {v1::NORM, v1::COSINE, v1::RESIDUAL_NORM, v1::CUMULATIVE_SPECTRAL};

// The hint rows that the attack knows to be positive, a prefix of `hint_rows`: they are left out of its AUC. Every
// attack leaves out the first, whose clean gradient is known to the adversary, so that AUCs of one batch are over the
// same rows.
absl::Span<const uint32_t> RowsLeftOut(AttackVariant variant, absl::Span<const uint32_t> hint_rows);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_ATTACK_TRAITS_H_
