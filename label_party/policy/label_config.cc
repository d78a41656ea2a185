#include "label_party/policy/label_config.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"

#include "common/architecture/model_spec.h"
#include "common/config/agreement.h"
#include "common/leakage/attack_traits.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

absl::Status Unfit(const std::string& field, const std::string& expected, const std::string& found) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": expected ", expected, ", found ", found));
}

absl::Status ValidateAttacks(const v1::LabelSideAudit& audit) {
  std::set<int> attacks;
  for (int i = 0; i < audit.attacks_size(); ++i) {
    const std::string field = absl::StrCat("label_side_audit.attacks[", i, "]");
    const int number = audit.attacks(i);
    if (!v1::Attack_IsValid(number) || number == v1::ATTACK_UNSPECIFIED) {
      return Unfit(field, "an attack of leak_audit.proto", absl::StrCat("number ", number));
    }
    const auto attack = static_cast<v1::Attack>(number);
    // Attacks that run once are for the peer's module: they need what only it has.
    if (TraitsOf(attack).once_per_run()) {
      return Unfit(field, "an attack that scores batches", absl::StrCat(v1::Attack_Name(attack), ", once per run"));
    }
    // Twice the same attack would cost twice and count twice in the ledger.
    if (!attacks.insert(number).second) {
      return Unfit(field, "each attack once", absl::StrCat(v1::Attack_Name(attack), " again"));
    }
  }
  std::set<int> hint_counts;
  for (int i = 0; i < audit.hint_counts_size(); ++i) {
    if (!hint_counts.insert(audit.hint_counts(i)).second) {
      return Unfit(absl::StrCat("label_side_audit.hint_counts[", i, "]"), "each number once",
                   absl::StrCat(audit.hint_counts(i), " again"));
    }
  }
  return absl::OkStatus();
}

// All that the peer receives, and when the run ends, must be a function of the noised or flipped labels.
absl::Status ValidateTranscript(const v1::LabelPartyConfig& config, const v1::RunAgreement& agreement) {
  const std::string protection =
      config.protection().has_label_dp() ? "protection.label_dp" : "protection.gaussian_label_dp";
  // Answers to scores are computed from true labels, which no noise on the labels covers.
  const v1::DisclosureLevel disclosure = agreement.audit().disclosure();
  if (disclosure != v1::LABEL_SIDE_ONLY) {
    return Unfit(protection, "an agreement with audit.disclosure LABEL_SIDE_ONLY",
                 v1::DisclosureLevel_Name(disclosure));
  }
  if (!config.model().torchscript_path().empty()) {
    return Unfit("model.torchscript_path",
                 absl::StrCat("none beside ", protection, ": parameters from a file may have learned from labels"),
                 "one");
  }
  if (config.protection().has_distance_correlation()) {
    return Unfit("protection.distance_correlation", absl::StrCat("none beside ", protection), "one");
  }
  // Its metric is computed from true labels, and the peer sees in which epoch the run stops.
  if (config.has_early_stopping()) {
    return Unfit("early_stopping",
                 absl::StrCat("none beside ", protection, ": the epoch at which it stops reveals labels"), "one");
  }
  // The gate would decide by an attack on true labels, and the peer sees what it decides.
  if (config.release().max_measured_leak() < 1) {
    return Unfit("release.max_measured_leak", absl::StrCat("1 beside ", protection, ": its decisions reveal labels"),
                 absl::StrCat(config.release().max_measured_leak()));
  }
  return absl::OkStatus();
}

// Checks that every epoch that releases gradients has noise of its own, if each is to have it.
absl::Status ValidateDraws(const v1::GradientProtection::GaussianLabelDp& config, const v1::RunAgreement& agreement) {
  const std::string field = "protection.gaussian_label_dp.";
  if (config.noise_draws() != v1::GradientProtection::GaussianLabelDp::EVERY_EPOCH) {
    return config.noise_growth_per_epoch() == 1 && config.planned_epochs() == 0
               ? absl::OkStatus()
               : Unfit(field + "noise_draws", "EVERY_EPOCH beside noise_growth_per_epoch or planned_epochs",
                       "ONE_DRAW");
  }
  // More epochs than draws would repeat the last draw, which the plan does not say.
  const int32_t released =
      config.released_epochs() > 0 ? std::min(config.released_epochs(), agreement.epochs()) : agreement.epochs();
  return config.planned_epochs() == 0 || config.planned_epochs() >= released
             ? absl::OkStatus()
             : Unfit(field + "planned_epochs",
                     absl::StrCat("0, or at least the ", released, " epochs that are released"),
                     absl::StrCat(config.planned_epochs()));
}

// The bound on the worst case needs Gaussian noise of a known law, and gradients that no other label moves.
absl::Status ValidateWorstCase(const v1::LabelPartyConfig& config) {
  if (config.release().max_worst_case_auc_bound() == 1) {
    return absl::OkStatus();
  }
  const v1::GradientProtection& protection = config.protection();
  if (!protection.has_iso() && !protection.has_marvell()) {
    return Unfit("release.max_worst_case_auc_bound", "1, or protection iso or marvell: no other states its noise",
                 absl::StrCat(config.release().max_worst_case_auc_bound()));
  }
  if (!config.model().torchscript_path().empty()) {
    return Unfit("release.max_worst_case_auc_bound",
                 "1 beside a TorchScript model: it may mix the rows of a batch, and other rows then show a label, too",
                 absl::StrCat(config.release().max_worst_case_auc_bound()));
  }
  return protection.has_distance_correlation()
             ? Unfit("release.max_worst_case_auc_bound",
                     "1 beside protection.distance_correlation: it moves a gradient by other examples' labels, too",
                     absl::StrCat(config.release().max_worst_case_auc_bound()))
             : absl::OkStatus();
}

absl::Status ValidateAttributeAttack(const v1::LabelPartyConfig& config, const v1::AttributeAuditAgreement& audit) {
  // Both parties' files must fit before the start: an attack that lacks its knowledge would fail hours into the run.
  if (config.has_attribute_attack() == audit.attacks().empty()) {
    return absl::InvalidArgumentError(
        config.has_attribute_attack()
            ? "attribute_attack is set, but the agreement has no attribute_audit.attacks: remove one or add the other"
            : "attribute_attack: the agreement has attribute_audit.attacks: set what this party knows of attributes, "
              "attribute_attack { auxiliary { path: \"known.data\" } }");
  }
  const auto& attacks = audit.attacks();
  const bool simulates = std::find(attacks.begin(), attacks.end(), v1::SIMULATOR) != attacks.end();
  if (config.has_attribute_attack() && simulates != config.attribute_attack().has_shadow_model()) {
    return simulates ? Unfit("attribute_attack.shadow_model", "one beside the agreed attack SIMULATOR", "none")
                     : Unfit("attribute_attack.shadow_model", "none without the agreed attack SIMULATOR", "one");
  }
  return absl::OkStatus();
}

}  // namespace

const char* KeepName(KeepBy by) { return by == KeepBy::kLast ? "last" : by == KeepBy::kTest ? "test" : "validation"; }

KeepBy KeepByOf(const v1::LabelPartyConfig& config, const v1::RunAgreement& agreement) {
  // These bounds cover all that the peer learns of labels, and the best epoch is chosen by labels.
  const bool guaranteed = config.protection().has_gaussian_label_dp() || config.protection().has_label_dp();
  // A peer that chooses its activations reads a held-out label from whether an epoch is the best so far. Without a
  // protection it reads what it likes anyway; otherwise only the operator may allow it.
  const bool best = config.keep() == v1::LabelPartyConfig::BEST ||
                    (config.keep() == v1::LabelPartyConfig::KEEP_UNSPECIFIED && config.protection().has_none());
  if (!best || guaranteed || agreement.progressive_validation()) {
    return KeepBy::kLast;
  }
  return agreement.validation_fraction() > 0 ? KeepBy::kValidation
         : HasTestPart(agreement)            ? KeepBy::kTest
                                             : KeepBy::kLast;
}

absl::Status ValidateLabelConfig(const v1::LabelPartyConfig& config, const v1::RunAgreement& agreement) {
  // First what makes the rest meaningless: a file for training beside an agreement that only predicts.
  SPLITVEIL_RETURN_IF_ERROR(CheckFitsMode(agreement, config));
  if (config.protection().has_distance_correlation() && agreement.batch_size() > kMaxDistanceCorrelationBatch) {
    return Unfit("protection.distance_correlation",
                 absl::StrCat("an agreement with a batch_size of at most ", kMaxDistanceCorrelationBatch),
                 absl::StrCat(agreement.batch_size()));
  }
  if (config.has_early_stopping() && agreement.validation_fraction() == 0 && !HasTestPart(agreement)) {
    return Unfit("early_stopping", "an agreement with a validation_fraction or a test_fraction above 0", "0");
  }
  if (config.keep() == v1::LabelPartyConfig::BEST && KeepByOf(config, agreement) == KeepBy::kLast) {
    return Unfit(
        "keep",
        "LAST: which epoch is best depends on labels, which a guarantee must cover, and is not known without a "
        "validation or test part that is evaluated after each epoch",
        "BEST");
  }
  const v1::GradientProtection& protection = config.protection();
  // An account that added up releases of other methods would state a guarantee that does not exist.
  if (config.has_privacy_account() && !protection.has_gaussian_label_dp() && !protection.has_label_dp()) {
    return Unfit("privacy_account",
                 "none: only gaussian_label_dp and label_dp bound what they release of a label, whatever the peer does",
                 "another protection beside it");
  }
  if (!config.has_privacy_account() && protection.has_gaussian_label_dp()) {
    return Unfit("privacy_account",
                 "one beside gaussian_label_dp, { path: \"labels.account.db\" label_set: \"NAME OF THE LABELS\" }: "
                 "further runs on the same labels add up",
                 "none");
  }
  absl::Status status = ValidateAttacks(config.label_side_audit());
  // All are run; the first failure is the one that is reported.
  status.Update(ValidateWorstCase(config));
  if (config.protection().has_gaussian_label_dp() || config.protection().has_label_dp()) {
    status.Update(ValidateTranscript(config, agreement));
  }
  if (config.protection().has_gaussian_label_dp()) {
    status.Update(ValidateDraws(config.protection().gaussian_label_dp(), agreement));
  }
  status.Update(ValidateAttributeAttack(config, agreement.attribute_audit()));
  status.Update(CheckTopSpec(config.model(), agreement));
  return status;
}

}  // namespace splitveil
