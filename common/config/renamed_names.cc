#include "common/config/renamed_names.h"

#include "absl/strings/strip.h"

namespace splitveil {
namespace {

constexpr RenamedName kRenamedNames[] = {
    // The run agreement.
    {"RunAgreement", "predict_first", "progressive_validation"},
    {"AuditAgreement", "grant", "disclosure"},
    {"Attack", "HINT_DISTANCE_1", "HINT_DISTANCE with hint_counts: 1"},
    {"Attack", "HINT_DISTANCE_3", "HINT_DISTANCE with hint_counts: 3"},
    {"Attack", "HINT_DISTANCE_5", "HINT_DISTANCE with hint_counts: 5"},
    {"Attack", "HINT_INNER_PRODUCT_1", "HINT_INNER_PRODUCT with hint_counts: 1"},
    {"Attack", "HINT_INNER_PRODUCT_3", "HINT_INNER_PRODUCT with hint_counts: 3"},
    {"Attack", "HINT_INNER_PRODUCT_5", "HINT_INNER_PRODUCT with hint_counts: 5"},
    {"Attack", "REMEMBERED_SPECTRAL", "CUMULATIVE_SPECTRAL"},
    {"Attack", "REMEMBERED_LIKELIHOOD_RATIO", "CUMULATIVE_LIKELIHOOD_RATIO"},
    {"Attack", "REMEMBERED_DIRECTION", "CUMULATIVE_DIRECTION"},
    // The label party's configuration.
    {"LabelPartyConfig", "audit", "label_side_audit"},
    {"ReleasePolicy", "max_run_auc", "max_run_auc_bound"},
    {"GradientProtection.Marvell", "across_s", "orthogonal_noise_ratio"},
    {"GradientProtection.RunBudget", "max_auc", "max_run_auc_bound"},
    {"GradientProtection.RunBudget", "s_growth", "noise_growth_per_epoch"},
    // The policy of an audit.
    {"AuditPolicy", "max_leak", "max_measured_leak"},
    {"AuditPolicy", "max_tpr_at_1pct_fpr", "max_measured_tpr_at_1pct_fpr"},
    {"AuditPolicy", "max_tpr_at_01pct_fpr", "max_measured_tpr_at_01pct_fpr"},
    {"AuditPolicy", "max_remembered_auc", "max_measured_cumulative_auc"},
    {"AuditPolicy", "allowed_grants", "allowed_disclosures"},
    {"AuditPolicy", "min_test_auc", "min_final_test_auc"},
};

std::optional<std::string> Find(absl::string_view full_name, absl::string_view package, absl::string_view name) {
  absl::string_view owner = full_name;
  absl::ConsumePrefix(&owner, package);
  absl::ConsumePrefix(&owner, ".");
  for (const RenamedName& renamed : kRenamedNames) {
    if (renamed.owner == owner && renamed.old_name == name) {
      return std::string(renamed.new_name);
    }
  }
  return std::nullopt;
}

}  // namespace

absl::Span<const RenamedName> RenamedNames() { return kRenamedNames; }

std::optional<std::string> NewNameOf(const google::protobuf::Descriptor& type, absl::string_view name) {
  return Find(type.full_name(), type.file()->package(), name);
}

std::optional<std::string> NewNameOf(const google::protobuf::EnumDescriptor& type, absl::string_view name) {
  return Find(type.full_name(), type.file()->package(), name);
}

}  // namespace splitveil
