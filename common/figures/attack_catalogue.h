// The catalogue of attacks: what each is called, what its adversary knows, and which bound it is held against. By the
// names that ledgers use; what an attack needs to run is in common/leakage/attack_traits.h.
#ifndef SPLITVEIL_COMMON_FIGURES_ATTACK_CATALOGUE_H_
#define SPLITVEIL_COMMON_FIGURES_ATTACK_CATALOGUE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace splitveil {

// What an attack's adversary has beside what the protocol sends it, from nothing on. kUnknown: a name that this version
// does not know.
enum class AttackNeeds { kNothing, kKnownPositives, kTrueClasses, kGivenLabels, kUnknown };
AttackNeeds NeedsOf(absl::string_view attack);

// Whether the attack runs without hints, given labels and the classes' true moments.
bool NeedsNoSideInformation(absl::string_view attack);

// Attacks that run once and are fitted to labels the adversary was given, and so say nothing of the gradients' leak by
// themselves.
bool UsesGivenLabels(absl::string_view attack);

// Whether noise on the gradients, and a bound that follows from it, is about the attack. An unknown one: assumed so.
bool ReadsGradients(absl::string_view attack);

// Whether the attack's scores sum an example's evidence over the epochs, so that it is held against the bound on the
// whole run; any other is held against the bound on one release.
bool IsCumulativeAttack(absl::string_view attack);

// The attack that knows all but the label and the noise, of one release or summed over the epochs: nobody can exceed
// it, and a proved bound is held against it alone.
bool IsWorstCase(absl::string_view attack);

// In words a privacy officer knows: "Gradient length" for "norm"; the name itself of an unknown attack.
std::string AttackTitle(absl::string_view attack);

// "Gradient length (norm)", for texts that name an attack once.
std::string AttackNamed(absl::string_view attack);

// One sentence: what the adversary does, and what it must know. Empty for an unknown attack.
std::string AttackExplanation(absl::string_view attack);

// The same of attacks on attributes: "Black-box decoder", "Black-box decoder (basic)".
std::string AttributeAttackTitle(absl::string_view attack);
std::string AttributeAttackNamed(absl::string_view attack);
std::string AttributeAttackExplanation(absl::string_view attack);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_FIGURES_ATTACK_CATALOGUE_H_
