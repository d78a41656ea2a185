#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/operator/audit/criteria.h"
#include "deploy/operator/records/ledger_figures.h"

#include "common/figures/attack_catalogue.h"
#include "common/leakage/attribute_leak.h"
#include "common/leakage/summary.h"

namespace splitveil {
namespace {

constexpr char kMeasureRemedy[] =
    "Have it measured: agree on the attack (attribute_audit.attacks) and run again; or take it out of the policy.";
constexpr char kProtectRemedy[] =
    "Set the non-label party's `protection`, or strengthen it (a smaller threshold, a larger noise_sigma); `splitveil "
    "sweep` "
    "shows what that costs.";
constexpr char kMissRemedy[] =
    "Compare the attribute's values, in their order, in both parties' schemas and what the label party knows of them, "
    "and run again: an attack that is wrong so often, by mistake or on purpose, measures nothing.";
constexpr char kBoundRemedy[] =
    "Use `gaussian`, the only protection of activations whose bound is proved; a larger noise_sigma, a smaller "
    "clip_norm or "
    "fewer epochs lower it.";

// An attack that the agreement names on an attribute that it names.
struct Agreed {
  std::string attack, attribute;  // As in the ledger.
};

std::vector<std::string> AgreedAttributes(const PartyRecords& party) {
  return party.AgreedTexts("/attribute_audit/attributes");
}

std::vector<std::string> AgreedAttacks(const PartyRecords& party) {
  std::vector<std::string> attacks = party.AgreedTexts("/attribute_audit/attacks");
  for (std::string& attack : attacks) {
    absl::AsciiStrToLower(&attack);  // As TraitsOf names them.
  }
  return attacks;
}

// Of `attacks` on every agreed attribute, those of which no figure has a finite `value`. What was agreed and did not
// run may be what the label party preferred not to measure; and of one value alone there is no AUC.
template <typename Value>
std::vector<Agreed> Missing(const PartyRecords& party, const std::vector<AttributeFigure>& figures,
                            const std::vector<std::string>& attacks, Value value) {
  std::vector<Agreed> missing;
  for (const std::string& attack : attacks) {
    for (const std::string& attribute : AgreedAttributes(party)) {
      const bool ran = std::any_of(figures.begin(), figures.end(), [&](const AttributeFigure& figure) {
        return figure.leak.attack == attack && figure.leak.attribute == attribute && std::isfinite(value(figure));
      });
      if (!ran) {
        missing.push_back({attack, attribute});
      }
    }
  }
  return missing;
}

std::string Place(const AttributeFigure& figure) {
  return absl::StrCat(AttributeAttackNamed(figure.leak.attack), " at ", figure.leak.attribute, ", ",
                      figure.leak.examples, " examples, ", DescribeWhen(figure));
}

// Of every epoch: what was sent in one, an adversary keeps.
std::vector<AttributeFigure> OfEveryEpoch(const PartyRecords& party) {
  std::vector<AttributeFigure> figures;
  for (const AttributeLeakRow& row : party.attribute_leaks) {
    figures.push_back({row, /*is_highest=*/true});
  }
  return figures;
}

// The first of the agreed guesses that the label party kept to itself; "": none. It may prefer epochs and examples of
// which it reads nothing.
std::string KeptBack(const PartyRecords& party) {
  for (const EventRow& event : party.events) {
    if (event.kind == kGuessesMissing) {
      return event.detail;
    }
  }
  return "";
}

// A figure above its limit decides, then what is unknown, then the largest.
template <typename Value, typename Words>
Finding AtMost(const PartyRecords& party, const std::vector<AttributeFigure>& figures, const char* criterion,
               double limit, Value value, Words words) {
  Finding finding = NotMeasured(criterion, absl::StrFormat("at most %g", limit),
                                "not measured: no attack on an attribute recorded", kProtectRemedy);
  const AttributeFigure* worst = nullptr;
  for (const AttributeFigure& figure : figures) {
    if (std::isfinite(value(figure)) && (worst == nullptr || value(figure) > value(*worst))) {
      worst = &figure;
    }
  }
  const std::vector<Agreed> missing = Missing(party, figures, AgreedAttacks(party), value);
  const std::string kept_back = KeptBack(party);
  // An agreed attack that did not run may have read more: the others decide only if they read too much already.
  if (worst != nullptr && (value(*worst) > limit || (missing.empty() && kept_back.empty()))) {
    finding.outcome = value(*worst) > limit ? Outcome::kNotMet : Outcome::kMet;
    finding.found = absl::StrCat(AgainstLimit(value(*worst), limit), words(*worst));
    finding.where = Place(*worst);
  } else if (!missing.empty()) {
    const Agreed& first = missing.front();
    finding.found = kNotMeasured;
    finding.where = absl::StrCat(AttributeAttackNamed(first.attack), " at ", first.attribute);
  } else if (!kept_back.empty()) {
    finding.found = absl::StrCat("not all measured: ", kept_back);
  }
  return finding;
}

Finding AttacksRan(const PartyRecords& party, const AttributeRecords& records, const v1::AuditPolicy& policy) {
  std::vector<std::string> attacks;
  for (const int attack : policy.require_attribute_attacks()) {
    attacks.emplace_back(TraitsOf(static_cast<v1::AttributeAttack>(attack)).name);
  }
  Finding finding = {Outcome::kMet,
                     "attacks on sensitive attributes that ran",
                     absl::StrJoin(attacks, ", "),
                     "all, on every agreed attribute",
                     "",
                     kMeasureRemedy};
  const std::vector<Agreed> missing =
      Missing(party, records.figures, attacks, [](const AttributeFigure& figure) { return figure.leak.accuracy; });
  if (AgreedAttributes(party).empty()) {
    finding.outcome = Outcome::kNotMet;
    finding.found = "none: no attribute is agreed";
  } else if (!missing.empty()) {
    finding.outcome = Outcome::kNotMet;
    finding.found = absl::StrCat("not run: ", absl::StrJoin(missing, ", ", [](std::string* out, const Agreed& agreed) {
                                   absl::StrAppend(out, agreed.attack, " on ", agreed.attribute);
                                 }));
  } else if (const std::string kept_back = KeptBack(party); !kept_back.empty()) {
    finding.outcome = Outcome::kNotMet;
    finding.found = absl::StrCat("not all: ", kept_back);
  }
  return finding;
}

// `protection`: of the activations.
Finding PrivacyLoss(const PartyRecords& party, const std::string& protection, double limit) {
  Finding finding = NotMeasured("privacy loss of a training batch that was sent", absl::StrFormat("at most %g", limit),
                                "not measured: the protection of the activations has no privacy loss", kProtectRemedy);
  // Its figure is minus the loss of an adversary that it simulates: no limit above 0 means anything.
  if (absl::StartsWith(protection, "adversarial")) {
    return finding;
  }
  struct Loss {
    const std::string& attribute;
    int64_t step;
    double nats;
  };
  // Removed steps are summarised by their worst, so that a trimmed ledger still answers this criterion.
  std::vector<Loss> losses;
  for (const PrivacyLossSummaryRow& row : party.removed_privacy_losses) {
    losses.push_back({row.attribute, row.worst_step, row.worst_privacy_loss});
  }
  for (const PrivacyLossRow& row : party.privacy_losses) {
    losses.push_back({row.attribute, row.step, row.privacy_loss});
  }
  const Loss* worst = nullptr;
  for (const Loss& loss : losses) {
    if (!std::isfinite(loss.nats)) {  // Unknown, so that it may have been anything.
      finding.found = "not measured: a step without a figure";
      finding.where = absl::StrCat(loss.attribute, ", step ", loss.step);
      return finding;
    }
    worst = worst == nullptr || loss.nats > worst->nats ? &loss : worst;
  }
  for (const std::string& attribute : worst == nullptr ? std::vector<std::string>() : AgreedAttributes(party)) {
    if (std::none_of(losses.begin(), losses.end(), [&](const Loss& loss) { return loss.attribute == attribute; })) {
      finding.found = "not measured: the protection does not act on every agreed attribute";
      finding.where = attribute;
      return finding;
    }
  }
  if (worst != nullptr) {
    finding.outcome = worst->nats <= limit ? Outcome::kMet : Outcome::kNotMet;
    finding.found = absl::StrFormat("%.4g nats", worst->nats);
    finding.where = absl::StrCat(worst->attribute, ", step ", worst->step);
  }
  return finding;
}

Finding ActivationBound(const AttributeRecords& records, double limit) {
  Finding finding = {Outcome::kNotMet,
                     "bound on any attribute per run (proved)",
                     absl::StrFormat("at most %g", limit),
                     records.is_protected() ? absl::StrCat("no bound: ", records.protection, " is a heuristic")
                                            : "no bound: nothing protects the activations",
                     "",
                     kBoundRemedy};
  if (records.bound.has_value()) {
    finding.outcome = records.bound->auc_bound <= limit ? Outcome::kMet : Outcome::kNotMet;
    finding.found = absl::StrCat(BoundAgainstLimit(records.bound->auc_bound, limit), ": guaranteed, mu ",
                                 absl::StrFormat("%.3f", records.bound->mu));
    finding.where =
        absl::StrCat("all ", records.bound->releases, " releases of an example's activations, of this run alone");
  }
  return finding;
}

// Half as often right as guessing the most common value, by the 95% interval, or ranked the wrong way round by four
// standard deviations of chance: no attack that knows nothing misses by so much, and read the other way round it tells
// as much as one that hits. The values were matched wrongly, or the label party, whose guesses they are, guesses badly
// on purpose.
bool Misses(const AttributeLeakRow& leak) {
  const auto rows = static_cast<double>(leak.rows);
  // Of an AUC of chance (Mann and Whitney, Ann. Math. Stat. 1947), the most common value against the rest.
  const double deviation = std::sqrt((rows + 1) / (12 * rows * rows * leak.floor * (1 - leak.floor)));
  return leak.rows > 0 && (leak.accuracy_high < leak.floor / 2 || leak.auc < 0.5 - std::max(0.05, 4 * deviation));
}

// A finding only if there is one: nobody is asked for it.
void AddMisses(const PartyRecords& party, std::vector<Finding>& findings) {
  const AttributeLeakRow* worst = nullptr;
  for (const AttributeLeakRow& row : party.attribute_leaks) {
    worst = Misses(row) && (worst == nullptr || row.auc < worst->auc) ? &row : worst;
  }
  if (worst != nullptr) {
    findings.push_back(
        {Outcome::kNotMet, "attacks on attributes that miss", "none",
         absl::StrFormat("accuracy %.3f (at most %.3f), where guessing the most common value reaches "
                         "%.3f; AUC %.3f, read the other way round %.3f",
                         worst->accuracy, worst->accuracy_high, worst->floor, worst->auc, InvertedAuc(worst->auc)),
         Place({*worst}), kMissRemedy});
  }
}

std::string UpperLimitOf(const AttributeFigure& figure) {
  return absl::StrFormat(": upper 95%% limit; measured %.3f, accuracy %.3f of floor %.3f", figure.leak.advantage(),
                         figure.leak.accuracy, figure.leak.floor);
}

// All stand in the non-label party's ledger.
std::vector<Finding> OfNonLabelParty(const LedgerRun& run, std::vector<Finding> findings) {
  for (Finding& finding : findings) {
    finding.holder = LedgerHolder::kNonLabelParty;
    if (finding.outcome == Outcome::kNotMeasured) {
      finding.remedy = kMeasureRemedy;
    }
    if (run.nonlabel_party() == nullptr) {
      finding.outcome = Outcome::kNotMeasured;  // Which the verdict turns into kNotMeasurable.
    }
  }
  return findings;
}

}  // namespace

std::vector<Finding> AttributeFindings(const LedgerRun& run, const v1::AuditPolicy& policy) {
  const PartyRecords nothing;
  const PartyRecords* const recorded = run.nonlabel_party();
  const PartyRecords& party = recorded != nullptr ? *recorded : nothing;
  const AttributeRecords records = AttributeRecordsOf(run).value_or(AttributeRecords());
  std::vector<Finding> findings;
  if (!policy.require_attribute_attacks().empty()) {
    findings.push_back(AttacksRan(party, records, policy));
  }
  // Judged by the upper end of the interval: a small sample must not pass by chance.
  if (policy.has_max_attribute_advantage()) {
    findings.push_back(AtMost(
        party, records.figures, "accuracy over the floor of attacks on attributes", policy.max_attribute_advantage(),
        [](const AttributeFigure& figure) { return figure.leak.accuracy_high - figure.leak.floor; }, UpperLimitOf));
  }
  if (policy.has_max_attribute_auc()) {
    findings.push_back(AtMost(
        party, OfEveryEpoch(party), "AUC of attacks on attributes", policy.max_attribute_auc(),
        // Inverted, the AUC of so few says more than 0.5 by chance alone.
        [](const AttributeFigure& figure) {
          const double others = static_cast<double>(figure.leak.rows) * (1 - figure.leak.floor);
          return others < AttributeLeak::kLeastOfValue - 0.5 ? AttributeLeak::kNone : InvertedAuc(figure.leak.auc);
        },
        [](const AttributeFigure&) { return ""; }));
  }
  if (!policy.require_attribute_attacks().empty() || policy.has_max_attribute_advantage() ||
      policy.has_max_attribute_auc()) {
    AddMisses(party, findings);
  }
  if (policy.has_max_privacy_loss()) {
    findings.push_back(PrivacyLoss(party, run.activation_protection(), policy.max_privacy_loss()));
  }
  return OfNonLabelParty(run, std::move(findings));
}

std::vector<Finding> ActivationFindings(const LedgerRun& run, const v1::AuditPolicy& policy) {
  std::vector<Finding> findings;
  const PartyRecords* const party = run.nonlabel_party();
  if (policy.has_max_activation_auc_bound() && party != nullptr && party->record.status != "completed" &&
      !party->has_step() && !party->has_event(kReleasesFollow)) {
    findings.push_back({Outcome::kMet, "bound on any attribute per run (proved)",
                        absl::StrFormat("at most %g", policy.max_activation_auc_bound()), "no activation was sent", "",
                        kBoundRemedy});
  } else if (policy.has_max_activation_auc_bound()) {
    findings.push_back(
        ActivationBound(AttributeRecordsOf(run).value_or(AttributeRecords()), policy.max_activation_auc_bound()));
  }
  return OfNonLabelParty(run, std::move(findings));
}

}  // namespace splitveil
