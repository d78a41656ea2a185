// What each attack needs and when it runs. The list itself: proto/splitveil/v1/leak_audit.proto.
#ifndef SPLITVEIL_COMMON_LEAKAGE_ATTACK_TRAITS_H_
#define SPLITVEIL_COMMON_LEAKAGE_ATTACK_TRAITS_H_

#include <cstddef>
#include <string>

#include "absl/types/span.h"

#include "splitveil/v1/leak_audit.pb.h"

namespace splitveil {

// Positives of a batch whose rows are disclosed under disclosure ORACLE, at most.
inline constexpr int kMaxHints = 5;

// Those that a progress line has room for.
inline constexpr v1::Attack kProgressAttacks[] = {v1::NORM, v1::COSINE, v1::RESIDUAL_NORM, v1::CUMULATIVE_SPECTRAL};

struct AttackTraits {
  bool needs_oracle = false;     // Takes hint rows or a clean positive gradient: disclosure ORACLE.
  int hints = 0;                 // Hint rows it is told; those are left out of its AUC.
  bool cut_only = false;         // Scored at layer "cut" only.
  bool remembers = false;        // Scores sum an example's evidence over the epochs.
  bool once_a_run = false;       // Scores all training examples once, after the last epoch.
  bool label_side_only = false;  // Takes the classes' true moments.
};

// An unknown attack is label_side_only: nobody else may run it.
AttackTraits TraitsOf(v1::Attack attack);

// The attack's name in ledgers and reports: "hint_distance_3".
std::string AttackName(v1::Attack attack);

// The hint rows that the attack knows to be positive, a prefix of `hint_rows`: they are left out of its AUC. Every
// attack leaves out the first, whose clean gradient is known to the adversary, so that AUCs of one batch are over the
// same rows.
absl::Span<const uint32_t> RowsLeftOut(v1::Attack attack, absl::Span<const uint32_t> hint_rows);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_ATTACK_TRAITS_H_
