// The attacks in words a privacy officer knows.
#ifndef SPLITVEIL_COMMON_LEAKAGE_ATTACK_WORDS_H_
#define SPLITVEIL_COMMON_LEAKAGE_ATTACK_WORDS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace splitveil {

// "Gradient length" for "norm"; the name itself of an attack it does not know.
std::string AttackTitle(absl::string_view attack);

// "Gradient length (norm)", for texts that name an attack once.
std::string AttackNamed(absl::string_view attack);

// One sentence: what the adversary does, and what it must know. Empty for an attack it does not know.
std::string AttackExplanation(absl::string_view attack);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_ATTACK_WORDS_H_
