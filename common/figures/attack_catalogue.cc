#include "common/figures/attack_catalogue.h"

#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"

#include "common/leakage/attack_traits.h"

namespace splitveil {
namespace {

struct AttackWords {
  const char* attack;
  const char* title;
  const char* explanation;
};

// For people who decide on a partnership, not for people who attack: what it does, and what it needs to know.
constexpr AttackWords kWords[] = {
    {"norm", "Gradient length", "Ranks examples with long gradients as positives. Needs nothing but the gradients."},
    {"cosine", "Direction of one known positive",
     "Compares the direction of every gradient with that of one positive example, whose gradient it is shown without "
     "noise."},
    {"inner_product", "Alignment with one known positive",
     "Compares direction and length of every gradient with those of one positive example, whose gradient it is shown "
     "without noise."},
    {"majority_direction", "Against the majority",
     "Ranks as positive what points against most of the batch, since positives are the minority. Needs nothing but the "
     "gradients."},
    {"spectral", "Main direction of the batch",
     "Sorts the gradients along the direction in which they differ most. Needs nothing but the gradients."},
    {"residual_norm", "Length outside the main direction",
     "Takes out of every gradient the direction in which the batch differs most, where the noise is, and sorts by the "
     "length of what is left. Needs nothing but the gradients."},
    {"gradient_clusters", "Two groups of gradients",
     "Splits the gradients into two groups and takes the smaller one for the positives. Needs nothing but the "
     "gradients."},
    {"activation_clusters", "Two groups of activations",
     "Splits what the bottom model computes itself into two groups and takes the smaller one for the positives. Needs "
     "no gradient at all."},
    {"cumulative_spectral", "Main direction, accumulated",
     "Adds up over all epochs where an example stood along the main direction of its batch, so that noise averages "
     "out. Needs nothing but the gradients."},
    {"factor_analysis", "Common factor of the gradients",
     "Learns in which directions the gradients are mere noise and sorts them along the one that the labels make. Needs "
     "nothing but the gradients."},
    {"cumulative_factor_analysis", "Common factor of the gradients, accumulated",
     "Adds up over all epochs where an example stood along the direction that the labels make. Needs nothing but the "
     "gradients."},
    {"surrogate_head", "Learnt copy of the top model",
     "Trains a copy of the label party's model until it would send the gradients that came, and tests every gradient "
     "against it. What a capable partner can do: needs nothing but what it sent and received."},
    {"cumulative_surrogate_head", "Learnt copy of the top model, accumulated",
     "Adds up what the learnt copy of the label party's model tells of an example over every epoch in which it was "
     "seen. Needs nothing but what was sent and received."},
    {"unsplit", "Gradient matching on a surrogate",
     "Lets a learnt copy of the label party's model compute the gradient of either label and picks the one that looks "
     "more like the received one. Needs nothing but what was sent and received."},
    {"model_completion", "Completed bottom model",
     "Puts a classifier on the bottom model that the training left behind and fits it with a few labels it was given."},
    {"features_only", "Features alone",
     "For comparison: fits the same model from scratch with the same few labels and no part of the training: what the "
     "features tell by themselves."},
    {"likelihood_ratio", "Best guess knowing both classes",
     "Knows exactly how the gradients of both classes spread, which no partner does, and picks the likelier class. "
     "Computed by the label party as a worst case."},
    {"measured_likelihood_ratio", "Best guess knowing the true spread",
     "The same with the spread that the gradients really have, where the theory behind the noise assumes a simpler "
     "one. Computed by the label party as a worst case."},
    {"direction", "Line between the classes",
     "Knows where the gradients of both classes lie on average, which no partner does, and sorts along the line "
     "between. Computed by the label party as a worst case."},
    {"cumulative_likelihood_ratio", "Best guess, accumulated",
     "Adds up the worst-case best guess over every epoch in which an example was seen. Computed by the label party."},
    {"cumulative_direction", "Line between the classes, accumulated",
     "Adds up over every epoch where an example stood on the line between the classes. Computed by the label party."},
    {"conditional_likelihood_ratio", "Best guess knowing the model",
     "Knows all that went into an example's gradient but its label and the draw of the noise: nobody can read more of "
     "one gradient. Computed by the label party as a worst case."},
    {"cumulative_conditional_likelihood_ratio", "Best guess knowing the model, accumulated",
     "Adds up the best guess knowing the model over every epoch in which an example was seen: nobody can read more of "
     "all of its gradients. Computed by the label party as a worst case."},
};

constexpr AttackWords kAttributeWords[] = {
    {"basic", "Black-box decoder",
     "Has the trained bottom model embed examples whose attribute it knows, and trains a decoder with the top model's "
     "layers on their activations. Needs queries, which the non-label party grants, and such examples."},
    {"linear_probe", "Linear probe", "The same with a single linear layer: what the activations show openly."},
    {"poison", "Marked training examples",
     "Knows the attribute of some training examples, and trains a decoder on their activations as they arrive, epoch "
     "by epoch. Needs no query."},
    {"cumulative_poison", "Marked training examples, all epochs",
     "The same, by an adversary that remembers: its decoder learns from all that has come of an example since the "
     "training began. Needs no query."},
    {"simulator", "Shadow encoder",
     "Trains an encoder of its own until a discriminator cannot tell its output from the activations that arrive, and "
     "a decoder on that. Needs features and attributes of examples outside the training, and no query."},
};

const AttackWords* Find(absl::Span<const AttackWords> all, absl::string_view attack) {
  for (const AttackWords& words : all) {
    if (attack == words.attack) {
      return &words;
    }
  }
  return nullptr;
}

// The number of known positives at the end of `attack`; 0 unless it is "`prefix`_K".
int HintsOf(absl::string_view attack, absl::string_view prefix) {
  int hints = 0;
  return absl::ConsumePrefix(&attack, prefix) && absl::SimpleAtoi(attack, &hints) && hints > 0 ? hints : 0;
}

std::string Positives(int count) { return count == 1 ? "1 known positive" : absl::StrCat(count, " known positives"); }

std::string Named(const std::string& title, absl::string_view attack) {
  return title == attack ? title : absl::StrCat(title, " (", attack, ")");
}

std::optional<AttackTraits> TraitsOfName(absl::string_view attack) {
  const std::optional<AttackVariant> known = AttackOfName(attack);
  return known.has_value() ? std::optional(TraitsOf(known->attack)) : std::nullopt;
}

}  // namespace

AttackNeeds NeedsOf(absl::string_view attack) {
  // A ledger of a later version may name attacks that this one does not know.
  const std::optional<AttackTraits> traits = TraitsOfName(attack);
  if (!traits.has_value()) {
    return AttackNeeds::kUnknown;
  }
  switch (traits->needs) {
    case SideInformation::kNone:
    case SideInformation::kActivations:
    case SideInformation::kActivationsToo:
      return AttackNeeds::kNothing;
    case SideInformation::kCleanPositive:
    case SideInformation::kHintRows:
      return AttackNeeds::kKnownPositives;
    case SideInformation::kAuxiliaryLabels:
      return AttackNeeds::kGivenLabels;
    default:
      return AttackNeeds::kTrueClasses;
  }
}

bool NeedsNoSideInformation(absl::string_view attack) { return NeedsOf(attack) == AttackNeeds::kNothing; }

bool UsesGivenLabels(absl::string_view attack) { return NeedsOf(attack) == AttackNeeds::kGivenLabels; }

bool ReadsGradients(absl::string_view attack) {
  const std::optional<AttackTraits> traits = TraitsOfName(attack);
  // An unknown attack is held against the bound: to leave it out would hide an excess.
  return !traits.has_value() || traits->reads_gradients();
}

bool IsCumulativeAttack(absl::string_view attack) {
  const std::optional<AttackTraits> traits = TraitsOfName(attack);
  return traits.has_value() && traits->cumulative();
}

bool IsWorstCase(absl::string_view attack) {
  const std::optional<AttackTraits> traits = TraitsOfName(attack);
  return traits.has_value() && traits->needs == SideInformation::kReleasingHead;
}

std::string AttackTitle(absl::string_view attack) {
  if (const AttackWords* words = Find(kWords, attack); words != nullptr) {
    return words->title;
  }
  if (const int hints = HintsOf(attack, "hint_distance_"); hints > 0) {
    return absl::StrCat("Nearness to ", Positives(hints));
  }
  if (const int hints = HintsOf(attack, "hint_inner_product_"); hints > 0) {
    return absl::StrCat("Alignment with ", Positives(hints), " of the batch");
  }
  return std::string(attack);
}

std::string AttackNamed(absl::string_view attack) { return Named(AttackTitle(attack), attack); }

std::string AttackExplanation(absl::string_view attack) {
  if (const AttackWords* words = Find(kWords, attack); words != nullptr) {
    return words->explanation;
  }
  if (const int hints = HintsOf(attack, "hint_distance_"); hints > 0) {
    return absl::StrCat("Is told ", Positives(hints),
                        " of the batch and ranks as positive what lies near the closest of them.");
  }
  if (const int hints = HintsOf(attack, "hint_inner_product_"); hints > 0) {
    return absl::StrCat("Is told ", Positives(hints),
                        " of the batch and ranks as positive what points in the direction of any of them.");
  }
  return "";
}

std::string AttributeAttackTitle(absl::string_view attack) {
  const AttackWords* words = Find(kAttributeWords, attack);
  return words != nullptr ? words->title : std::string(attack);
}

std::string AttributeAttackNamed(absl::string_view attack) { return Named(AttributeAttackTitle(attack), attack); }

std::string AttributeAttackExplanation(absl::string_view attack) {
  const AttackWords* words = Find(kAttributeWords, attack);
  return words != nullptr ? words->explanation : "";
}

}  // namespace splitveil
